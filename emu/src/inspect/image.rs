//! Physical memory as a file holds it.

use std::cell::Cell;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use memmap2::Mmap;
use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::addr::Pa;
use mmuscope_models::memory::TableMemory;
use mmuscope_models::x86::X86_64;
use mmuscope_traces::recording::{Event, Isa, RecordedCpus, RecordedTables, Recording};
use thiserror::Error;

use super::core_file;
use super::registers::{ArchName, Given};

/// An image that cannot be used.
#[derive(Debug, Error)]
pub enum ImageError {
    /// The file cannot be opened or mapped.
    #[error("cannot be read")]
    Io(#[from] std::io::Error),
    /// It is empty.
    #[error("is empty: expected a memory image")]
    Empty,
    /// makedumpfile's own format.
    #[error(
        "is a kdump-compressed dump ({0}): expected an ELF core; `makedumpfile -E` writes one without compression, `dump-guest-memory` without -z, -l or -s too"
    )]
    KdumpCompressed(&'static str),
    /// An ELF file that cannot be used.
    #[error("is an ELF file, but {0}")]
    Elf(String),
    /// A recording that cannot be read or followed.
    #[error("{0}")]
    Recording(String),
    /// A base address for an image that has its own addresses.
    #[error("--base: {0} says itself where its memory lies; only raw images take a base")]
    BaseNotTaken(&'static str),
    /// `--at` without a recording.
    #[error("--at: only recordings have moments")]
    NoMoments,
}

/// A piece of physical memory that the file holds.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) struct Segment {
    pub pa: u64,
    pub offset: u64,
    pub length: u64,
}

#[derive(Debug)]
enum Memory {
    Mapped { bytes: Mmap, segments: Vec<Segment> },
    Recorded(RecordedTables),
}

/// An opened image.
#[derive(Debug)]
pub struct Image {
    memory: Memory,
    /// What the file says about registers.
    given: Given,
    /// The first address that was asked for and is not there.
    missed: Cell<Option<Pa>>,
}

