//! How an address is cut into table indices, and where descriptors keep output addresses.
//!
//! Three granules, 16 to 52 input bits and three address formats come down to the arithmetic
//! here; the walker has no case of its own for any of them. (Arm ARM D8.2; start level and table
//! alignment as the pseudocode `AArch64.S1StartLevel` and `AArch64.S1TTBaseAddress` define.)

use super::Context;
use super::registers::{PaRange, Tcr, bits};
use crate::addr::{Granule, Level, Pa, PageSize, Va};
use crate::arch::Half;

/// Where descriptors and TTBRs hold the output address bits above 47.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum HighBits {
    /// Nowhere: 48-bit output addresses.
    None,
    /// 64K granule with FEAT_LPA: bits 51:48 in descriptor bits 15:12.
    Lpa,
    /// TCR.DS: bits 51:50 in descriptor bits 9:8, bits 49:48 in place.
    Lpa2,
}

/// The descriptor format of one half of the address space: granule and output address layout.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Format {
    granule: Granule,
    high_bits: HighBits,
    output_bits: u32,
    base_is_52_bit: bool,
}

impl Format {
    /// The format that `context` sets up for `half`.
    #[must_use]
    pub fn new(context: &Context, half: Half) -> Self {
        let tcr = Tcr::new(context.tcr);
        Self::with(
            tcr.granule(half),
            tcr.lpa2(),
            tcr.output_size(),
            context.implementation.pa_range,
        )
    }

    /// The format with this granule and this output size, of a core with `pa_range`; `lpa2` is
    /// the DS bit.
    pub(super) fn with(
        granule: Granule,
        lpa2: bool,
        output_size: PaRange,
        pa_range: PaRange,
    ) -> Self {
        let high_bits = match granule {
            Granule::K64 if pa_range == PaRange::Bits52 => HighBits::Lpa,
            Granule::K4 | Granule::K16 if lpa2 => HighBits::Lpa2,
            _ => HighBits::None,
        };
        let widest = match high_bits {
            HighBits::None => 48,
            HighBits::Lpa | HighBits::Lpa2 => 52,
        };
        let size = output_size.min(pa_range);
        let wide_base = match high_bits {
            HighBits::None => false,
            HighBits::Lpa => size == PaRange::Bits52,
            HighBits::Lpa2 => true,
        };
        Self {
            granule,
            high_bits,
            output_bits: size.bits().min(widest),
            base_is_52_bit: wide_base,
        }
    }

    /// The granule.
    #[must_use]
    pub const fn granule(&self) -> Granule {
        self.granule
    }

    /// How many bits an output address may have.
    #[must_use]
    pub const fn output_bits(&self) -> u32 {
        self.output_bits
    }

    /// Whether shareability comes from TCR instead of the leaf (its SH bits hold address bits).
    #[must_use]
    pub(super) const fn shareability_in_tcr(&self) -> bool {
        matches!(self.high_bits, HighBits::Lpa2)
    }

    /// log2 of the bytes that one entry at `level` spans.
    #[must_use]
    pub const fn span_shift(&self, level: Level) -> u32 {
        self.granule.shift() + self.granule.stride() * level.height()
    }

    /// The page or block size of a leaf at `level`, or `None` where leaves are not allowed.
    #[must_use]
    pub fn leaf_size(&self, level: Level) -> Option<PageSize> {
        let wide = !matches!(self.high_bits, HighBits::None);
        let allowed = match (self.granule, level) {
            (_, Level::L3 | Level::L2) | (Granule::K4, Level::L1) => true,
            (Granule::K4, Level::L0) | (Granule::K16 | Granule::K64, Level::L1) => wide,
            _ => false,
        };
        if allowed {
            PageSize::from_shift(self.span_shift(level))
        } else {
            None
        }
    }

    /// The size of a contiguous group at `level`, or `None` where the bit has no effect (Arm ARM
    /// table D8-104; 4K level 0, 16K and 64K level 1 have none).
    #[must_use]
    pub fn group_size(&self, level: Level) -> Option<PageSize> {
        match (self.granule, level) {
            (Granule::K4, Level::L3) => Some(PageSize::Size64K),
            (Granule::K4, Level::L2) => Some(PageSize::Size32M),
            (Granule::K4, Level::L1) | (Granule::K64, Level::L2) => Some(PageSize::Size16G),
            (Granule::K16, Level::L3) | (Granule::K64, Level::L3) => Some(PageSize::Size2M),
            (Granule::K16, Level::L2) => Some(PageSize::Size1G),
            _ => None,
        }
    }

