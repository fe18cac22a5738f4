//! From an ELF file to a loaded guest: segments into RAM, and the boot-information page.
//!
//! A guest is a static 64-bit ELF. `p_paddr` says where a segment goes, `p_vaddr` where it runs
//! once the guest has turned its MMU on, and the entry point is a physical address. The layout of
//! the boot-information page is documented in `docs/guest-abi.md`.

use std::fmt;

use goblin::elf::header::{EI_CLASS, EI_DATA, ELFCLASS64, ELFDATA2LSB, EM_AARCH64, EM_X86_64};
use goblin::elf::program_header::{PF_X, PT_LOAD};
use goblin::elf::{Elf, ProgramHeader};
use mmuscope_models::addr::{Pa, PageSize, Va};
use thiserror::Error;

use crate::ram::Ram;

/// The instruction sets a guest can be built for.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum GuestArch {
    /// AArch64.
    Aarch64,
    /// x86-64.
    X86_64,
}

impl GuestArch {
    /// The name that profiles use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64",
            Self::X86_64 => "x86_64",
        }
    }
}

impl fmt::Display for GuestArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A file that is not a guest.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Not an ELF file at all, or one whose headers are broken.
    #[error("not a readable ELF file ({found} bytes): {reason}")]
    NotElf {
        /// Size of the file in bytes.
        found: usize,
        /// What the parser said.
        reason: String,
    },
    /// The identification bytes name another class or byte order.
    #[error("ELF identification: found {found}, expected a 64-bit little-endian file")]
    Class {
        /// What the file is.
        found: &'static str,
    },
    /// Built for a machine that is not modelled.
    #[error(
        "ELF header: found machine {found}, expected {EM_AARCH64} (AArch64) or {EM_X86_64} (x86-64)"
    )]
    Machine {
        /// `e_machine`.
        found: u16,
    },
    /// No segment to load.
    #[error("ELF program headers: found no PT_LOAD segment, expected at least one")]
    Empty,
    /// A segment whose bytes are not all in the file.
    #[error(
        "ELF segment {index}: file bytes {first:#x}..{end:#x}, but the file ends at {size:#x} (truncated?)"
    )]
    Truncated {
        /// Index of the program header.
        index: usize,
        /// First file offset.
        first: u64,
        /// One past the last file offset.
        end: u64,
        /// Size of the file.
        size: usize,
    },
    /// A segment that is larger in the file than in memory.
    #[error("ELF segment {index}: {file} bytes in the file, but {memory} in memory")]
    Oversized {
        /// Index of the program header.
        index: usize,
        /// `p_filesz`.
        file: u64,
        /// `p_memsz`.
        memory: u64,
    },
    /// A segment outside of guest RAM.
    #[error(
        "ELF segment {index}: physical {first}..{end:#x} is not in guest RAM {base}..{limit:#x}; \
         give the machine more RAM or link the guest inside it"
    )]
    OutsideRam {
        /// Index of the program header.
        index: usize,
        /// First physical address.
        first: Pa,
        /// One past the last.
        end: u64,
        /// First address of RAM.
        base: Pa,
        /// One past the last address of RAM.
        limit: u64,
    },
    /// The entry point lies in no loaded segment.
    #[error("ELF entry point {entry}: not inside any loaded segment (it is a physical address)")]
    Entry {
        /// `e_entry`.
        entry: Pa,
    },
    /// A parameter that the boot-information page cannot hold.
    #[error(
        "parameter {key}={text}: at most {MAX_PARAMS} parameters, key under {KEY_BYTES} and text under {TEXT_BYTES} bytes"
    )]
    Parameter {
        /// Its key.
        key: String,
        /// Its text.
        text: String,
    },
}

/// A stretch of executable bytes, at the address where it runs after boot and where it lies.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct CodeRange<'a> {
    /// Where it runs with the MMU on.
    pub va: Va,
    /// Where it lies.
    pub pa: Pa,
    /// The code.
    pub code: &'a [u8],
}

/// A parsed guest.
#[derive(Debug)]
pub struct GuestImage<'a> {
    bytes: &'a [u8],
    arch: GuestArch,
    entry: Pa,
    segments: Vec<(usize, ProgramHeader)>,
    symbols: Vec<Symbol>,
}

/// A function or object of the guest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Its first address.
    pub va: Va,
    /// Its size in bytes; 0 if the file does not say.
    pub size: u64,
    /// Its name.
    pub name: String,
}

