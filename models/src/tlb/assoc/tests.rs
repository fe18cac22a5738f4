use super::*;

#[derive(Clone, PartialEq, Debug)]
struct Page(u64, PageSize);

impl Slot for Page {
    fn class(&self) -> Class {
        Class::page(self.1)
    }
    fn base(&self) -> u64 {
        self.0
    }
    fn same_key(&self, other: &Self) -> bool {
        self == other
    }
    fn is_piece(&self) -> bool {
        false
    }
}

fn page(number: u64) -> Page {
    Page(number << 12, PageSize::Size4K)
}

/// One access in a TLB-like manner; whether it hit.
fn access(array: &mut Assoc<Page>, number: u64) -> bool {
    if let Some(slot) = array.find(Class::page(PageSize::Size4K), number << 12, |_| true) {
        array.touch(slot);
        return true;
    }
    array.insert(page(number));
    false
}

#[test]
fn a_full_array_hits_always_and_one_page_more_thrashes() {
    for (sets, ways) in [(1, 48), (16, 4), (128, 12), (256, 5), (3, 2)] {
        let capacity = (sets * ways) as u64;
        let mut array = Assoc::new(sets, ways);
        for round in 0..3 {
            let hits = (0..capacity).filter(|&n| access(&mut array, n)).count() as u64;
            assert_eq!(hits, if round == 0 { 0 } else { capacity });
        }
        // One page too many for one set: cyclic order evicts each before its next use.
        let sets = sets as u64;
        let conflict: Vec<u64> = (0..=ways as u64).map(|i| i * sets).collect();
        let mut array = Assoc::new(usize::try_from(sets).unwrap_or(1), ways);
        for _ in 0..3 {
            assert_eq!(
                conflict.iter().filter(|&&n| access(&mut array, n)).count(),
                0
            );
        }
    }
}

#[test]
fn the_least_recently_used_entry_leaves() {
    let mut array = Assoc::new(1, 2);
    array.insert(page(1));
    array.insert(page(2));
    assert!(access(&mut array, 1));
    array.insert(page(3));
    assert!(array.iter().all(|held| *held != page(2)));
}

#[test]
fn removal_probes_and_scans_alike() {
    for last in [7, 4000] {
        let mut array = Assoc::new(16, 4);
        for n in 0..64 {
            array.insert(page(n));
        }
        let extent = Extent::Addresses(4 << 12, last << 12);
        let covered = |p: &Page| (4 << 12..=last << 12).contains(&p.0);
        assert_eq!(array.remove_pages(extent, covered), last.min(63) - 3);
        assert_eq!(array.len() as u64, 64 - (last.min(63) - 3));
        assert!(
            array
                .find_ghost(Class::page(PageSize::Size4K), 5 << 12, |_| true)
                .is_some()
        );
        assert!(
            array
                .find(Class::page(PageSize::Size4K), 5 << 12, |_| true)
                .is_none()
        );
    }
}

#[test]
fn entries_of_several_sizes_stand_beside_each_other() {
    let mut array = Assoc::new(4, 2);
    array.insert(Page(0, PageSize::Size4K));
    array.insert(Page(0, PageSize::Size2M));
    assert_eq!(array.page_shifts(), 1 << 12 | 1 << 21);
    assert!(
        array
            .find(Class::page(PageSize::Size2M), 0x1f_ffff, |_| true)
            .is_some()
    );
    assert!(
        array
            .find(Class::page(PageSize::Size4K), 0x1f_ffff, |_| true)
            .is_none()
    );
    assert_eq!(
        array.remove_pages(Extent::Addresses(0x1000, 0x1000), |_| true),
        1
    );
    assert_eq!(array.page_shifts(), 1 << 12);
}

#[test]
fn a_hoarding_array_keeps_everything() {
    let mut array = Assoc::hoarding(2);
    for n in 0..1000 {
        array.insert(page(n));
    }
    assert_eq!(array.len(), 1000);
    assert!((0..1000).all(|n| access(&mut array, n)));
}
