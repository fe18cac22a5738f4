//! Typed views of the system registers that stage 1 of the EL1&0 regime depends on.
//!
//! Field positions are those of the Arm ARM (DDI 0487) register descriptions. A control bit of an
//! optional feature (HA, DS, E0PD, EPAN, ...) takes effect whenever it is set: software sets it
//! only where the ID registers offer the feature.

use std::fmt;

use crate::addr::Granule;
use crate::arch::{Half, MachineId, SpaceTag};

/// An address-space identifier: 16 bits, or 8 bits with the upper byte zero.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Asid(u16);

impl Asid {
    /// The ASID with this number.
    #[must_use]
    pub const fn new(raw: u16) -> Self {
        Self(raw)
    }

    /// Its number.
    #[must_use]
    pub const fn raw(self) -> u16 {
        self.0
    }

    /// The ASID in bits 63:48 of a TTBR or a TLBI operand; with 8-bit ASIDs (`wide` false) the
    /// upper byte is treated as zero.
    #[must_use]
    pub const fn from_bits_63_48(raw: u64, wide: bool) -> Self {
        let [.., low, high] = raw.to_le_bytes();
        Self(u16::from_le_bytes([low, if wide { high } else { 0 }]))
    }
}

impl fmt::Display for Asid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What entries of the EL1&0 regime are tagged with (Arm ARM R_NWYRD).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tag {
    vmid: MachineId,
    asid: Asid,
}

impl Tag {
    /// The address space `asid` of the machine `vmid`.
    #[must_use]
    pub const fn new(vmid: MachineId, asid: Asid) -> Self {
        Self { vmid, asid }
    }

    /// The address space.
    #[must_use]
    pub const fn asid(self) -> Asid {
        self.asid
    }

    /// The virtual machine.
    #[must_use]
    pub const fn vmid(self) -> MachineId {
        self.vmid
    }
}

impl fmt::Debug for Tag {
    /// The ASID, and the VMID where there is one: reports of systems without virtual machines do
    /// not mention them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.asid, f)?;
        if self.vmid == MachineId::ZERO {
            Ok(())
        } else {
            write!(f, " of VMID {}", self.vmid)
        }
    }
}

impl SpaceTag for Tag {
    fn machine(&self) -> MachineId {
        self.vmid
    }
}

/// The `width` bits of `raw` from bit `low` up. `width` is below 64.
pub(super) const fn bits(raw: u64, low: u32, width: u32) -> u64 {
    (raw >> low) & ((1 << width) - 1)
}

const fn bit(raw: u64, index: u32) -> bool {
    raw >> index & 1 != 0
}

/// How many physical address bits there are: the encodings of ID_AA64MMFR0_EL1.PARange and
/// TCR_EL1.IPS.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum PaRange {
    /// 32 bits, 4 GiB.
    Bits32,
    /// 36 bits, 64 GiB.
    Bits36,
    /// 40 bits, 1 TiB.
    Bits40,
    /// 42 bits, 4 TiB.
    Bits42,
    /// 44 bits, 16 TiB.
    Bits44,
    /// 48 bits, 256 TiB.
    Bits48,
    /// 52 bits, 4 PiB (FEAT_LPA, FEAT_LPA2).
    #[default]
    Bits52,
}

impl PaRange {
    /// The number of bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Bits32 => 32,
            Self::Bits36 => 36,
            Self::Bits40 => 40,
            Self::Bits42 => 42,
            Self::Bits44 => 44,
            Self::Bits48 => 48,
            Self::Bits52 => 52,
        }
    }

    /// The range of an encoded field. The reserved encoding 0b111 counts as 52 bits.
    pub(super) const fn from_field(field: u64) -> Self {
        match field {
            0 => Self::Bits32,
            1 => Self::Bits36,
            2 => Self::Bits40,
            3 => Self::Bits42,
            4 => Self::Bits44,
            5 => Self::Bits48,
            _ => Self::Bits52,
        }
    }
}

/// Shareability of a leaf or of table walks.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Shareability {
    /// Not shared.
    Non,
    /// Shared by every domain.
    Outer,
    /// Shared by the inner domain: all cores of the system.
    Inner,
}

impl Shareability {
    /// The value of a two-bit SH field. The reserved encoding 0b01 counts as non-shareable.
    pub(super) const fn from_field(field: u64) -> Self {
        match field {
            0b10 => Self::Outer,
            0b11 => Self::Inner,
            _ => Self::Non,
        }
    }
}

/// TCR_EL1.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Tcr(u64);

impl Tcr {
    /// The register with this value.
    #[must_use]
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    const fn either(self, half: Half, lower: u32, upper: u32) -> bool {
        bit(
            self.0,
            match half {
                Half::Lower => lower,
                Half::Upper => upper,
            },
        )
    }

    /// T0SZ, T1SZ: input addresses have 64 minus this many bits.
    #[must_use]
    pub const fn size_offset(self, half: Half) -> u32 {
        let byte = match half {
            Half::Lower => 0,
            Half::Upper => 2,
        };
        (self.0.to_le_bytes()[byte] & 0x3f) as u32
    }

    /// TG0, TG1. The two fields have different encodings; a reserved one counts as 4 KiB, which
    /// the architecture allows (any implemented size).
    #[must_use]
    pub const fn granule(self, half: Half) -> Granule {
        match half {
            Half::Lower => match bits(self.0, 14, 2) {
                0b01 => Granule::K64,
                0b10 => Granule::K16,
                _ => Granule::K4,
            },
            Half::Upper => match bits(self.0, 30, 2) {
                0b01 => Granule::K16,
                0b11 => Granule::K64,
                _ => Granule::K4,
            },
        }
    }