impl<'a> GuestImage<'a> {
    /// Parses an ELF file.
    ///
    /// # Errors
    /// When it is not a complete static 64-bit ELF for a modelled machine.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, LoadError> {
        check_identification(bytes)?;
        let elf = Elf::parse(bytes).map_err(|error| LoadError::NotElf {
            found: bytes.len(),
            reason: error.to_string(),
        })?;
        let arch = match elf.header.e_machine {
            EM_AARCH64 => GuestArch::Aarch64,
            EM_X86_64 => GuestArch::X86_64,
            found => return Err(LoadError::Machine { found }),
        };
        let segments: Vec<_> = elf
            .program_headers
            .iter()
            .enumerate()
            .filter(|(_, header)| header.p_type == PT_LOAD && header.p_memsz > 0)
            .map(|(index, header)| (index, header.clone()))
            .collect();
        if segments.is_empty() {
            return Err(LoadError::Empty);
        }
        for (index, header) in &segments {
            check_file_bytes(*index, header, bytes.len())?;
        }
        let entry = Pa::new(elf.header.e_entry);
        let inside =
            |header: &ProgramHeader| entry.raw().wrapping_sub(header.p_paddr) < header.p_memsz;
        if !segments.iter().any(|(_, header)| inside(header)) {
            return Err(LoadError::Entry { entry });
        }
        Ok(Self {
            bytes,
            arch,
            entry,
            segments,
            symbols: symbols(&elf),
        })
    }

    /// What it was built for.
    #[must_use]
    pub fn arch(&self) -> GuestArch {
        self.arch
    }

    /// The physical address of its first instruction.
    #[must_use]
    pub fn entry(&self) -> Pa {
        self.entry
    }

    /// Its named functions and objects, in order of address.
    #[must_use]
    pub fn symbols(&self) -> &[Symbol] {
        &self.symbols
    }

    /// Its executable segments.
    #[must_use]
    pub fn code(&self) -> Vec<CodeRange<'a>> {
        let executable = self
            .segments
            .iter()
            .filter(|(_, header)| header.p_flags & PF_X != 0);
        executable
            .map(|(_, header)| CodeRange {
                va: Va::new(header.p_vaddr),
                pa: Pa::new(header.p_paddr),
                code: self.file_bytes(header),
            })
            .collect()
    }

    /// A segment's bytes in the file; that they are there was checked by `parse`.
    fn file_bytes(&self, header: &ProgramHeader) -> &'a [u8] {
        let first = usize::try_from(header.p_offset).unwrap_or(usize::MAX);
        let len = usize::try_from(header.p_filesz).unwrap_or(usize::MAX);
        let rest = self.bytes.get(first..).unwrap_or_default();
        rest.get(..len).unwrap_or_default()
    }

    /// Copies the segments into RAM and returns the first 4 KiB aligned physical address behind
    /// the last of them. Memory beyond a segment's file bytes is left as it is: fresh RAM is zero.
    ///
    /// # Errors
    /// When a segment does not fit; RAM is then unchanged.
    pub fn load(&self, ram: &Ram) -> Result<Pa, LoadError> {
        let mut end = ram.base().raw();
        for (index, header) in &self.segments {
            end = end.max(segment_end(*index, header, ram)?);
        }
        for (_, header) in &self.segments {
            let written = ram.write(Pa::new(header.p_paddr), self.file_bytes(header));
            debug_assert!(written.is_some(), "segment range was checked");
        }
        Ok(Pa::new(end.next_multiple_of(PageSize::Size4K.bytes())))
    }
}

fn check_identification(bytes: &[u8]) -> Result<(), LoadError> {
    let not_elf = |reason: &str| LoadError::NotElf {
        found: bytes.len(),
        reason: reason.to_owned(),
    };
    if !bytes.starts_with(b"\x7fELF") {
        return Err(not_elf("it does not start with the bytes 7f 45 4c 46"));
    }
    let (Some(class), Some(data)) = (bytes.get(EI_CLASS), bytes.get(EI_DATA)) else {
        return Err(not_elf("it ends inside the identification"));
    };
    match (*class, *data) {
        (ELFCLASS64, ELFDATA2LSB) => Ok(()),
        (ELFCLASS64, _) => Err(LoadError::Class {
            found: "a big-endian file",
        }),
        _ => Err(LoadError::Class {
            found: "a 32-bit file",
        }),
    }
}

