//! The translation tables of a recording, kept up to date by its stores.

use std::collections::HashMap;

use mmuscope_models::addr::{Level, Pa, PageSize};
use mmuscope_models::memory::TableMemory;

use super::header::Isa;
use super::record::{DataAccess, Event, TABLE_WORDS};

/// Bits 47:12: where a 4 KiB table lies, in the descriptors of both architectures as the
/// recorded machines (at most 48 physical address bits) use them.
const NEXT_TABLE: u64 = 0x0000_ffff_ffff_f000;

/// Table memory that holds the recorded tables and follows the recorded stores.
///
/// Feed it every event in order with [`RecordedTables::apply`]; at each point it answers as the
/// recorded machine's memory would have. It knows the dumped tables and, from the moment they
/// are linked in, tables that the kernel allocated later: those begin all zero, because arm64
/// kernels clear them with an instruction whose stores a recording does not show (`DC ZVA`).
#[derive(Clone, Debug)]
pub struct RecordedTables {
    isa: Isa,
    frames: HashMap<u64, Frame>,
}

#[derive(Clone, Debug)]
struct Frame {
    level: Level,
    words: Box<[u64; TABLE_WORDS]>,
}

impl RecordedTables {
    /// No tables yet.
    #[must_use]
    pub fn new(isa: Isa) -> Self {
        Self {
            isa,
            frames: HashMap::new(),
        }
    }

    /// Takes in what `event` says about memory. Events that are neither tables nor stores change
    /// nothing.
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Table(table) => {
                let frame = Frame {
                    level: table.level,
                    words: Box::new(table.words),
                };
                self.frames.insert(table.pa.raw(), frame);
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
        self.frames.contains_key(&frame_of(pa))
    }

    /// A store of up to 8 known bytes, possibly across two words. What a wider store wrote
    /// beyond its first 8 bytes is not recorded; kernels write table entries one by one.
    fn store(&mut self, store: &DataAccess) {
        let Some(level) = self
            .frames
            .get(&frame_of(store.pa))
            .map(|frame| frame.level)
        else {
            return;
        };
        for index in 0..u64::from(store.size.min(8)) {
            let at = store.pa.wrapping_add(index);
            if let Some(word) = self.word_mut(at) {
                let shift = at.raw() % 8 * 8;
                let byte = store.value >> (index * 8) & 0xff;
                *word = *word & !(0xff << shift) | byte << shift;
            }
        }
        if let (Some(next), true) = (level.next(), store.size == 8) {
            self.link(next, store.value);
        }
    }

    /// If `descriptor` points to a table, that table is known from now on.
    fn link(&mut self, level: Level, descriptor: u64) {
        let is_table = match self.isa {
            // Valid, and not a block (Arm ARM DDI 0487, D8.3.1).
            Isa::Aarch64 => descriptor & 0b11 == 0b11,
            // Present, and not a large page (Intel SDM vol. 3A, 4.5).
            Isa::X86_64 => descriptor & 1 == 1 && descriptor & (1 << 7) == 0,
        };
        if is_table {
            self.frames
                .entry(descriptor & NEXT_TABLE)
                .or_insert_with(|| Frame {
                    level,
                    words: Box::new([0; TABLE_WORDS]),
                });
        }
    }

    fn word_mut(&mut self, pa: Pa) -> Option<&mut u64> {
        let frame = self.frames.get_mut(&frame_of(pa))?;
        frame.words.get_mut(word_index(pa))
    }
}

fn frame_of(pa: Pa) -> u64 {
    pa.page_base(PageSize::Size4K).raw()
}

fn word_index(pa: Pa) -> usize {
    // At most 511: it fits any usize.
    usize::try_from(pa.offset_in(PageSize::Size4K) / 8).unwrap_or(0)
}

impl TableMemory for RecordedTables {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        let frame = self.frames.get(&frame_of(pa))?;
        frame.words.get(word_index(pa)).copied()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Table, TableRoot};
    use mmuscope_models::addr::Va;

    fn table(pa: u64, level: Level) -> Event {
        Event::Table(Box::new(Table {
            pa: Pa::new(pa),
            level,
            root: TableRoot::User,
            words: [0x1111_1111_1111_1111; TABLE_WORDS],
        }))
    }

    fn store(pa: u64, size: u8, value: u64) -> Event {
        Event::Store(DataAccess {
            va: Va::new(0),
            pa: Pa::new(pa),
            device: false,
            size,
            value,
            table: None,
        })
    }

    #[test]
    fn stores_of_any_width_and_alignment_land_bytewise() {
        let mut tables = RecordedTables::new(Isa::Aarch64);
        tables.apply(&table(0x8000, Level::L3));
        tables.apply(&store(0x8006, 4, 0xaabb_ccdd));
        let word = |tables: &RecordedTables, pa| tables.read_descriptor(Pa::new(pa));
        assert_eq!(word(&tables, 0x8000), Some(0xccdd_1111_1111_1111));
        assert_eq!(word(&tables, 0x8008), Some(0x1111_1111_1111_aabb));
        // Past the end of the only known frame, the rest of the store is not a table's business.
        tables.apply(&store(0x8ffe, 4, 0x1234_5678));
        assert_eq!(word(&tables, 0x8ff8), Some(0x5678_1111_1111_1111));
        assert_eq!(word(&tables, 0x9000), None);
    }

    #[test]
    fn a_table_that_is_linked_in_begins_empty_and_keeps_its_content_when_moved() {
        for (isa, descriptor) in [(Isa::Aarch64, 0x9003), (Isa::X86_64, 0x9067)] {
            let mut tables = RecordedTables::new(isa);
            tables.apply(&table(0x8000, Level::L2));
            tables.apply(&store(0x9000, 8, 1));
            assert!(!tables.contains(Pa::new(0x9000)), "not a table yet");
            tables.apply(&store(0x8010, 8, descriptor));
            assert_eq!(tables.read_descriptor(Pa::new(0x9000)), Some(0));
            tables.apply(&store(0x9000, 8, 0x5003));
            tables.apply(&store(0x8010, 8, 0));
            tables.apply(&store(0x8018, 8, descriptor));
            assert_eq!(tables.read_descriptor(Pa::new(0x9000)), Some(0x5003));
        }
    }

    #[test]
    fn leaves_link_nothing() {
        let mut tables = RecordedTables::new(Isa::Aarch64);
        tables.apply(&table(0x8000, Level::L2));
        tables.apply(&table(0xa000, Level::L3));
        tables.apply(&store(0x8010, 8, 0x9001));
        tables.apply(&store(0xa010, 8, 0xb003));
        assert_eq!(tables.len(), 2);
    }
}
