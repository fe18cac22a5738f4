//! Properties of the decoders of maintenance operations over arbitrary words and operands.

use mmuscope_models::aarch64::{self, Aarch64, Tlbi, TlbiForm};
use mmuscope_models::addr::Va;
use mmuscope_models::arch::{Arch, Footprint};
use mmuscope_models::x86::{self, Flush, X86_64};
use proptest::prelude::*;

/// Addresses that an operation concerns come in order.
fn in_order(footprint: Footprint) -> bool {
    match footprint {
        Footprint::Everywhere => true,
        Footprint::Addresses { first, last } => first.raw() <= last.raw(),
    }
}

/// SYS and SYSP words in TLBI's space, or any word.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        1 => any::<u32>(),
        9 => (any::<u32>(), any::<bool>(), 8..10_u32).prop_map(|(raw, pair, crn)| {
            0xd508_0000 | u32::from(pair) << 22 | raw & 0x0007_0fff | crn << 12
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16_384))]

    /// What decodes has the encoding that it was decoded from, and a bounded operand.
    #[test]
    fn tlbi_words_decode_to_themselves(word in word(), xt in any::<u64>(), tcr in any::<u64>()) {
        let Some((Ok(form), register)) = TlbiForm::from_instruction(word) else {
            return Ok(());
        };
        prop_assert_eq!(u32::from(register), word & 31);
        let encoding = form.encoding().unwrap();
        prop_assert_eq!(u32::from(encoding.op1), word >> 16 & 7);
        prop_assert_eq!(u32::from(encoding.crn), word >> 12 & 15);
        prop_assert_eq!(u32::from(encoding.crm), word >> 8 & 15);
        prop_assert_eq!(u32::from(encoding.op2), word >> 5 & 7);
        let context = aarch64::Context { tcr, ..aarch64::Context::default() };
        if let Ok(op) = Tlbi::new(form, xt, &context) {
            prop_assert_eq!(op.form(), form);
            prop_assert!(in_order(Aarch64::footprint(&op)), "{}", op);
            // (NUM + 1) * 2^(5 * SCALE + 1) with NUM below 32 and SCALE below 4.
            prop_assert!(op.pages().is_none_or(|pages| (2..=1 << 21).contains(&pages)));
        }
    }

    /// INVPCID raises #GP for every reserved bit and type, and else concerns addresses in order.
    #[test]
    fn invpcid_operands_decode(
        kind in prop_oneof![4 => 0..6_u64, 1 => any::<u64>()],
        low in prop_oneof![4 => 0..4096_u64, 1 => any::<u64>()],
        address in any::<u64>(),
        cr4 in any::<u64>(),
    ) {
        let context = x86::Context { cr4, ..x86::Context::default() };
        match Flush::invpcid(&context, kind, [low, address]) {
            Ok(op) => {
                prop_assert!(kind < 4 && low < 4096);
                prop_assert!(in_order(X86_64::footprint(&op)), "{}", op);
            }
            Err(_) => prop_assert!(kind > 3 || low > 4095 || kind < 2),
        }
        let op = Flush::invlpg(&context, Va::new(address));
        prop_assert!(in_order(X86_64::footprint(&op)), "{}", op);
    }
}
