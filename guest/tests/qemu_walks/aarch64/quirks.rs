//! Known deviations of QEMU 7.2 from the architecture.
//!
//! Most are stated as another question: QEMU answers as the architecture would if registers or
//! descriptors were different. So a deviation explains exactly one answer, and anything else about
//! the same request still counts as unexplained.

use mmuscope_models::aarch64::{Fault, FaultKind, Format, PaRange, Tcr};
use mmuscope_models::access::AccessKind;
use mmuscope_models::addr::{Granule, Level};

use super::expect::{Expected, shareability_field};
use super::mailbox::Outcome;
use super::question::Question;

/// A deviation.
pub struct Quirk {
    /// The manual's rule, and what QEMU does.
    pub rule: &'static str,
    /// The question that QEMU answers; `None` if it is the one that was asked.
    pub instead: fn(&Question) -> Option<Question>,
}

/// A deviation in how a walk is reported.
pub struct AnswerQuirk {
    /// The manual's rule, and what QEMU does.
    pub rule: &'static str,
    /// QEMU's answer, where the architecture's is the one expected; `None` if they are the same.
    pub instead: fn(&Question, &Expected) -> Option<Outcome>,
}

/// The deviations in what is looked at, applied in this order.
pub const QUIRKS: &[Quirk] = &[
    Quirk {
        rule: "TTBR_EL1.BADDR: with DS=1 bits 5:2 are address bits 51:48 whatever IPS says; \
               QEMU takes them as zero if IPS is below 52 bits",
        instead: narrow_base,
    },
    Quirk {
        rule: "descriptors: address bits 51:48 (15:12 with 64K and FEAT_LPA, 9:8 with DS=1) count \
               whatever IPS says; QEMU ignores them if IPS is below 52 bits",
        instead: narrow_descriptors,
    },
    Quirk {
        rule: "a DBM leaf counts as writable for every access (AP[2] is taken as clear), so what EL0 \
               can dirty EL1 cannot execute, and WXN applies; QEMU looks at DBM for stores only",
        instead: clean_for_fetches,
    },
];

fn clean_for_fetches(question: &Question) -> Option<Question> {
    let fetch = question.access().kind == AccessKind::Fetch;
    (fetch && Tcr::new(question.registers.tcr).hardware_dirty()).then(|| {
        let mut seen = *question;
        seen.registers.tcr &= !HD;
        seen
    })
}

/// TCR_EL1.HD.
const HD: u64 = 1 << 40;

fn narrow_base(question: &Question) -> Option<Question> {
    let registers = &question.registers;
    let tcr = Tcr::new(registers.tcr);
    let bits = 0b1111 << 2;
    let applies = tcr.lpa2()
        && tcr.output_size() < PaRange::Bits52
        && (registers.ttbr0 | registers.ttbr1) & bits != 0;
    applies.then(|| {
        let mut seen = *question;
        seen.registers.ttbr0 &= !bits;
        seen.registers.ttbr1 &= !bits;
        seen
    })
}

fn narrow_descriptors(question: &Question) -> Option<Question> {
    let tcr = Tcr::new(question.registers.tcr);
    if tcr.output_size() >= PaRange::Bits52 {
        return None;
    }
    let unseen = match tcr.granule(question.half()) {
        Granule::K64 => 0b1111 << 12,
        Granule::K4 | Granule::K16 if tcr.lpa2() => 0b11 << 8,
        Granule::K4 | Granule::K16 => return None,
    };
    Some(Question {
        unseen,
        ..*question
    })
}

/// The deviations in what is answered, applied in this order.
pub const ANSWER_QUIRKS: &[AnswerQuirk] = &[
    AnswerQuirk {
        rule: "block descriptors: address bits below the block's size are RES0; QEMU takes an \
               Address size fault if they lie above the output size",
        instead: address_size_of_res0,
    },
    AnswerQuirk {
        rule: "PAR_EL1.SH: 0b10 for Device and Non-cacheable memory; QEMU gives the field of the \
               descriptor",
        instead: shareability_of_device,
    },
];

/// Whether DS=1 has effect: descriptors hold address bits at 49:48 and 9:8.
fn wide_in_place(question: &Question) -> bool {
    let tcr = Tcr::new(question.registers.tcr);
    tcr.lpa2() && tcr.granule(question.half()) != Granule::K64
}

fn address_size_of_res0(question: &Question, expected: &Expected) -> Option<Outcome> {
    let last = expected.read.last()?;
    if last.level == Level::L3 || last.raw & 0b11 != 0b01 {
        return None;
    }
    let format = Format::new(&question.context(), question.half());
    let top = if wide_in_place(question) { 50 } else { 48 };
    let field = last.raw & ((1 << top) - (1 << format.granule().shift()));
    let fault = Fault::new(FaultKind::AddressSize, last.level);
    (field >> format.output_bits() != 0).then(|| question.faulted(fault))
}

fn shareability_of_device(question: &Question, expected: &Expected) -> Option<Outcome> {
    let Outcome::Par(par) = expected.outcome else {
        return None;
    };
    let field = match expected.read.last() {
        _ if par & 1 != 0 => return None,
        None => 0,
        Some(_) if wide_in_place(question) => shareability_field(expected.leaf?.attrs.shareability),
        Some(last) => last.raw >> 8 & 0b11,
    };
    Some(Outcome::Par(par & !(0b11 << 7) | field << 7))
}

/// Of address translation instructions that change a descriptor as a store would.
pub const DIRTY_BY_AT: &str = "address translation instructions record no dirty state (D8.5); \
    QEMU clears AP[2] as for a store";

/// The rule of [`accepts_block`].
pub const BLOCK_WHERE_NONE: &str = "block descriptors at a level that has no blocks give a \
    Translation fault; QEMU takes them as blocks";

/// Whether `outcome` is what comes of taking as a block what is none at its level.
pub fn accepts_block(question: &Question, expected: &Expected, outcome: Outcome) -> bool {
    let (Some(last), Outcome::Par(par)) = (expected.read.last(), outcome) else {
        return false;
    };
    let format = Format::new(&question.context(), question.half());
    let refused = last.raw & 0b11 == 0b01
        && last.level != Level::L3
        && format.leaf_size(last.level).is_none()
        && expected.fault == Some(Fault::new(FaultKind::Translation, last.level));
    if !refused {
        return false;
    }
    let fault = |kind| outcome == question.faulted(Fault::new(kind, last.level));
    let block = 1_u64
        .checked_shl(format.span_shift(last.level))
        .unwrap_or(0)
        .wrapping_sub(1);
    let pages = (1 << 48) - (1 << 12);
    let same_page = (par ^ last.raw & !block ^ question.va & block) & pages == 0;
    fault(FaultKind::AccessFlag) || fault(FaultKind::Permission) || par & 1 == 0 && same_page
}
