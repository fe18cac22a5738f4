//! What a TLB may still hold of values that table entries had.
//!
//! A value stays possible from the moment it is overwritten until its removal is complete, in the
//! order that the architecture asks for: the store that overwrote it is ordered by a DSB, then an
//! invalidation that covers it is issued, then a DSB of the issuer completes it (Arm ARM D8.17.1;
//! on x86 the serialising invalidation is its own completion).

use std::collections::BTreeMap;
use std::fmt;

use rustc_hash::FxHashMap;

use super::TableRules;
use crate::addr::{Level, Pa, Va};
use crate::arch::{Footprint, Leaf, Reach, TablePointer};
use crate::interconnect::CoreId;
use crate::observer::TableStore;
use crate::tables::EntryPlace;

/// What a TLB or a walk cache may keep of a table entry.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Cacheable<A: TableRules> {
    /// A translation.
    Leaf(Leaf<A>),
    /// A pointer to the next table.
    Pointer {
        /// The table.
        pointer: TablePointer<A>,
        /// The address space.
        tag: A::Tag,
        /// log2 of the bytes it serves.
        span_shift: u32,
    },
}

impl<A: TableRules> Cacheable<A> {
    /// Whether `op` must remove it. `va` is the first address that the entry serves.
    fn removed_by(&self, op: &A::Invalidation, va: Va) -> bool {
        match self {
            Self::Leaf(leaf) => A::removes(op, leaf, leaf.size),
            Self::Pointer {
                pointer,
                tag,
                span_shift,
            } => A::removes_pointer(op, *tag, va, pointer, *span_shift),
        }
    }
}

/// How far the removal of an overwritten value has come.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Progress {
    /// It was overwritten, and no DSB has ordered the store yet.
    Overwritten,
    /// The store is ordered, and no invalidation has been issued.
    Ordered,
    /// An invalidation was issued by this core and is not complete.
    Invalidated(CoreId),
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overwritten => f.write_str("overwritten, no DSB yet"),
            Self::Ordered => f.write_str("no invalidation yet"),
            Self::Invalidated(core) => write!(f, "{core} has not completed the invalidation"),
        }
    }
}

/// A value that an entry had.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Past<A: TableRules> {
    /// The value.
    pub raw: u64,
    /// Who overwrote it.
    pub writer: CoreId,
    /// How far its removal has come.
    pub progress: Progress,
    /// Where the entry stood.
    pub place: EntryPlace,
    /// What may be cached of it.
    pub cached: Cacheable<A>,
    /// Whether the invalidation in flight reaches only its issuer.
    local: bool,
}

/// Past values by the first address that their entry served.
type ByAddress<A> = BTreeMap<u64, Vec<Past<A>>>;

/// Entries of which a barrier has something to settle: level and first address.
type Waiting = Vec<(Level, u64)>;

/// The values that may be cached.
#[derive(Clone, Debug)]
pub struct Histories<A: TableRules> {
    past: [ByAddress<A>; Level::COUNT],
    len: usize,
    /// The address space that each root served last.
    tags: FxHashMap<u64, A::Tag>,
    /// By core: values that it overwrote and no DSB has ordered.
    unordered: Vec<Waiting>,
    /// By core: values that it has invalidated and no DSB has completed.
    in_flight: Vec<Waiting>,
}

impl<A: TableRules> Histories<A> {
    pub(super) fn new(cores: usize) -> Self {
        Self {
            past: std::array::from_fn(|_| BTreeMap::new()),
            len: 0,
            tags: FxHashMap::default(),
            unordered: vec![Waiting::new(); cores],
            in_flight: vec![Waiting::new(); cores],
        }
    }

    /// How many values may be cached.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// `root` serves the address space `tag` from now on.
    pub(super) fn serve(&mut self, root: Pa, tag: A::Tag) {
        self.tags.insert(root.raw(), tag);
    }

