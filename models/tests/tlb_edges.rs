//! Every array of every built-in profile keeps what the arithmetic of its sets and ways says, and
//! nothing that was removed.

use std::collections::{BTreeMap, BTreeSet};

use mmuscope_models::addr::PageSize;
use mmuscope_models::profile::Profile;
use mmuscope_models::tlb::Replacement;
use mmuscope_models::tlb::assoc::{Assoc, Class, Extent, Slot};
use proptest::prelude::*;

#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct Page {
    number: u64,
    size: PageSize,
}

impl Slot for Page {
    fn class(&self) -> Class {
        Class::page(self.size)
    }
    fn base(&self) -> u64 {
        self.number << self.size.shift()
    }
    fn same_key(&self, other: &Self) -> bool {
        self == other
    }
    fn is_piece(&self) -> bool {
        false
    }
}

/// Looks a page up and fills it in after a miss; whether it missed.
fn misses(array: &mut Assoc<Page>, page: Page) -> bool {
    match array.find_page(page.base(), |_| true) {
        Some(at) => {
            array.touch(at);
            false
        }
        None => {
            array.insert(page);
            true
        }
    }
}

/// Misses of every later round of visits in one order: a set with no more pages than ways keeps
/// them all, and one with more evicts each page before its next visit.
fn expected(pages: &[u64], sets: u64, ways: usize) -> usize {
    let mut in_set = BTreeMap::<u64, usize>::new();
    for page in pages {
        *in_set.entry(page % sets).or_default() += 1;
    }
    in_set.values().filter(|count| **count > ways).sum()
}

/// `count` pages a stride apart, and in another order the second time.
fn orders(count: u64, stride: u64) -> [Vec<u64>; 2] {
    let straight: Vec<u64> = (0..count).map(|n| n * stride).collect();
    let mut mixed = straight.clone();
    mixed.sort_by_key(|page| page.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    [straight, mixed]
}

#[test]
fn each_array_of_each_profile_misses_as_its_sets_and_ways_say() {
    let mut arrays = 0;
    // Machines share geometries; each is tried once.
    let mut tried = BTreeSet::new();
    for name in Profile::names() {
        let profile = Profile::builtin(name).unwrap();
        let tlb = &profile.machine().tlb;
        for (key, array) in tlb.l1i.iter().chain(&tlb.l1d).chain(&tlb.l2) {
            let lru = array.replacement.as_ref();
            assert!(lru.is_none_or(|it| it.value == Replacement::Lru));
            let ways = array.ways.value;
            let sets = array.entries.value / ways;
            let capacity = array.entries.value as u64;
            for size in &array.sizes {
                if !tried.insert((sets, ways, *size)) {
                    continue;
                }
                for count in [capacity / 2, capacity, capacity + 1, 2 * capacity] {
                    for stride in [1, 2, 3, sets as u64] {
                        for order in orders(count, stride) {
                            let mut held = Assoc::new(sets, ways);
                            let mut round = || {
                                let visit = |n: &&u64| {
                                    let page = Page {
                                        number: **n,
                                        size: *size,
                                    };
                                    misses(&mut held, page)
                                };
                                order.iter().filter(visit).count()
                            };
                            assert_eq!(round(), order.len(), "cold: {name} {key}");
                            let warm = expected(&order, sets as u64, ways);
                            let what =
                                format!("{name} {key} {size}: {count} pages, stride {stride}");
                            assert_eq!(round(), warm, "{what}");
                            assert_eq!(round(), warm, "{what}");
                        }
                    }
                }
                // Where the edges are, said once more without the formula above.
                assert_eq!(expected(&orders(capacity, 1)[0], sets as u64, ways), 0);
                let over = expected(&orders(capacity + 1, 1)[0], sets as u64, ways);
                assert_eq!(over, ways + 1);
            }
            arrays += 1;
        }
    }
    assert!(arrays > 3 * 14, "{arrays} arrays");
}

fn replacements() -> impl Strategy<Value = Replacement> {
    prop::sample::select(vec![
        Replacement::Lru,
        Replacement::TreePlru,
        Replacement::Random,
    ])
}

#[derive(Clone, Debug)]
enum Event {
    Visit(u64, PageSize),
    Remove(u64, u64),
    RemoveAll,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let size = prop::sample::select(vec![PageSize::Size4K, PageSize::Size64K, PageSize::Size2M]);
    let event = prop_oneof![
        20 => (0_u64..1500, size).prop_map(|(n, size)| Event::Visit(n << 12 >> size.shift(), size)),
        3 => (0_u64..1500, 0_u64..64).prop_map(|(n, more)| Event::Remove(n << 12, (n + more) << 12)),
        1 => Just(Event::RemoveAll),
    ];
    prop::collection::vec(event, 1..400)
}

proptest! {
    #[test]
    fn nothing_removed_is_found_and_a_hoarding_array_keeps_the_rest(
        replacement in replacements(),
        seed: u64,
        sets in 1_usize..9,
        ways in prop::sample::select(vec![1_usize, 2, 4, 8]),
        events in events(),
    ) {
        let mut array = Assoc::replacing(sets, ways, replacement, seed);
        let mut hoard = Assoc::hoarding(sets);
        let mut known = Vec::<Page>::new();
        let served = |page: &Page| (page.base(), page.base() + page.size.bytes() - 1);
        for event in events {
            let extent = match event {
                Event::Visit(number, size) => {
                    let page = Page { number, size };
                    array.insert(page);
                    hoard.insert(page);
                    if !known.contains(&page) {
                        known.push(page);
                    }
                    // What was put in last is there, whatever the replacement.
                    prop_assert!(array.find(page.class(), page.base(), |it| *it == page).is_some());
                    continue;
                }
                Event::Remove(first, last) => (first, last),
                Event::RemoveAll => (0, u64::MAX),
            };
            let covered = |page: &Page| served(page).0 <= extent.1 && served(page).1 >= extent.0;
            let scope = match event {
                Event::RemoveAll => Extent::All,
                _ => Extent::Addresses(extent.0, extent.1),
            };
            let before = array.len() as u64;
            let removed = array.remove_pages(scope, covered);
            prop_assert_eq!(array.len() as u64, before - removed);
            let all = known.iter().filter(|page| covered(page)).count() as u64;
            prop_assert_eq!(hoard.remove_pages(scope, covered), all);
            known.retain(|page| !covered(page));
            prop_assert!(array.iter().all(|page| known.contains(page)));
            prop_assert_eq!(hoard.len(), known.len());
        }
        for page in &known {
            prop_assert!(hoard.find(page.class(), page.base(), |it| it == page).is_some());
        }
        prop_assert!(array.len() <= sets * ways);
    }

    #[test]
    fn one_seed_and_one_stream_evict_the_same(
        replacement in replacements(),
        seed: u64,
        pages in prop::collection::vec(0_u64..200, 1..300),
    ) {
        let run = || {
            let mut array = Assoc::replacing(4, 8, replacement, seed);
            let visit = |n: &u64| misses(&mut array, Page { number: *n, size: PageSize::Size4K });
            pages.iter().map(visit).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }
}
