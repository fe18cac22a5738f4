//! Every form, and ranges against the decoder of the models.

use super::*;
use crate::aarch64::{Context, Tlbi, TlbiOp};

fn request() -> Request {
    Request {
        address: None,
        bytes: 0,
        asid: None,
        granule: Granule::K4,
        level: None,
        lpa2: false,
    }
}

fn form(text: &str) -> TlbiForm {
    text.parse().unwrap()
}

#[test]
fn every_form_is_explained_and_assembles_to_its_word() {
    let mut count = 0;
    for (form, encoding) in TlbiForm::all() {
        let word = instruction(encoding, form.pair, 5);
        let (decoded, register) = TlbiForm::from_instruction(word).unwrap();
        assert_eq!((decoded, register), (Ok(form), 5));
        for operand in [(0, 0), (u64::MAX, u64::MAX), (0x1234_5678_9abc_def0, 7)] {
            let it = explain(&form, Some(operand), false);
            assert_eq!(it.fields.is_empty(), !form.takes_operand(), "{form}");
        }
        count += 1;
    }
    assert_eq!(count, TlbiForm::all().count());
    assert!(count > 200, "{count}");
}

/// What is encoded is what the models decode, for every page of the range exactly once.
#[test]
fn ranges_are_covered_exactly() {
    let context = Context {
        tcr: 1 << 36,
        ..Context::default()
    };
    for granule in [Granule::K4, Granule::K16, Granule::K64] {
        for pages in [1_u64, 2, 3, 63, 64, 65, 1000, 4097, 1 << 20, 5_000_000] {
            let base = 0xffff_8000_0000_0000;
            let bytes = pages << granule.shift();
            let request = Request {
                address: Some(base),
                bytes,
                asid: Some(7),
                granule,
                ..request()
            };
            let mut next = base;
            for it in encode(&form("rvae1is"), &request).unwrap() {
                let tlbi = Tlbi::new(it.form, it.operand.0, &context).unwrap();
                let (first, count) = match tlbi.op {
                    TlbiOp::Range {
                        first,
                        pages,
                        asid: Some(asid),
                        ..
                    } if asid.raw() == 7 => (first, pages),
                    TlbiOp::Address {
                        va,
                        asid: Some(asid),
                        ..
                    } if asid.raw() == 7 => (va, 1),
                    other => panic!("{other:?}"),
                };
                assert_eq!(first.raw(), next);
                next += count << granule.shift();
            }
            assert_eq!(next, base + bytes, "{granule:?} {pages}");
        }
    }
}

#[test]
fn a_request_must_suit_the_form() {
    let asid = Request {
        asid: Some(1),
        ..request()
    };
    assert!(encode(&form("vmalle1is"), &asid).is_err());
    assert!(encode(&form("vae1is"), &asid).is_err(), "no address");
    let address = Request {
        address: Some(0x1000),
        ..request()
    };
    assert!(encode(&form("vae1is"), &address).is_err(), "no ASID");
    assert!(
        encode(
            &form("vaae1is"),
            &Request {
                bytes: 8192,
                ..address
            }
        )
        .is_err()
    );
    assert!(
        encode(
            &form("vaae1is"),
            &Request {
                address: Some(1 << 60),
                ..request()
            }
        )
        .is_err()
    );
    assert!(
        encode(
            &form("rvaae1is"),
            &Request {
                bytes: 100,
                ..address
            }
        )
        .is_err()
    );
}
