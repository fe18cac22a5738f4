//! The walker for 4-level and 5-level paging.
//!
//! Entries are judged in the order in which they are read: present, reserved bits, then the next
//! level; rights are combined over all of them and judged at the leaf. Only an access that is
//! permitted sets accessed and dirty flags, root first, each by an exchange; if an entry changed
//! meanwhile, the walk starts again.

use super::entry::{self, Attrs, Entry, EntryBits, TableAttrs};
use super::fault::{ErrorCode, Fault};
use super::permission;
use super::registers::{Cr0, Cr4, Pcid};
use super::{Context, X86_64};
use crate::access::Access;
use crate::addr::{Level, Pa, PageSize, Va};
use crate::arch::{Leaf, Lookup, Scope, Step, TablePointer, WalkVisitor};
use crate::memory::TableMemory;

/// How often a walk starts again because an entry changed between its read and its update.
/// Hardware has no limit; the bound makes a walk end over any memory.
const UPDATE_ATTEMPTS: usize = 8;

/// The address bits of CR3.
const CR3_BASE: u64 = 0x000f_ffff_ffff_f000;

/// How many bits a linear address has: 48, or 57 with CR4.LA57.
pub(super) fn linear_bits(context: &Context) -> u32 {
    if Cr4::from_bits_truncate(context.cr4).contains(Cr4::LA57) {
        57
    } else {
        48
    }
}

/// log2 of the bytes that one entry at `level` spans.
pub(super) const fn span_shift(level: Level) -> u32 {
    12 + 9 * level.height()
}

/// Whether all bits from the top linear one up are equal.
pub(super) fn is_canonical(context: &Context, va: Va) -> bool {
    let unused = 64 - linear_bits(context);
    ((va.raw() << unused).cast_signed() >> unused).cast_unsigned() == va.raw()
}

/// What the registers decide without a table: see [`crate::arch::Arch::before_lookup`].
pub(super) fn before_lookup(context: &Context, access: &Access) -> Result<Lookup<Pcid>, Fault> {
    if !Cr0::from_bits_truncate(context.cr0).contains(Cr0::PG) {
        return Ok(Lookup::Off(Pa::new(access.va.raw())));
    }
    if !is_canonical(context, access.va) {
        return Err(Fault::GeneralProtection);
    }
    Ok(Lookup::Tagged(context.pcid()))
}

/// The root table.
pub(super) fn root(context: &Context) -> TablePointer<X86_64> {
    let level = if linear_bits(context) == 57 {
        Level::Minus1
    } else {
        Level::L0
    };
    TablePointer {
        level,
        base: Pa::new(context.cr3 & CR3_BASE),
        attrs: TableAttrs::empty(),
    }
}

/// An entry as the walk read it.
#[derive(Copy, Clone)]
struct ReadEntry {
    level: Level,
    at: Pa,
    raw: u64,
}

/// The entries of one descent, root first: at most one a level.
struct Path {
    entries: [ReadEntry; Level::COUNT],
    len: usize,
}

impl Path {
    const fn new() -> Self {
        let none = ReadEntry {
            level: Level::L3,
            at: Pa::new(0),
            raw: 0,
        };
        Self {
            entries: [none; Level::COUNT],
            len: 0,
        }
    }

    /// Adds an entry. Levels only go down, so there is always room; a sixth would be dropped.
    fn push(&mut self, entry: ReadEntry) {
        if let Some(slot) = self.entries.get_mut(self.len) {
            *slot = entry;
            self.len += 1;
        }
    }
}

/// Why one pass over the tables did not give a leaf.
enum Interrupted {
    Fault(Fault),
    /// An entry changed before it could be updated.
    Changed,
}