    /// The address that `raw` holds, aligned to `1 << align` bytes. Bits above the output size
    /// may be set: the walker checks them.
    pub(super) const fn output_address(&self, raw: u64, align: u32) -> Pa {
        let low = bits(raw, align, 48 - align) << align;
        Pa::new(match self.high_bits {
            HighBits::None => low,
            HighBits::Lpa => low | bits(raw, 12, 4) << 48,
            HighBits::Lpa2 => low | bits(raw, 48, 2) << 48 | bits(raw, 8, 2) << 50,
        })
    }

    /// Whether `pa` lies beyond the output address size.
    pub(super) const fn exceeds_output_size(&self, pa: Pa) -> bool {
        pa.raw() >> self.output_bits != 0
    }
}

/// The format plus the input size, which decides start level and root table.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    format: Format,
    input_bits: u32,
    start: Level,
}

impl Geometry {
    /// The geometry that `context` sets up for `half`, or `None` if TxSZ is out of range. Of the
    /// behaviours that the architecture permits then, this is the fault.
    #[must_use]
    pub fn new(context: &Context, half: Half) -> Option<Self> {
        let tcr = Tcr::new(context.tcr);
        let format = Format::new(context, half);
        let offset = tcr.size_offset(half);
        let (least, most) = match format.granule {
            Granule::K64 => (12, 47),
            Granule::K4 | Granule::K16 if tcr.lpa2() => (12, 48),
            Granule::K4 | Granule::K16 => (16, 48),
        };
        if offset < least || offset > most {
            return None;
        }
        let input_bits = 64 - offset;
        let below = (input_bits - 1 - format.granule.shift()) / format.granule.stride();
        let start = match below {
            0 => Level::L3,
            1 => Level::L2,
            2 => Level::L1,
            3 => Level::L0,
            _ => Level::Minus1,
        };
        Some(Self {
            format,
            input_bits,
            start,
        })
    }

    /// The geometry with this input size and start level, which the caller has found to agree.
    pub(super) const fn with_start(format: Format, input_bits: u32, start: Level) -> Self {
        Self {
            format,
            input_bits,
            start,
        }
    }

    /// The descriptor format.
    #[must_use]
    pub const fn format(&self) -> &Format {
        &self.format
    }

    /// How many bits an input address has.
    #[must_use]
    pub const fn input_bits(&self) -> u32 {
        self.input_bits
    }

    /// The level of the root table.
    #[must_use]
    pub const fn start(&self) -> Level {
        self.start
    }

    /// How many entries the root table has: fewer than a full table if the input size does not
    /// use all bits of its level.
    #[must_use]
    pub const fn root_entries(&self) -> u64 {
        1 << (self.input_bits - self.format.span_shift(self.start))
    }

    /// The root table that a TTBR names: aligned down to the table's size, and to 64 bytes in
    /// the 52-bit form, where bits 5:2 are address bits 51:48.
    #[must_use]
    pub const fn root_base(&self, ttbr: u64) -> Pa {
        let size_log2 = self.root_entries().trailing_zeros() + 3;
        if self.format.base_is_52_bit {
            let align = if size_log2 < 6 { 6 } else { size_log2 };
            Pa::new(bits(ttbr, align, 48 - align) << align | bits(ttbr, 2, 4) << 48)
        } else {
            Pa::new(bits(ttbr, size_log2, 48 - size_log2) << size_log2)
        }
    }

    /// Where the entry for `va` lies in a table at `level` that starts at `base`.
    pub(super) const fn entry_address(&self, base: Pa, level: Level, va: Va) -> Pa {
        let low = self.format.span_shift(level);
        let width = if level as i8 == self.start as i8 {
            self.input_bits - low
        } else {
            self.format.granule.stride()
        };
        // A caller's table pointer may name a level above the start level, whose index bits
        // reach past bit 63.
        let index = if low >= 64 {
            0
        } else {
            bits(va.raw(), low, width)
        };
        base.wrapping_add(index * 8)
    }

    /// Whether `va` has bits outside the input range, from bit `top` (55 or 63) down.
    pub(super) const fn out_of_range(&self, half: Half, va: Va, top: u32) -> bool {
        let low = self.input_bits;
        let field = va.raw() << (63 - top) >> (63 - top) >> low;
        match half {
            Half::Lower => field != 0,
            Half::Upper => field != (1 << (top + 1 - low)) - 1,
        }
    }
}
