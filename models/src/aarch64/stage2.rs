//! Stage 2 of the EL1&0 regime: the hypervisor's registers, what its descriptors mean, and what
//! becomes of stage 1's result.
//!
//! Every address that stage 1 produces, those of its own tables and the one it ends with, is an
//! intermediate physical address (IPA), which the tables of VTTBR_EL2 translate. The walker
//! descends through both stages with the same code. (Arm ARM D8.2 for the geometry, as the
//! pseudocode `AArch64.S2InvalidSL` and `AArch64.S2InconsistentSL` restrict it; D8.4 for
//! permissions; D8.6 for memory attributes, `S2CombineS1MemAttrs`.)

use bitflags::bitflags;

use super::descriptor::LeafBits;
use super::geometry::{Format, Geometry};
use super::registers::{Asid, MemoryType, PaRange, Shareability, bits};
use super::{Context, registers::Tcr};
use crate::access::{AccessKind, Privilege, Rights};
use crate::addr::{Granule, Level};
use crate::arch::{Half, MachineId};

/// The registers of EL2 that stage 2 depends on, raw. By default stage 2 is off.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Stage2 {
    /// HCR_EL2: VM, PTW, DC and FWB have effect.
    pub hcr: u64,
    /// VTCR_EL2.
    pub vtcr: u64,
    /// VTTBR_EL2. Its VMID tags entries even where stage 2 is off.
    pub vttbr: u64,
    /// SCTLR_EL2: EE, the byte order of the tables.
    pub sctlr: u64,
}

impl Stage2 {
    /// HCR_EL2.VM, which DC implies: IPAs are translated.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.hcr & (1 << 0 | 1 << 12) != 0
    }

    /// HCR_EL2.DC: stage 1 is off, and its output is Normal cacheable memory.
    #[must_use]
    pub const fn default_cacheable(&self) -> bool {
        self.hcr & 1 << 12 != 0
    }

    /// HCR_EL2.PTW: a stage 1 table in Device memory is a permission fault.
    const fn protects_walks(&self) -> bool {
        self.hcr & 1 << 2 != 0
    }

    /// HCR_EL2.FWB: the stage 2 attributes say what becomes of those of stage 1.
    const fn forces_write_back(&self) -> bool {
        self.hcr & 1 << 46 != 0
    }

    /// VTCR_EL2.HA: hardware sets the access flag.
    pub(super) const fn hardware_access(&self) -> bool {
        self.vtcr & 1 << 21 != 0
    }

    /// VTCR_EL2.HD: hardware records dirty state; needs HA.
    const fn hardware_dirty(&self) -> bool {
        self.hardware_access() && self.vtcr & 1 << 22 != 0
    }

    /// SCTLR_EL2.EE: the tables are big-endian.
    pub(super) const fn big_endian(&self) -> bool {
        self.sctlr & 1 << 25 != 0
    }

    /// VTTBR_EL2.VMID: 16 bits with VTCR_EL2.VS, or else 8.
    #[must_use]
    pub const fn vmid(&self) -> MachineId {
        let wide = self.vtcr & 1 << 19 != 0;
        MachineId::new(Asid::from_bits_63_48(self.vttbr, wide).raw())
    }

    /// VTCR_EL2.DS.
    pub(super) const fn lpa2(&self) -> bool {
        self.vtcr & 1 << 32 != 0
    }

    /// VTCR_EL2.TG0. The reserved encoding counts as 4 KiB.
    const fn granule(&self) -> Granule {
        // The field lies and reads as TCR_EL1.TG0 does.
        Tcr::new(self.vtcr).granule(Half::Lower)
    }

    /// The level where walks begin, by SL0 and SL2, or `None` for what is reserved or needs a
    /// larger physical address size.
    fn start(&self, pa_range: PaRange) -> Option<Level> {
        let sl0 = bits(self.vtcr, 6, 2);
        let extended = self.lpa2() && self.vtcr & 1 << 33 != 0;
        match (self.granule(), sl0) {
            (Granule::K4, 0) if extended => (pa_range >= PaRange::Bits52).then_some(Level::Minus1),
            (Granule::K4, _) if extended => None,
            (Granule::K4, 0) | (Granule::K16 | Granule::K64, 1) => Some(Level::L2),
            (Granule::K4, 1) => Some(Level::L1),
            (Granule::K4, 2) => (pa_range >= PaRange::Bits44).then_some(Level::L0),
            (Granule::K4, _) | (_, 0) => Some(Level::L3),
            (Granule::K16, 2) => (pa_range >= PaRange::Bits42).then_some(Level::L1),
            (Granule::K16, _) => (self.lpa2() && pa_range >= PaRange::Bits52).then_some(Level::L0),
            (Granule::K64, 2) => (pa_range >= PaRange::Bits44).then_some(Level::L1),
            (Granule::K64, _) => None,
        }
    }
}