impl From<Fault> for Interrupted {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Walks the tables: see [`crate::arch::Arch::walk`].
pub(super) fn walk<M: TableMemory, V: WalkVisitor<X86_64>>(
    context: &Context,
    access: &Access,
    start: Option<TablePointer<X86_64>>,
    memory: &mut M,
    visitor: &mut V,
) -> Result<Leaf<X86_64>, Fault> {
    if let Lookup::Off(pa) = before_lookup(context, access)? {
        return Ok(flat_leaf(pa));
    }
    let start = start.unwrap_or_else(|| root(context));
    for _ in 0..UPDATE_ATTEMPTS {
        match pass(context, access, start, memory, visitor) {
            Ok(leaf) => return Ok(leaf),
            Err(Interrupted::Fault(fault)) => return Err(fault),
            Err(Interrupted::Changed) => {}
        }
    }
    Err(Fault::MachineCheck)
}

/// The translation that paging off amounts to: a 4 KiB page, global, everything permitted.
fn flat_leaf(pa: Pa) -> Leaf<X86_64> {
    let page = pa.page_base(PageSize::Size4K);
    Leaf {
        va: Va::new(page.raw()),
        pa: page,
        size: PageSize::Size4K,
        level: Level::L3,
        group: None,
        scope: Scope::Global,
        attrs: Attrs {
            denied: TableAttrs::empty(),
            dirty: true,
            key: 0,
            pat_index: 0,
        },
    }
}

/// Descends once from `start`, judges the access, updates the entries.
fn pass<M: TableMemory, V: WalkVisitor<X86_64>>(
    context: &Context,
    access: &Access,
    start: TablePointer<X86_64>,
    memory: &mut M,
    visitor: &mut V,
) -> Result<Leaf<X86_64>, Interrupted> {
    let mut path = Path::new();
    let mut leaf = descend(context, access, start, memory, visitor, &mut path)?;
    let permitted = permission::permitted(&leaf.attrs, context, access.privilege);
    if !permission::includes(permitted, access.kind) {
        return Err(permission::violation(&leaf.attrs, context, access).into());
    }
    for entry in &path.entries[..path.len] {
        let is_leaf = entry.level == leaf.level;
        let dirties = is_leaf && access.kind.is_write();
        update(entry, dirties, memory, visitor)?;
        leaf.attrs.dirty |= dirties;
    }
    Ok(leaf)
}

/// Follows the entries down to a leaf, noting each in `path`.
fn descend<M: TableMemory, V: WalkVisitor<X86_64>>(
    context: &Context,
    access: &Access,
    mut table: TablePointer<X86_64>,
    memory: &M,
    visitor: &mut V,
    path: &mut Path,
) -> Result<Leaf<X86_64>, Fault> {
    loop {
        let level = table.level;
        let index = access.va.raw() >> span_shift(level) & 511;
        let at = table.base.wrapping_add(index * 8);
        let raw = memory.read_descriptor(at).ok_or(Fault::MachineCheck)?;
        path.push(ReadEntry { level, at, raw });
        let decoded = Entry::decode(context, level, raw);
        let next = match decoded {
            Entry::Table(base) => next_table(&table, base, raw),
            _ => None,
        };
        visitor.step(&Step {
            level,
            at,
            raw,
            next,
        });
        match (decoded, next) {
            (Entry::Leaf(pa, size), _) => {
                return Ok(Leaf {
                    va: access.va.page_base(size),
                    pa,
                    size,
                    level,
                    group: None,
                    scope: scope(context, raw),
                    attrs: Attrs::new(raw, size, table.attrs),
                });
            }
            (Entry::Table(_), Some(next)) => table = next,
            (Entry::Reserved, _) => {
                return Err(page_fault(
                    context,
                    access,
                    ErrorCode::PRESENT | ErrorCode::RESERVED,
                ));
            }
            (Entry::NotPresent | Entry::Table(_), _) => {
                return Err(page_fault(context, access, ErrorCode::empty()));
            }
        }
    }
}

fn scope(context: &Context, raw: u64) -> Scope<Pcid> {
    if entry::is_global(context, raw) {
        Scope::Global
    } else {
        Scope::Tagged(context.pcid())
    }
}

/// The pointer to the next level's table. Tables are never decoded at level 3.
fn next_table(table: &TablePointer<X86_64>, base: Pa, raw: u64) -> Option<TablePointer<X86_64>> {
    Some(TablePointer {
        level: table.level.next()?,
        base,
        attrs: table.attrs | TableAttrs::of_entry(raw),
    })
}

fn page_fault(context: &Context, access: &Access, why: ErrorCode) -> Fault {
    Fault::PageFault {
        code: why | permission::access_bits(context, access),
    }
}

/// Sets the accessed flag, and the dirty flag if `dirties`, by one exchange.
fn update<M: TableMemory, V: WalkVisitor<X86_64>>(
    entry: &ReadEntry,
    dirties: bool,
    memory: &mut M,
    visitor: &mut V,
) -> Result<(), Interrupted> {
    let mut new = entry.raw | EntryBits::ACCESSED.bits();
    if dirties {
        new |= EntryBits::DIRTY.bits();
    }
    if new == entry.raw {
        return Ok(());
    }
    let held = memory
        .exchange_descriptor(entry.at, entry.raw, new)
        .ok_or(Fault::MachineCheck)?;
    if held != entry.raw {
        return Err(Interrupted::Changed);
    }
    visitor.update(entry.level, entry.at, entry.raw, new);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{AccessKind, Privilege};
    use crate::arch::Arch;
    use crate::memory::SparseMemory;

    /// Paging on, four levels, global pages, write protection, NX.
    fn context() -> Context {
        Context {
            cr0: (Cr0::PG | Cr0::WP).bits(),
            cr3: 0x1000,
            cr4: (Cr4::PAE | Cr4::PGE).bits(),
            efer: 1 << 11,
            ..Context::default()
        }
    }

    const VA: Va = Va::new(0x0000_1234_5678_9abc);

    /// Four levels of user tables that lead `VA` to a read-only user page at 0xabcde000.
    fn tables(leaf: u64) -> SparseMemory {
        let mut memory = SparseMemory::new();
        for (table, shift, entry) in [
            (0x1000, 39, 0x2007),
            (0x2000, 30, 0x3007),
            (0x3000, 21, 0x4007),
            (0x4000, 12, leaf),
        ] {
            memory.write(Pa::new(table + (VA.raw() >> shift & 511) * 8), entry);
        }
        memory
    }

    #[test]
    fn a_permitted_store_sets_accessed_on_the_way_and_dirty_in_the_leaf() {
        let mut memory = tables(0xabcd_e007);
        let access = Access::new(VA, AccessKind::Store, Privilege::User);
        let leaf = X86_64::walk(&context(), &access, None, &mut memory, &mut ()).unwrap();
        assert_eq!(leaf.pa, Pa::new(0xabcd_e000));
        assert!(leaf.attrs.dirty);
        let entry = |table: u64, shift: u32| {
            memory.read_descriptor(Pa::new(table + (VA.raw() >> shift & 511) * 8))
        };
        assert_eq!(entry(0x1000, 39), Some(0x2027));
        assert_eq!(entry(0x3000, 21), Some(0x4027));
        assert_eq!(entry(0x4000, 12), Some(0xabcd_e067));
    }

    #[test]
    fn a_refused_store_leaves_every_entry_as_it_was() {
        let mut memory = tables(0xabcd_e005);
        let before = format!("{memory:?}");
        let access = Access::new(VA, AccessKind::Store, Privilege::User);
        let fault = X86_64::walk(&context(), &access, None, &mut memory, &mut ()).unwrap_err();
        assert_eq!(fault.error_code(), 0b00111);
        assert_eq!(format!("{memory:?}"), before);
    }
}
