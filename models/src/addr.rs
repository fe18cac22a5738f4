//! Addresses, page sizes and table levels.
//!
//! All are types of their own so that a virtual address can never be used where a physical one
//! is meant, and a level can never be a number that no table has.

use std::fmt;

macro_rules! address {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(u64);

        impl $name {
            /// Wraps a raw 64-bit value. Every value is allowed: whether an address is in range
            /// or canonical is decided by the translation regime, not here.
            #[must_use]
            pub const fn new(raw: u64) -> Self {
                Self(raw)
            }

            /// The raw 64-bit value.
            #[must_use]
            pub const fn raw(self) -> u64 {
                self.0
            }

            /// The first address of the page of `size` that holds this address.
            #[must_use]
            pub const fn page_base(self, size: PageSize) -> Self {
                Self(self.0 & !(size.bytes() - 1))
            }

            /// The offset of this address within its page of `size`, in bytes.
            #[must_use]
            pub const fn offset_in(self, size: PageSize) -> u64 {
                self.0 & (size.bytes() - 1)
            }

            /// Whether the address is a multiple of `size`.
            #[must_use]
            pub const fn is_aligned(self, size: PageSize) -> bool {
                self.offset_in(size) == 0
            }

            /// The address `bytes` further on, or `None` past the end of the 64-bit space.
            #[must_use]
            pub const fn checked_add(self, bytes: u64) -> Option<Self> {
                match self.0.checked_add(bytes) {
                    Some(raw) => Some(Self(raw)),
                    None => None,
                }
            }

            /// The address `bytes` further on, modulo 2^64.
            #[must_use]
            pub const fn wrapping_add(self, bytes: u64) -> Self {
                Self(self.0.wrapping_add(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:#018x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    };
}

address! {
    /// A virtual address as an instruction uses it (tag bits included).
    Va
}
address! {
    /// A physical address after the last stage of translation.
    Pa
}

/// The size of a page, block or contiguous group: every size that a leaf entry, or a group of
/// leaf entries, can have on the modelled architectures.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum PageSize {
    /// 4 KiB: the 4K granule and x86.
    Size4K = 12,
    /// 16 KiB: the 16K granule, or four coalesced 4 KiB pages.
    Size16K = 14,
    /// 64 KiB: the 64K granule, or a contiguous group of sixteen 4 KiB pages.
    Size64K = 16,
    /// 2 MiB: a level 2 block (4K granule, x86 PD), or a contiguous group of level 3 entries
    /// (16K and 64K granules).
    Size2M = 21,
    /// 32 MiB: a level 2 block of the 16K granule, or a contiguous group of sixteen 2 MiB blocks.
    Size32M = 25,
    /// 512 MiB: a level 2 block of the 64K granule.
    Size512M = 29,
    /// 1 GiB: a level 1 block (4K granule, x86 PDPT), or a contiguous group (16K granule).
    Size1G = 30,
    /// 16 GiB: a contiguous group of level 1 (4K granule) or level 2 (64K granule) blocks.
    Size16G = 34,
    /// 64 GiB: a level 1 block of the 16K granule with 52-bit addresses.
    Size64G = 36,
    /// 512 GiB: a level 0 block of the 4K granule with 52-bit addresses.
    Size512G = 39,
    /// 4 TiB: a level 1 block of the 64K granule with 52-bit addresses.
    Size4T = 42,
}

impl PageSize {
    /// Every size, smallest first.
    pub const ALL: [Self; 11] = [
        Self::Size4K,
        Self::Size16K,
        Self::Size64K,
        Self::Size2M,
        Self::Size32M,
        Self::Size512M,
        Self::Size1G,
        Self::Size16G,
        Self::Size64G,
        Self::Size512G,
        Self::Size4T,
    ];

    /// log2 of the size in bytes.
    #[must_use]
    pub const fn shift(self) -> u32 {
        self as u32
    }

    /// The size in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }

    /// The page size of `1 << shift` bytes, if the modelled architectures have it.
    #[must_use]
    pub fn from_shift(shift: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|size| size.shift() == shift)
    }
}

impl fmt::Display for PageSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, by) = match self.shift() {
            ..20 => ("K", 10),
            20..30 => ("M", 20),
            30..40 => ("G", 30),
            _ => ("T", 40),
        };
        write!(f, "{}{unit}", 1_u64 << (self.shift() - by))
    }
}

