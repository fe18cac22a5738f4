//! What the emulated processor has, and what a question makes use of.

use mmuscope_models::aarch64::{Geometry, LeafBits, Sctlr, Tcr};
use mmuscope_models::addr::{Granule, Level};

use super::expect::Expected;
use super::mailbox::{Identity, Op};
use super::question::Question;
use crate::tally::Tally;

/// Optional features, out of the identification registers.
#[derive(Copy, Clone, Debug)]
pub struct Features {
    /// FEAT_LPA2 for the 4K and 16K granules.
    pub lpa2: bool,
    /// FEAT_HAFDBS: hardware sets the access flag.
    pub access_flag: bool,
    /// FEAT_HAFDBS: hardware records dirty state.
    pub dirty: bool,
    /// FEAT_E0PD.
    pub e0pd: bool,
    /// FEAT_PAN3: SCTLR_EL1.EPAN.
    pub epan: bool,
}

impl Features {
    /// The features of the processor that `identity` describes.
    pub fn new(identity: &Identity) -> Self {
        let field = |register: u64, low: u32| register >> low & 0xf;
        Self {
            lpa2: field(identity.mmfr0, 28) == 1 && field(identity.mmfr0, 20) == 2,
            access_flag: field(identity.mmfr1, 0) >= 1,
            dirty: field(identity.mmfr1, 0) >= 2,
            e0pd: field(identity.mmfr2, 60) >= 1,
            epan: field(identity.mmfr1, 20) >= 3,
        }
    }
}

/// What a run must have covered for the processor's features to count as compared.
pub const REQUIRED: &[&str] = &[
    "address translation instructions",
    "accesses at EL1",
    "accesses at EL0",
    "fetches at EL1",
    "fetches at EL0",
    "unprivileged accesses at EL1",
    "4K granule",
    "16K granule",
    "64K granule",
    "root at level 0",
    "root at level 1",
    "root at level 2",
    "root at level 3",
    "small root (TxSZ above 39)",
    "52-bit output, 64K granule",
    "big-endian tables",
    "hierarchical permissions",
    "hierarchical permissions off (HPD)",
    "WXN",
    "PAN",
    "tagged addresses",
    "contiguous bit",
    "EPD",
    "MMU off",
];

/// Counts what `question` made use of.
pub fn cover(question: &Question, expected: &Expected, tally: &mut Tally) {
    let context = question.context();
    let (tcr, sctlr) = (Tcr::new(context.tcr), Sctlr::new(context.sctlr));
    if !sctlr.mmu_on() {
        return tally.cover("MMU off");
    }
    let half = question.half();
    if tcr.walk_disabled(half) {
        tally.cover("EPD");
    }
    if question.el0() && tcr.el0_disabled(half) {
        tally.cover("E0PD");
    }
    let (Some(geometry), Some(last)) = (Geometry::new(&context, half), expected.read.last()) else {
        return;
    };
    let tables = &expected.read[..expected.read.len() - 1];
    let hierarchy = tables.iter().any(|table| table.raw >> 59 & 0xf != 0);
    let leaf = LeafBits::from_bits_truncate(last.raw);
    let wide = geometry.format().output_bits() == 52;
    let granule = tcr.granule(half);
    let lpa2 = tcr.lpa2() && granule != Granule::K64;
    for (covered, feature) in [
        (sctlr.big_endian(), "big-endian tables"),
        (
            hierarchy && !tcr.hierarchy_disabled(half),
            "hierarchical permissions",
        ),
        (
            hierarchy && tcr.hierarchy_disabled(half),
            "hierarchical permissions off (HPD)",
        ),
        (sctlr.write_implies_xn(), "WXN"),
        (sctlr.enhanced_pan() && context.pan, "PAN with EPAN"),
        (context.pan, "PAN"),
        (tcr.top_byte_ignored(half, false), "tagged addresses"),
        (tcr.size_offset(half) > 39, "small root (TxSZ above 39)"),
        (tcr.size_offset(half) < 16, "input above 48 bits"),
        (lpa2, "52-bit descriptors with 4K and 16K (DS)"),
        (
            wide && granule == Granule::K64,
            "52-bit output, 64K granule",
        ),
        (
            expected.leaf.is_some_and(|leaf| leaf.group.is_some()),
            "contiguous bit",
        ),
        (
            tcr.hardware_access() && !leaf.contains(LeafBits::AF),
            "hardware access flag",
        ),
        (
            tcr.hardware_dirty() && leaf.contains(LeafBits::DBM),
            "hardware dirty state",
        ),
    ] {
        if covered {
            tally.cover(feature);
        }
    }
    tally.cover(match question.op {
        Op::El1Fetch => "fetches at EL1",
        Op::El0Fetch => "fetches at EL0",
        Op::El1Load | Op::El1Store => "accesses at EL1",
        Op::El0Load | Op::El0Store => "accesses at EL0",
        Op::Ldtr | Op::Sttr => "unprivileged accesses at EL1",
        Op::LdtrUao | Op::SttrUao => "unprivileged accesses at EL1 with UAO",
        _ => "address translation instructions",
    });
    tally.cover(match granule {
        Granule::K4 => "4K granule",
        Granule::K16 => "16K granule",
        Granule::K64 => "64K granule",
    });
    tally.cover(match geometry.start() {
        Level::Minus1 => "root at level -1",
        Level::L0 => "root at level 0",
        Level::L1 => "root at level 1",
        Level::L2 => "root at level 2",
        Level::L3 => "root at level 3",
    });
}
