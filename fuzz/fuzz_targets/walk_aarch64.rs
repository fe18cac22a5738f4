//! The AArch64 walker over arbitrary registers and memory: it ends within a bound of reads, and its
//! address is within what the implementation has.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use mmuscope_fuzz::{AnyAccess, Behaviour, Words};
use mmuscope_models::aarch64::{Aarch64, Context, Implementation, PaRange, Stage2};
use mmuscope_models::addr::{Level, Va};
use mmuscope_models::arch::Arch;
use mmuscope_models::explain;

#[derive(Debug, Arbitrary)]
struct Input {
    sctlr: u64,
    tcr: u64,
    ttbr: [u64; 2],
    mair: u64,
    pan: bool,
    range: u8,
    /// HCR_EL2, VTCR_EL2, VTTBR_EL2, SCTLR_EL2.
    host: [u64; 4],
    access: AnyAccess,
    behaviour: Behaviour,
    words: Vec<u64>,
}

/// One descriptor a level of stage 1, and one a level of stage 2 for each of them, for the update
/// and for the page; at most eight tries, and a read more for each exchange.
const MOST_READS: usize = 8 * 2 * (Level::COUNT + (Level::COUNT + 2) * Level::COUNT);

fuzz_target!(|input: Input| {
    let pa_range = match input.range % 3 {
        0 => PaRange::Bits36,
        1 => PaRange::Bits48,
        _ => PaRange::Bits52,
    };
    let context = Context {
        sctlr: input.sctlr,
        tcr: input.tcr,
        ttbr0: input.ttbr[0],
        ttbr1: input.ttbr[1],
        mair: input.mair,
        pan: input.pan,
        stage2: Stage2 {
            hcr: input.host[0],
            vtcr: input.host[1],
            vttbr: input.host[2],
            sctlr: input.host[3],
        },
        implementation: Implementation {
            pa_range,
            ..Implementation::default()
        },
        ..Context::default()
    };
    let access = input.access.access();
    let mut memory = Words::new(input.words, input.behaviour);
    let result = Aarch64::walk(&context, &access, None, &mut memory, &mut ());
    assert!(memory.reads.get() <= MOST_READS, "{}", memory.reads.get());
    if let Ok(leaf) = result {
        assert!(leaf.pa.raw() >> pa_range.bits() == 0);
        assert!(leaf.va.is_aligned(leaf.size) && leaf.pa.is_aligned(leaf.size));
    }
    // The explaining walk adds words to the same steps.
    let _ = explain::walk::<Aarch64, _>(&context, Va::new(access.va.raw()), &memory);
});
