//! Which frames of physical memory hold translation tables, and what a store to one of them means.
//!
//! A frame becomes a table when a register makes it a root, or when a store to a known table
//! installs a pointer to it; tables below a new one are found by reading it, down to but without
//! the contents of the last level. A frame stops being a table when the pointer to it is cleared,
//! or when the user half maps it as data. So table stores are counted from what software stored,
//! never from what it says.
//!
//! Limits: frames are tracked in units of 4 KiB, and one frame is a table of one level. A table
//! that two pointers share is forgotten when the first of them is cleared.

use rustc_hash::FxHashMap;

use crate::addr::{Level, Pa};
use crate::arch::{Arch, Descriptor, Half, Root};
use crate::counters::TableStores;
use crate::memory::TableMemory;

const FRAME_SHIFT: u32 = 12;
/// Frames below this number have a bit each (64 GiB of memory: at most 2 MiB of bits); the rest
/// are looked up in the map.
const DENSE_FRAMES: u64 = 1 << 24;

/// What a store did to a table entry.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// The entry points to a table now, and pointed to no table, or another one, before.
    InstallTable,
    /// The entry maps memory now, and mapped none, or other memory, before.
    InstallLeaf,
    /// It pointed to a table and is invalid now.
    ClearTable,
    /// It mapped memory and is invalid now.
    ClearLeaf,
    /// It maps or points to the same as before with other attributes.
    Attributes,
    /// It was invalid and still is.
    Invalid,
}

/// A classified store to a table.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The half of the address space that the table serves.
    pub half: Half,
    /// The level of the table.
    pub level: Level,
    /// What happened to the entry.
    pub kind: ChangeKind,
    /// `Some(true)` if the store set the contiguous bit of a valid leaf, `Some(false)` if it
    /// took the bit, or the leaf that had it, away.
    pub contiguous: Option<bool>,
}

impl Change {
    /// Adds the change to `stores`, which count the same half.
    pub fn count(&self, stores: &mut TableStores) {
        let level = self.level.index();
        let counter = match self.kind {
            ChangeKind::InstallTable => &mut stores.install_table,
            ChangeKind::InstallLeaf => &mut stores.install_leaf,
            ChangeKind::ClearTable => &mut stores.clear_table,
            ChangeKind::ClearLeaf => &mut stores.clear_leaf,
            ChangeKind::Attributes => &mut stores.attr,
            ChangeKind::Invalid => &mut stores.invalid,
        };
        counter[level] += 1;
        match self.contiguous {
            Some(true) => stores.cont_set[level] += 1,
            Some(false) => stores.cont_clear[level] += 1,
            None => {}
        }
    }
}

/// What is known about the table in a frame.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Table {
    level: Level,
    halves: Halves,
}

/// Which half each entry of a frame belongs to.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Halves {
    /// All entries belong to one half.
    One(Half),
    /// A root: words of the frame, first and end, that belong to each half.
    Split {
        lower: (u16, u16),
        upper: (u16, u16),
    },
}

impl Halves {
    /// The half of the entry at `word` of the frame; `None` if it is no entry of the table.
    fn of(self, word: u16) -> Option<Half> {
        let within = |range: (u16, u16)| (range.0..range.1).contains(&word);
        match self {
            Self::One(half) => Some(half),
            Self::Split { lower, .. } if within(lower) => Some(Half::Lower),
            Self::Split { upper, .. } if within(upper) => Some(Half::Upper),
            Self::Split { .. } => None,
        }
    }
}

/// The frames that hold tables.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    dense: Vec<u64>,
    known: FxHashMap<u64, Table>,
}

impl Tables {
    /// No table is known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the frame of `pa` holds a table.
    #[inline]
    #[must_use]
    pub fn contains(&self, pa: Pa) -> bool {
        let frame = pa.raw() >> FRAME_SHIFT;
        if frame < DENSE_FRAMES {
            let word = self.dense.get((frame / 64) as usize);
            word.is_some_and(|bits| bits >> (frame % 64) & 1 != 0)
        } else {
            self.known.contains_key(&frame)
        }
    }

