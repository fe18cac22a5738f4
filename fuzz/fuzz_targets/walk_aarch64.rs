//! The AArch64 walker over arbitrary registers and memory: it ends within a bound of reads, and its
//! address is within what the implementation has.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use mmuscope_fuzz::{AnyAccess, Behaviour, Words};
use mmuscope_models::aarch64::{Aarch64, Context, Implementation, PaRange};
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
    access: AnyAccess,
    behaviour: Behaviour,
    words: Vec<u64>,
}

/// One descriptor a level, with at most eight tries for each that is updated.
const MOST_READS: usize = Level::COUNT * 8;

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
