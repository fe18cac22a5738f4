//! The walker of the EL1&0 regime, both stages.
//!
//! Faults come in the order of the pseudocode `AArch64.S1Translate`: what the registers alone
//! decide ([`before_lookup`]), then EPD and the root's address, then level by level, and at the
//! leaf: nT, address size, access flag, permission. Only an access that passes all of them lets
//! hardware write the descriptor. With stage 2 on, the address of each descriptor is translated
//! before it is read and, for writing, before it is updated; that of the access comes last
//! (`AArch64.S2Translate`).

use super::descriptor::{Attrs, Entry, LeafBits, Permissions};
use super::fault::{Fault, FaultKind};
use super::geometry::Geometry;
use super::permission;
use super::registers::{MemoryType, Sctlr, Shareability, Tag, Tcr};
use super::stage2::{self, STAGE2_WRITE, Stage2Denials, TableUse, Use};
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
        Input::Off(pa) if !context.stage2.is_on() => Lookup::Off(pa),
        // SCTLR_EL1.M may be cached in TLBs, so entries made with stage 1 off need no tag of
        // their own.
        Input::Off(_) | Input::Tables(..) => Lookup::Tagged(context.tag()),
    })
}

/// What becomes of an address before any table is read.
enum Input {
    /// Stage 1 is off: the address is physical, or stage 2's input.
    Off(Pa),
    /// It is in range of the tables of this half, which have this geometry.
    Tables(Half, Geometry),
}

