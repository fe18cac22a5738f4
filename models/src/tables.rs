//! Which frames of physical memory hold translation tables, and what a store to one of them means.
//!
//! A frame becomes a table when a register makes it a root, or when a store to a known table
//! installs a pointer to it; tables below a new one are found by reading it, down to but without
//! the contents of the last level. A frame stops being a table when the pointer to it is cleared,
//! or when the user half maps it as data. So table stores are counted from what software stored,
//! never from what it says.
//!
//! Limits: frames are tracked in units of 4 KiB, and one frame is a table of one level, at one
//! place in the address space. A table that two pointers share is forgotten when the first of them
//! is cleared.

use rustc_hash::FxHashMap;

use crate::addr::{Level, Pa, Va};
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

/// Where a table entry stands in an address space.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct EntryPlace {
    /// The root of the tree that it belongs to.
    pub root: Pa,
    /// The half of the address space that the table serves.
    pub half: Half,
    /// The level of the table.
    pub level: Level,
    /// The first address that the entry serves.
    pub va: Va,
}

/// A classified store to a table.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Where the entry stands.
    pub place: EntryPlace,
    /// What happened to the entry.
    pub kind: ChangeKind,
    /// `Some(true)` if the store set the contiguous bit of a valid leaf, `Some(false)` if it
    /// took the bit, or the leaf that had it, away.
    pub contiguous: Option<bool>,
}

impl Change {
    /// Adds the change to `stores`, which count the same half.
    pub fn count(&self, stores: &mut TableStores) {
        let level = self.place.level.index();
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
    parts: Parts,
}

/// Which addresses the words of a frame serve.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Parts {
    /// All words belong to one table below a root.
    One(Part),
    /// A root: the words that serve each half.
    Split {
        lower: Option<Part>,
        upper: Option<Part>,
    },
}

/// Words of a frame that belong to one tree.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Part {
    half: Half,
    root: Pa,
    /// First word.
    first: u16,
    /// One past the last word.
    end: u16,
    /// The first address that the first word serves.
    va: Va,
}

impl Table {
    /// Whether both say the same but for the root.
    fn is_where(&self, other: &Self) -> bool {
        match (self.parts, other.parts) {
            (Parts::One(a), Parts::One(b)) => {
                self.level == other.level
                    && (a.half, a.first, a.end, a.va) == (b.half, b.first, b.end, b.va)
            }
            _ => self == other,
        }
    }

    /// Where the entry at `word` of the frame stands; `None` if it is no entry of the table.
    fn place<A: Arch>(&self, context: &A::Context, word: u16) -> Option<EntryPlace> {
        let within = |part: &Part| (part.first..part.end).contains(&word);
        let part = match self.parts {
            Parts::One(part) => Some(part),
            Parts::Split { lower, upper } => {
                let either = [lower, upper].into_iter().flatten();
                either.into_iter().find(within)
            }
        }
        .filter(within)?;
        let span = A::span_shift(context, part.half, self.level);
        Some(EntryPlace {
            root: part.root,
            half: part.half,
            level: self.level,
            va: offset(part.va, u64::from(word - part.first), span),
        })
    }
}

/// The address `entries` further than `va`, at `span` bits an entry.
const fn offset(va: Va, entries: u64, span: u32) -> Va {
    va.wrapping_add(entries.unbounded_shl(span))
}

/// A table and where it stands in an address space.
#[derive(Copy, Clone, Debug)]
struct Node {
    table: Root,
    /// The root of the tree.
    root: Pa,
    /// The first address that entry 0 serves (or would: the lower half of a root that serves both
    /// halves counts from 0, the upper one up to the top).
    va: Va,
}

impl Node {
    /// A root as a node.
    fn root<A: Arch>(context: &A::Context, root: &Root) -> Self {
        let span = A::span_shift(context, root.half, root.level);
        let va = match root.half {
            Half::Lower => Va::new(0),
            Half::Upper => Va::new(0_u64.wrapping_sub((root.end as u64).unbounded_shl(span))),
        };
        Self {
            table: *root,
            root: root.base,
            va,
        }
    }

    /// The frames that its entries are in, each with the part of it that they take.
    fn frames<A: Arch>(&self, context: &A::Context) -> impl Iterator<Item = (u64, Part)> + use<A> {
        let Self { table, root, va } = *self;
        let span = A::span_shift(context, table.half, table.level);
        let mut entry = table.first;
        std::iter::from_fn(move || {
            if entry >= table.end {
                return None;
            }
            let at = table.base.wrapping_add(entry as u64 * 8);
            let first = word_of(at);
            let words = (table.end - entry).min(usize::from(WORDS - first));
            let part = Part {
                half: table.half,
                root,
                first,
                #[expect(clippy::cast_possible_truncation, reason = "at most 512")]
                end: first + words as u16,
                va: offset(va, entry as u64, span),
            };
            entry += words;
            Some((at.raw() >> FRAME_SHIFT, part))
        })
    }

