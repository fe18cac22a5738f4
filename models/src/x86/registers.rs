//! Typed views of the control registers that paging depends on (Intel SDM vol. 3A 2.5, 4.1).

use bitflags::bitflags;
use std::fmt;

use crate::arch::{MachineId, SpaceTag};

bitflags! {
    /// CR0 bits that concern paging.
    #[derive(Copy, Clone, PartialEq, Eq, Debug)]
    pub struct Cr0: u64 {
        /// WP: supervisor writes obey read-only pages.
        const WP = 1 << 16;
        /// PG: paging is on.
        const PG = 1 << 31;
    }
}

bitflags! {
    /// CR4 bits that concern paging.
    #[derive(Copy, Clone, PartialEq, Eq, Debug)]
    pub struct Cr4: u64 {
        /// PAE.
        const PAE = 1 << 5;
        /// PGE: global pages.
        const PGE = 1 << 7;
        /// LA57: five levels.
        const LA57 = 1 << 12;
        /// PCIDE: process-context identifiers.
        const PCIDE = 1 << 17;
        /// SMEP: no supervisor fetch from user pages.
        const SMEP = 1 << 20;
        /// SMAP: no supervisor data access to user pages.
        const SMAP = 1 << 21;
        /// PKE: protection keys for user pages (PKRU).
        const PKE = 1 << 22;
        /// PKS: protection keys for supervisor pages (IA32_PKRS).
        const PKS = 1 << 24;
    }
}

bitflags! {
    /// IA32_EFER bits that concern paging.
    #[derive(Copy, Clone, PartialEq, Eq, Debug)]
    pub struct Efer: u64 {
        /// NXE: bit 63 of an entry forbids execution.
        const NXE = 1 << 11;
    }
}

/// A process-context identifier, 12 bits.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Pcid(u16);

impl Pcid {
    /// PCID 0: the only one without CR4.PCIDE.
    pub const ZERO: Self = Self(0);

    /// The PCID in bits 11:0 of `raw`; higher bits are ignored.
    #[must_use]
    pub const fn from_low_bits(raw: u64) -> Self {
        let [low, high, ..] = raw.to_le_bytes();
        Self(u16::from_le_bytes([low, high & 0xf]))
    }

    /// Its number, below 4096.
    #[must_use]
    pub const fn raw(self) -> u16 {
        self.0
    }
}

impl SpaceTag for Pcid {
    /// No virtual machine: VPID 0.
    fn machine(&self) -> MachineId {
        MachineId::ZERO
    }
}

impl fmt::Display for Pcid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// MAXPHYADDR: how many physical address bits a processor has (CPUID 80000008H).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PhysicalBits(u8);

impl PhysicalBits {
    /// The architectural maximum.
    pub const MAX: Self = Self(52);

    /// A width of 32 to 52 bits, or `None`.
    #[must_use]
    pub const fn new(bits: u8) -> Option<Self> {
        if bits >= 32 && bits <= 52 {
            Some(Self(bits))
        } else {
            None
        }
    }

    /// The number of bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0 as u32
    }
}

impl Default for PhysicalBits {
    fn default() -> Self {
        Self::MAX
    }
}

/// Whether a processor has pages of 1 GiB (CPUID 80000001H, EDX bit 26). Without them bit 7 is
/// reserved in the entries of a page-directory-pointer table.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum GigabytePages {
    /// It has.
    #[default]
    Supported,
    /// It has not.
    Absent,
}

/// The rights that a 32-bit protection key register (PKRU, IA32_PKRS) leaves to one key.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct KeyRights {
    /// AD: no access at all.
    pub(super) access_disabled: bool,
    /// WD: no writes.
    pub(super) write_disabled: bool,
}

impl KeyRights {
    /// The rights of `key` (0 to 15; higher bits are ignored).
    pub(super) const fn of(register: u32, key: u8) -> Self {
        let pair = register >> (2 * (key & 15) as u32);
        Self {
            access_disabled: pair & 1 != 0,
            write_disabled: pair & 2 != 0,
        }
    }
}