fn check_file_bytes(index: usize, header: &ProgramHeader, size: usize) -> Result<(), LoadError> {
    if header.p_filesz > header.p_memsz {
        return Err(LoadError::Oversized {
            index,
            file: header.p_filesz,
            memory: header.p_memsz,
        });
    }
    let end = header.p_offset.saturating_add(header.p_filesz);
    if end > size as u64 {
        return Err(LoadError::Truncated {
            index,
            first: header.p_offset,
            end,
            size,
        });
    }
    Ok(())
}

/// One past the last physical address of a segment, which must lie in RAM.
fn segment_end(index: usize, header: &ProgramHeader, ram: &Ram) -> Result<u64, LoadError> {
    let first = Pa::new(header.p_paddr);
    let limit = ram.base().raw().saturating_add(ram.size());
    let end = header.p_paddr.saturating_add(header.p_memsz);
    if header.p_paddr < ram.base().raw() || end > limit {
        return Err(LoadError::OutsideRam {
            index,
            first,
            end,
            base: ram.base(),
            limit,
        });
    }
    Ok(end)
}

fn symbols(elf: &Elf<'_>) -> Vec<Symbol> {
    let mut symbols: Vec<_> = elf
        .syms
        .iter()
        .filter(|symbol| symbol.st_value != 0 && symbol.st_name != 0)
        .filter_map(|symbol| {
            Some(Symbol {
                va: Va::new(symbol.st_value),
                size: symbol.st_size,
                name: elf.strtab.get_at(symbol.st_name)?.to_owned(),
            })
        })
        .collect();
    symbols.sort_by(|a, b| (a.va, &a.name).cmp(&(b.va, &b.name)));
    symbols
}

/// Where the boot-information page lies, from the start of RAM.
pub const BOOT_INFO_OFFSET: u64 = 0x1000;

const MAGIC: &[u8; 8] = b"MMUSCOPE";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 56;
const KEY_BYTES: usize = 24;
const TEXT_BYTES: usize = 40;
const MAX_PARAMS: usize = 62;

/// What a guest is told at boot.
#[derive(Clone, Debug)]
pub struct BootInfo<'a> {
    /// Number of CPUs.
    pub cpus: u32,
    /// Feature bits.
    pub features: u64,
    /// First physical address that the image does not use; a multiple of 4 KiB.
    pub free_start: Pa,
    /// Parameters in the order given.
    pub params: &'a [(String, String)],
}

