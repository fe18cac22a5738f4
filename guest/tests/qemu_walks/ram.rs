//! The guest's RAM: a file that this process and the emulator both map.
//!
//! Only one of them uses it at a time. The emulator starts after the requests are written and has
//! ended before the answers are read.

use std::fs::OpenOptions;
use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::MmapMut;
use mmuscope_models::addr::Pa;
use mmuscope_models::memory::TableMemory;

/// RAM that starts at a physical address.
pub struct Ram {
    path: PathBuf,
    map: MmapMut,
    base: u64,
}

impl Ram {
    /// A new file `name` in `dir` of `size` bytes, all zero, for RAM from `base` on.
    pub fn create(dir: &Path, name: &str, base: u64, size: u64) -> Self {
        let path = dir.join(name);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        file.set_len(size).unwrap();
        // SAFETY: the file is new, in a directory of this process's own. The only other process
        // that maps it is the emulator, and no reference into the map lives while that runs.
        let map = unsafe { MmapMut::map_mut(&file) }.unwrap();
        Self { path, map, base }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.map.len() as u64
    }

    fn bytes_at(&self, address: u64) -> Option<Range<usize>> {
        let start = usize::try_from(address.checked_sub(self.base)?).ok()?;
        let end = start.checked_add(8)?;
        (end <= self.map.len()).then_some(start..end)
    }

    /// The little-endian word at `address`, if it is in RAM.
    pub fn word(&self, address: u64) -> Option<u64> {
        let bytes = &self.map[self.bytes_at(address)?];
        Some(u64::from_le_bytes(bytes.try_into().unwrap()))
    }

    /// Writes the word at `address`, which must be in RAM.
    pub fn set_word(&mut self, address: u64, value: u64) {
        let bytes = self.bytes_at(address).expect("address outside RAM");
        self.map[bytes].copy_from_slice(&value.to_le_bytes());
    }
}

/// What one walk would write, over RAM that it must not change.
pub struct Overlay<'a> {
    ram: &'a Ram,
    writes: Vec<(u64, u64)>,
}

impl<'a> Overlay<'a> {
    /// Nothing written yet.
    pub fn new(ram: &'a Ram) -> Self {
        let writes = Vec::new();
        Self { ram, writes }
    }

    /// The addresses written and their last values.
    pub fn into_writes(self) -> Vec<(u64, u64)> {
        self.writes
    }
}

impl TableMemory for Overlay<'_> {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        let written = self.writes.iter().find(|(at, _)| *at == pa.raw());
        match written {
            Some((_, value)) => Some(*value),
            None => self.ram.word(pa.raw()),
        }
    }

    fn exchange_descriptor(&mut self, pa: Pa, current: u64, new: u64) -> Option<u64> {
        let old = self.read_descriptor(pa)?;
        if old == current {
            self.writes.retain(|(at, _)| *at != pa.raw());
            self.writes.push((pa.raw(), new));
        }
        Some(old)
    }
}
