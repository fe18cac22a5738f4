//! Every TLBI and TLBIP encoding against a list of instruction words and their disassembly.
//!
//! `data/tlbi-encodings.tsv` has one instruction a line: its bytes in memory order, its word, and
//! its text. Between them the lines hold every form.

use std::collections::BTreeSet;

use mmuscope_models::aarch64::{
    Asid, Context, LeafHint, RegimeLevel, Tlbi, TlbiForm, TlbiKind, TlbiOp, UnknownTlbi,
};
use mmuscope_models::addr::{Granule, Level, Va};
use mmuscope_models::arch::Reach;

struct Row {
    word: u32,
    text: &'static str,
}

fn rows() -> impl Iterator<Item = Row> {
    include_str!("data/tlbi-encodings.tsv").lines().map(|line| {
        let mut fields = line.split('\t');
        let bytes = fields.next().unwrap();
        let word = fields.next().unwrap().strip_prefix("0x").unwrap();
        let word = u32::from_str_radix(word, 16).unwrap();
        assert_eq!(u32::from_str_radix(bytes, 16).unwrap().swap_bytes(), word);
        Row {
            word,
            text: fields.next().unwrap(),
        }
    })
}

/// The operands as an assembler writes them: a register, a pair for TLBIP, none.
fn operands(form: &TlbiForm, register: u8) -> String {
    let name = |number: u8| match number {
        31 => "xzr".to_owned(),
        number => format!("x{number}"),
    };
    // A pair starting at xzr is xzr twice.
    let second = if register == 31 { 31 } else { register + 1 };
    match (form.takes_operand(), form.pair) {
        (false, _) => String::new(),
        (true, false) => format!(", {}", name(register)),
        (true, true) => format!(", {}, {}", name(register), name(second)),
    }
}

#[test]
fn every_listed_word_disassembles_to_its_text() {
    for Row { word, text } in rows() {
        let (form, register) = TlbiForm::from_instruction(word).unwrap();
        let form = form.unwrap_or_else(|error| panic!("{word:#x} {text}: {error}"));
        assert_eq!(format!("{form}{}", operands(&form, register)), text);
    }
}

#[test]
fn encodings_and_mnemonics_invert() {
    for Row { word, text } in rows() {
        let (form, register) = TlbiForm::from_instruction(word).unwrap();
        let form = form.unwrap();
        let encoding = form.encoding().unwrap();
        let base: u32 = if form.pair { 0xd548_0000 } else { 0xd508_0000 };
        let rebuilt = base
            | u32::from(encoding.op1) << 16
            | u32::from(encoding.crn) << 12
            | u32::from(encoding.crm) << 8
            | u32::from(encoding.op2) << 5
            | u32::from(register);
        assert_eq!(rebuilt, word, "{text}");
        assert_eq!(form.to_string().to_uppercase().parse(), Ok(form));
    }
}

#[test]
fn no_form_exists_that_the_list_does_not_hold() {
    let listed: BTreeSet<_> = rows()
        .map(|row| row.text.split(',').next().unwrap().to_owned())
        .collect();
    let known: BTreeSet<_> = TlbiForm::all().map(|(form, _)| form.to_string()).collect();
    assert_eq!(known, listed);
    assert_eq!(
        TlbiForm::all().count(),
        known.len(),
        "two encodings share a name"
    );
}

#[test]
fn other_instruction_words_are_no_tlbi() {
    // nop, dsb ish, isb, ic iallu, dc civac x0, at s1e1r x0, msr ttbr0_el1 x0
    for word in [
        0xd503_201f,
        0xd503_3b9f,
        0xd503_3fdf,
        0xd508_751f,
        0xd50b_7e20,
        0xd508_7800,
        0xd518_2000,
    ] {
        assert_eq!(TlbiForm::from_instruction(word), None, "{word:#x}");
    }
    // CRn 8, but op2 4 of EL1's space is not allocated.
    let (form, _) = TlbiForm::from_instruction(0xd508_8780).unwrap();
    assert_eq!(
        form.unwrap_err().to_string(),
        "#0, C8, C7, #4 is no allocated TLBI encoding"
    );
}

#[test]
fn executed_forms_keep_their_form_and_others_are_named() {
    let context = Context::default();
    let mut executed = 0;
    for (form, _) in TlbiForm::all() {
        match Tlbi::new(form, 0, &context) {
            Ok(tlbi) => {
                assert_eq!(tlbi.form(), form);
                executed += 1;
            }
            Err(UnknownTlbi::NotExecuted(named)) => {
                assert_eq!(named, form);
                let mnemonic = form.to_string();
                assert!(form.pair || form.regime != RegimeLevel::El1, "{mnemonic}");
            }
            Err(error) => panic!("{error}"),
        }
    }
    // vmalle1, aside1, four address types singly and as ranges; vmalls12e1, alle1, two IPA types
    // singly and as ranges: 16 forms, in three domains, with and without nXS.
    assert_eq!(executed, 16 * 3 * 2);
}

/// TCR_EL1 with 16-bit ASIDs, and with 52-bit addresses in the second.
const WIDE_ASIDS: u64 = 1 << 36;
const DS: u64 = 1 << 59;

fn decode(mnemonic: &str, xt: u64, tcr: u64) -> Tlbi {
    let context = Context {
        tcr,
        ..Context::default()
    };
    Tlbi::new(mnemonic.parse().unwrap(), xt, &context).unwrap()
}

