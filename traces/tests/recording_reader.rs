//! The recordings reader against real files, damaged files and arbitrary bytes.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::PathBuf;

use mmuscope_models::addr::{Level, Pa, Va};
use mmuscope_traces::recording::{Event, Isa, Maintenance, Reader, Recording, SystemInstruction};
use mmuscope_traces::{Format, ReadError};
use proptest::prelude::*;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/linux")
        .join(format!("{name}.trc.zst"))
}

fn unpacked(name: &str) -> Vec<u8> {
    zstd::decode_all(fs::File::open(path(name)).unwrap()).unwrap()
}

fn reader(bytes: &[u8]) -> Result<Reader<&[u8]>, ReadError> {
    Recording::reader(bytes)
}

/// Reads to the end; the error that ended it, if one did, and the records before it.
fn drain<R: std::io::BufRead>(reader: Reader<R>) -> (usize, Option<ReadError>) {
    let mut count = 0;
    for record in reader {
        match record {
            Ok(_) => count += 1,
            Err(error) => return (count, Some(error)),
        }
    }
    (count, None)
}

fn record(kind: u8, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    bytes[0] = kind;
    fill(&mut bytes);
    bytes
}

fn file(arch: &str, records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("MMTRC001arch={arch} trace handmade").into_bytes();
    bytes.resize(256, 0);
    bytes.extend(records.iter().flatten());
    bytes
}

fn first_error(arch: &str, record: Vec<u8>) -> String {
    let bytes = file(arch, &[record]);
    let (_, error) = drain(reader(&bytes).unwrap());
    error.unwrap().to_string()
}

#[test]
fn every_record_of_a_real_recording_is_understood() {
    let name = "arm64-6.12-n1-64K.mprotect16";
    let reader = mmuscope_traces::open::<Recording>(&path(name)).unwrap();
    assert_eq!(reader.header().isa, Isa::Aarch64);
    assert_eq!(reader.header().case(), Some("mprotect"));
    assert_eq!(reader.header().parameter("pages"), Some("16"));

    let mut kinds = BTreeMap::new();
    let mut first_tlbi = None;
    for record in reader {
        let event = record.unwrap().event;
        let kind = match event {
            Event::Exec { .. } => "exec",
            Event::Load(_) => "load",
            Event::Store(_) => "store",
            Event::Tlbi(maintenance) => {
                first_tlbi.get_or_insert(maintenance);
                "tlbi"
            }
            Event::Context { .. } => "context",
            Event::Barrier(_) => "barrier",
            Event::Ipi(_) => "ipi",
            Event::Table(_) => "table",
        };
        *kinds.entry(kind).or_insert(0) += 1;
    }
    // Counted by an independent script over the same file.
    let expected = [
        ("barrier", 9),
        ("context", 3),
        ("exec", 2299),
        ("load", 910),
        ("store", 617),
        ("table", 153),
        ("tlbi", 51),
    ];
    assert_eq!(kinds, BTreeMap::from(expected));
    // VALE1IS of page 0x1000000 under ASID 2.
    let vale1is = SystemInstruction {
        op1: 0,
        crn: 8,
        crm: 3,
        op2: 5,
    };
    assert_eq!(
        first_tlbi,
        Some(Maintenance::Tlbi {
            instruction: vale1is,
            operand: 0x0002_0000_0100_0000
        })
    );
}

#[test]
fn all_recordings_read_to_their_end() {
    let mut files = 0;
    for entry in fs::read_dir(path("x").parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "zst") {
            let reader = mmuscope_traces::open::<Recording>(&path).unwrap();
            let (count, error) = drain(reader);
            assert!(error.is_none(), "{}: {error:?}", path.display());
            assert!(count > 1000, "{}: {count} records", path.display());
            files += 1;
        }
    }
    assert!(files >= 11, "only {files} recordings found");
}

#[test]
fn fields_land_where_they_belong() {
    let store = record(3, |b| {
        b[1] = 1;
        b[2] = 3;
        b[3] = 4;
        b[8..16].copy_from_slice(&0xffff_0000_0123_4568_u64.to_le_bytes());
        b[16..24].copy_from_slice(&0x8000_0000_4123_4568_u64.to_le_bytes());
        b[24..32].copy_from_slice(&0xdead_beef_u64.to_le_bytes());
    });
    let bytes = file("arm64", &[store]);
    let mut reader = reader(&bytes).unwrap();
    let record = reader.next().unwrap().unwrap();
    assert_eq!(record.cpu, 1);
    let Event::Store(store) = record.event else {
        panic!("{record:?}");
    };
    assert_eq!(store.va, Va::new(0xffff_0000_0123_4568));
    assert_eq!(store.pa, Pa::new(0x4123_4568));
    assert!(store.device);
    assert_eq!(store.size, 8);
    assert_eq!(store.table, Some(Level::L3));
    assert_eq!(store.value, 0xdead_beef);
    assert_eq!(reader.position(), 288);
    assert!(reader.next().is_none());
}

