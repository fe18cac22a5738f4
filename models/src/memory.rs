//! Physical memory as the table walkers see it.

use crate::addr::Pa;

/// Memory that holds translation tables.
///
/// A walker reads 8-byte descriptors at 8-byte aligned addresses, and, where the architecture
/// lets hardware update accessed and dirty bits, replaces one by an atomic compare-and-exchange.
/// `None` means that nothing answers at the address: the walker reports it as the architecture's
/// external abort or bus error.
pub trait TableMemory {
    /// Reads the descriptor at `pa`.
    fn read_descriptor(&self, pa: Pa) -> Option<u64>;

    /// Replaces the descriptor at `pa` by `new` if it still is `current`. Returns what memory
    /// held before: equal to `current` exactly when the exchange happened.
    fn exchange_descriptor(&mut self, pa: Pa, current: u64, new: u64) -> Option<u64>;
}

/// A view of table memory that reads but never changes it: for questions that must leave no
/// trace. An exchange reports success without writing.
#[derive(Debug)]
pub struct Peek<'a, M: ?Sized>(pub &'a M);

impl<M: TableMemory + ?Sized> TableMemory for Peek<'_, M> {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        self.0.read_descriptor(pa)
    }

    fn exchange_descriptor(&mut self, pa: Pa, current: u64, _new: u64) -> Option<u64> {
        self.0.read_descriptor(pa).map(|_| current)
    }
}

/// Sparse table memory for tests, dumps and what-if scenarios: only written words exist.
#[derive(Clone, Debug, Default)]
pub struct SparseMemory {
    words: std::collections::BTreeMap<u64, u64>,
}

impl SparseMemory {
    /// Memory that holds nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes one 8-byte word. The address is aligned down to 8 bytes.
    pub fn write(&mut self, pa: Pa, value: u64) {
        self.words.insert(pa.raw() & !7, value);
    }

    /// Makes the whole 4 KiB frame at `pa` readable, zero where nothing was written.
    pub fn add_frame(&mut self, pa: Pa) {
        let base = pa.raw() & !0xfff;
        for word in 0..512 {
            self.words.entry(base + word * 8).or_insert(0);
        }
    }
}

impl TableMemory for SparseMemory {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        self.words.get(&(pa.raw() & !7)).copied()
    }

    fn exchange_descriptor(&mut self, pa: Pa, current: u64, new: u64) -> Option<u64> {
        let word = self.words.get_mut(&(pa.raw() & !7))?;
        let old = *word;
        if old == current {
            *word = new;
        }
        Some(old)
    }
}
