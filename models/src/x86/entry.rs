//! Paging-structure entries: what the 64 bits mean at a level (Intel SDM vol. 3A 4.5).

use bitflags::bitflags;

use super::Context;
use super::registers::{Cr4, Efer, GigabytePages};
use crate::addr::{Level, Pa, PageSize};

bitflags! {
    /// The bits of an entry that hardware interprets, at their places.
    #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
    pub struct EntryBits: u64 {
        /// P: present.
        const PRESENT = 1 << 0;
        /// R/W: writable.
        const WRITABLE = 1 << 1;
        /// U/S: accessible at CPL 3.
        const USER = 1 << 2;
        /// PWT: part of the memory type.
        const WRITE_THROUGH = 1 << 3;
        /// PCD: part of the memory type.
        const CACHE_DISABLE = 1 << 4;
        /// A: accessed.
        const ACCESSED = 1 << 5;
        /// D: dirty (leaves).
        const DIRTY = 1 << 6;
        /// PS: a 1 GiB or 2 MiB page (levels 1 and 2). In a 4 KiB page's entry it is PAT.
        const LARGE = 1 << 7;
        /// G: global (leaves).
        const GLOBAL = 1 << 8;
        /// PAT of a large page.
        const LARGE_PAT = 1 << 12;
        /// XD: not executable.
        const NO_EXECUTE = 1 << 63;
    }
}

bitflags! {
    /// What the upper entries of a walk take away: each is the AND of R/W or U/S, or the OR of
    /// XD, turned so that "nothing taken away" is empty.
    #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
    pub struct TableAttrs: u8 {
        /// An entry with R/W clear.
        const READ_ONLY = 1 << 0;
        /// An entry with U/S clear.
        const SUPERVISOR = 1 << 1;
        /// An entry with XD set.
        const NO_EXECUTE = 1 << 2;
        /// The host's entries do not allow reads of the frame.
        const HOST_NO_READ = 1 << 3;
        /// Nor writes.
        const HOST_NO_WRITE = 1 << 4;
        /// Nor execution, of pages that the guest keeps from user mode.
        const HOST_NO_EXECUTE = 1 << 5;
        /// Nor execution of the others.
        const HOST_NO_USER_EXECUTE = 1 << 6;
        /// Everything that a host can take away.
        const HOST = 0b111_1000;
    }
}

/// What a leaf keeps beside its address.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Attrs {
    /// What leaf and upper entries together forbid.
    pub denied: TableAttrs,
    /// D: a store changes no entry.
    pub dirty: bool,
    /// The protection key, 0 to 15.
    pub key: u8,
    /// The index into IA32_PAT that PAT, PCD and PWT form, 0 to 7.
    pub pat_index: u8,
}

/// A decoded entry.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// Not present.
    NotPresent,
    /// Present, with a reserved bit set.
    Reserved,
    /// The next level's table.
    Table(Pa),
    /// A page: its first address and its size.
    Leaf(Pa, PageSize),
}

/// The address bits of an entry, 51:12.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

impl Entry {
    /// Decodes the entry `raw` of a table at `level`.
    pub(super) fn decode(context: &Context, level: Level, raw: u64) -> Self {
        let bits = EntryBits::from_bits_truncate(raw);
        if !bits.contains(EntryBits::PRESENT) {
            return Self::NotPresent;
        }
        let size = match level {
            Level::L3 => Some(PageSize::Size4K),
            Level::L2 if bits.contains(EntryBits::LARGE) => Some(PageSize::Size2M),
            Level::L1 if bits.contains(EntryBits::LARGE) => Some(PageSize::Size1G),
            _ => None,
        };
        if raw & reserved(context, level, size) != 0 {
            return Self::Reserved;
        }
        match size {
            Some(size) => Self::Leaf(Pa::new(raw & ADDRESS).page_base(size), size),
            None => Self::Table(Pa::new(raw & ADDRESS)),
        }
    }
}

/// The bits that must be clear in an entry at `level` that maps a page of `size`, or a table.
fn reserved(context: &Context, level: Level, size: Option<PageSize>) -> u64 {
    let beyond_physical = ADDRESS & !((1 << context.physical_bits.bits()) - 1);
    let no_execute = if Efer::from_bits_truncate(context.efer).contains(Efer::NXE) {
        0
    } else {
        EntryBits::NO_EXECUTE.bits()
    };
    let by_level = match (level, size) {
        (_, Some(PageSize::Size1G)) if context.gigabyte_pages == GigabytePages::Absent => {
            EntryBits::LARGE.bits()
        }
        // Below a large page's address lie its PAT bit and then reserved bits.
        (_, Some(size)) if size != PageSize::Size4K => {
            ADDRESS & (size.bytes() - 1) & !EntryBits::LARGE_PAT.bits()
        }
        (Level::Minus1 | Level::L0, _) => EntryBits::LARGE.bits(),
        _ => 0,
    };
    beyond_physical | no_execute | by_level
}

impl TableAttrs {
    /// What one entry takes away.
    pub(super) fn of_entry(raw: u64) -> Self {
        let bits = EntryBits::from_bits_truncate(raw);
        let mut own = Self::empty();
        own.set(Self::READ_ONLY, !bits.contains(EntryBits::WRITABLE));
        own.set(Self::SUPERVISOR, !bits.contains(EntryBits::USER));
        own.set(Self::NO_EXECUTE, bits.contains(EntryBits::NO_EXECUTE));
        own
    }
}

impl Attrs {
    /// The attributes of the leaf `raw` of `size`, given what the entries above took away.
    pub(super) fn new(raw: u64, size: PageSize, above: TableAttrs) -> Self {
        let bits = EntryBits::from_bits_truncate(raw);
        let pat = if size == PageSize::Size4K {
            EntryBits::LARGE
        } else {
            EntryBits::LARGE_PAT
        };
        let pat_index = u8::from(bits.contains(pat)) << 2
            | u8::from(bits.contains(EntryBits::CACHE_DISABLE)) << 1
            | u8::from(bits.contains(EntryBits::WRITE_THROUGH));
        Self {
            denied: above | TableAttrs::of_entry(raw),
            dirty: bits.contains(EntryBits::DIRTY),
            // Bits 62:59.
            key: raw.to_le_bytes()[7] >> 3 & 0xf,
            pat_index,
        }
    }
}

/// Whether a leaf's global bit has effect.
pub(super) fn is_global(context: &Context, raw: u64) -> bool {
    Cr4::from_bits_truncate(context.cr4).contains(Cr4::PGE)
        && EntryBits::from_bits_truncate(raw).contains(EntryBits::GLOBAL)
}