#[test]
fn a_wrong_file_is_named_as_such() {
    let message = |bytes: &[u8]| reader(bytes).unwrap_err().to_string();
    assert_eq!(
        message(b""),
        "not a MMTRC001 recording file: it begins with nothing (it is empty)"
    );
    assert_eq!(
        message(b"\x7fELF\x02\x01\x01\0 and more"),
        "not a MMTRC001 recording file: it begins with \"\\x7fELF\\x02\\x01\\x01\\x00\""
    );
    assert_eq!(
        message(b"MMTRC001arch=arm64"),
        "truncated header at byte 0: 18 of 256 bytes"
    );
}

#[test]
fn damage_is_reported_with_its_place() {
    assert_eq!(
        first_error("arm64", record(9, |_| ())),
        "unknown record type 9 at byte 256"
    );
    assert_eq!(
        first_error("arm64", vec![1; 31]),
        "truncated record at byte 256: 31 of 32 bytes"
    );
    assert_eq!(
        first_error("arm64", record(10, |b| b[5] = 0x10)),
        "truncated table record at byte 256: 32 of 4128 bytes"
    );
    assert_eq!(
        first_error("arm64", record(10, |b| b[5] = 0x20)),
        "table length 0x2000 is not allowed in the record at byte 256"
    );
    assert_eq!(
        first_error("arm64", record(2, |b| b[2] = 7)),
        "access size 0x7 is not allowed in the record at byte 256"
    );
    assert_eq!(
        first_error("x86_64", record(4, |b| b[4] = 3)),
        "maintenance code 0x3 is not allowed in the record at byte 256"
    );
    assert_eq!(
        first_error("x86_64", record(5, |b| b[2] = 0)),
        "register number 0x0 is not allowed in the record at byte 256"
    );
}

#[test]
fn reading_stops_at_the_first_damaged_record() {
    let good = record(7, |_| ());
    let bytes = file("arm64", &[good.clone(), record(77, |_| ()), good]);
    let mut reader = reader(&bytes).unwrap();
    assert!(reader.next().unwrap().is_ok());
    assert!(reader.next().unwrap().is_err());
    assert!(reader.next().is_none());
}

#[test]
fn a_cut_zstd_frame_is_an_error_not_an_end() {
    let packed = fs::read(path("amd64-6.12-max-never.mprotect16")).unwrap();
    let cut = &packed[..packed.len() / 2];
    let reader = mmuscope_traces::read::<Recording, _>(cut).unwrap();
    let (_, error) = drain(reader);
    assert!(matches!(error, Some(ReadError::Io { .. })), "{error:?}");
}

proptest! {
    /// Arbitrary bytes where the records should be.
    #[test]
    fn arbitrary_records_never_panic(tail in proptest::collection::vec(any::<u8>(), 0..9000)) {
        let mut bytes = file("arm64", &[]);
        bytes.extend(tail);
        drain(reader(&bytes).unwrap());
    }

    /// A real recording with some bytes replaced, read plain and compressed.
    #[test]
    fn mutated_recordings_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        keep in any::<prop::sample::Index>(),
    ) {
        let mut bytes = Vec::new();
        let packed = fs::File::open(path("arm64-6.12-n1-64K.mprotect16")).unwrap();
        zstd::Decoder::new(packed).unwrap().take(60_000).read_to_end(&mut bytes).unwrap();
        bytes.truncate(keep.index(bytes.len()));
        let packed = zstd::encode_all(&bytes[..], 1).unwrap();
        for mut copy in [bytes, packed] {
            if copy.is_empty() {
                continue;
            }
            for (place, value) in &changes {
                let place = place.index(copy.len());
                copy[place] = *value;
            }
            if let Ok(reader) = mmuscope_traces::read::<Recording, _>(&copy[..]) {
                drain(reader);
            }
        }
    }
}

/// The position of an error is that of the record, wherever the file is cut.
#[test]
fn cutting_a_recording_anywhere_names_the_cut() {
    let whole = unpacked("arm64-6.12-n1-64K.mprotect16");
    for cut in (257..20_000).step_by(97) {
        let (_, error) = drain(reader(&whole[..cut]).unwrap());
        match error {
            None => {}
            Some(ReadError::Truncated { at, got, .. }) => {
                assert_eq!(at + got as u64, cut as u64);
            }
            Some(other) => panic!("cut at {cut}: {other}"),
        }
    }
}
