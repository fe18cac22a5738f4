//! Table building for the walker tests: descriptors put at the right index, by plain arithmetic
//! that shares nothing with the walkers.

#![allow(dead_code, reason = "each test binary uses its own part")]

use mmuscope_models::addr::{Pa, Va};
use mmuscope_models::memory::{SparseMemory, TableMemory};

/// An `N`-level tree with one table a level, leading to one leaf.
pub struct Chain {
    pub memory: SparseMemory,
    /// Address of the entry at each level, root first.
    pub entries: Vec<Pa>,
}

/// Builds a chain of tables for `va`. `shifts` gives the lowest index bit of each level, root
/// first; `width` the index bits of a full table; `tables` where each table lies; `descriptors`
/// the entry at each level.
pub fn chain(va: Va, shifts: &[u32], width: u32, tables: &[u64], descriptors: &[u64]) -> Chain {
    let mut memory = SparseMemory::new();
    let mut entries = Vec::new();
    for ((shift, table), descriptor) in shifts.iter().zip(tables).zip(descriptors) {
        let index = va.raw() >> shift & ((1 << width) - 1);
        let at = Pa::new(table + index * 8);
        memory.write(at, *descriptor);
        entries.push(at);
    }
    Chain { memory, entries }
}

impl Chain {
    /// The entry at `depth` (0 is the root) as memory holds it now.
    pub fn entry(&self, depth: usize) -> u64 {
        self.memory.read_descriptor(self.entries[depth]).unwrap()
    }
}

/// One contiguous piece of memory.
pub struct DenseMemory {
    base: u64,
    words: Vec<u64>,
}

impl DenseMemory {
    /// Memory at `base` that holds `bytes`, little-endian words.
    pub fn from_bytes(base: Pa, bytes: &[u8]) -> Self {
        let words = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        Self {
            base: base.raw(),
            words,
        }
    }

    fn index(&self, pa: Pa) -> Option<usize> {
        usize::try_from(pa.raw().checked_sub(self.base)? / 8).ok()
    }
}

impl TableMemory for DenseMemory {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        self.words.get(self.index(pa)?).copied()
    }

    fn exchange_descriptor(&mut self, pa: Pa, current: u64, new: u64) -> Option<u64> {
        let index = self.index(pa)?;
        let word = self.words.get_mut(index)?;
        let old = *word;
        if old == current {
            *word = new;
        }
        Some(old)
    }
}
