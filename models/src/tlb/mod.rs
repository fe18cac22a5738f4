//! Translation lookaside buffers: one level of a core's hierarchy, made of one or more arrays.
//!
//! A profile says which page sizes each array holds. A translation is held as a contiguous group
//! if the level caches groups and an array takes the group's size; else as its page; else, if the
//! level fractures pages, as a piece of the largest size that fits; else not at all. A level that
//! coalesces ([`Coalescing`]) joins neighbouring pages that are no group of software's making.
//!
//! Entries of different sizes may overlap, as they may in hardware when tables are changed
//! without invalidation. Of several that match, the array order and then the smaller size decide;
//! the architectures leave the choice open.

pub mod assoc;
mod coalesce;
mod replacement;

use crate::addr::{PageSize, Va};
use crate::arch::{Arch, Footprint, Leaf, TablePointer};

use assoc::{Assoc, At, Class, Extent, Slot};

pub use coalesce::{Coalescing, Quad, ValidPages};
pub use replacement::Replacement;

/// A translation as a TLB holds it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct TlbEntry<A: Arch> {
    /// What the walk found.
    pub leaf: Leaf<A>,
    /// The size of the entry: the page, its contiguous group, or a piece of the page.
    pub held: PageSize,
    /// The first address that the entry serves; aligned to `held`.
    pub base: Va,
    /// Which of its pages it serves.
    pub pages: ValidPages,
}

impl<A: Arch> TlbEntry<A> {
    /// The size around an address within the entry that it is sure to serve as a whole.
    #[must_use]
    pub fn unit(&self) -> PageSize {
        if self.pages == ValidPages::ALL {
            self.held
        } else {
            self.leaf.size
        }
    }

    /// What the entry knows about the neighbours of its pages.
    #[must_use]
    pub const fn quad(&self) -> Quad {
        self.pages.quad()
    }

    #[inline]
    fn serves(&self, va: Va, tag: &A::Tag) -> bool {
        self.leaf.scope.admits(tag) && self.pages.serve(va, self.leaf.size)
    }
}

/// A table pointer as a walk cache holds it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct PointerEntry<A: Arch> {
    /// The table.
    pub pointer: TablePointer<A>,
    /// The address space it was read for.
    pub tag: A::Tag,
    /// The first address that the table serves; aligned to its span.
    pub base: Va,
    /// log2 of the bytes that the table serves.
    pub span_shift: u8,
}

/// An entry of a TLB array. Some machines keep table pointers among the translations.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Cached<A: Arch> {
    /// A translation.
    Leaf(TlbEntry<A>),
    /// A table pointer.
    Pointer(PointerEntry<A>),
}

impl<A: Arch> Cached<A> {
    /// Whether `op` must remove the entry.
    #[must_use]
    pub fn condemned_by(&self, op: &A::Invalidation) -> bool {
        match self {
            Self::Leaf(entry) => A::removes(op, &entry.leaf, entry.held),
            Self::Pointer(entry) => A::removes_pointer(
                op,
                entry.tag,
                entry.base,
                &entry.pointer,
                u32::from(entry.span_shift),
            ),
        }
    }
}

impl<A: Arch> Slot for Cached<A> {
    #[inline]
    fn class(&self) -> Class {
        match self {
            Self::Leaf(entry) => Class::page(entry.held),
            Self::Pointer(entry) => Class::pointer(entry.span_shift),
        }
    }

    #[inline]
    fn base(&self) -> u64 {
        match self {
            Self::Leaf(entry) => entry.base.raw(),
            Self::Pointer(entry) => entry.base.raw(),
        }
    }

    fn same_key(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Leaf(a), Self::Leaf(b)) => {
                a.leaf.scope == b.leaf.scope && a.pages.overlap(b.pages)
            }
            (Self::Pointer(a), Self::Pointer(b)) => {
                a.tag == b.tag && a.pointer.level == b.pointer.level
            }
            _ => false,
        }
    }

    fn is_piece(&self) -> bool {
        matches!(self, Self::Leaf(entry) if entry.held < entry.leaf.size)
    }
}

/// The extent of the translations that an operation can concern.
fn extent<A: Arch>(op: &A::Invalidation) -> Extent {
    match A::footprint(op) {
        Footprint::Everywhere => Extent::All,
        Footprint::Addresses { first, last } => Extent::Addresses(first.raw(), last.raw()),
    }
}

