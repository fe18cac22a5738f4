//! Stage 1 descriptors: what the 64 bits mean at a level, and what a translation keeps of them.
//!
//! Layout: Arm ARM D8.3 (VMSAv8-64 descriptor formats), direct permissions.

use bitflags::bitflags;

use super::Context;
use super::geometry::Format;
use super::registers::{MemoryType, Shareability, Tcr, bits};
use super::stage2::Stage2Denials;
use crate::addr::{Level, Pa, PageSize};
use crate::arch::Half;

bitflags! {
    /// The bits of a page or block descriptor that hardware interprets, at their places.
    #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
    pub struct LeafBits: u64 {
        /// Valid.
        const VALID = 1 << 0;
        /// Table at levels above 3, page at level 3.
        const TABLE_OR_PAGE = 1 << 1;
        /// AP\[1\]: EL0 has access.
        const AP1_EL0 = 1 << 6;
        /// AP\[2\]: read-only; with DBM and hardware dirty state, clean.
        const AP2_READ_ONLY = 1 << 7;
        /// AF: the access flag.
        const AF = 1 << 10;
        /// nG: belongs to one ASID.
        const NOT_GLOBAL = 1 << 11;
        /// nT: a block that is about to change size (FEAT_BBML1).
        const NT = 1 << 16;
        /// GP: guarded page (branch target identification).
        const GUARDED = 1 << 50;
        /// DBM: hardware may clear AP\[2\].
        const DBM = 1 << 51;
        /// One of a group that may be cached as one.
        const CONTIGUOUS = 1 << 52;
        /// Not executable at EL1.
        const PXN = 1 << 53;
        /// Not executable at EL0.
        const UXN = 1 << 54;
    }
}

bitflags! {
    /// What the table descriptors of a walk take away from the leaves below: APTable, UXNTable
    /// and PXNTable, accumulated by OR.
    #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
    pub struct TableAttrs: u8 {
        /// PXNTable: nothing below is executable at EL1.
        const PXN = 1 << 0;
        /// UXNTable: nothing below is executable at EL0.
        const UXN = 1 << 1;
        /// APTable\[0\]: nothing below is accessible at EL0.
        const NO_EL0 = 1 << 2;
        /// APTable\[1\]: nothing below is writable.
        const READ_ONLY = 1 << 3;
    }
}

bitflags! {
    /// Effective permissions of a translation, table descriptors folded in.
    #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
    pub struct Permissions: u8 {
        /// EL0 has data access.
        const EL0 = 1 << 0;
        /// Writable, at the exception levels that have access.
        const WRITE = 1 << 1;
        /// Writable, but the first store must be recorded in the descriptor (DBM).
        const CLEAN = 1 << 2;
        /// Not executable at EL1.
        const PXN = 1 << 3;
        /// Not executable at EL0.
        const UXN = 1 << 4;
        /// Guarded page.
        const GUARDED = 1 << 5;
        /// Stage 1 is off: it permits everything.
        const FLAT = 1 << 6;
    }
}

/// What a leaf keeps beside its address.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Attrs {
    /// Effective permissions and dirty state.
    pub permissions: Permissions,
    /// Memory type, out of MAIR_EL1.
    pub memory: MemoryType,
    /// Shareability.
    pub shareability: Shareability,
    /// What stage 2 takes away.
    pub stage2: Stage2Denials,
    /// The size of stage 1's page or block where stage 2 maps it in smaller pieces, of which the
    /// leaf is one.
    pub block: Option<PageSize>,
}

/// A decoded descriptor.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// Not valid, or a block where none is allowed.
    Invalid,
    /// The next level's table, and what this entry takes away from everything below.
    Table(Pa, TableAttrs),
    /// A page or block: its first address, its size and its bits.
    Leaf(Pa, PageSize, LeafBits),
}

impl Format {
    /// Decodes a descriptor of a table at `level`. Addresses are not checked against the output
    /// size.
    pub(super) fn decode(&self, level: Level, raw: u64) -> Entry {
        let flags = LeafBits::from_bits_truncate(raw);
        if !flags.contains(LeafBits::VALID) {
            return Entry::Invalid;
        }
        let is_leaf = flags.contains(LeafBits::TABLE_OR_PAGE) == (level == Level::L3);
        if !is_leaf && level != Level::L3 {
            let base = self.output_address(raw, self.granule().shift());
            let attrs = TableAttrs::from_bits_truncate(raw.to_le_bytes()[7] >> 3);
            return Entry::Table(base, attrs);
        }
        match self.leaf_size(level) {
            Some(size) if is_leaf => {
                Entry::Leaf(self.output_address(raw, size.shift()), size, flags)
            }
            _ => Entry::Invalid,
        }
    }
}

impl Attrs {
    /// The attributes of the leaf descriptor `raw`, given what the tables above took away.
    pub(super) fn new(
        context: &Context,
        half: Half,
        format: &Format,
        raw: u64,
        above: TableAttrs,
    ) -> Self {
        let tcr = Tcr::new(context.tcr);
        let shareability = if format.shareability_in_tcr() {
            tcr.shareability(half)
        } else {
            Shareability::from_field(bits(raw, 8, 2))
        };
        Self {
            permissions: Permissions::new(
                LeafBits::from_bits_truncate(raw),
                above,
                tcr.hardware_dirty(),
            ),
            memory: MemoryType::from_mair(context.mair, bits(raw, 2, 3)),
            shareability,
            stage2: Stage2Denials::empty(),
            block: None,
        }
    }
}

impl Permissions {
    /// Folds the leaf's own bits and the accumulated table bits. With hardware dirty state
    /// (`dirty_managed`) a DBM leaf counts as writable, and AP\[2\] says that it is clean.
    fn new(leaf: LeafBits, above: TableAttrs, dirty_managed: bool) -> Self {
        let ap2 = leaf.contains(LeafBits::AP2_READ_ONLY);
        let managed = dirty_managed && leaf.contains(LeafBits::DBM);
        let write = (!ap2 || managed) && !above.contains(TableAttrs::READ_ONLY);
        let mut own = Self::empty();
        own.set(
            Self::EL0,
            leaf.contains(LeafBits::AP1_EL0) && !above.contains(TableAttrs::NO_EL0),
        );
        own.set(Self::WRITE, write);
        own.set(Self::CLEAN, write && ap2);
        own.set(
            Self::PXN,
            leaf.contains(LeafBits::PXN) || above.contains(TableAttrs::PXN),
        );
        own.set(
            Self::UXN,
            leaf.contains(LeafBits::UXN) || above.contains(TableAttrs::UXN),
        );
        own.set(Self::GUARDED, leaf.contains(LeafBits::GUARDED));
        own
    }
}