impl Format {
    /// The format of stage 2's tables.
    #[must_use]
    pub fn stage2(context: &Context) -> Self {
        let own = &context.stage2;
        Self::with(
            own.granule(),
            own.lpa2(),
            PaRange::from_field(bits(own.vtcr, 16, 3)),
            context.implementation.pa_range,
        )
    }
}

impl Geometry {
    /// The geometry of stage 2, or `None` where VTCR_EL2 is at odds with itself or with the
    /// physical address size, which faults every address.
    #[must_use]
    pub fn stage2(context: &Context) -> Option<Self> {
        let own = &context.stage2;
        let format = Format::stage2(context);
        let pa_range = context.implementation.pa_range;
        let input_bits = 64 - u32::from(bits(own.vtcr, 0, 6).to_le_bytes()[0]);
        let granule = format.granule();
        // An IPA has at most as many bits as the core has physical ones, and 48 without a format
        // for more (`AArch64.S2MinTxSZ`).
        let most = if own.lpa2() || granule == Granule::K64 {
            pa_range.bits()
        } else {
            pa_range.bits().min(48)
        };
        let least = if granule == Granule::K64 { 17 } else { 16 };
        let start = own.start(pa_range)?;
        // The root resolves at least one bit, and at most four more than a table: up to 16 tables
        // concatenated.
        let resolved_below = format.span_shift(start);
        let fits = input_bits > resolved_below
            && input_bits <= resolved_below + granule.stride() + 4
            && (least..=most).contains(&input_bits);
        fits.then(|| Self::with_start(format, input_bits, start))
    }
}

bitflags! {
    /// What stage 2 takes away from a translation.
    #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Stage2Denials: u8 {
        /// S2AP\[0\] is clear: no reads, and so no fetches.
        const READ = 1 << 0;
        /// S2AP\[1\] is clear: no writes.
        const WRITE = 1 << 1;
        /// Not executable at EL1.
        const EXECUTE_EL1 = 1 << 2;
        /// Not executable at EL0.
        const EXECUTE_EL0 = 1 << 3;
        /// Writable, but the first store must be recorded in the descriptor (DBM).
        const CLEAN = 1 << 4;
    }
}

impl Stage2Denials {
    /// What the leaf descriptor `raw` takes away. XN is the two-bit field of FEAT_XNX; software
    /// without it keeps bit 53 zero, and then bit 54 alone counts.
    pub(super) fn new(stage2: &Stage2, raw: u64) -> Self {
        let managed = stage2.hardware_dirty() && raw & LeafBits::DBM.bits() != 0;
        let readable = raw & 1 << 6 != 0;
        let written = raw & STAGE2_WRITE != 0;
        let (el1, el0) = match bits(raw, 53, 2) {
            0b00 => (true, true),
            0b01 => (false, true),
            0b10 => (false, false),
            _ => (true, false),
        };
        let mut denied = Self::empty();
        denied.set(Self::READ, !readable);
        denied.set(Self::WRITE, !written && !managed);
        denied.set(Self::EXECUTE_EL1, !(readable && el1));
        denied.set(Self::EXECUTE_EL0, !(readable && el0));
        denied.set(Self::CLEAN, !written && managed);
        denied
    }

    /// What is left for `privilege`, a clean page counting as writable.
    pub(super) const fn permitted(self, privilege: Privilege) -> Rights {
        let execute = match privilege {
            Privilege::User => Self::EXECUTE_EL0,
            Privilege::Supervisor => Self::EXECUTE_EL1,
        };
        Rights {
            read: !self.contains(Self::READ),
            write: !self.contains(Self::WRITE),
            execute: !self.contains(execute),
        }
    }
}

/// S2AP\[1\]: writable; set by hardware that records dirty state.
pub(super) const STAGE2_WRITE: u64 = 1 << 7;

/// For what an IPA is translated.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// To read or to update a descriptor of stage 1.
    Table(TableUse),
    /// For the access itself.
    Final,
}

/// What stage 1's walker does to a descriptor of its own.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum TableUse {
    /// It reads it.
    Read,
    /// It sets the access flag or dirty state in it.
    Update,
}

impl Use {
    /// Whether memory is written.
    pub(super) const fn writes(self, kind: AccessKind) -> bool {
        match self {
            Self::Table(how) => matches!(how, TableUse::Update),
            Self::Final => kind.is_write(),
        }
    }

    /// Whether `denied` lets it happen.
    pub(super) const fn passes(
        self,
        denied: Stage2Denials,
        kind: AccessKind,
        privilege: Privilege,
    ) -> bool {
        let rights = denied.permitted(privilege);
        match self {
            Self::Table(TableUse::Read) => rights.read,
            Self::Table(TableUse::Update) => rights.read && rights.write,
            Self::Final => super::permission::includes(rights, kind),
        }
    }
}

