//! The translation tables of a recording, kept up to date by its stores.

use std::collections::HashMap;

use mmuscope_models::addr::{Pa, PageSize};
use mmuscope_models::memory::TableMemory;

use super::record::{DataAccess, Event, TABLE_WORDS};

/// Table memory that holds the recorded tables and follows the recorded stores.
///
/// Feed it every event in order with [`RecordedTables::apply`]; at each point it answers as the
/// recorded machine's memory would have. It knows the dumped tables and, from the moment they
/// are linked in, tables that the kernel allocated later: those begin all zero, because kernels
/// clear them with instructions that a recording does not show (`DC ZVA`).
#[derive(Clone, Debug, Default)]
pub struct RecordedTables {
    frames: HashMap<u64, Box<[u64; TABLE_WORDS]>>,
}

impl RecordedTables {
    /// No tables yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in what `event` says about memory. Events that are neither tables nor stores change
    /// nothing.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Table(table) => {
                self.frames.insert(table.pa.raw(), Box::new(table.words));
            }
            Event::Store(store) if !store.device => self.store(store),
            _ => {}
        }
    }

    /// How many 4 KiB tables are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether no table is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether the frame of `pa` is known as a table.
    #[must_use]
    pub fn contains(&self, pa: Pa) -> bool {
        self.frames
            .contains_key(&pa.page_base(PageSize::Size4K).raw())
    }

    /// Makes the frame of `pa` a known table, all zero, unless it is known already.
    pub fn add_empty(&mut self, pa: Pa) {
        self.frames
            .entry(pa.page_base(PageSize::Size4K).raw())
            .or_insert_with(|| Box::new([0; TABLE_WORDS]));
    }

    /// A store of up to 8 known bytes, possibly across two words. What a wider store wrote
    /// beyond its first 8 bytes is not recorded; kernels write table entries one by one.
    fn store(&mut self, store: &DataAccess) {
        let known = u64::from(store.size.min(8));
        for index in 0..known {
            let at = store.pa.wrapping_add(index);
            if let Some(word) = self.word_mut(at) {
                let shift = at.raw() % 8 * 8;
                let byte = store.value >> (index * 8) & 0xff;
                *word = *word & !(0xff << shift) | byte << shift;
            }
        }
    }

    fn word_mut(&mut self, pa: Pa) -> Option<&mut u64> {
        let frame = self.frames.get_mut(&pa.page_base(PageSize::Size4K).raw())?;
        frame.get_mut(word_index(pa))
    }
}

fn word_index(pa: Pa) -> usize {
    // At most 511: it fits any usize.
    usize::try_from(pa.offset_in(PageSize::Size4K) / 8).unwrap_or(0)
}

impl TableMemory for RecordedTables {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        let frame = self.frames.get(&pa.page_base(PageSize::Size4K).raw())?;
        frame.get(word_index(pa)).copied()
    }

    fn exchange_descriptor(&mut self, pa: Pa, current: u64, new: u64) -> Option<u64> {
        let word = self.word_mut(pa)?;
        let old = *word;
        if old == current {
            *word = new;
        }
        Some(old)
    }
}
