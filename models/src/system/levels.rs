//! A core's TLBs: who looks in which arrays.
//!
//! Fetches, loads and stores each have a first level, except that stores look in that of loads
//! where the profile gives them none; both sides share the second level where the profile gives
//! the instruction side none.

use super::TranslationMode;
use super::memo::Memo;
use super::parameters::Parameters;
use crate::access::AccessKind;
use crate::addr::Va;
use crate::arch::{Arch, Leaf};
use crate::observer::Removal;
use crate::tlb::{LevelShape, Quad, Tlb};

/// A first level and the short cut in front of it.
#[derive(Clone, Debug)]
pub(super) struct FirstLevel<A: Arch> {
    pub(super) tlb: Tlb<A>,
    pub(super) memo: Memo,
}

impl<A: Arch> FirstLevel<A> {
    fn new(shape: &LevelShape) -> Self {
        Self {
            tlb: Tlb::new(shape),
            memo: Memo::new(),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Levels<A: Arch> {
    /// Of fetches, of loads, and of stores if they have one.
    first: [FirstLevel<A>; 3],
    stores_have_own: bool,
    /// The data side's second level, which may hold table pointers too.
    pub(super) l2: Tlb<A>,
    l2i: Option<Tlb<A>>,
    coalesces: bool,
}

impl<A: Arch> Levels<A> {
    pub(super) fn new(parameters: &Parameters, mode: TranslationMode) -> Self {
        let stores = parameters.l1d_store.as_ref();
        let first = [
            FirstLevel::new(&parameters.l1i),
            FirstLevel::new(&parameters.l1d),
            FirstLevel::new(stores.unwrap_or(&LevelShape::default())),
        ];
        let (l2, l2i) = if mode == TranslationMode::Hoarder {
            (Tlb::hoarding(), None)
        } else {
            let l2i = parameters.l2i.as_ref().map(Tlb::new);
            (Tlb::new(&parameters.l2), l2i)
        };
        let all = first.iter().map(|it| &it.tlb).chain([&l2]).chain(&l2i);
        let coalesces = all.into_iter().any(Tlb::coalesces);
        Self {
            first,
            stores_have_own: stores.is_some(),
            l2,
            l2i,
            coalesces,
        }
    }

    /// Whether any array joins neighbouring pages.
    pub(super) const fn coalesces(&self) -> bool {
        self.coalesces
    }

    const fn side(&self, kind: AccessKind) -> usize {
        match kind {
            AccessKind::Fetch => 0,
            AccessKind::Load => 1,
            AccessKind::Store => 1 + self.stores_have_own as usize,
        }
    }

    #[inline]
    pub(super) const fn first(&self, kind: AccessKind) -> &FirstLevel<A> {
        &self.first[self.side(kind)]
    }

    #[inline]
    pub(super) const fn first_mut(&mut self, kind: AccessKind) -> &mut FirstLevel<A> {
        &mut self.first[self.side(kind)]
    }

    pub(super) const fn second(&self, kind: AccessKind) -> &Tlb<A> {
        match (&self.l2i, kind) {
            (Some(l2i), AccessKind::Fetch) => l2i,
            _ => &self.l2,
        }
    }

    pub(super) const fn second_mut(&mut self, kind: AccessKind) -> &mut Tlb<A> {
        match (&mut self.l2i, kind) {
            (Some(l2i), AccessKind::Fetch) => l2i,
            _ => &mut self.l2,
        }
    }

    pub(super) fn fill_first(&mut self, kind: AccessKind, va: Va, leaf: &Leaf<A>, quad: Quad) {
        let level = self.first_mut(kind);
        level.memo.forget();
        level.tlb.fill(va, leaf, quad);
    }

    /// What was known from earlier accesses is void.
    pub(super) fn forget_answers(&mut self) {
        for level in &mut self.first {
            level.memo.forget();
        }
    }

    /// Removes what `op` must remove. The table pointers of the result are those of the second
    /// level.
    pub(super) fn invalidate(&mut self, op: &A::Invalidation) -> Removal {
        self.forget_answers();
        let mut removal = Removal::default();
        for level in &mut self.first {
            removal.l1_entries += level.tlb.invalidate(op).0;
        }
        for l2 in [&mut self.l2].into_iter().chain(&mut self.l2i) {
            let (entries, pointers) = l2.invalidate(op);
            removal.l2_entries += entries;
            removal.table_pointers += pointers;
        }
        removal
    }
}
