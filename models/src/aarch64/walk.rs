//! The stage 1 walker of the EL1&0 regime.
//!
//! Faults come in the order of the pseudocode `AArch64.S1Translate`: what the registers alone
//! decide ([`before_lookup`]), then EPD and the root's address, then level by level, and at the
//! leaf: address size, access flag, permission. Only an access that passes all of them lets
//! hardware write the descriptor.

use super::descriptor::{Attrs, Entry, LeafBits, Permissions};
use super::fault::{Fault, FaultKind};
use super::geometry::Geometry;
use super::permission;
use super::registers::{MemoryType, Sctlr, Shareability, Tag, Tcr};
use super::{Aarch64, Context, TableAttrs};
use crate::access::{Access, AccessKind, Privilege};
use crate::addr::{Level, Pa, PageSize, Va};
use crate::arch::{Half, Leaf, Lookup, Scope, Step, TablePointer, WalkVisitor};
use crate::memory::TableMemory;

/// How often a walk starts again because a descriptor changed between its read and its update.
/// Hardware has no limit; the bound makes a walk end over any memory.
const UPDATE_ATTEMPTS: usize = 8;

/// Which half `va` belongs to: bit 55, whether or not the top byte is a tag.
pub(super) const fn half_of(va: Va) -> Half {
    if va.raw() >> 55 & 1 == 0 {
        Half::Lower
    } else {
        Half::Upper
    }
}

/// The address without its top byte: sign-extended from bit 55.
pub(super) const fn canonical(va: Va) -> Va {
    Va::new(((va.raw() << 8).cast_signed() >> 8).cast_unsigned())
}

/// The topmost address bit that counts for this access: 55 if the top byte is a tag.
const fn top_bit(context: &Context, half: Half, access: &Access) -> u32 {
    let fetch = matches!(access.kind, AccessKind::Fetch);
    if Tcr::new(context.tcr).top_byte_ignored(half, fetch) {
        55
    } else {
        63
    }
}

/// What the registers decide without a table: see [`crate::arch::Arch::before_lookup`].
pub(super) fn before_lookup(context: &Context, access: &Access) -> Result<Lookup<Tag>, Fault> {
    Ok(match input(context, access)? {
        Input::Off(pa) => Lookup::Off(pa),
        Input::Tables(..) => Lookup::Tagged(context.tag()),
    })
}

/// What becomes of an address before any table is read.
enum Input {
    /// The MMU is off: the address is physical.
    Off(Pa),
    /// It is in range of the tables of this half, which have this geometry.
    Tables(Half, Geometry),
}

/// Decides from the registers alone, so that a lookup and a walk cannot differ in it and a walk
/// computes its geometry once.
fn input(context: &Context, access: &Access) -> Result<Input, Fault> {
    let half = half_of(access.va);
    let top = top_bit(context, half, access);
    if !Sctlr::new(context.sctlr).mmu_on() {
        return flat(context, access.va, top).map(Input::Off);
    }
    let fault = Fault::new(FaultKind::Translation, Level::L0);
    let geometry = Geometry::new(context, half).ok_or(fault)?;
    let el0_shut_out =
        access.privilege == Privilege::User && Tcr::new(context.tcr).el0_disabled(half);
    if geometry.out_of_range(half, access.va, top) || el0_shut_out {
        return Err(fault);
    }
    Ok(Input::Tables(half, geometry))
}

/// The flat map of a disabled MMU.
const fn flat(context: &Context, va: Va, top: u32) -> Result<Pa, Fault> {
    let address = va.raw() << (63 - top) >> (63 - top);
    if address >> context.implementation.pa_range.bits() != 0 {
        return Err(Fault::new(FaultKind::AddressSize, Level::L0));
    }
    Ok(Pa::new(address))
}

/// The translation that a disabled MMU amounts to: a 4 KiB page, global, everything permitted.
fn flat_leaf(context: &Context, pa: Pa) -> Leaf<Aarch64> {
    let page = pa.page_base(PageSize::Size4K);
    Leaf {
        va: Va::new(page.raw()),
        pa: page,
        size: PageSize::Size4K,
        level: Level::L3,
        group: None,
        scope: Scope::Global(context.vmid),
        attrs: Attrs {
            permissions: Permissions::EL0 | Permissions::WRITE,
            memory: MemoryType::DEVICE_NGNRNE,
            shareability: Shareability::Outer,
        },
    }
}

/// A descriptor that ended the descent: where it is and what it says.
struct LeafEntry {
    level: Level,
    at: Pa,
    raw: u64,
    pa: Pa,
    size: PageSize,
    bits: LeafBits,
    above: TableAttrs,
}