impl BootInfo<'_> {
    /// Writes the page at [`BOOT_INFO_OFFSET`] into RAM and returns its physical address.
    ///
    /// # Errors
    /// When a parameter does not fit.
    pub fn write(&self, ram: &Ram) -> Result<Pa, LoadError> {
        let mut page = Vec::new();
        page.extend_from_slice(MAGIC);
        page.extend_from_slice(&VERSION.to_le_bytes());
        page.extend_from_slice(&self.cpus.to_le_bytes());
        page.extend_from_slice(&ram.base().raw().to_le_bytes());
        page.extend_from_slice(&ram.size().to_le_bytes());
        page.extend_from_slice(&self.features.to_le_bytes());
        page.extend_from_slice(&self.free_start.raw().to_le_bytes());
        let count = u32::try_from(self.params.len()).unwrap_or(u32::MAX);
        page.extend_from_slice(&count.to_le_bytes());
        page.extend_from_slice(&0_u32.to_le_bytes());
        debug_assert_eq!(page.len(), HEADER_BYTES);
        for (position, (key, text)) in self.params.iter().enumerate() {
            // A NUL must follow both.
            let fits = key.len() < KEY_BYTES && text.len() < TEXT_BYTES && position < MAX_PARAMS;
            if !fits || key.contains('\0') || text.contains('\0') {
                return Err(LoadError::Parameter {
                    key: key.clone(),
                    text: text.clone(),
                });
            }
            let start = page.len();
            page.extend_from_slice(key.as_bytes());
            page.resize(start + KEY_BYTES, 0);
            page.extend_from_slice(text.as_bytes());
            page.resize(start + KEY_BYTES + TEXT_BYTES, 0);
        }
        let at = ram.base().wrapping_add(BOOT_INFO_OFFSET);
        let outside = LoadError::OutsideRam {
            index: 0,
            first: at,
            end: at.raw() + page.len() as u64,
            base: ram.base(),
            limit: ram.base().raw() + ram.size(),
        };
        ram.write(at, &page).ok_or(outside)?;
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x4000_0000;

    /// A minimal ELF: one program header, `file` bytes of code at `paddr`.
    fn elf(machine: u16, paddr: u64, entry: u64, file: usize) -> Vec<u8> {
        let mut out = b"\x7fELF\x02\x01\x01".to_vec();
        out.resize(16, 0);
        out.extend_from_slice(&2_u16.to_le_bytes());
        out.extend_from_slice(&machine.to_le_bytes());
        out.extend_from_slice(&1_u32.to_le_bytes());
        for word in [entry, 64, 0] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&0_u32.to_le_bytes());
        for half in [64_u16, 56, 1, 64, 0, 0] {
            out.extend_from_slice(&half.to_le_bytes());
        }
        out.extend_from_slice(&PT_LOAD.to_le_bytes());
        out.extend_from_slice(&5_u32.to_le_bytes());
        for word in [
            120,
            0xffff_0000_0000_0000 | paddr,
            paddr,
            file as u64,
            file as u64 + 8,
            4,
        ] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.resize(120 + file, 0xab);
        out
    }

    fn ram() -> Ram {
        Ram::new(Pa::new(BASE), 0x10000).unwrap()
    }

    #[test]
    fn loads_where_the_physical_address_says() {
        let bytes = elf(EM_AARCH64, BASE + 0x2000, BASE + 0x2000, 16);
        let image = GuestImage::parse(&bytes).unwrap();
        assert_eq!(image.arch(), GuestArch::Aarch64);
        let ram = ram();
        assert_eq!(image.load(&ram).unwrap(), Pa::new(BASE + 0x3000));
        assert_eq!(
            ram.read_u64(Pa::new(BASE + 0x2008)),
            Some(0xabab_abab_abab_abab)
        );
        assert_eq!(ram.read_u64(Pa::new(BASE + 0x2010)), Some(0));
        let code = &image.code()[0];
        assert_eq!((code.pa, code.code.len()), (Pa::new(BASE + 0x2000), 16));
    }

    #[test]
    fn every_truncation_is_an_error_and_not_a_panic() {
        let bytes = elf(EM_X86_64, BASE, BASE, 16);
        for len in 0..bytes.len() {
            assert!(GuestImage::parse(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn errors_name_what_was_found() {
        let message = |bytes: &[u8]| GuestImage::parse(bytes).unwrap_err().to_string();
        assert!(message(b"hello").contains("7f 45 4c 46"));
        let mut thirty_two = elf(EM_X86_64, BASE, BASE, 16);
        thirty_two[4] = 1;
        assert!(message(&thirty_two).contains("32-bit"));
        assert!(message(&elf(8, BASE, BASE, 16)).contains("machine 8"));
        assert!(message(&elf(EM_X86_64, BASE, BASE + 0x100, 16)).contains("entry point"));
        let bytes = elf(EM_X86_64, 0, 0, 16);
        let outside = GuestImage::parse(&bytes).unwrap().load(&ram()).unwrap_err();
        assert!(
            outside.to_string().contains("not in guest RAM"),
            "{outside}"
        );
    }

    #[test]
    fn boot_info_has_the_documented_layout() {
        let ram = ram();
        let params = [("size".to_owned(), "4096".to_owned())];
        let mut info = BootInfo {
            cpus: 2,
            features: 5,
            free_start: Pa::new(BASE + 0x3000),
            params: &params,
        };
        let at = info.write(&ram).unwrap();
        assert_eq!(at, Pa::new(BASE + 0x1000));
        let word = |offset| ram.read_u64(at.wrapping_add(offset)).unwrap();
        assert_eq!(word(0).to_le_bytes(), *MAGIC);
        assert_eq!(word(8), 1 | 2 << 32);
        assert_eq!((word(16), word(24), word(32)), (BASE, 0x10000, 5));
        assert_eq!((word(40), word(48)), (BASE + 0x3000, 1));
        assert_eq!(ram.text(at.wrapping_add(56), 4).unwrap(), "size");
        assert_eq!(ram.text(at.wrapping_add(80), 5).unwrap(), "4096\0");
        let long = [("x".repeat(24), String::new())];
        info.params = &long;
        assert!(info.write(&ram).is_err());
    }
}