/// A level of the translation tables, numbered as the Arm architecture does: level 3 always
/// holds the smallest pages. x86 tables take the same numbers, so that one report serves both:
/// PML5 is level −1, PML4 level 0, PDPT level 1, PD level 2 and PT level 3.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(i8)]
pub enum Level {
    /// Level −1: the root with 52-bit input addresses (4K granule), PML5.
    Minus1 = -1,
    /// Level 0: PGD, PML4.
    L0 = 0,
    /// Level 1: PUD, PDPT.
    L1 = 1,
    /// Level 2: PMD, PD.
    L2 = 2,
    /// Level 3: PTE, PT.
    L3 = 3,
}

impl Level {
    /// Every level, root first.
    pub const ALL: [Self; 5] = [Self::Minus1, Self::L0, Self::L1, Self::L2, Self::L3];

    /// The level that a table entry at this level points to; `None` at level 3.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::Minus1 => Some(Self::L0),
            Self::L0 => Some(Self::L1),
            Self::L1 => Some(Self::L2),
            Self::L2 => Some(Self::L3),
            Self::L3 => None,
        }
    }

    /// How many levels lie below this one: 0 at level 3, 4 at level −1.
    #[must_use]
    pub const fn height(self) -> u32 {
        match self {
            Self::Minus1 => 4,
            Self::L0 => 3,
            Self::L1 => 2,
            Self::L2 => 1,
            Self::L3 => 0,
        }
    }

    /// The level with this number (−1 to 3).
    #[must_use]
    pub const fn from_number(number: i8) -> Option<Self> {
        match number {
            -1 => Some(Self::Minus1),
            0 => Some(Self::L0),
            1 => Some(Self::L1),
            2 => Some(Self::L2),
            3 => Some(Self::L3),
            _ => None,
        }
    }

    /// The architectural number, −1 to 3.
    #[must_use]
    pub const fn number(self) -> i8 {
        self as i8
    }

    /// A dense index for arrays of [`Level::COUNT`] elements: 0 for level −1, 4 for level 3.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Minus1 => 0,
            Self::L0 => 1,
            Self::L1 => 2,
            Self::L2 => 3,
            Self::L3 => 4,
        }
    }

    /// The number of levels.
    pub const COUNT: usize = 5;
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{}", self.number())
    }
}

/// The translation granule: the size of the smallest page and of a full table.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Granule {
    /// 4 KiB.
    K4,
    /// 16 KiB.
    K16,
    /// 64 KiB.
    K64,
}

impl Granule {
    /// log2 of the granule in bytes.
    #[must_use]
    pub const fn shift(self) -> u32 {
        match self {
            Self::K4 => 12,
            Self::K16 => 14,
            Self::K64 => 16,
        }
    }

    /// Address bits that one level resolves: 9, 11 or 13.
    #[must_use]
    pub const fn stride(self) -> u32 {
        self.shift() - 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_print_with_binary_units() {
        let printed: Vec<_> = PageSize::ALL.iter().map(ToString::to_string).collect();
        assert_eq!(
            printed.join(" "),
            "4K 16K 64K 2M 32M 512M 1G 16G 64G 512G 4T"
        );
    }

    #[test]
    fn page_base_and_offset_recombine() {
        let va = Va::new(0xffff_8000_1234_5678);
        for size in PageSize::ALL {
            assert_eq!(va.page_base(size).raw() + va.offset_in(size), va.raw());
            assert!(va.page_base(size).is_aligned(size));
        }
    }

    #[test]
    fn levels_step_down_to_the_pages() {
        let mut level = Level::Minus1;
        let mut seen = vec![level];
        while let Some(next) = level.next() {
            level = next;
            seen.push(level);
        }
        assert_eq!(seen, Level::ALL);
        for level in Level::ALL {
            assert_eq!(Level::from_number(level.number()), Some(level));
            assert_eq!(Level::ALL[level.index()], level);
        }
    }
}