/// Why one pass over the tables did not give a leaf.
enum Interrupted {
    Fault(Fault),
    /// The descriptor changed before it could be updated.
    Changed(Level),
}

impl From<Fault> for Interrupted {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// One translation: the registers as they are for this access.
struct Walk<'a> {
    context: &'a Context,
    access: &'a Access,
    half: Half,
    va: Va,
    geometry: Geometry,
    big_endian: bool,
}

/// Walks the tables: see [`crate::arch::Arch::walk`].
pub(super) fn walk<M: TableMemory, V: WalkVisitor<Aarch64>>(
    context: &Context,
    access: &Access,
    start: Option<TablePointer<Aarch64>>,
    memory: &mut M,
    visitor: &mut V,
) -> Result<Leaf<Aarch64>, Fault> {
    let (half, geometry) = match input(context, access)? {
        Input::Off(pa) => return Ok(flat_leaf(context, pa)),
        Input::Tables(half, geometry) => (half, geometry),
    };
    if Tcr::new(context.tcr).walk_disabled(half) {
        return Err(Fault::new(FaultKind::Translation, Level::L0));
    }
    let walk = Walk {
        context,
        access,
        half,
        va: canonical(access.va),
        geometry,
        big_endian: Sctlr::new(context.sctlr).big_endian(),
    };
    let start = match start {
        Some(pointer) => pointer,
        None => walk.root()?,
    };
    let mut changed_at = Level::L3;
    for _ in 0..UPDATE_ATTEMPTS {
        match walk.pass(start, memory, visitor) {
            Ok(leaf) => return Ok(leaf),
            Err(Interrupted::Fault(fault)) => return Err(fault),
            Err(Interrupted::Changed(level)) => changed_at = level,
        }
    }
    Err(Fault::new(FaultKind::UnsupportedUpdate, changed_at))
}