/// One array of a level: its geometry and the page sizes it takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArrayShape {
    /// Number of sets; the index is the page number modulo this.
    pub sets: usize,
    /// Entries per set.
    pub ways: usize,
    /// The page sizes it holds.
    pub sizes: Vec<PageSize>,
    /// Which entry of a full set makes room.
    pub replacement: Replacement,
    /// The seed of a random replacement.
    pub seed: u64,
}

/// What one level holds and how.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LevelShape {
    /// Its arrays.
    pub arrays: Vec<ArrayShape>,
    /// Whether a contiguous group takes one entry where an array has its size.
    pub groups: bool,
    /// Whether a page of a size that no array has is held in pieces.
    pub fractures: bool,
    /// Whether neighbouring pages share an entry.
    pub coalesces: Coalescing,
}

#[derive(Clone, Debug)]
struct Array<A: Arch> {
    /// Bit `n`: pages of `1 << n` bytes.
    sizes: u64,
    entries: Assoc<Cached<A>>,
}

/// Where a level holds an entry.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    array: usize,
    at: At,
}

/// One level of TLB.
#[derive(Clone, Debug)]
pub struct Tlb<A: Arch> {
    arrays: Vec<Array<A>>,
    groups: bool,
    fractures: bool,
    coalesces: Coalescing,
}

/// How a level holds a leaf.
struct Placement {
    array: usize,
    held: PageSize,
    pages: ValidPages,
}

impl<A: Arch> Tlb<A> {
    /// An empty level of this shape.
    #[must_use]
    pub fn new(shape: &LevelShape) -> Self {
        let arrays = shape
            .arrays
            .iter()
            .map(|array| Array {
                sizes: array.sizes.iter().fold(0, |set, s| set | 1 << s.shift()),
                entries: Assoc::replacing(array.sets, array.ways, array.replacement, array.seed),
            })
            .collect();
        Self {
            arrays,
            groups: shape.groups,
            fractures: shape.fractures,
            coalesces: shape.coalesces,
        }
    }

    /// A level that takes every page as a page and never evicts.
    #[must_use]
    pub fn hoarding() -> Self {
        Self {
            arrays: vec![Array {
                sizes: u64::MAX,
                entries: Assoc::hoarding(1024),
            }],
            groups: false,
            fractures: false,
            coalesces: Coalescing::None,
        }
    }

    /// Whether it joins neighbouring pages, so that [`Tlb::fill`] wants to know about them.
    #[must_use]
    pub fn coalesces(&self) -> bool {
        self.coalesces != Coalescing::None
    }

    /// Finds the translation of `va` for accesses under `tag`. The address has no tag bits.
    #[inline]
    #[must_use]
    pub fn find(&self, va: Va, tag: A::Tag) -> Option<(Place, &TlbEntry<A>)> {
        for (index, array) in self.arrays.iter().enumerate() {
            let found = array.entries.find_page(
                va.raw(),
                |held| matches!(held, Cached::Leaf(entry) if entry.serves(va, &tag)),
            );
            if let Some(at) = found
                && let Some(Cached::Leaf(entry)) = array.entries.get(at)
            {
                return Some((Place { array: index, at }, entry));
            }
        }
        None
    }

    /// Makes the entry at `place` the most recently used of its set.
    #[inline]
    pub fn touch(&mut self, place: Place) {
        if let Some(array) = self.arrays.get_mut(place.array) {
            array.entries.touch(place.at);
        }
    }

    /// Whether an invalidation removed the translation that a walk for `va` has found as `leaf`,
    /// and its slot has not been reused since.
    #[must_use]
    pub fn was_removed(&self, va: Va, leaf: &Leaf<A>) -> bool {
        let Some(alone) = self.placement(leaf, Quad::ALONE) else {
            return false;
        };
        let ghosts = &self.arrays[alone.array].entries;
        // It may have been joined with neighbours that no longer fit.
        let joined = self.coalesces().then(|| coalesce::of_four(leaf.size));
        let sizes = [Some(alone.held), joined.flatten()];
        sizes.into_iter().flatten().any(|held| {
            let served = |old: &Cached<A>| {
                matches!(old, Cached::Leaf(entry) if entry.leaf.scope == leaf.scope
                    && entry.pages.serve(va, leaf.size))
            };
            ghosts
                .find_ghost(Class::page(held), va.raw(), served)
                .is_some()
        })
    }