    /// The table at `base` that `entry` points to.
    fn child<A: Arch>(&self, context: &A::Context, entry: usize, base: Pa) -> Option<Self> {
        let parent = &self.table;
        let span = A::span_shift(context, parent.half, parent.level);
        let place = EntryPlace {
            root: self.root,
            half: parent.half,
            level: parent.level,
            va: offset(self.va, entry as u64, span),
        };
        Self::below::<A>(context, &place, base)
    }

    /// The table at `base` that the entry at `place` points to; `None` below the last level.
    fn below<A: Arch>(context: &A::Context, place: &EntryPlace, base: Pa) -> Option<Self> {
        let level = place.level.next()?;
        Some(Self {
            table: Root {
                base,
                level,
                first: 0,
                end: entries_per_table::<A>(context, place.half, level),
                half: place.half,
            },
            root: place.root,
            va: place.va,
        })
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
            let node = Node::root::<A>(context, &root);
            let fresh = self.add_root::<A>(context, &node);
            if fresh {
                self.scan::<A>(context, &node, memory);
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
        let place = table.place::<A>(context, word_of(pa))?;
        let before = A::descriptor(context, place.half, place.level, old);
        let after = A::descriptor(context, place.half, place.level, new);
        let change = Change {
            place,
            kind: kind_of(before, after),
            contiguous: contiguous_change(before, after),
        };
        self.learn::<A>(context, &place, before, after, memory);
        Some(change)
    }

    /// Where the aligned 8-byte word at `pa` stands, if it is an entry of a known table.
    #[must_use]
    pub fn place<A: Arch>(&self, context: &A::Context, pa: Pa) -> Option<EntryPlace> {
        let table = self.known.get(&(pa.raw() >> FRAME_SHIFT))?;
        table.place::<A>(context, word_of(pa))
    }

    fn learn<A: Arch>(
        &mut self,
        context: &A::Context,
        place: &EntryPlace,
        before: Descriptor,
        after: Descriptor,
        memory: &impl TableMemory,
    ) {
        if let Descriptor::Table(child) = before
            && after != before
            && let Some(old) = Node::below::<A>(context, place, child)
        {
            self.forget(child, frames_of(old.table.end));
        }
        match after {
            Descriptor::Table(child) if after != before => {
                if let Some(node) = Node::below::<A>(context, place, child) {
                    self.add_tree::<A>(context, &node, memory);
                }
            }
            // User data in a frame means that its life as a table is over. The kernel half maps
            // all memory, tables included, and says nothing.
            Descriptor::Leaf { pa, size, .. }
                if place.half == Half::Lower && size.shift() == FRAME_SHIFT =>
            {
                self.forget(pa, 1);
            }
            _ => {}
        }
    }

    /// Makes a table below a root and, if it was unknown, those below it known.
    fn add_tree<A: Arch>(&mut self, context: &A::Context, node: &Node, memory: &impl TableMemory) {
        let fresh = self.add_frames::<A>(context, node);
        if fresh && node.table.level != Level::L3 {
            self.scan::<A>(context, node, memory);
        }
    }

    /// Reads the entries of a table and adds the tables they point to.
    fn scan<A: Arch>(&mut self, context: &A::Context, node: &Node, memory: &impl TableMemory) {
        let table = &node.table;
        if table.level == Level::L3 {
            return;
        }
        for entry in table.first..table.end {
            let at = table.base.wrapping_add(entry as u64 * 8);
            let Some(raw) = memory.read_descriptor(at) else {
                continue;
            };
            if let Descriptor::Table(base) = A::descriptor(context, table.half, table.level, raw)
                && let Some(child) = node.child::<A>(context, entry, base)
            {
                self.add_tree::<A>(context, &child, memory);
            }
        }
    }

    /// Adds the frames of a table; whether the first of them was unknown or of another kind.
    ///
    /// A table that was known elsewhere in the address space is looked at again: it has moved
    /// with all that is below it. One that another root shares is not.
    fn add_frames<A: Arch>(&mut self, context: &A::Context, node: &Node) -> bool {
        let mut fresh = false;
        for (frame, part) in node.frames::<A>(context) {
            let table = Table {
                level: node.table.level,
                parts: Parts::One(part),
            };
            let previous = self.known.insert(frame, table);
            fresh |= previous.is_none_or(|old| !old.is_where(&table));
            self.set_bit(frame, true);
        }
        fresh
    }

    /// Adds a root, which may be one part of a frame; whether that part was unknown.
    fn add_root<A: Arch>(&mut self, context: &A::Context, node: &Node) -> bool {
        let mut fresh = false;
        for (frame, part) in node.frames::<A>(context) {
            let (mut lower, mut upper) = match self.known.get(&frame) {
                Some(Table {
                    level,
                    parts: Parts::Split { lower, upper },
                }) if *level == node.table.level => (*lower, *upper),
                _ => (None, None),
            };
            let mine = match part.half {
                Half::Lower => &mut lower,
                Half::Upper => &mut upper,
            };
            fresh |= *mine != Some(part);
            *mine = Some(part);
            let table = Table {
                level: node.table.level,
                parts: Parts::Split { lower, upper },
            };
            self.known.insert(frame, table);
            self.set_bit(frame, true);
        }
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
