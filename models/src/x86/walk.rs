//! The walker for 4-level and 5-level paging.
//!
//! Entries are judged in the order in which they are read: present, reserved bits, then the next
//! level; rights are combined over all of them and judged at the leaf. Only an access that is
//! permitted sets accessed and dirty flags, root first, each by an exchange; if an entry changed
//! meanwhile, the walk starts again.

use super::entry::{self, Attrs, Entry, EntryBits, TableAttrs};
use super::fault::{ErrorCode, Fault};
use super::nested::{Nesting, Refusal, Use, exceeds_reach};
use super::permission;
use super::registers::{Cr0, Cr4, Pcid};
use super::{Context, X86_64};
use crate::access::Access;
use crate::addr::{Level, Pa, PageSize, Va};
use crate::arch::{Leaf, Lookup, MachineId, Scope, Step, TablePointer, WalkVisitor};
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

fn paging(context: &Context) -> bool {
    Cr0::from_bits_truncate(context.cr0).contains(Cr0::PG)
}

/// What the registers decide without a table: see [`crate::arch::Arch::before_lookup`].
pub(super) fn before_lookup(context: &Context, access: &Access) -> Result<Lookup<Pcid>, Fault> {
    if !paging(context) {
        // A guest without paging is still translated by its host.
        return Ok(match context.nesting {
            Nesting::Off => Lookup::Off(Pa::new(access.va.raw())),
            _ => Lookup::Tagged(Pcid::ZERO),
        });
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
    /// The address before the host's translation; the same as `at` without one.
    guest_physical: Pa,
    /// What the host takes away from the frame it lies in.
    host_denied: TableAttrs,
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
            guest_physical: Pa::new(0),
            host_denied: TableAttrs::empty(),
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

    fn read(&self) -> &[ReadEntry] {
        &self.entries[..self.len]
    }
}

/// The entry that ends a descent.
struct End {
    entry: Entry,
    level: Level,
    raw: u64,
    /// What the entries above take away.
    above: TableAttrs,
}

/// Where a guest-physical address lies.
struct HostPage {
    pa: Pa,
    /// Of the host's page.
    size: PageSize,
    denied: TableAttrs,
    /// A write changes no entry of the host.
    dirty: bool,
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
        scope: Scope::Global(MachineId::ZERO),
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
    let mut leaf = if paging(context) {
        guest_leaf(context, access, start, memory, visitor, &mut path)?
    } else {
        flat_leaf(Pa::new(access.va.raw()))
    };
    let permitted = permission::permitted(&leaf.attrs, context, access.privilege);
    if !permission::includes(permitted, access.kind) {
        return Err(permission::violation(&leaf.attrs, context, access).into());
    }
    // The guest's own page faults come first; then the host judges the address (SDM 29.3.3.2).
    let page = final_page(context, access, &leaf, memory, visitor)?;
    for entry in path.read() {
        let is_leaf = entry.level == leaf.level;
        let dirties = is_leaf && access.kind.is_write();
        set_flags(context, access, entry, dirties, memory, visitor)?;
        leaf.attrs.dirty |= dirties;
    }
    Ok(page.map_or(leaf, |page| combine(leaf, access.va, &page)))
}

/// Follows the guest's entries down to a leaf, noting each in `path`.
fn guest_leaf<M: TableMemory, V: WalkVisitor<X86_64>>(
    context: &Context,
    access: &Access,
    table: TablePointer<X86_64>,
    memory: &mut M,
    visitor: &mut V,
    path: &mut Path,
) -> Result<Leaf<X86_64>, Interrupted> {
    let end = descend::<false, _, _>(
        context,
        access,
        access.va.raw(),
        table,
        memory,
        visitor,
        path,
    )?;
    match end.entry {
        Entry::Leaf(pa, size) => Ok(Leaf {
            va: access.va.page_base(size),
            pa,
            size,
            level: end.level,
            group: None,
            scope: scope(context, end.raw),
            attrs: Attrs::new(end.raw, size, end.above),
        }),
        Entry::Reserved => {
            let why = ErrorCode::PRESENT | ErrorCode::RESERVED;
            Err(page_fault(context, access, why).into())
        }
        Entry::NotPresent | Entry::Table(_) => {
            Err(page_fault(context, access, ErrorCode::empty()).into())
        }
    }
}

/// Reads entries from `table` down until one leads to no further table. The guest's tables lie at
/// guest-physical addresses, each of which is translated first; the host's lie where they are.
fn descend<const HOST: bool, M: TableMemory, V: WalkVisitor<X86_64>>(
    context: &Context,
    access: &Access,
    address: u64,
    mut table: TablePointer<X86_64>,
    memory: &mut M,
    visitor: &mut V,
    path: &mut Path,
) -> Result<End, Interrupted> {
    loop {
        let level = table.level;
        let guest_physical = table
            .base
            .wrapping_add((address >> span_shift(level) & 511) * 8);
        let (at, host_denied) = if HOST || context.nesting == Nesting::Off {
            (guest_physical, TableAttrs::empty())
        } else {
            let why = Use::TableRead;
            let page = locate(context, access, guest_physical, why, memory, visitor)?;
            (page.pa, page.denied)
        };
        let raw = memory.read_descriptor(at).ok_or(Fault::MachineCheck)?;
        path.push(ReadEntry {
            level,
            at,
            raw,
            guest_physical,
            host_denied,
        });
        let (entry, own) = if HOST {
            let nesting = &context.nesting;
            (nesting.decode(context, level, raw), nesting.denied(raw))
        } else {
            let entry = Entry::decode(context, level, raw);
            (entry, TableAttrs::of_entry(raw))
        };
        let next = match entry {
            Entry::Table(base) => level.next().map(|level| TablePointer {
                level,
                base,
                attrs: table.attrs | own,
            }),
            _ => None,
        };
        let step = Step {
            level,
            at,
            raw,
            next,
        };
        if HOST {
            visitor.second_stage_step(&step);
        } else {
            visitor.step(&step);
        }
        match next {
            Some(next) => table = next,
            None => {
                return Ok(End {
                    entry,
                    level,
                    raw,
                    above: table.attrs,
                });
            }
        }
    }
}

/// Translates a guest-physical address by the host's tables, and keeps their flags.
fn locate<M: TableMemory, V: WalkVisitor<X86_64>>(
    context: &Context,
    access: &Access,
    at: Pa,
    why: Use,
    memory: &mut M,
    visitor: &mut V,
) -> Result<HostPage, Interrupted> {
    let nesting = &context.nesting;
    let refused = |refusal| Fault::Exit(nesting.exit(why, access, at, refusal));
    let (level, base) = nesting.root(context).ok_or(Fault::MachineCheck)?;
    if exceeds_reach(level, at) {
        return Err(refused(Refusal::Absent).into());
    }
    let table = TablePointer {
        level,
        base,
        attrs: TableAttrs::empty(),
    };
    let mut path = Path::new();
    let end = descend::<true, _, _>(context, access, at.raw(), table, memory, visitor, &mut path)?;
    let (base, size) = match end.entry {
        Entry::Leaf(base, size) => (base, size),
        Entry::Reserved => return Err(refused(Refusal::Malformed).into()),
        Entry::NotPresent | Entry::Table(_) => return Err(refused(Refusal::Absent).into()),
    };
    let denied = end.above | nesting.denied(end.raw);
    if denied.intersects(nesting.needs(why, access)) {
        return Err(refused(Refusal::Denied(denied)).into());
    }
    let mut dirty = true;
    if let Some((accessed_flag, dirty_flag)) = nesting.flags() {
        let writes = nesting.writes(why, access);
        dirty = writes || end.raw & dirty_flag != 0;
        for entry in path.read() {
            let is_leaf = entry.level == end.level;
            let set = accessed_flag | if is_leaf && writes { dirty_flag } else { 0 };
            if exchange(entry, set, memory)? {
                visitor.second_stage_update(entry.level, entry.at, entry.raw, entry.raw | set);
            }
        }
    }
    Ok(HostPage {
        pa: base.wrapping_add(at.offset_in(size)),
        size,
        denied,
        dirty,
    })
}

/// The host's page of the address that the guest's `leaf` gives, if there is a host.
fn final_page<M: TableMemory, V: WalkVisitor<X86_64>>(
    context: &Context,
    access: &Access,
    leaf: &Leaf<X86_64>,
    memory: &mut M,
    visitor: &mut V,
) -> Result<Option<HostPage>, Interrupted> {
    if context.nesting == Nesting::Off {
        return Ok(None);
    }
    let user_page = !leaf.attrs.denied.contains(TableAttrs::SUPERVISOR);
    let address = leaf.pa.wrapping_add(access.va.offset_in(leaf.size));
    let why = Use::Final { user_page };
    locate(context, access, address, why, memory, visitor).map(Some)
}

/// The translation through both dimensions: as large as the smaller page, allowing what both do.
fn combine(leaf: Leaf<X86_64>, va: Va, page: &HostPage) -> Leaf<X86_64> {
    let size = leaf.size.min(page.size);
    Leaf {
        va: va.page_base(size),
        pa: page.pa.page_base(size),
        size,
        attrs: Attrs {
            denied: leaf.attrs.denied | page.denied,
            dirty: leaf.attrs.dirty && page.dirty,
            ..leaf.attrs
        },
        ..leaf
    }
}

fn scope(context: &Context, raw: u64) -> Scope<Pcid> {
    if entry::is_global(context, raw) {
        Scope::Global(MachineId::ZERO)
    } else {
        Scope::Tagged(context.pcid())
    }
}

fn page_fault(context: &Context, access: &Access, why: ErrorCode) -> Fault {
    Fault::PageFault {
        code: why | permission::access_bits(context, access),
    }
}

/// Sets the accessed flag of a guest's entry, and the dirty flag if `dirties`, if the host lets
/// it be written.
fn set_flags<M: TableMemory, V: WalkVisitor<X86_64>>(
    context: &Context,
    access: &Access,
    entry: &ReadEntry,
    dirties: bool,
    memory: &mut M,
    visitor: &mut V,
) -> Result<(), Interrupted> {
    let mut set = EntryBits::ACCESSED.bits();
    if dirties {
        set |= EntryBits::DIRTY.bits();
    }
    if entry.raw & set != set && entry.host_denied.contains(TableAttrs::HOST_NO_WRITE) {
        let refusal = Refusal::Denied(entry.host_denied);
        let at = entry.guest_physical;
        let exit = context.nesting.exit(Use::TableWrite, access, at, refusal);
        return Err(Fault::Exit(exit).into());
    }
    if exchange(entry, set, memory)? {
        visitor.update(entry.level, entry.at, entry.raw, entry.raw | set);
    }
    Ok(())
}

/// Sets bits of an entry by one exchange; says whether any was clear.
fn exchange<M: TableMemory>(
    entry: &ReadEntry,
    set: u64,
    memory: &mut M,
) -> Result<bool, Interrupted> {
    let new = entry.raw | set;
    if new == entry.raw {
        return Ok(false);
    }
    let held = memory
        .exchange_descriptor(entry.at, entry.raw, new)
        .ok_or(Fault::MachineCheck)?;
    if held == entry.raw {
        Ok(true)
    } else {
        Err(Interrupted::Changed)
    }
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