    /// Holds `leaf`, which a walk for `va` found, if any array takes its size. `quad` says which
    /// pages around it could share its entry.
    pub fn fill(&mut self, va: Va, leaf: &Leaf<A>, quad: Quad) {
        let Some(Placement { array, held, pages }) = self.placement(leaf, quad) else {
            return;
        };
        let entries = &mut self.arrays[array].entries;
        if pages != ValidPages::ALL {
            // What the new entry stands for leaves, or it would go on answering beside it.
            let served = |old: &Cached<A>| {
                matches!(old, Cached::Leaf(entry) if entry.leaf.scope == leaf.scope
                    && entry.pages.overlap(pages))
            };
            entries.displace(Class::page(leaf.size), va.raw(), served);
            entries.displace(Class::page(held), va.raw(), served);
        }
        entries.insert(Cached::Leaf(TlbEntry {
            leaf: *leaf,
            held,
            base: va.page_base(held),
            pages,
        }));
    }

    /// Holds a table pointer in the first array, beside the translations.
    pub fn fill_pointer(&mut self, entry: PointerEntry<A>) {
        if let Some(array) = self.arrays.first_mut() {
            array.entries.insert(Cached::Pointer(entry));
        }
    }

    /// Finds a table pointer for `va` under `tag` that serves `1 << span_shift` bytes, and makes
    /// it the most recently used.
    pub fn find_pointer(&mut self, va: Va, tag: A::Tag, span_shift: u8) -> Option<TablePointer<A>> {
        let entries = &mut self.arrays.first_mut()?.entries;
        let (slot, pointer) = find_pointer(entries, va, tag, span_shift)?;
        entries.touch(slot);
        Some(pointer)
    }

    /// The same, and leaves no trace.
    #[must_use]
    pub fn peek_pointer(&self, va: Va, tag: A::Tag, span_shift: u8) -> Option<TablePointer<A>> {
        let entries = &self.arrays.first()?.entries;
        find_pointer(entries, va, tag, span_shift).map(|(_, pointer)| pointer)
    }

    /// Removes what `op` must remove. Returns how many translations and how many table pointers
    /// went.
    pub fn invalidate(&mut self, op: &A::Invalidation) -> (u64, u64) {
        let extent = extent::<A>(op);
        let condemned = |held: &Cached<A>| held.condemned_by(op);
        let mut removed = (0, 0);
        for array in &mut self.arrays {
            removed.0 += array.entries.remove_pages(extent, condemned);
            removed.1 += array.entries.remove_pointers(condemned);
        }
        removed
    }

    /// Every translation held.
    pub fn iter(&self) -> impl Iterator<Item = &TlbEntry<A>> {
        let held = self.arrays.iter().flat_map(|array| array.entries.iter());
        held.filter_map(|held| match held {
            Cached::Leaf(entry) => Some(entry),
            Cached::Pointer(_) => None,
        })
    }

    /// How `leaf` is held, if any array takes it.
    fn placement(&self, leaf: &Leaf<A>, quad: Quad) -> Option<Placement> {
        let takes = |size: PageSize| {
            let bit = 1_u64 << size.shift();
            self.arrays.iter().position(|a| a.sizes & bit != 0)
        };
        let whole = |array, held| Placement {
            array,
            held,
            pages: ValidPages::ALL,
        };
        if self.groups
            && let Some(group) = leaf.group
            && let Some(array) = takes(group)
        {
            return Some(whole(array, group));
        }
        if let Some(array) = takes(leaf.size) {
            let joined = coalesce::joined(self.coalesces, quad, leaf.size);
            return Some(match joined {
                Some((held, pages)) => Placement { array, held, pages },
                None => whole(array, leaf.size),
            });
        }
        if !self.fractures {
            return None;
        }
        let smaller = PageSize::ALL.into_iter().filter(|s| *s < leaf.size);
        smaller
            .rev()
            .find_map(|size| takes(size).map(|array| whole(array, size)))
    }
}

/// Looks for a table pointer in any array that holds some.
pub(crate) fn find_pointer<A: Arch>(
    entries: &Assoc<Cached<A>>,
    va: Va,
    tag: A::Tag,
    span_shift: u8,
) -> Option<(At, TablePointer<A>)> {
    let slot = entries.find(
        Class::pointer(span_shift),
        va.raw(),
        |held| matches!(held, Cached::Pointer(entry) if entry.tag == tag),
    )?;
    match entries.get(slot) {
        Some(Cached::Pointer(entry)) => Some((slot, entry.pointer)),
        _ => None,
    }
}