    /// The level of the table in the frame of `pa`.
    #[must_use]
    pub fn level(&self, pa: Pa) -> Option<Level> {
        let table = self.known.get(&(pa.raw() >> FRAME_SHIFT))?;
        Some(table.level)
    }

    /// How many frames hold tables.
    #[must_use]
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether no table is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Makes the roots that `context` can reach known, and every table below a root that was not.
    pub fn add_roots<A: Arch>(&mut self, context: &A::Context, memory: &impl TableMemory) {
        for root in A::roots(context).into_iter().flatten() {
            let fresh = self.add_root(&root);
            if fresh {
                self.scan::<A>(context, &root, memory);
            }
        }
    }

    /// Classifies a store that changed the 8-byte word at `pa` from `old` to `new`, and learns
    /// from it which frames are tables. `None` if the word is no entry of a known table.
    pub fn store<A: Arch>(
        &mut self,
        context: &A::Context,
        pa: Pa,
        old: u64,
        new: u64,
        memory: &impl TableMemory,
    ) -> Option<Change> {
        let table = *self.known.get(&(pa.raw() >> FRAME_SHIFT))?;
        let half = table.halves.of(word_of(pa))?;
        let level = table.level;
        let before = A::descriptor(context, half, level, old);
        let after = A::descriptor(context, half, level, new);
        let change = Change {
            half,
            level,
            kind: kind_of(before, after),
            contiguous: contiguous_change(before, after),
        };
        self.learn::<A>(context, &change, before, after, memory);
        Some(change)
    }

    fn learn<A: Arch>(
        &mut self,
        context: &A::Context,
        change: &Change,
        before: Descriptor,
        after: Descriptor,
        memory: &impl TableMemory,
    ) {
        if let Descriptor::Table(child) = before
            && after != before
            && let Some(level) = change.level.next()
        {
            let entries = entries_per_table::<A>(context, change.half, level);
            self.forget(child, frames_of(entries));
        }
        match after {
            Descriptor::Table(child) if after != before => {
                if let Some(level) = change.level.next() {
                    self.add_tree::<A>(context, change.half, level, child, memory);
                }
            }
            // User data in a frame means that its life as a table is over. The kernel half maps
            // all memory, tables included, and says nothing.
            Descriptor::Leaf { pa, size, .. }
                if change.half == Half::Lower && size.shift() == FRAME_SHIFT =>
            {
                self.forget(pa, 1);
            }
            _ => {}
        }
    }

    /// Makes the table at `base` and, if it was unknown, those below it known.
    fn add_tree<A: Arch>(
        &mut self,
        context: &A::Context,
        half: Half,
        level: Level,
        base: Pa,
        memory: &impl TableMemory,
    ) {
        let entries = entries_per_table::<A>(context, half, level);
        let fresh = self.add_frames(
            base,
            entries,
            Table {
                level,
                halves: Halves::One(half),
            },
        );
        if fresh && level != Level::L3 {
            let table = Root {
                base,
                level,
                first: 0,
                end: entries,
                half,
            };
            self.scan::<A>(context, &table, memory);
        }
    }

    /// Reads the entries of a table and adds the tables they point to.
    fn scan<A: Arch>(&mut self, context: &A::Context, table: &Root, memory: &impl TableMemory) {
        let Some(below) = table.level.next() else {
            return;
        };
        for entry in table.first..table.end {
            let at = table.base.wrapping_add(entry as u64 * 8);
            let Some(raw) = memory.read_descriptor(at) else {
                continue;
            };
            if let Descriptor::Table(child) = A::descriptor(context, table.half, table.level, raw) {
                self.add_tree::<A>(context, table.half, below, child, memory);
            }
        }
    }

    /// Adds the frames of a table; whether the first of them was unknown or of another kind.
    fn add_frames(&mut self, base: Pa, entries: usize, table: Table) -> bool {
        let first = base.raw() >> FRAME_SHIFT;
        let mut fresh = false;
        for frame in first..first.saturating_add(frames_of(entries)) {
            let previous = self.known.insert(frame, table);
            fresh |= previous.is_none_or(|old| old.level != table.level);
            self.set_bit(frame, true);
        }
        fresh
    }

