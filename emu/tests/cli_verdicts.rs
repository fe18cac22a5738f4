//! How a guest's end becomes a row of the report and an exit code, shown with guests of a few
//! instructions that are put together here.

use std::fs;

use assert_cmd::Command;
use tempfile::TempDir;

/// Where the guest is loaded and starts.
const BASE: u32 = 0x20_0000;
/// File offset of the code: behind the ELF header and one program header.
const CODE: usize = 64 + 56;
/// File offset of the message.
const MESSAGE: usize = 0xc0;

const EXIT: u8 = 0;
const PANIC: u8 = 6;
const UNSAFE: u8 = 7;

/// x86 code of the hypercall `number` with two arguments.
fn hypercall(number: u8, first: u32, second: u32) -> Vec<u8> {
    let mut code = vec![0xbf]; // mov edi, first
    code.extend(first.to_le_bytes());
    code.push(0xbe); // mov esi, second
    code.extend(second.to_le_bytes());
    code.extend([0x66, 0xba, number, 0x4d]); // mov dx, 0x4d00 + number
    code.push(0xee); // out dx, al
    code
}

/// An x86 guest that runs `code`; `message` lies behind it.
fn elf(code: &[u8], message: &str) -> Vec<u8> {
    let mut file = vec![0; MESSAGE];
    file[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    file[16] = 2; // ET_EXEC
    file[18] = 62; // EM_X86_64
    file[20] = 1;
    let entry = u64::from(BASE) + CODE as u64;
    file[24..32].copy_from_slice(&entry.to_le_bytes());
    file[32] = 64; // e_phoff
    file[52] = 64; // e_ehsize
    file[54] = 56; // e_phentsize
    file[56] = 1; // e_phnum
    file[64] = 1; // PT_LOAD
    file[68] = 7; // PF_R | PF_W | PF_X
    let size = (MESSAGE + message.len()) as u64;
    for (at, field) in [
        (80, u64::from(BASE)),
        (88, u64::from(BASE)),
        (96, size),
        (104, size),
    ] {
        file[at..at + 8].copy_from_slice(&field.to_le_bytes());
    }
    file[CODE..CODE + code.len()].copy_from_slice(code);
    file.extend(message.as_bytes());
    file
}

/// Runs the guest; its exit code and what it printed.
fn run(code: &[u8], message: &str) -> (Option<i32>, String) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("tiny.elf");
    fs::write(&path, elf(code, message)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmuscope"));
    let output = command
        .args([
            "run",
            path.to_str().unwrap(),
            "ram=16M",
            "--on",
            "skylake-sp",
        ])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    (output.status.code(), text)
}

fn message_at() -> u32 {
    BASE + u32::try_from(MESSAGE).unwrap()
}

#[test]
fn a_guest_that_ends_well_is_fine() {
    let (code, text) = run(&hypercall(EXIT, 0, 0), "");
    assert_eq!(code, Some(0), "{text}");
    // The whole run is reported, since this guest marks no region: four instructions.
    let row = text.lines().rfind(|it| it.starts_with("tiny.elf")).unwrap();
    assert_eq!(row.split_whitespace().nth(4), Some("4"), "{text}");
}

#[test]
fn a_guest_that_lost_data_is_unsafe_whatever_it_ends_with() {
    let message = "page 5 reads 0x0";
    let length = u32::try_from(message.len()).unwrap();
    for end in [0, 3] {
        let said = hypercall(UNSAFE, message_at(), length);
        let (code, text) = run(&[said, hypercall(EXIT, end, 0)].concat(), message);
        assert_eq!(code, Some(3), "{text}");
        assert!(text.contains("UNSAFE"), "{text}");
        assert!(text.contains("is UNSAFE: page 5 reads 0x0"), "{text}");
    }
}

#[test]
fn a_guest_that_panics_or_ends_badly_has_failed() {
    let message = "no such level";
    let length = u32::try_from(message.len()).unwrap();
    let (code, text) = run(&hypercall(PANIC, message_at(), length), message);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("FAILED: the guest panicked: no such level"),
        "{text}"
    );
    let (code, text) = run(&hypercall(EXIT, 9, 0), "");
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("FAILED: the guest ended with code 9"),
        "{text}"
    );
}