impl Image {
    /// Opens `path`. `base` is where a raw image begins; `at` is the number of records of a
    /// recording that have happened (all of them if it is not given), `cpu` whose registers count.
    ///
    /// # Errors
    /// [`ImageError`]: the caller names the file.
    pub fn open(
        path: &Path,
        base: Option<u64>,
        at: Option<u64>,
        cpu: u8,
    ) -> Result<Self, ImageError> {
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Err(ImageError::Empty);
        }
        // SAFETY: the mapping is read-only and private to this process. If another process cuts
        // the file short meanwhile, reads of it raise SIGBUS: the documented price of mapping.
        let bytes = unsafe { Mmap::map(&file)? };
        if is_recording(&bytes) {
            if base.is_some() {
                return Err(ImageError::BaseNotTaken("a recording"));
            }
            return Self::recording(&bytes, at, cpu);
        }
        if at.is_some() {
            return Err(ImageError::NoMoments);
        }
        if bytes.starts_with(b"KDUMP   ") {
            return Err(ImageError::KdumpCompressed("signature KDUMP"));
        }
        if bytes.starts_with(b"makedumpfile") {
            return Err(ImageError::KdumpCompressed(
                "flattened, signature makedumpfile",
            ));
        }
        let (segments, given) = if bytes.starts_with(b"\x7fELF") {
            if base.is_some() {
                return Err(ImageError::BaseNotTaken("an ELF core"));
            }
            core_file::parse(&bytes).map_err(ImageError::Elf)?
        } else {
            let whole = Segment {
                pa: base.unwrap_or(0),
                offset: 0,
                length: bytes.len() as u64,
            };
            (vec![whole], Given::default())
        };
        Ok(Self {
            memory: Memory::Mapped { bytes, segments },
            given,
            missed: Cell::new(None),
        })
    }

    fn recording(bytes: &[u8], at: Option<u64>, cpu: u8) -> Result<Self, ImageError> {
        let problem = |it: &dyn std::fmt::Display| ImageError::Recording(it.to_string());
        let mut reader =
            mmuscope_traces::read::<Recording, _>(Cursor::new(bytes)).map_err(|it| problem(&it))?;
        let isa = reader.header().isa;
        let mut tables = RecordedTables::new(isa);
        let mut arm = RecordedCpus::<Aarch64>::new();
        let mut x86 = RecordedCpus::<X86_64>::new();
        let mut count = 0;
        while at.is_none_or(|at| count < at) {
            let Some(record) = reader.next() else { break };
            let record = record.map_err(|it| problem(&it))?;
            tables.apply(&record.event);
            if matches!(record.event, Event::Context { .. } | Event::Table(_)) {
                match isa {
                    Isa::Aarch64 => arm.apply(&record).map(drop),
                    Isa::X86_64 => x86.apply(&record).map(drop),
                }
                .map_err(|it| problem(&it))?;
            }
            count += 1;
        }
        if let Some(at) = at.filter(|it| *it > count) {
            return Err(ImageError::Recording(format!(
                "--at: there are {count} records, found {at}"
            )));
        }
        let given = match isa {
            Isa::Aarch64 => Given::of_aarch64(arm.context(cpu)),
            Isa::X86_64 => Given::of_x86_64(x86.context(cpu)),
        };
        Ok(Self {
            memory: Memory::Recorded(tables),
            given,
            missed: Cell::new(None),
        })
    }

    /// What the file says about the registers.
    #[must_use]
    pub fn given(&self) -> &Given {
        &self.given
    }

    /// The architecture, if the file says so.
    #[must_use]
    pub fn arch(&self) -> Option<ArchName> {
        self.given.arch
    }

    /// The first address that was asked for and is not in the image.
    #[must_use]
    pub fn missed(&self) -> Option<Pa> {
        self.missed.get()
    }

    /// What the image holds, for messages.
    #[must_use]
    pub fn extent(&self) -> String {
        match &self.memory {
            Memory::Recorded(tables) => format!("{} recorded tables", tables.len()),
            Memory::Mapped { segments, .. } => {
                let first = segments.iter().map(|it| it.pa).min().unwrap_or(0);
                let end = segments
                    .iter()
                    .map(|it| it.pa.saturating_add(it.length))
                    .max()
                    .unwrap_or(0);
                format!("{first:#x} to {:#x}", end.saturating_sub(1))
            }
        }
    }
}

/// Recordings are known by their magic word, under the compression if there is one.
fn is_recording(bytes: &[u8]) -> bool {
    let mut start = [0; 8];
    mmuscope_traces::compression::Decompressed::detect(bytes)
        .and_then(|mut it| it.read_exact(&mut start))
        .is_ok()
        && start == *b"MMTRC001"
}

impl TableMemory for Image {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        let word = match &self.memory {
            Memory::Recorded(tables) => tables.read_descriptor(pa),
            Memory::Mapped { bytes, segments } => read(bytes, segments, pa.raw()),
        };
        if word.is_none() && self.missed.get().is_none() {
            self.missed.set(Some(pa));
        }
        word
    }

    /// An image is never written: a walk that would set accessed or dirty state is told that it
    /// has.
    fn exchange_descriptor(&mut self, pa: Pa, current: u64, _new: u64) -> Option<u64> {
        self.read_descriptor(pa).map(|_| current)
    }
}

fn read(bytes: &[u8], segments: &[Segment], pa: u64) -> Option<u64> {
    let segment = segments
        .iter()
        .find(|it| pa >= it.pa && pa - it.pa < it.length)?;
    let within = pa - segment.pa;
    if segment.length - within < 8 {
        return None;
    }
    let start = usize::try_from(segment.offset.checked_add(within)?).ok()?;
    let word = bytes.get(start..start.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}