/// Whether a table of stage 1 must not lie where the stage 2 leaf `raw` leads: Device memory,
/// with HCR_EL2.PTW.
pub(super) const fn table_refused(stage2: &Stage2, raw: u64) -> bool {
    let device = if stage2.forces_write_back() {
        bits(raw, 4, 1) == 0
    } else {
        bits(raw, 4, 2) == 0
    };
    stage2.protects_walks() && device
}

/// Shareability of the leaf `raw`: from VTCR_EL2 where its SH bits hold address bits.
const fn shareability(stage2: &Stage2, raw: u64) -> Shareability {
    if stage2.lpa2() && !matches!(stage2.granule(), Granule::K64) {
        Tcr::new(stage2.vtcr).shareability(Half::Lower)
    } else {
        Shareability::from_field(bits(raw, 8, 2))
    }
}

/// The memory type and shareability of both stages together; `raw` is stage 2's leaf.
pub(super) fn combined_memory(
    stage2: &Stage2,
    raw: u64,
    first: (MemoryType, Shareability),
) -> (MemoryType, Shareability) {
    let field = bits(raw, 2, 4);
    let memory = if stage2.forces_write_back() {
        forced(first.0, field & 7)
    } else {
        weakest(first.0, field)
    };
    // What is not cacheable is shared by everyone.
    if memory.is_device() || memory.raw() == NORMAL_NC || memory.raw() == NORMAL_NC_NO_XS {
        return (memory, Shareability::Outer);
    }
    let both = [first.1, shareability(stage2, raw)];
    let shared = if both.contains(&Shareability::Outer) {
        Shareability::Outer
    } else if both.contains(&Shareability::Inner) {
        Shareability::Inner
    } else {
        Shareability::Non
    };
    (memory, shared)
}

const NORMAL_NC: u8 = 0x44;
/// Non-cacheable with the XS attribute 0.
const NORMAL_NC_NO_XS: u8 = 0x40;
/// Write-through with the XS attribute 0.
const NORMAL_WT_NO_XS: u8 = 0xa0;
const NORMAL_WB: u8 = 0xff;
/// Write-back, and allocation tags are accessible.
const NORMAL_TAGGED: u8 = 0xf0;

/// The weaker of both types: Device over Normal, the stricter Device type, the less cacheable
/// Normal type; allocation hints are stage 1's.
fn weakest(first: MemoryType, field: u64) -> MemoryType {
    let [second, ..] = field.to_le_bytes();
    match (first.is_device(), second >> 2 == 0) {
        (true, true) => MemoryType::new((first.raw() & 0b1100).min((second & 3) << 2)),
        (true, false) => first,
        (false, true) => MemoryType::new((second & 3) << 2),
        (false, false) => normal(first.raw(), second),
    }
}

/// Two Normal types: the byte of stage 1 and the two fields of stage 2 (01 NC, 10 WT, 11 WB; the
/// reserved 00 counts as NC).
fn normal(first: u8, second: u8) -> MemoryType {
    let (outer, inner) = (second >> 2, second & 3);
    let byte = match first {
        NORMAL_TAGGED if outer == 3 && inner == 3 => NORMAL_TAGGED,
        NORMAL_TAGGED => weaker(15, outer) << 4 | weaker(15, inner),
        NORMAL_WT_NO_XS if outer >= 2 && inner >= 2 => NORMAL_WT_NO_XS,
        NORMAL_WT_NO_XS | NORMAL_NC_NO_XS => NORMAL_NC_NO_XS,
        _ => weaker(first >> 4, outer) << 4 | weaker(first & 15, inner),
    };
    MemoryType::new(byte)
}

/// One cacheability nibble of MAIR as stage 2 weakens it: NC is 0100, and bit 2 tells write-back
/// from write-through elsewhere.
const fn weaker(nibble: u8, second: u8) -> u8 {
    match (nibble, second) {
        (0b0100, _) | (_, 0 | 1) => 0b0100,
        // Write-through is x0RW; 00RW with RW = 0 is Device and cannot come from 01RW, whose RW
        // is not 0.
        (_, 2) => nibble & 0b1011,
        _ => nibble,
    }
}

/// With FWB: 0xx Device, 101 Normal non-cacheable unless Device, 110 write-back, 111 stage 1's
/// (the reserved 100 counts so too).
fn forced(first: MemoryType, field: u64) -> MemoryType {
    match field {
        0..=3 => weakest(first, field),
        5 if !first.is_device() => MemoryType::new(NORMAL_NC),
        6 if first.is_device() || first.raw() == NORMAL_NC => MemoryType::new(NORMAL_WB),
        6 => MemoryType::new(write_back(first.raw())),
        _ => first,
    }
}