    /// SH0, SH1: the shareability of walks, and of all leaves when DS is set.
    #[must_use]
    pub const fn shareability(self, half: Half) -> Shareability {
        Shareability::from_field(match half {
            Half::Lower => bits(self.0, 12, 2),
            Half::Upper => bits(self.0, 28, 2),
        })
    }

    /// EPD0, EPD1: a TLB miss faults instead of walking.
    #[must_use]
    pub const fn walk_disabled(self, half: Half) -> bool {
        self.either(half, 7, 23)
    }

    /// A1: which TTBR's ASID is current.
    #[must_use]
    pub const fn asid_half(self) -> Half {
        if bit(self.0, 22) {
            Half::Upper
        } else {
            Half::Lower
        }
    }

    /// IPS.
    #[must_use]
    pub const fn output_size(self) -> PaRange {
        PaRange::from_field(bits(self.0, 32, 3))
    }

    /// AS: ASIDs have 16 bits instead of 8.
    #[must_use]
    pub const fn wide_asids(self) -> bool {
        bit(self.0, 36)
    }

    /// Whether the top byte of an address in `half` is a tag: TBI0/1, for data only if TBID0/1.
    #[must_use]
    pub const fn top_byte_ignored(self, half: Half, fetch: bool) -> bool {
        self.either(half, 37, 38) && !(fetch && self.either(half, 51, 52))
    }

    /// HA: hardware sets the access flag.
    #[must_use]
    pub const fn hardware_access(self) -> bool {
        bit(self.0, 39)
    }

    /// HD: hardware records dirty state; needs HA.
    #[must_use]
    pub const fn hardware_dirty(self) -> bool {
        self.hardware_access() && bit(self.0, 40)
    }

    /// HPD0, HPD1: permissions in table descriptors are ignored.
    #[must_use]
    pub const fn hierarchy_disabled(self, half: Half) -> bool {
        self.either(half, 41, 42)
    }

    /// E0PD0, E0PD1: EL0 has no access to this half.
    #[must_use]
    pub const fn el0_disabled(self, half: Half) -> bool {
        self.either(half, 55, 56)
    }

    /// DS: 52-bit addresses with the 4K and 16K granules (FEAT_LPA2).
    #[must_use]
    pub const fn lpa2(self) -> bool {
        bit(self.0, 59)
    }
}

/// SCTLR_EL1.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Sctlr(u64);

impl Sctlr {
    /// The register with this value.
    #[must_use]
    pub const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// M: stage 1 translation is on.
    #[must_use]
    pub const fn mmu_on(self) -> bool {
        bit(self.0, 0)
    }

    /// A: unaligned data accesses fault whatever the memory type.
    #[must_use]
    pub const fn alignment_checked(self) -> bool {
        bit(self.0, 1)
    }

    /// WXN: what is writable is not executable.
    #[must_use]
    pub const fn write_implies_xn(self) -> bool {
        bit(self.0, 19)
    }

    /// EE: data accesses at EL1 and table walks are big-endian.
    #[must_use]
    pub const fn big_endian(self) -> bool {
        bit(self.0, 25)
    }

    /// EPAN: PAN also covers what EL0 can only execute (FEAT_PAN3).
    #[must_use]
    pub const fn enhanced_pan(self) -> bool {
        bit(self.0, 57)
    }
}

/// A memory type as one byte of MAIR_EL1 encodes it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct MemoryType(u8);

impl MemoryType {
    /// Device-nGnRnE: the type of data accesses with the MMU off.
    pub const DEVICE_NGNRNE: Self = Self(0);

    /// Normal write-back with read and write allocation: the type of HCR_EL2.DC.
    pub const NORMAL_WB: Self = Self(0xff);

    /// The type with this encoding.
    #[must_use]
    pub const fn new(raw: u8) -> Self {
        Self(raw)
    }

    /// The encoding.
    #[must_use]
    pub const fn raw(self) -> u8 {
        self.0
    }

    /// The type that `mair` gives to attribute `index` (0 to 7; higher bits are ignored).
    #[must_use]
    pub const fn from_mair(mair: u64, index: u64) -> Self {
        Self(mair.to_le_bytes()[(index & 7) as usize])
    }

    /// Whether it is Device memory: no unaligned access, no speculation.
    #[must_use]
    pub const fn is_device(self) -> bool {
        self.0 >> 4 == 0
    }
}

impl fmt::Display for MemoryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cacheability = |nibble: u8| match nibble {
            0b0100 => "NC",
            0b0001..0b0100 | 0b1000..0b1100 => "WT",
            _ => "WB",
        };
        match self.0 {
            0b0000_0000 | 0b0000_0001 => f.write_str("Device-nGnRnE"),
            0b0000_0100 | 0b0000_0101 => f.write_str("Device-nGnRE"),
            0b0000_1000 | 0b0000_1001 => f.write_str("Device-nGRE"),
            0b0000_1100 | 0b0000_1101 => f.write_str("Device-GRE"),
            raw if raw >> 4 == 0 => write!(f, "Device-reserved-{raw:#04x}"),
            0b0100_0000 => f.write_str("Normal NC, XS=0"),
            0b1010_0000 => f.write_str("Normal WT, XS=0"),
            0b1111_0000 => f.write_str("Normal WB, tagged"),
            raw => write!(
                f,
                "Normal outer {} inner {}",
                cacheability(raw >> 4),
                cacheability(raw & 15)
            ),
        }
    }
}