#[test]
fn a_single_address_operand_has_asid_level_hint_and_address() {
    let xt = 0x1234 << 48 | 0b0111 << 44 | 0xff8_0001_2345;
    let tlbi = decode("vale1is", xt, WIDE_ASIDS);
    assert_eq!(
        tlbi.op,
        TlbiOp::Address {
            asid: Some(Asid::new(0x1234)),
            va: Va::new(0xffff_8000_1234_5000),
            last_level: true,
            hint: Some(LeafHint {
                granule: Granule::K4,
                level: Level::L3
            }),
        }
    );
    assert_eq!(tlbi.reach, Reach::InnerShareable);
    assert_eq!((tlbi.kind(), tlbi.pages()), (TlbiKind::Va, None));
}

#[test]
fn eight_bit_asids_drop_the_upper_byte() {
    let xt = 0x1234 << 48;
    assert_eq!(decode("aside1", xt, 0).op, TlbiOp::Asid(Asid::new(0x34)));
    assert_eq!(
        decode("aside1", xt, WIDE_ASIDS).op,
        TlbiOp::Asid(Asid::new(0x1234))
    );
}

#[test]
fn level_hints_of_all_sixteen_values() {
    let hint = |ttl: u64, tcr| match decode("vae1", ttl << 44, tcr).op {
        TlbiOp::Address { hint, .. } => hint.map(|hint| (hint.granule, hint.level)),
        other => panic!("{other:?}"),
    };
    use Granule::{K4, K16, K64};
    use Level::{L0, L1, L2, L3};
    let without_ds = [
        None,
        None,
        None,
        None,
        None,
        Some((K4, L1)),
        Some((K4, L2)),
        Some((K4, L3)),
        None,
        None,
        Some((K16, L2)),
        Some((K16, L3)),
        None,
        Some((K64, L1)),
        Some((K64, L2)),
        Some((K64, L3)),
    ];
    for (ttl, expected) in (0_u64..).zip(without_ds) {
        assert_eq!(hint(ttl, 0), expected, "TTL {ttl:#06b}");
        let with_ds = match ttl {
            0b0100 => Some((K4, L0)),
            0b1001 => Some((K16, L1)),
            _ => expected,
        };
        assert_eq!(hint(ttl, DS), with_ds, "TTL {ttl:#06b} with DS");
    }
}

/// A range operand from its fields.
fn range_operand(tg: u64, scale: u64, num: u64, ttl: u64, base: u64) -> u64 {
    7 << 48 | tg << 46 | scale << 44 | num << 39 | ttl << 37 | base
}

#[test]
fn range_operands_count_pages_of_their_granule() {
    for (tg, granule, shift) in [
        (1, Granule::K4, 12),
        (2, Granule::K16, 14),
        (3, Granule::K64, 16),
    ] {
        for (scale, unit) in [(0, 2), (1, 64), (2, 2048), (3, 65536)] {
            for num in 0..32 {
                let base = 0x12_3456_789a;
                let xt = range_operand(tg, scale, num, 0, base & ((1 << 36) - 1));
                let tlbi = decode("rvae1is", xt, WIDE_ASIDS);
                let expected = (num + 1) * unit;
                assert_eq!(tlbi.pages(), Some(expected));
                assert_eq!(tlbi.kind(), TlbiKind::Range);
                assert_eq!(
                    tlbi.op,
                    TlbiOp::Range {
                        asid: Some(Asid::new(7)),
                        first: Va::new((base & ((1 << 36) - 1)) << shift),
                        pages: expected,
                        granule: Some(granule),
                        last_level: false,
                        level: None,
                    }
                );
            }
        }
    }
}

#[test]
fn range_bases_are_signed_and_count_64k_with_ds() {
    let first = |xt, tcr| match decode("rvaale1", xt, tcr).op {
        TlbiOp::Range {
            first,
            asid,
            last_level,
            ..
        } => {
            assert_eq!((asid, last_level), (None, true));
            first
        }
        other => panic!("{other:?}"),
    };
    let top = 1 << 36;
    assert_eq!(
        first(range_operand(1, 0, 0, 0, top), 0),
        Va::new(0xffff << 48)
    );
    assert_eq!(
        first(range_operand(2, 0, 0, 0, top), 0),
        Va::new(0x3fff << 50)
    );
    assert_eq!(
        first(range_operand(3, 0, 0, 0, top), 0),
        Va::new(0xfff << 52)
    );
    for tg in 1..4 {
        assert_eq!(first(range_operand(tg, 0, 0, 0, 5), DS), Va::new(5 << 16));
    }
}

#[test]
fn printed_operations_say_what_the_operand_says() {
    for (mnemonic, xt, printed) in [
        ("vmalle1os", 5, "tlbi vmalle1os"),
        ("aside1is", 9 << 48, "tlbi aside1is asid 9"),
        (
            "vale1",
            9 << 48 | 0b0110 << 44 | 0x200,
            "tlbi vale1 asid 9 va 0x0000000000200000 L2/4K",
        ),
        (
            "rvaae1isnxs",
            range_operand(1, 1, 0, 3, 0x10),
            "tlbi rvaae1isnxs va 0x0000000000010000 64 pages of 4K L3",
        ),
    ] {
        assert_eq!(decode(mnemonic, xt, WIDE_ASIDS).to_string(), printed);
    }
}