/// Decides from the registers alone, so that a lookup and a walk cannot differ in it and a walk
/// computes its geometry once.
fn input(context: &Context, access: &Access) -> Result<Input, Fault> {
    let half = half_of(access.va);
    let top = top_bit(context, half, access);
    if !Sctlr::new(context.sctlr).mmu_on() || context.stage2.default_cacheable() {
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

/// The translation that stage 1 off amounts to: a page of `size`, global, everything permitted.
fn flat_leaf(context: &Context, pa: Pa, size: PageSize) -> Leaf<Aarch64> {
    let page = pa.page_base(size);
    let (memory, shareability) = if context.stage2.default_cacheable() {
        (MemoryType::NORMAL_WB, Shareability::Non)
    } else {
        (MemoryType::DEVICE_NGNRNE, Shareability::Outer)
    };
    Leaf {
        va: Va::new(page.raw()),
        pa: page,
        size,
        level: Level::L3,
        group: None,
        scope: Scope::Global(context.vmid()),
        attrs: Attrs {
            permissions: Permissions::EL0 | Permissions::WRITE | Permissions::FLAT,
            memory,
            shareability,
            stage2: Stage2Denials::empty(),
            block: None,
        },
    }
}

/// A descriptor that ended the descent: where it is and what it says.
struct LeafEntry {
    level: Level,
    at: Pa,
    /// The same before stage 2.
    ipa: Pa,
    raw: u64,
    pa: Pa,
    size: PageSize,
    bits: LeafBits,
    above: TableAttrs,
}

/// Where an IPA lies, and what stage 2 says of it.
struct HostPage {
    pa: Pa,
    size: PageSize,
    group: Option<PageSize>,
    raw: u64,
    denied: Stage2Denials,
}

/// Why one pass over the tables did not give a leaf.
enum Interrupted {
    Fault(Fault),
    /// A descriptor changed before it could be updated; the fault if it goes on like that.
    Changed(Fault),
}

impl From<Fault> for Interrupted {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// One stage's tables, as a descent through them needs them.
struct Tables {
    half: Half,
    geometry: Geometry,
    big_endian: bool,
    /// Table descriptors take nothing away from what is below.
    flat_hierarchy: bool,
    /// Hardware sets the access flag.
    hardware_access: bool,
}

/// Where a pass begins.
enum First {
    /// Stage 1 is off.
    Off(Pa),
    /// At a table of stage 1.
    At(Tables, TablePointer<Aarch64>),
}

/// One translation: the registers as they are for this access.
struct Walk<'a> {
    context: &'a Context,
    access: &'a Access,
    va: Va,
}

/// Walks the tables: see [`crate::arch::Arch::walk`].
pub(super) fn walk<M: TableMemory, V: WalkVisitor<Aarch64>>(
    context: &Context,
    access: &Access,
    start: Option<TablePointer<Aarch64>>,
    memory: &mut M,
    visitor: &mut V,
) -> Result<Leaf<Aarch64>, Fault> {
    let walk = Walk {
        context,
        access,
        va: canonical(access.va),
    };
    let first = match input(context, access)? {
        Input::Off(pa) if !context.stage2.is_on() => {
            return Ok(flat_leaf(context, pa, PageSize::Size4K));
        }
        Input::Off(pa) => First::Off(pa),
        Input::Tables(half, _) if Tcr::new(context.tcr).walk_disabled(half) => {
            return Err(Fault::new(FaultKind::Translation, Level::L0));
        }
        Input::Tables(half, geometry) => {
            let tables = Tables::stage1(context, half, geometry);
            let start = match start {
                Some(pointer) => pointer,
                None => tables.root(context.ttbr(half))?,
            };
            First::At(tables, start)
        }
    };
    let mut last = Fault::new(FaultKind::UnsupportedUpdate, Level::L3);
    for _ in 0..UPDATE_ATTEMPTS {
        match walk.pass(&first, memory, visitor) {
            Ok(leaf) => return Ok(leaf),
            Err(Interrupted::Fault(fault)) => return Err(fault),
            Err(Interrupted::Changed(fault)) => last = fault,
        }
    }
    Err(last)
}

impl Tables {
    const fn stage1(context: &Context, half: Half, geometry: Geometry) -> Self {
        let tcr = Tcr::new(context.tcr);
        Self {
            half,
            geometry,
            big_endian: Sctlr::new(context.sctlr).big_endian(),
            flat_hierarchy: tcr.hierarchy_disabled(half),
            hardware_access: tcr.hardware_access(),
        }
    }

    /// Stage 2's, or `None` if its registers contradict one another. It has one half, and its
    /// table descriptors have no attributes.
    fn stage2(context: &Context) -> Option<Self> {
        Some(Self {
            half: Half::Lower,
            geometry: Geometry::stage2(context)?,
            big_endian: context.stage2.big_endian(),
            flat_hierarchy: true,
            hardware_access: context.stage2.hardware_access(),
        })
    }

    /// The root table that `ttbr` names; a fault if it lies beyond the output size.
    fn root(&self, ttbr: u64) -> Result<TablePointer<Aarch64>, Fault> {
        let base = self.geometry.root_base(ttbr);
        if self.geometry.format().exceeds_output_size(base) {
            return Err(Fault::new(FaultKind::AddressSize, Level::L0));
        }
        Ok(TablePointer {
            level: self.geometry.start(),
            base,
            attrs: TableAttrs::empty(),
        })
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
        let taken_away = if self.flat_hierarchy {
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

    /// nT, address size, then access flag.
    fn check_leaf(
        &self,
        context: &Context,
        level: Level,
        pa: Pa,
        bits: LeafBits,
    ) -> Result<(), Fault> {
        let nt_faults = context.implementation.nt_faults && level != Level::L3;
        if nt_faults && bits.contains(LeafBits::NT) {
            return Err(Fault::new(FaultKind::Translation, level));
        }
        if self.geometry.format().exceeds_output_size(pa) {
            return Err(Fault::new(FaultKind::AddressSize, level));
        }
        if !bits.contains(LeafBits::AF) && !self.hardware_access {
            return Err(Fault::new(FaultKind::AccessFlag, level));
        }
        Ok(())
    }

    /// The size of the contiguous group that a leaf belongs to, if it does.
    fn group(&self, entry: &LeafEntry) -> Option<PageSize> {
        let grouped = entry.bits.contains(LeafBits::CONTIGUOUS);
        grouped
            .then(|| self.geometry.format().group_size(entry.level))
            .flatten()
    }

    /// Between a descriptor's value and its bytes in memory: swapped in a big-endian regime.
    const fn in_memory_order(&self, raw: u64) -> u64 {
        if self.big_endian {
            raw.swap_bytes()
        } else {
            raw
        }
    }

    /// Replaces the descriptor at `at` by one exchange, and gives both as memory holds them.
    fn exchange<M: TableMemory>(
        &self,
        entry: &LeafEntry,
        at: Pa,
        new: u64,
        memory: &mut M,
    ) -> Result<(u64, u64), Interrupted> {
        let (old, new) = (self.in_memory_order(entry.raw), self.in_memory_order(new));
        let held = memory
            .exchange_descriptor(at, old, new)
            .ok_or(Fault::new(FaultKind::ExternalOnWalk, entry.level))?;
        if held == old {
            Ok((old, new))
        } else {
            let fault = Fault::new(FaultKind::UnsupportedUpdate, entry.level);
            Err(Interrupted::Changed(fault))
        }
    }
}

impl Walk<'_> {
    /// Stage 1 once, with its checks and updates, then stage 2 for what it gives.
    fn pass<M: TableMemory, V: WalkVisitor<Aarch64>>(
        &self,
        first: &First,
        memory: &mut M,
        visitor: &mut V,
    ) -> Result<Leaf<Aarch64>, Interrupted> {
        let (tables, start) = match first {
            First::Off(pa) => {
                let page = self.locate(*pa, Use::Final, memory, visitor)?;
                let leaf = flat_leaf(self.context, *pa, page.size);
                return Ok(self.combine(leaf, Va::new(pa.raw()), &page));
            }
            First::At(tables, start) => (tables, *start),
        };
        let va = self.va;
        let entry = self.descend::<false, _, _>(tables, va, start, memory, visitor)?;
        let mut leaf = self.leaf(tables, &entry);
        let permitted = permission::permitted(&leaf.attrs, self.context, self.access.privilege);
        if !permission::includes(permitted, self.access.kind) {
            return Err(Fault::new(FaultKind::Permission, entry.level).into());
        }
        self.update(tables, &entry, &mut leaf, memory, visitor)?;
        if !self.context.stage2.is_on() {
            return Ok(leaf);
        }
        let ipa = leaf.pa.wrapping_add(va.offset_in(leaf.size));
        let page = self.locate(ipa, Use::Final, memory, visitor)?;
        Ok(self.combine(leaf, va, &page))
    }

    /// Follows table descriptors of one stage down to a leaf whose address and access flag are in
    /// order. Stage 1's descriptors lie at IPAs, each of which is translated first.
    fn descend<const STAGE2: bool, M: TableMemory, V: WalkVisitor<Aarch64>>(
        &self,
        tables: &Tables,
        input: Va,
        mut table: TablePointer<Aarch64>,
        memory: &mut M,
        visitor: &mut V,
    ) -> Result<LeafEntry, Interrupted> {
        loop {
            let level = table.level;
            let ipa = tables.geometry.entry_address(table.base, level, input);
            let at = if STAGE2 || !self.context.stage2.is_on() {
                ipa
            } else {
                let why = Use::Table(TableUse::Read);
                self.locate(ipa, why, memory, visitor)?.pa
            };
            let word = memory
                .read_descriptor(at)
                .ok_or(Fault::new(FaultKind::ExternalOnWalk, level))?;
            let raw = tables.in_memory_order(word);
            let entry = tables.geometry.format().decode(level, raw);
            let next = match entry {
                Entry::Table(base, attrs) => tables.next_table(&table, base, attrs),
                _ => None,
            };
            let step = Step {
                level,
                at,
                raw: word,
                next,
            };
            if STAGE2 {
                visitor.second_stage_step(&step);
            } else {
                visitor.step(&step);
            }
            let fault = |kind| Interrupted::Fault(Fault::new(kind, level));
            match (entry, next) {
                (Entry::Table(..), Some(next)) => table = next,
                (Entry::Table(..), None) => return Err(fault(FaultKind::AddressSize)),
                (Entry::Invalid, _) => return Err(fault(FaultKind::Translation)),
                (Entry::Leaf(pa, size, bits), _) => {
                    tables.check_leaf(self.context, level, pa, bits)?;
                    return Ok(LeafEntry {
                        level,
                        at,
                        ipa,
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

    /// Translates an IPA by stage 2; its faults name the IPA.
    fn locate<M: TableMemory, V: WalkVisitor<Aarch64>>(
        &self,
        ipa: Pa,
        why: Use,
        memory: &mut M,
        visitor: &mut V,
    ) -> Result<HostPage, Interrupted> {
        self.stage2(ipa, why, memory, visitor)
            .map_err(|interrupted| match interrupted {
                Interrupted::Fault(fault) => Interrupted::Fault(fault.in_stage2(ipa, why)),
                Interrupted::Changed(fault) => Interrupted::Changed(fault.in_stage2(ipa, why)),
            })
    }

    /// Stage 2 for one IPA: the descent, permission, and the descriptor's update.
    fn stage2<M: TableMemory, V: WalkVisitor<Aarch64>>(
        &self,
        ipa: Pa,
        why: Use,
        memory: &mut M,
        visitor: &mut V,
    ) -> Result<HostPage, Interrupted> {
        let registers = &self.context.stage2;
        let out_of_range = Fault::new(FaultKind::Translation, Level::L0);
        let tables = Tables::stage2(self.context).ok_or(out_of_range)?;
        let input = Va::new(ipa.raw());
        // Up to bit 63, of which IPAs have none from 52 up.
        if tables.geometry.out_of_range(Half::Lower, input, 63) {
            return Err(out_of_range.into());
        }
        let root = tables.root(registers.vttbr)?;
        let entry = self.descend::<true, _, _>(&tables, input, root, memory, visitor)?;
        let mut denied = Stage2Denials::new(registers, entry.raw);
        let Access {
            kind, privilege, ..
        } = *self.access;
        let refused = why != Use::Final && stage2::table_refused(registers, entry.raw);
        if refused || !why.passes(denied, kind, privilege) {
            return Err(Fault::new(FaultKind::Permission, entry.level).into());
        }
        let mut new = entry.raw | LeafBits::AF.bits();
        if why.writes(kind) && denied.contains(Stage2Denials::CLEAN) {
            new |= STAGE2_WRITE;
            denied.remove(Stage2Denials::CLEAN);
        }
        if new != entry.raw {
            let (old, new) = tables.exchange(&entry, entry.at, new, memory)?;
            visitor.second_stage_update(entry.level, entry.at, old, new);
        }
        Ok(HostPage {
            pa: entry.pa.wrapping_add(ipa.offset_in(entry.size)),
            size: entry.size,
            group: tables.group(&entry),
            raw: entry.raw,
            denied,
        })
    }

    /// The leaf that `entry` of stage 1 describes.
    fn leaf(&self, tables: &Tables, entry: &LeafEntry) -> Leaf<Aarch64> {
        let format = tables.geometry.format();
        let scope = if entry.bits.contains(LeafBits::NOT_GLOBAL) {
            Scope::Tagged(self.context.tag())
        } else {
            Scope::Global(self.context.vmid())
        };
        Leaf {
            va: self.va.page_base(entry.size),
            pa: entry.pa,
            size: entry.size,
            level: entry.level,
            group: tables.group(entry),
            scope,
            attrs: Attrs::new(self.context, tables.half, format, entry.raw, entry.above),
        }
    }

    /// The translation through both stages: as large as the smaller page, contiguous as far as
    /// both are, allowing what both do.
    fn combine(&self, leaf: Leaf<Aarch64>, va: Va, page: &HostPage) -> Leaf<Aarch64> {
        let size = leaf.size.min(page.size);
        let reach = leaf
            .group
            .unwrap_or(leaf.size)
            .min(page.group.unwrap_or(page.size));
        let own = leaf.attrs;
        let (memory, shareability) = stage2::combined_memory(
            &self.context.stage2,
            page.raw,
            (own.memory, own.shareability),
        );
        Leaf {
            va: va.page_base(size),
            pa: page.pa.page_base(size),
            size,
            group: (reach > size).then_some(reach),
            attrs: Attrs {
                memory,
                shareability,
                stage2: page.denied,
                block: (leaf.size > size).then_some(leaf.size),
                ..own
            },
            ..leaf
        }
    }

    /// Sets the access flag and, for a store, records the page dirty, both in one exchange. With
    /// stage 2 on, the descriptor's place is translated again, for writing.
    fn update<M: TableMemory, V: WalkVisitor<Aarch64>>(
        &self,
        tables: &Tables,
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
        let at = if self.context.stage2.is_on() {
            let why = Use::Table(TableUse::Update);
            self.locate(entry.ipa, why, memory, visitor)?.pa
        } else {
            entry.at
        };
        let (old, new) = tables.exchange(entry, at, new, memory)?;
        visitor.update(entry.level, at, old, new);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
