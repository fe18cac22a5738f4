//! A short cut for accesses that hit the first-level TLB again and again.
//!
//! Nearly every access is to a page that was just used. The answer to it is known: the same entry
//! is found, the same check passes. A [`Memo`] keeps such answers for as long as nothing that they
//! depend on changes: the contents of the TLB and the registers of translation. It changes nothing
//! that can be observed; the caller still counts the hit and marks the entry as used.

use crate::access::{Access, AccessKind, FoundIn, Privilege, Rights, Translation};
use crate::addr::{Pa, PageSize};
use crate::tlb::Place;

const ANSWERS: usize = 256;
const PAGE_MASK: u64 = 0xfff;

/// Answers for accesses to one first-level TLB.
#[derive(Clone, Debug)]
pub(super) struct Memo {
    /// Answers of other generations are void. Generation 0 is never current.
    generation: u64,
    answers: Vec<Answer>,
}

#[derive(Copy, Clone, Debug)]
struct Answer {
    generation: u64,
    /// Page, kind and privilege.
    key: u64,
    place: Place,
    /// Where the 4 KiB page lies.
    page: Pa,
    size: PageSize,
    rights: Rights,
}

impl Memo {
    pub(super) fn new() -> Self {
        let void = Answer {
            generation: 0,
            key: 0,
            place: Place::default(),
            page: Pa::new(0),
            size: PageSize::Size4K,
            rights: Rights::default(),
        };
        Self {
            generation: 1,
            answers: vec![void; ANSWERS],
        }
    }

    /// Something has changed: no answer is valid any more.
    #[inline]
    pub(super) const fn forget(&mut self) {
        self.generation += 1;
    }

    /// The entry that serves `access`, and what it gives.
    #[inline]
    pub(super) fn find(&self, access: &Access) -> Option<(Place, Translation)> {
        let key = key(access);
        let answer = &self.answers[index(access)];
        if answer.generation != self.generation || answer.key != key {
            return None;
        }
        let translation = Translation {
            pa: answer.page.wrapping_add(access.va.raw() & PAGE_MASK),
            size: answer.size,
            rights: answer.rights,
            found_in: FoundIn::L1Tlb,
        };
        Some((answer.place, translation))
    }

    /// Keeps the answer to an access that hit the entry at `place` and was allowed.
    #[inline]
    pub(super) fn keep(&mut self, access: &Access, place: Place, given: &Translation) {
        self.answers[index(access)] = Answer {
            generation: self.generation,
            key: key(access),
            place,
            page: given.pa.page_base(PageSize::Size4K),
            size: given.size,
            rights: given.rights,
        };
    }
}

#[inline]
const fn key(access: &Access) -> u64 {
    let kind = match access.kind {
        AccessKind::Load => 0,
        AccessKind::Store => 1,
        AccessKind::Fetch => 2,
    };
    let privilege = match access.privilege {
        Privilege::User => 4,
        Privilege::Supervisor => 0,
    };
    access.va.raw() & !PAGE_MASK | kind | privilege
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "masked to the number of answers"
)]
const fn index(access: &Access) -> usize {
    let page = access.va.raw() >> 12;
    let store = matches!(access.kind, AccessKind::Store) as u64;
    (page << 1 ^ page >> 9 ^ store) as usize & (ANSWERS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Va;

    #[test]
    fn answers_the_same_page_kind_and_privilege_until_told_to_forget() {
        let mut memo = Memo::new();
        let load = Access::new(Va::new(0x7000_1008), AccessKind::Load, Privilege::User);
        assert!(memo.find(&load).is_none());
        let given = Translation {
            pa: Pa::new(0x4000_5008),
            size: PageSize::Size2M,
            rights: Rights::default(),
            found_in: FoundIn::L1Tlb,
        };
        memo.keep(&load, Place::default(), &given);
        let near = Access {
            va: Va::new(0x7000_1ff0),
            ..load
        };
        let (_, answer) = memo.find(&near).unwrap();
        assert_eq!(answer.pa, Pa::new(0x4000_5ff0));
        assert_eq!(answer.size, PageSize::Size2M);
        let others = [
            Access {
                va: Va::new(0x7000_2008),
                ..load
            },
            Access {
                kind: AccessKind::Store,
                ..load
            },
            Access {
                privilege: Privilege::Supervisor,
                ..load
            },
        ];
        assert!(others.iter().all(|other| memo.find(other).is_none()));
        memo.forget();
        assert!(memo.find(&load).is_none());
    }
}
