//! ELF core files with physical segments: QEMU's `dump-guest-memory`, kdump's vmcore.

use goblin::container::{Container, Ctx, Endian};
use goblin::elf::header::{EM_AARCH64, EM_X86_64, Header};
use goblin::elf::program_header::{PT_LOAD, PT_NOTE, ProgramHeader};

use super::image::Segment;
use super::registers::{ArchName, Given};

/// Where CR0 lies in QEMU's note: version and size, 18 general registers, 10 segment registers
/// of 24 bytes (QEMU, `target/i386/arch_dump.c`, QEMUCPUState).
const QEMU_CR: usize = 8 + 18 * 8 + 10 * 24;
/// Where RFLAGS lies.
const QEMU_RFLAGS: usize = 8 + 17 * 8;

/// The segments by physical address, and what the notes say about registers.
pub(super) fn parse(bytes: &[u8]) -> Result<(Vec<Segment>, Given), String> {
    let header: Header = goblin::elf::Elf::parse_header(bytes)
        .map_err(|it| format!("its header is broken: {it}"))?;
    let class = header.e_ident[4];
    if class != 2 || header.e_ident[5] != 1 {
        return Err(
            "not a 64-bit little-endian one: expected a core of a 64-bit machine".to_owned(),
        );
    }
    let arch = match header.e_machine {
        EM_AARCH64 => ArchName::Aarch64,
        EM_X86_64 => ArchName::X86_64,
        other => {
            return Err(format!(
                "of machine {other}: expected AArch64 (183) or x86-64 (62)"
            ));
        }
    };
    let start = usize::try_from(header.e_phoff).map_err(|it| it.to_string())?;
    let context = Ctx::new(Container::Big, Endian::Little);
    let headers = ProgramHeader::parse(bytes, start, usize::from(header.e_phnum), context)
        .map_err(|it| format!("its program headers are broken: {it}"))?;
    let mut given = Given {
        arch: Some(arch),
        ..Given::default()
    };
    let mut segments = Vec::new();
    for it in &headers {
        let end = it.p_offset.checked_add(it.p_filesz);
        if end.is_none_or(|end| end > bytes.len() as u64) {
            return Err(format!(
                "cut short: a segment of {:#x} bytes at offset {:#x} ends after the file's {:#x} bytes",
                it.p_filesz,
                it.p_offset,
                bytes.len()
            ));
        }
        match it.p_type {
            PT_LOAD if it.p_filesz > 0 => segments.push(Segment {
                pa: it.p_paddr,
                offset: it.p_offset,
                length: it.p_filesz,
            }),
            PT_NOTE => notes(slice(bytes, it.p_offset, it.p_filesz), arch, &mut given),
            _ => {}
        }
    }
    if segments.is_empty() {
        return Err(
            "it holds no memory: expected PT_LOAD segments with physical addresses".to_owned(),
        );
    }
    Ok((segments, given))
}

fn slice(bytes: &[u8], offset: u64, length: u64) -> &[u8] {
    let range = usize::try_from(offset)
        .ok()
        .zip(usize::try_from(length).ok());
    range
        .and_then(|(from, length)| bytes.get(from..from.checked_add(length)?))
        .unwrap_or(&[])
}

/// Notes: three words (name length, content length, type), name and content padded to 4 bytes.
fn notes(mut bytes: &[u8], arch: ArchName, given: &mut Given) {
    while let Some((lengths, rest)) = bytes.split_at_checked(12) {
        let word = |at: usize| {
            u32::from_le_bytes([
                lengths[at],
                lengths[at + 1],
                lengths[at + 2],
                lengths[at + 3],
            ]) as usize
        };
        let (name_length, content_length) = (word(0), word(4));
        let Some((name, rest)) = rest.split_at_checked(name_length.next_multiple_of(4)) else {
            return;
        };
        let Some(content) = rest.get(..content_length) else {
            return;
        };
        let name = name.get(..name_length).unwrap_or(&[]);
        if name.starts_with(b"QEMU") && arch == ArchName::X86_64 {
            qemu_state(content, given);
        } else if name.starts_with(b"VMCOREINFO") && arch == ArchName::Aarch64 {
            vmcoreinfo(&String::from_utf8_lossy(content), given);
        }
        bytes = rest
            .get(content_length.next_multiple_of(4)..)
            .unwrap_or(&[]);
    }
}

/// The first CPU's control registers; later notes are other CPUs'.
fn qemu_state(content: &[u8], given: &mut Given) {
    let word = |at: usize| {
        let bytes = content.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    if given.cr3.is_some() {
        return;
    }
    given.cr0 = word(QEMU_CR);
    given.cr3 = word(QEMU_CR + 3 * 8);
    given.cr4 = word(QEMU_CR + 4 * 8);
    given.ac = word(QEMU_RFLAGS).map(|it| it >> 18 & 1 == 1);
}

/// The kernel's root and the size of its half, from what Linux writes for crash tools.
fn vmcoreinfo(text: &str, given: &mut Given) {
    let value = |key: &str| {
        let line = text
            .lines()
            .find_map(|it| it.strip_prefix(key)?.strip_prefix('='))?;
        let line = line.trim();
        match line.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None if key.starts_with("SYMBOL") => u64::from_str_radix(line, 16).ok(),
            None => line.parse().ok(),
        }
    };
    if let (Some(root), Some(offset)) = (
        value("SYMBOL(swapper_pg_dir)"),
        value("NUMBER(kimage_voffset)"),
    ) {
        given.ttbr1 = Some(root.wrapping_sub(offset));
    }
    let granule = match value("PAGESIZE") {
        Some(16384) => 1,
        Some(65536) => 3,
        _ => 2,
    };
    if let Some(size) = value("NUMBER(TCR_EL1_T1SZ)") {
        // T1SZ and TG1 as noted, 48-bit output addresses, and no walk of the user half, about
        // which the notes say nothing (EPD0).
        given.tcr = Some((size & 63) << 16 | granule << 30 | 5 << 32 | 1 << 7 | 16);
    }
}
