//! Coalescing: one entry for up to four neighbouring pages that software did not declare a group.
//!
//! A walk reads a whole line of descriptors. If those around the one it wants map the rest of an
//! aligned quad of pages to the same quad of frames with equal attributes, some cores keep all of
//! them as one entry. Two designs are known: AMD's Zen needs all four pages, Cortex-A76 keeps a
//! valid bit for each. Nothing of it is visible to software beside time: an invalidation of any
//! page of an entry removes the entry, which the architectures allow.

use serde::Deserialize;

use crate::addr::{Pa, PageSize, Va};
use crate::arch::{Arch, Descriptor, Half, Leaf};
use crate::memory::TableMemory;

/// When neighbouring pages share an entry.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coalescing {
    /// Never.
    #[default]
    None,
    /// If all four pages of an aligned quad fit together.
    AllFour,
    /// If at least two pages of an aligned quad fit together; the entry has a valid bit for each.
    ValidBits,
}

/// Which pages of a leaf's aligned quad fit together with the leaf: bit `n` is page `n`.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Quad(u8);

impl Quad {
    /// The leaf alone; what a level that does not coalesce makes of any page.
    pub const ALONE: Self = Self(0);
    const PAGES: u64 = 4;
    const ALL: u8 = 0xf;

    /// The pages around `leaf`, whose descriptor stands at `at`.
    ///
    /// Only pages of the last level whose quad is itself a [`PageSize`] are looked at (those of
    /// 4 and 16 KiB). Descriptors are compared as memory holds them, so that pages that differ
    /// in any attribute, accessed and dirty state included, stay apart.
    #[must_use]
    pub fn around<A: Arch>(
        context: &A::Context,
        leaf: &Leaf<A>,
        at: Pa,
        memory: &impl TableMemory,
    ) -> Self {
        let shift = leaf.size.shift();
        let own = leaf.va.raw() >> shift & (Self::PAGES - 1);
        if of_four(leaf.size).is_none() || leaf.pa.raw() >> shift & (Self::PAGES - 1) != own {
            return Self::ALONE;
        }
        let half = if leaf.va.raw() >> 63 == 0 {
            Half::Lower
        } else {
            Half::Upper
        };
        let Some(raw) = memory.read_descriptor(at) else {
            return Self::ALONE;
        };
        let maps = |raw: u64, page: u64| {
            let frame = leaf.pa.wrapping_add((page.wrapping_sub(own)) << shift);
            matches!(A::descriptor(context, half, leaf.level, raw),
                Descriptor::Leaf { pa, size, .. } if pa == frame && size == leaf.size)
        };
        // A descriptor that has changed since, or is not in this byte order, joins nothing.
        if !maps(raw, own) {
            return Self::ALONE;
        }
        let pages = (0..Self::PAGES).filter(|&page| {
            let at = at.wrapping_add(page.wrapping_sub(own).wrapping_mul(8));
            memory.read_descriptor(at).is_some_and(|other| {
                let same_but_frame = (other ^ raw) == (page ^ own) << shift;
                same_but_frame && maps(other, page)
            })
        });
        Self(pages.fold(0, |mask, page| mask | 1 << page))
    }

    /// Whether a level of this design keeps the pages as one entry.
    const fn joins(self, coalescing: Coalescing) -> bool {
        match coalescing {
            Coalescing::None => false,
            Coalescing::AllFour => self.0 == Self::ALL,
            Coalescing::ValidBits => self.0.count_ones() >= 2,
        }
    }
}

/// The pages of an entry that are valid: all of them unless the entry was coalesced.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct ValidPages(u8);

impl ValidPages {
    /// Every page: an entry that was not coalesced.
    pub const ALL: Self = Self(u8::MAX);

    /// Whether the entry, made of pages of `size`, serves `va`, which lies within it.
    #[inline]
    #[must_use]
    pub const fn serve(self, va: Va, size: PageSize) -> bool {
        self.0 == Self::ALL.0 || self.0 >> (va.raw() >> size.shift() & (Quad::PAGES - 1)) & 1 == 1
    }

    /// Whether two entries around one address have a page in common.
    pub(super) const fn overlap(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// What an entry knows about the pages around its leaf.
    pub(super) const fn quad(self) -> Quad {
        if self.0 == Self::ALL.0 {
            Quad::ALONE
        } else {
            Quad(self.0)
        }
    }
}

/// The size that `quad` of pages of `size` is held as, and its valid pages, if a level of this
/// design joins them.
pub(super) fn joined(
    coalescing: Coalescing,
    quad: Quad,
    size: PageSize,
) -> Option<(PageSize, ValidPages)> {
    let held = of_four(size)?;
    quad.joins(coalescing).then_some((held, ValidPages(quad.0)))
}

/// The size of four pages of `size`, where that is a page size.
pub(super) fn of_four(size: PageSize) -> Option<PageSize> {
    PageSize::ALL
        .into_iter()
        .find(|larger| larger.shift() == size.shift() + 2)
}
