//! Walk caches: table pointers that let a walk start below the root.
//!
//! Two designs: an array per level (Intel's paging-structure caches), or no array at all because
//! the second-level TLB keeps the pointers among its translations (Cortex-A76, AMD). A walk asks
//! for the deepest pointer first. Pointers are tagged with the address space they were read for,
//! and what removes them is the architecture's decision ([`Arch::removes_pointer`]): a pointer
//! that software forgot to remove keeps serving walks, as it does in hardware.

use crate::addr::{Level, Va};
use crate::arch::{Arch, Half, TablePointer};
use crate::tlb::assoc::Assoc;
use crate::tlb::{Cached, PointerEntry, Tlb, find_pointer};

/// The walk caches of a core as its profile describes them. Levels are those of the table that an
/// entry points to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct WalkCacheShape {
    /// Sets and ways of the array of each level that has one; index: [`Level::index`].
    pub own: [Option<(usize, usize)>; Level::COUNT],
    /// The levels whose pointers live in the second-level TLB.
    pub in_l2_tlb: [bool; Level::COUNT],
}

/// How many bytes a table serves, by half and by the table's level, as log2; 0 where there is no
/// such table. Derived from the context once, not on every walk.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Spans {
    by_half: [[u8; Level::COUNT]; 2],
}

impl Spans {
    /// The spans under `context`.
    #[must_use]
    pub fn of<A: Arch>(context: &A::Context) -> Self {
        let mut spans = Self::default();
        for half in [Half::Lower, Half::Upper] {
            for parent in Level::ALL {
                if let Some(level) = parent.next() {
                    let shift = A::span_shift(context, half, parent);
                    spans.by_half[half as usize][level.index()] =
                        u8::try_from(shift).ok().filter(|s| *s < 64).unwrap_or(0);
                }
            }
        }
        spans
    }

    /// log2 of the bytes that a table of `level` serves around `va`, which has no tag bits.
    #[must_use]
    pub const fn of_table(&self, va: Va, level: Level) -> u8 {
        self.by_half[(va.raw() >> 63) as usize][level.index()]
    }
}

/// A core's walk caches.
#[derive(Clone, Debug)]
pub struct WalkCaches<A: Arch> {
    own: [Option<Assoc<Cached<A>>>; Level::COUNT],
    in_l2_tlb: [bool; Level::COUNT],
}

impl<A: Arch> WalkCaches<A> {
    /// Empty caches of this shape.
    #[must_use]
    pub fn new(shape: &WalkCacheShape) -> Self {
        Self {
            own: shape
                .own
                .map(|array| array.map(|(sets, ways)| Assoc::new(sets, ways))),
            in_l2_tlb: shape.in_l2_tlb,
        }
    }

    /// Caches that keep every pointer in a second-level TLB that never evicts.
    #[must_use]
    pub fn hoarding() -> Self {
        Self {
            own: [const { None }; Level::COUNT],
            in_l2_tlb: [true; Level::COUNT],
        }
    }

    /// The deepest pointer for `va` under `tag`; it becomes the most recently used of its set.
    pub fn lookup(
        &mut self,
        l2: &mut Tlb<A>,
        va: Va,
        tag: A::Tag,
        spans: &Spans,
    ) -> Option<TablePointer<A>> {
        for level in Level::ALL.into_iter().rev() {
            let span = spans.of_table(va, level);
            if span == 0 {
                continue;
            }
            let found = match &mut self.own[level.index()] {
                Some(array) => find_pointer(array, va, tag, span).map(|(slot, pointer)| {
                    array.touch(slot);
                    pointer
                }),
                None if self.in_l2_tlb[level.index()] => l2.find_pointer(va, tag, span),
                None => None,
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// What [`WalkCaches::lookup`] would find; changes nothing.
    #[must_use]
    pub fn peek(&self, l2: &Tlb<A>, va: Va, tag: A::Tag, spans: &Spans) -> Option<TablePointer<A>> {
        Level::ALL.into_iter().rev().find_map(|level| {
            let span = spans.of_table(va, level);
            match &self.own[level.index()] {
                _ if span == 0 => None,
                Some(array) => find_pointer(array, va, tag, span).map(|(_, pointer)| pointer),
                None if self.in_l2_tlb[level.index()] => l2.peek_pointer(va, tag, span),
                None => None,
            }
        })
    }

    /// Keeps a pointer that a walk for `va` under `tag` has read.
    pub fn fill(
        &mut self,
        l2: &mut Tlb<A>,
        va: Va,
        tag: A::Tag,
        pointer: TablePointer<A>,
        spans: &Spans,
    ) {
        let span_shift = spans.of_table(va, pointer.level);
        if span_shift == 0 {
            return;
        }
        let entry = PointerEntry {
            pointer,
            tag,
            base: Va::new(va.raw() >> span_shift << span_shift),
            span_shift,
        };
        match &mut self.own[pointer.level.index()] {
            Some(array) => {
                array.insert(Cached::Pointer(entry));
            }
            None if self.in_l2_tlb[pointer.level.index()] => l2.fill_pointer(entry),
            None => {}
        }
    }

    /// Removes what `op` must remove from the arrays of their own (those in the TLB go with it).
    /// Returns how many pointers went.
    pub fn invalidate(&mut self, op: &A::Invalidation) -> u64 {
        let arrays = self.own.iter_mut().flatten();
        arrays
            .map(|array| array.remove_pointers(|held| held.condemned_by(op)))
            .sum()
    }
}