    /// The address space that `root` serves.
    pub(super) fn tag(&self, root: Pa) -> Option<A::Tag> {
        self.tags.get(&root.raw()).copied()
    }

    /// What may be cached of entries at this place of this tree.
    pub(super) fn at(&self, place: &EntryPlace) -> impl Iterator<Item = &Past<A>> {
        let values = self.past[place.level.index()].get(&place.va.raw());
        let all = values.into_iter().flatten();
        all.filter(move |past| past.place == *place)
    }

    /// An entry was overwritten: its old value is possible from now on.
    pub(super) fn overwrite(
        &mut self,
        context: &A::Context,
        writer: CoreId,
        store: &TableStore,
        place: &EntryPlace,
    ) {
        let Some(tag) = self.tag(place.root) else {
            return;
        };
        let Some(cached) = A::cacheable(context, place, store.old, tag) else {
            return;
        };
        let values = self.past[place.level.index()]
            .entry(place.va.raw())
            .or_default();
        let fresh = Past {
            raw: store.old,
            writer,
            progress: Progress::Overwritten,
            place: *place,
            cached,
            local: false,
        };
        // The same value may come and go many times: one copy, as young as the last.
        let known = values
            .iter_mut()
            .find(|past| past.raw == store.old && past.place == *place);
        if let Some(known) = known {
            *known = fresh;
        } else {
            values.push(fresh);
            self.len += 1;
        }
        self.unordered[writer.index()].push((place.level, place.va.raw()));
    }

    /// `core` ordered its stores.
    pub(super) fn order_stores(&mut self, core: CoreId) {
        let mut waiting = std::mem::take(&mut self.unordered[core.index()]);
        for (level, va) in waiting.drain(..) {
            for past in self.past[level.index()].get_mut(&va).into_iter().flatten() {
                if past.progress == Progress::Overwritten && past.writer == core {
                    past.progress = Progress::Ordered;
                }
            }
        }
        self.unordered[core.index()] = waiting;
    }

    /// `issuer` issued `op`.
    pub(super) fn invalidate(&mut self, issuer: CoreId, op: &A::Invalidation) {
        let local = A::reach(op) == Reach::Local;
        if local && self.in_flight.len() > 1 {
            // The other cores keep what they have.
            return;
        }
        let waiting = &mut self.in_flight[issuer.index()];
        for level in Level::ALL {
            let bounds = match A::footprint(op) {
                // Only pages are many. Pointers and blocks are all asked: a table that serves the
                // address begins far below it.
                Footprint::Addresses { first, last } if level == Level::L3 => {
                    (first.raw() & !(LARGEST_PAGE - 1), last.raw())
                }
                _ => (0, u64::MAX),
            };
            for (va, values) in self.past[level.index()].range_mut(bounds.0..=bounds.1) {
                for past in values {
                    let waits = past.progress == Progress::Ordered;
                    if waits && past.cached.removed_by(op, Va::new(*va)) {
                        past.progress = Progress::Invalidated(issuer);
                        past.local = local;
                        waiting.push((level, *va));
                    }
                }
            }
        }
    }

    /// A DSB of `core` completed what it issued: all of it, or only what stays on the core.
    pub(super) fn complete(&mut self, core: CoreId, only_local: bool) {
        let mut waiting = std::mem::take(&mut self.in_flight[core.index()]);
        waiting.retain(|(level, va)| {
            let map = &mut self.past[level.index()];
            let Some(values) = map.get_mut(va) else {
                return false;
            };
            let before = values.len();
            values.retain(|past| {
                let mine = past.progress == Progress::Invalidated(core);
                !mine || (only_local && !past.local)
            });
            self.len -= before - values.len();
            let more = values
                .iter()
                .any(|past| past.progress == Progress::Invalidated(core));
            if values.is_empty() {
                map.remove(va);
            }
            more
        });
        self.in_flight[core.index()] = waiting;
    }
}

/// The largest last-level page.
const LARGEST_PAGE: u64 = 1 << 16;