    /// Adds a root, which may be one part of a frame; whether that part was unknown.
    fn add_root(&mut self, root: &Root) -> bool {
        let mut fresh = false;
        let mut entry = root.first;
        while entry < root.end {
            let at = root.base.wrapping_add(entry as u64 * 8);
            let frame = at.raw() >> FRAME_SHIFT;
            let first = word_of(at);
            let rest = root.end - entry;
            let in_frame = rest.min(usize::from(WORDS - first));
            #[expect(clippy::cast_possible_truncation, reason = "at most 512")]
            let range = (first, first + in_frame as u16);
            fresh |= self.add_root_part(frame, root, range);
            entry += in_frame;
        }
        fresh
    }

    fn add_root_part(&mut self, frame: u64, root: &Root, range: (u16, u16)) -> bool {
        let none = (0, 0);
        let (mut lower, mut upper) = match self.known.get(&frame) {
            Some(Table {
                level,
                halves: Halves::Split { lower, upper },
            }) if *level == root.level => (*lower, *upper),
            _ => (none, none),
        };
        let mine = match root.half {
            Half::Lower => &mut lower,
            Half::Upper => &mut upper,
        };
        let fresh = *mine != range;
        *mine = range;
        let table = Table {
            level: root.level,
            halves: Halves::Split { lower, upper },
        };
        self.known.insert(frame, table);
        self.set_bit(frame, true);
        fresh
    }

    fn forget(&mut self, base: Pa, frames: u64) {
        let first = base.raw() >> FRAME_SHIFT;
        for frame in first..first.saturating_add(frames) {
            if self.known.remove(&frame).is_some() {
                self.set_bit(frame, false);
            }
        }
    }

    fn set_bit(&mut self, frame: u64, value: bool) {
        if frame >= DENSE_FRAMES {
            return;
        }
        let word = (frame / 64) as usize;
        if word >= self.dense.len() {
            self.dense.resize(word + 1, 0);
        }
        let bit = 1 << (frame % 64);
        if value {
            self.dense[word] |= bit;
        } else {
            self.dense[word] &= !bit;
        }
    }
}

/// 4 KiB frames that a table of so many entries takes.
const fn frames_of(entries: usize) -> u64 {
    (entries as u64 * 8).div_ceil(1 << FRAME_SHIFT)
}

/// Words in a 4 KiB frame.
const WORDS: u16 = 512;

#[expect(clippy::cast_possible_truncation, reason = "below 512")]
const fn word_of(pa: Pa) -> u16 {
    (pa.raw() >> 3) as u16 % WORDS
}

/// Entries of a table below the root: as many as one entry of the level above spans.
fn entries_per_table<A: Arch>(context: &A::Context, half: Half, level: Level) -> usize {
    let own = A::span_shift(context, half, level);
    let above = Level::from_number(level.number() - 1)
        .map_or(own + 9, |parent| A::span_shift(context, half, parent));
    1 << above.saturating_sub(own).min(13)
}

fn kind_of(before: Descriptor, after: Descriptor) -> ChangeKind {
    match (before, after) {
        (Descriptor::Invalid, Descriptor::Invalid) => ChangeKind::Invalid,
        (Descriptor::Table(_), Descriptor::Invalid) => ChangeKind::ClearTable,
        (Descriptor::Leaf { .. }, Descriptor::Invalid) => ChangeKind::ClearLeaf,
        (Descriptor::Table(old), Descriptor::Table(new)) if old == new => ChangeKind::Attributes,
        (_, Descriptor::Table(_)) => ChangeKind::InstallTable,
        (Descriptor::Leaf { pa: old, .. }, Descriptor::Leaf { pa: new, .. }) if old == new => {
            ChangeKind::Attributes
        }
        (_, Descriptor::Leaf { .. }) => ChangeKind::InstallLeaf,
    }
}

fn contiguous_change(before: Descriptor, after: Descriptor) -> Option<bool> {
    let has = |d| {
        matches!(
            d,
            Descriptor::Leaf {
                contiguous: true,
                ..
            }
        )
    };
    (has(before) != has(after)).then(|| has(after))
}
