//! Decoders of invalidations and of syndromes over arbitrary words and operands.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use mmuscope_models::aarch64::{self, Aarch64, Tlbi, TlbiForm};
use mmuscope_models::addr::Va;
use mmuscope_models::arch::{Arch, Footprint};
use mmuscope_models::explain;
use mmuscope_models::x86::{self, Flush, Invlpgb, X86_64};

#[derive(Debug, Arbitrary)]
struct Input {
    word: u32,
    kind: u8,
    operands: [u64; 3],
    registers: [u32; 2],
    most: u16,
}

fn in_order(footprint: Footprint) -> bool {
    match footprint {
        Footprint::Everywhere => true,
        Footprint::Addresses { first, last } => first.raw() <= last.raw(),
    }
}

fuzz_target!(|input: Input| {
    let [a, b, c] = input.operands;
    // The word as it is, and with the fixed bits of TLBI.
    for word in [input.word, 0xd508_8000 | input.word & 0x0047_1fff] {
        if let Some((Ok(form), _)) = TlbiForm::from_instruction(word) {
            let context = aarch64::Context {
                tcr: a,
                ..aarch64::Context::default()
            };
            if let Ok(op) = Tlbi::new(form, b, &context) {
                assert!(in_order(Aarch64::footprint(&op)), "{op}");
            }
        }
    }
    let context = x86::Context {
        cr3: a,
        cr4: b,
        ..x86::Context::default()
    };
    let flushes = [
        Flush::invpcid(&context, input.kind.into(), [b, c]).ok(),
        Invlpgb::decode(
            &context,
            c,
            input.registers[0],
            input.registers[1],
            input.most,
        )
        .ok()
        .map(Flush::Broadcast),
        Some(Flush::invlpg(&context, Va::new(c))),
    ];
    for flush in flushes.into_iter().flatten() {
        assert!(in_order(X86_64::footprint(&flush)), "{flush}");
    }
    let _ = explain::esr(a);
    let _ = explain::page_fault(input.word, Some(a));
});