/// The write-back type with the allocation hints of a Normal type.
const fn write_back(first: u8) -> u8 {
    match first {
        NORMAL_TAGGED => NORMAL_TAGGED,
        NORMAL_NC_NO_XS | NORMAL_WT_NO_XS => NORMAL_WB,
        _ => {
            let outer = if first >> 4 == 4 { 15 } else { first >> 4 | 4 };
            let inner = if first & 15 == 4 { 15 } else { first & 15 | 4 };
            outer << 4 | inner
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Device beats Normal, the stricter beats the laxer, and hints are stage 1's.
    #[test]
    fn memory_types_combine_to_the_weaker() {
        for (first, field, combined) in [
            (0xff, 0b1111, 0xff),
            (0xff, 0b1010, 0xbb),
            (0xff, 0b0101, 0x44),
            (0xff, 0b1101, 0xf4),
            (0x77, 0b1111, 0x77),
            (0x77, 0b1010, 0x33),
            (0xbb, 0b1111, 0xbb),
            (0x44, 0b1111, 0x44),
            (0xf0, 0b1111, 0xf0),
            (0xf0, 0b1110, 0xfb),
            (0xa0, 0b1111, 0xa0),
            (0xa0, 0b0111, 0x40),
            (0xff, 0b0000, 0x00),
            (0xff, 0b0010, 0x08),
            (0x0c, 0b1111, 0x0c),
            (0x0c, 0b0001, 0x04),
            (0x04, 0b0011, 0x04),
        ] {
            let both = weakest(MemoryType::new(first), field);
            assert_eq!(both.raw(), combined, "{first:#x} {field:#06b}");
        }
    }

    #[test]
    fn forced_write_back_overrides_stage_1() {
        for (first, field, combined) in [
            (0x00, 6, 0xff),
            (0x44, 6, 0xff),
            (0xbb, 6, 0xff),
            (0x77, 6, 0x77),
            (0x00, 7, 0x00),
            (0xbb, 7, 0xbb),
            (0xff, 5, 0x44),
            (0x04, 5, 0x04),
            (0xff, 1, 0x04),
            (0x00, 3, 0x00),
        ] {
            let both = forced(MemoryType::new(first), field);
            assert_eq!(both.raw(), combined, "{first:#x} {field:#05b}");
        }
    }

    #[test]
    fn starts_sizes_and_concatenation_must_agree() {
        let of = |vtcr: u64, pa_range| {
            let mut context = Context::default();
            context.stage2.vtcr = vtcr;
            context.implementation.pa_range = pa_range;
            Geometry::stage2(&context).map(|it| (it.start(), it.root_entries()))
        };
        let (b40, b48, b52) = (PaRange::Bits40, PaRange::Bits48, PaRange::Bits52);
        let sl = |sl0: u64| sl0 << 6;
        let (k64, k16, ds, sl2) = (1 << 14, 2 << 14, 1 << 32, 1_u64 << 33);
        for (vtcr, pa_range, expected) in [
            // 40 bits of IPA from level 1: two tables concatenated.
            (24 | sl(1), b40, Some((Level::L1, 1024))),
            // 43 bits: the full 16; 44 are too many.
            (21 | sl(1), b48, Some((Level::L1, 8192))),
            (20 | sl(1), b48, None),
            // From level 0 only with 44 physical bits or more, and never with fewer input bits
            // than the levels below resolve.
            (20 | sl(2), b48, Some((Level::L0, 32))),
            (24 | sl(2), b40, None),
            (25 | sl(2), b48, None),
            // No IPA wider than the core's physical addresses.
            (16 | sl(2), b48, Some((Level::L0, 512))),
            (21 | sl(1), b40, None),
            // Level 3 (FEAT_TTST), level -1 (DS and SL2), reserved combinations.
            (43 | sl(3), b48, Some((Level::L3, 512))),
            (12 | sl2 | ds, b52, Some((Level::Minus1, 16))),
            (12 | sl2 | ds | sl(1), b52, None),
            (12 | sl(2) | ds, b52, Some((Level::L0, 8192))),
            (24 | sl(1) | k16, b40, Some((Level::L2, 32768))),
            (16 | sl(2) | k16, b48, Some((Level::L1, 4096))),
            (16 | sl(3) | k16, b48, None),
            (12 | sl(3) | k16 | ds, b52, Some((Level::L0, 32))),
            (24 | sl(1) | k64, b40, Some((Level::L2, 2048))),
            (16 | sl(2) | k64, b48, Some((Level::L1, 64))),
            (16 | sl(3) | k64, b48, None),
        ] {
            assert_eq!(of(vtcr, pa_range), expected, "{vtcr:#x} {pa_range:?}");
        }
    }
}