impl Walk<'_> {
    /// The root table; a fault if it lies beyond the output size.
    fn root(&self) -> Result<TablePointer<Aarch64>, Fault> {
        let base = self.geometry.root_base(self.context.ttbr(self.half));
        if self.geometry.format().exceeds_output_size(base) {
            return Err(Fault::new(FaultKind::AddressSize, Level::L0));
        }
        Ok(TablePointer {
            level: self.geometry.start(),
            base,
            attrs: TableAttrs::empty(),
        })
    }

    /// Descends once from `start`, checks the leaf, updates its descriptor.
    fn pass<M: TableMemory, V: WalkVisitor<Aarch64>>(
        &self,
        start: TablePointer<Aarch64>,
        memory: &mut M,
        visitor: &mut V,
    ) -> Result<Leaf<Aarch64>, Interrupted> {
        let entry = self.descend(start, memory, visitor)?;
        let mut leaf = self.leaf(&entry);
        let permitted = permission::permitted(&leaf.attrs, self.context, self.access.privilege);
        if !permission::includes(permitted, self.access.kind) {
            return Err(Fault::new(FaultKind::Permission, entry.level).into());
        }
        self.update(&entry, &mut leaf, memory, visitor)?;
        Ok(leaf)
    }

    /// Follows table descriptors down to a leaf whose address and access flag are in order.
    fn descend<M: TableMemory, V: WalkVisitor<Aarch64>>(
        &self,
        mut table: TablePointer<Aarch64>,
        memory: &M,
        visitor: &mut V,
    ) -> Result<LeafEntry, Fault> {
        loop {
            let level = table.level;
            let at = self.geometry.entry_address(table.base, level, self.va);
            let word = memory
                .read_descriptor(at)
                .ok_or(Fault::new(FaultKind::ExternalOnWalk, level))?;
            let raw = self.in_memory_order(word);
            let entry = self.geometry.format().decode(level, raw);
            let next = match entry {
                Entry::Table(base, attrs) => self.next_table(&table, base, attrs),
                _ => None,
            };
            visitor.step(&Step {
                level,
                at,
                raw: word,
                next,
            });
            match (entry, next) {
                (Entry::Table(..), Some(next)) => table = next,
                (Entry::Table(..), None) => return Err(Fault::new(FaultKind::AddressSize, level)),
                (Entry::Invalid, _) => return Err(Fault::new(FaultKind::Translation, level)),
                (Entry::Leaf(pa, size, bits), _) => {
                    self.check_leaf(level, pa, bits)?;
                    return Ok(LeafEntry {
                        level,
                        at,
                        raw,
                        pa,
                        size,
                        bits,
                        above: table.attrs,
                    });
                }
            }
        }
    }

    /// The pointer to the next level's table, or `None` if its address is too wide.
    fn next_table(
        &self,
        table: &TablePointer<Aarch64>,
        base: Pa,
        attrs: TableAttrs,
    ) -> Option<TablePointer<Aarch64>> {
        if self.geometry.format().exceeds_output_size(base) {
            return None;
        }
        let taken_away = if Tcr::new(self.context.tcr).hierarchy_disabled(self.half) {
            TableAttrs::empty()
        } else {
            table.attrs | attrs
        };
        Some(TablePointer {
            level: table.level.next()?,
            base,
            attrs: taken_away,
        })
    }

    /// Address size, then access flag.
    fn check_leaf(&self, level: Level, pa: Pa, bits: LeafBits) -> Result<(), Fault> {
        if self.geometry.format().exceeds_output_size(pa) {
            return Err(Fault::new(FaultKind::AddressSize, level));
        }
        if !bits.contains(LeafBits::AF) && !Tcr::new(self.context.tcr).hardware_access() {
            return Err(Fault::new(FaultKind::AccessFlag, level));
        }
        Ok(())
    }

    /// The leaf that `entry` describes.
    fn leaf(&self, entry: &LeafEntry) -> Leaf<Aarch64> {
        let format = self.geometry.format();
        let group = if entry.bits.contains(LeafBits::CONTIGUOUS) {
            format.group_size(entry.level)
        } else {
            None
        };
        let scope = if entry.bits.contains(LeafBits::NOT_GLOBAL) {
            Scope::Tagged(self.context.tag())
        } else {
            Scope::Global(self.context.vmid)
        };
        Leaf {
            va: self.va.page_base(entry.size),
            pa: entry.pa,
            size: entry.size,
            level: entry.level,
            group,
            scope,
            attrs: Attrs::new(self.context, self.half, format, entry.raw, entry.above),
        }
    }

    /// Sets the access flag and, for a store, records the page dirty, both in one exchange.
    fn update<M: TableMemory, V: WalkVisitor<Aarch64>>(
        &self,
        entry: &LeafEntry,
        leaf: &mut Leaf<Aarch64>,
        memory: &mut M,
        visitor: &mut V,
    ) -> Result<(), Interrupted> {
        let mut new = entry.raw | LeafBits::AF.bits();
        let permissions = &mut leaf.attrs.permissions;
        if self.access.kind.is_write() && permissions.contains(Permissions::CLEAN) {
            new &= !LeafBits::AP2_READ_ONLY.bits();
            permissions.remove(Permissions::CLEAN);
        }
        if new == entry.raw {
            return Ok(());
        }
        let (old, new) = (self.in_memory_order(entry.raw), self.in_memory_order(new));
        let held = memory
            .exchange_descriptor(entry.at, old, new)
            .ok_or(Fault::new(FaultKind::ExternalOnWalk, entry.level))?;
        if held != old {
            return Err(Interrupted::Changed(entry.level));
        }
        visitor.update(entry.level, entry.at, old, new);
        Ok(())
    }

    /// Between a descriptor's value and its bytes in memory: swapped with SCTLR_EL1.EE.
    const fn in_memory_order(&self, raw: u64) -> u64 {
        if self.big_endian {
            raw.swap_bytes()
        } else {
            raw
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Arch;
    use crate::memory::SparseMemory;

    /// 4K granule, 48 bits in both halves, 48-bit output.
    fn context() -> Context {
        Context {
            sctlr: 1,
            tcr: 16 | 16 << 16 | 0b10 << 30 | 0b101 << 32,
            ttbr0: 0x1000,
            ttbr1: 0x9000,
            ..Context::default()
        }
    }

    #[test]
    fn four_levels_lead_to_a_page() {
        let mut memory = SparseMemory::new();
        let va = Va::new(0x0000_1234_5678_9abc);
        for (table, shift, descriptor) in [
            (0x1000, 39, 0x2003),
            (0x2000, 30, 0x3003),
            (0x3000, 21, 0x4003),
            (0x4000, 12, 0xabcd_e403 | 1 << 6),
        ] {
            memory.write(Pa::new(table + (va.raw() >> shift & 511) * 8), descriptor);
        }
        let access = Access::new(va, AccessKind::Store, Privilege::User);
        let leaf = Aarch64::walk(&context(), &access, None, &mut memory, &mut ()).unwrap();
        assert_eq!(leaf.pa, Pa::new(0xabcd_e000));
        assert_eq!(leaf.va, Va::new(0x1234_5678_9000));
        assert_eq!(leaf.size, PageSize::Size4K);
        assert!(leaf.scope.is_global());
        let other = Access::new(Va::new(va.raw() + 4096), AccessKind::Load, Privilege::User);
        assert_eq!(
            Aarch64::walk(&context(), &other, None, &mut memory, &mut ()),
            Err(Fault::new(FaultKind::ExternalOnWalk, Level::L3))
        );
    }
}
