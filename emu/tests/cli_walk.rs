//! `walk`, `esr`, `pf` and `tlbi`: what they say about known values, and what they refuse.

use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

fn mmuscope(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmuscope"));
    let output = command.args(arguments).output().unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[track_caller]
fn says(arguments: &[&str]) -> String {
    let (code, out, error) = mmuscope(arguments);
    assert_eq!(code, 0, "{arguments:?}: {error}");
    out
}

#[track_caller]
fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&says(&[arguments, &["--json"]].concat())).unwrap()
}

#[track_caller]
fn refused(arguments: &[&str], parts: &[&str]) {
    let (code, out, error) = mmuscope(arguments);
    assert_eq!(code, 2, "{arguments:?}: {error}");
    assert!(out.is_empty());
    assert_eq!(error.lines().count(), 1, "{error}");
    for part in parts {
        assert!(error.contains(part), "`{part}` is not in: {error}");
    }
}

/// A folder and a file in it with `bytes`.
fn file(bytes: &[u8]) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("memory.bin");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// Four tables and a page: tables at 0x1000 to 0x4000 beyond `base`, for address 0x1234_5678_9000.
fn tables(base: u64, table: u64, leaf: u64) -> Vec<u8> {
    let mut bytes = vec![0; 0x5000];
    let va: u64 = 0x1234_5678_9000;
    for (level, shift) in [39, 30, 21, 12].into_iter().enumerate() {
        let at = 0x1000 * (level + 1) + usize::try_from(va >> shift & 511).unwrap() * 8;
        let next = base + 0x1000 * (level as u64 + 2);
        let word = if shift == 12 { leaf } else { next | table };
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// An ELF core of `machine` with one segment of `memory` at `pa`, and a note of `content`.
fn core(machine: u16, pa: u64, memory: &[u8], owner: &str, content: &[u8]) -> Vec<u8> {
    let mut note = Vec::new();
    for word in [owner.len() + 1, content.len(), 0] {
        note.extend(u32::try_from(word).unwrap().to_le_bytes());
    }
    let padded = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    note.extend(padded(&[owner.as_bytes(), &[0]].concat()));
    note.extend(padded(content));
    let mut out = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    out.extend(4_u16.to_le_bytes());
    out.extend(machine.to_le_bytes());
    out.extend(1_u32.to_le_bytes());
    for word in [0_u64, 64, 0] {
        out.extend(word.to_le_bytes());
    }
    out.extend(0_u32.to_le_bytes());
    for half in [64_u16, 56, 2, 0, 0, 0] {
        out.extend(half.to_le_bytes());
    }
    let data = 64 + 2 * 56;
    let note_length = note.len() as u64;
    for (kind, offset, pa, length) in [
        (4_u32, data, 0, note_length),
        (1, data + note_length, pa, memory.len() as u64),
    ] {
        out.extend(kind.to_le_bytes());
        out.extend(0_u32.to_le_bytes());
        for word in [offset, 0, pa, length, length, 0] {
            out.extend(word.to_le_bytes());
        }
    }
    out.extend(note);
    out.extend(memory);
    out
}

/// QEMU's CPU state note.
fn qemu_note(cr3: u64) -> Vec<u8> {
    let mut note = vec![0; 440];
    for (at, value) in [(392, 0x8001_0001_u64), (416, cr3), (424, 0xa0)] {
        note[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    note
}

const TCR: &str = "0x500000010"; // T0SZ 16, 4K, 48-bit output

#[test]
fn a_raw_image_is_walked_on_aarch64() {
    let (_folder, path) = file(&tables(0x4000_0000, 3, 0xabcd_e403 | 1 << 6 | 1 << 53));
    let path = path.to_str().unwrap();
    let arguments = [
        "walk",
        "0x123456789abc",
        "--image",
        path,
        "--base",
        "0x40000000",
        "--arch",
        "aarch64",
    ];
    let registers = ["--ttbr0", "0x40001000", "--tcr", TCR];
    let it = json(&[&arguments[..], &registers].concat());
    assert_eq!(it["steps"].as_array().unwrap().len(), 4);
    assert_eq!(it["steps"][3]["index"], 0x189);
    let outcomes = it["outcomes"].as_array().unwrap();
    assert_eq!(outcomes[0]["pa"], 0xabcd_eabc_u64);
    // Writable at EL0, so never executable at EL1; PXN says so too.
    assert_eq!(outcomes[5]["fault"], "permission fault, level 3");
    assert_eq!(
        outcomes[5]["reported"],
        "ESR_EL1 = 0x8600000f, FAR_EL1 = 0x123456789abc"
    );
    let text = says(&[&arguments[..], &registers].concat());
    assert!(
        text.contains("level 3 table: address bits 20:12 = 393 -> 0x0000000040004c48"),
        "{text}"
    );
    refused(&arguments, &["TCR_EL1", "--tcr"]);
    refused(
        &[&arguments[..], &["--tcr", TCR]].concat(),
        &["TTBR0_EL1", "--ttbr0"],
    );
    refused(
        &[&arguments[..], &["--cr3", "0"]].concat(),
        &["--cr3", "aarch64"],
    );
    let outside = ["--ttbr0", "0x80001000", "--tcr", TCR];
    refused(
        &[&arguments[..], &outside].concat(),
        &["memory.bin", "0x80001120", "0x40000000 to 0x40004fff"],
    );
}

#[test]
fn an_elf_core_brings_its_registers() {
    let memory = tables(0x10_0000, 7, 0xabcd_e067);
    let (_folder, path) = file(&core(62, 0x10_0000, &memory, "QEMU", &qemu_note(0x10_1000)));
    let path = path.to_str().unwrap();
    let it = json(&["walk", "0x123456789abc", "--image", path]);
    assert_eq!(it["arch"], "x86_64");
    assert_eq!(it["steps"][0]["index_high"], 47);
    assert_eq!(it["assumed"], serde_json::json!(["EFER = 0xd01"]));
    assert_eq!(it["outcomes"][1]["pa"], 0xabcd_eabc_u64);
    // The next page has no entry.
    let it = json(&["walk", "0x12345678aabc", "--image", path]);
    assert_eq!(
        it["outcomes"][1]["reported"],
        "vector 14, error code 0x6, CR2 = 0x12345678aabc"
    );
    refused(
        &["walk", "0", "--image", path, "--arch", "aarch64"],
        &["memory.bin", "x86_64"],
    );
    refused(
        &["walk", "0", "--image", path, "--base", "0"],
        &["--base", "ELF"],
    );
}

#[test]
fn a_kernels_root_is_found_in_vmcoreinfo() {
    let text = "PAGESIZE=4096\nSYMBOL(swapper_pg_dir)=ffff800081001000\n\
                NUMBER(kimage_voffset)=0xffff800041000000\nNUMBER(TCR_EL1_T1SZ)=0x10\n";
    let memory = tables(0x4000_0000, 3, 0xabcd_e403);
    let (_folder, path) = file(&core(
        183,
        0x4000_0000,
        &memory,
        "VMCOREINFO",
        text.as_bytes(),
    ));
    let it = json(&[
        "walk",
        "0xffff123456789abc",
        "--image",
        path.to_str().unwrap(),
    ]);
    assert_eq!(it["outcomes"][3]["pa"], 0xabcd_eabc_u64);
    refused(
        &["walk", "0x1000", "--image", path.to_str().unwrap()],
        &["TTBR0_EL1"],
    );
}

#[test]
fn images_that_cannot_be_used_are_refused() {
    refused(
        &["walk", "0", "--image", "no-such"],
        &["no-such", "No such file"],
    );
    let refuses = |bytes: &[u8], parts: &[&str]| {
        let (_folder, path) = file(bytes);
        refused(&["walk", "0", "--image", path.to_str().unwrap()], parts);
    };
    refuses(b"", &["memory.bin", "empty"]);
    refuses(b"plain", &["--arch"]);
    refuses(b"KDUMP   \x06", &["kdump-compressed", "ELF"]);
    refuses(b"makedumpfile\0\0", &["flattened"]);
    refuses(b"MMTRC001", &["header"]);
    let whole = core(62, 0, &[0; 64], "QEMU", &qemu_note(0));
    for length in [5, 63, 100, 300, whole.len() - 1] {
        refuses(&whole[..length], &["memory.bin"]);
    }
}

/// A recording of a real kernel: the address of its first user store is walked at that moment.
#[test]
fn a_recording_is_walked_at_a_moment() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../traces/tests/data/linux/arm64-6.12-n1-64K.mprotect16.trc.zst"
    );
    let it = mmuscope_traces::open::<mmuscope_traces::recording::Recording>(path.as_ref()).unwrap();
    let mut found = None;
    for (index, record) in it.enumerate() {
        if let mmuscope_traces::recording::Event::Load(load) = record.unwrap().event
            && load.va.raw() >> 55 == 0
        {
            found = Some((index, load.va.raw(), load.pa.raw()));
            break;
        }
    }
    let (at, va, pa) = found.unwrap();
    let (at, va) = (at.to_string(), format!("{va:#x}"));
    let it = json(&["walk", &va, "--image", path, "--at", &at]);
    assert_eq!(it["outcomes"][3]["pa"], pa, "{it}");
    refused(
        &["walk", &va, "--image", path, "--at", "99999999"],
        &["--at", "records"],
    );
}

#[test]
fn syndromes_are_explained() {
    assert_eq!(
        says(&["esr", "0x9600004f"]).lines().next().unwrap(),
        "0x9600004f  data abort from the same exception level: write, permission fault, level 3"
    );
    assert!(says(&["pf", "0x7"]).contains("user write"));
    assert_eq!(json(&["esr", "0xf2000800"])["fields"][0]["value"], 0x3c);
    refused(&["esr", "0x1_zz"], &["0x9600004f"]);
    refused(&["pf", "0x100000000"], &["32 bits"]);
}

#[test]
fn invalidations_are_explained_and_made() {
    let text = says(&[
        "tlbi",
        "vale1is",
        "--va",
        "0xffff0000",
        "--asid",
        "7",
        "--level",
        "3",
    ]);
    assert!(
        text.starts_with("0xd50883a0  tlbi vale1is, x0\n  Xt = 0x00077000000ffff0\n"),
        "{text}"
    );
    let back = says(&["tlbi", "0xd50883a0", "0x00077000000ffff0"]);
    assert_eq!(text, back);
    let range = json(&[
        "tlbi",
        "rvae1is",
        "--va",
        "0x7f0000000000",
        "--length",
        "2M",
        "--asid",
        "7",
    ]);
    assert_eq!(range.as_array().unwrap().len(), 1);
    refused(&["tlbi", "0xd503201f"], &["no TLBI"]);
    refused(&["tlbi", "vaes"], &["vaes", "mnemonic"]);
    refused(&["tlbi", "vae1is", "--va", "0x1000"], &["--asid"]);
    refused(&["tlbi", "vmalle1is", "--asid", "3"], &["takes no ASID"]);
}
