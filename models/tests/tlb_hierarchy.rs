//! What the shape of a core's TLBs decides: pages that share an entry, arrays of stores and of the
//! instruction side, and walks ahead of need.

mod world;

use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::access::{AccessKind, FoundIn};
use mmuscope_models::addr::Pa;
use mmuscope_models::profile::Profile;
use mmuscope_models::x86::X86_64;
use proptest::prelude::*;
use world::{CPU, DATA, ROOT, TestArch, World};

/// Aligned to four pages.
const VA: u64 = 0x12_3456_4000;

fn page(n: u64) -> u64 {
    VA + n * 0x1000
}

/// A small machine on which `policy` joins pages in its second level.
fn world<A: TestArch>(policy: &str) -> World<A> {
    let text = format!(
        "name = \"joins\"\nextends = \"{}\"\n\
         [tlb.policy]\nl2_coalesces = {{ value = \"{policy}\", source = \"test\", quality = \"estimated\" }}\n",
        A::PROFILE
    );
    World::of(&Profile::parse(&text).unwrap(), 1)
}

fn walks<A: TestArch>(world: &World<A>) -> u64 {
    world.system.counters(CPU).data.walks
}

/// Loads the four pages of the quad; how many walks that takes.
fn sweep<A: TestArch>(world: &mut World<A>) -> u64 {
    let before = walks(world);
    for n in 0..4 {
        world.load(page(n));
    }
    walks(world) - before
}

for_both!(
    four_pages_that_fit_are_walked_for_once,
    a_page_that_does_not_fit_stands_alone,
    a_quad_needs_frames_aligned_like_its_pages,
    an_invalidation_of_one_page_removes_all_that_share_its_entry,
    a_page_that_a_store_made_dirty_is_found_again,
);

fn four_pages_that_fit_are_walked_for_once<A: TestArch>() {
    for (policy, expected) in [("none", 4), ("all-four", 1), ("valid-bits", 1)] {
        let mut world = world::<A>(policy);
        world.map_pages(VA, 4);
        assert_eq!(sweep(&mut world), expected, "{policy}");
        for n in 0..4 {
            assert_eq!(world.load(page(n) + 8).pa, Pa::new(DATA + n * 0x1000 + 8));
        }
    }
}

fn a_page_that_does_not_fit_stands_alone<A: TestArch>() {
    // Page 2 is read-only, or absent, or lies elsewhere: the other three can share.
    for odd in [
        A::read_only(DATA + 0x2000),
        0,
        A::page(DATA + 0x9000, false),
    ] {
        for (policy, shared) in [("all-four", 3), ("valid-bits", 1)] {
            let mut world = world::<A>(policy);
            world.map_pages(VA, 4);
            world.map(page(2), odd);
            for n in [0, 1, 3] {
                world.load(page(n));
            }
            assert_eq!(walks(&world), shared, "{policy}");
            let loaded = world.try_access(CPU, AccessKind::Load, page(2));
            assert_eq!(walks(&world), shared + 1, "{policy}");
            assert_eq!(loaded.is_ok(), odd != 0);
            if let Ok(translation) = loaded {
                assert_eq!(translation.pa.raw(), odd & 0xffff_f000);
            }
        }
    }
}

fn a_quad_needs_frames_aligned_like_its_pages<A: TestArch>() {
    let mut world = world::<A>("valid-bits");
    for n in 0..4 {
        world.map(page(n), A::page(DATA + 0x1000 + n * 0x1000, false));
    }
    assert_eq!(sweep(&mut world), 4);
}

fn an_invalidation_of_one_page_removes_all_that_share_its_entry<A: TestArch>() {
    let mut world = world::<A>("valid-bits");
    world.map_pages(VA, 4);
    world.load(page(0));
    let entry = world.entry(ROOT, page(3), 3);
    world.store(entry, 0);
    world.system.invalidate(CPU, &A::one(page(3), 1));
    assert!(world.try_access(CPU, AccessKind::Load, page(3)).is_err());
    let before = world.system.counters(CPU).data.refills;
    world.load(page(1));
    // Page 1 is walked for again because page 3 was invalidated, and is known as such.
    assert_eq!(world.system.counters(CPU).data.refills, before + 1);
}

fn a_page_that_a_store_made_dirty_is_found_again<A: TestArch>() {
    let mut world = world::<A>("all-four");
    world.map_pages(VA, 4);
    world.load(page(0));
    for round in 0..3 {
        let before = walks(&world);
        let stored = world.try_access(CPU, AccessKind::Store, page(1)).unwrap();
        assert_eq!(stored.pa, Pa::new(DATA + 0x1000));
        assert!(
            round == 0 || walks(&world) == before,
            "walks again and again"
        );
    }
}

/// `key` set on a machine that extends another.
fn machine(parent: &str, text: &str) -> Profile {
    Profile::parse(&format!("name = \"own\"\nextends = \"{parent}\"\n{text}")).unwrap()
}

#[test]
fn stores_with_arrays_of_their_own_do_not_evict_loads() {
    let profile = Profile::builtin("ice-lake-sp").unwrap();
    let mut world = World::<X86_64>::of(&profile, 1);
    world.map_pages(VA, 17);
    for _ in 0..2 {
        for n in 0..17 {
            world.try_access(CPU, AccessKind::Store, page(n)).unwrap();
        }
    }
    // Seventeen pages in sixteen entries: every store misses the first level.
    let data = &world.system.counters(CPU).data;
    assert_eq!((data.l1_hits, data.l1_misses, data.l2_hits), (0, 34, 17));
    for n in 0..17 {
        world.load(page(n));
    }
    let first = world.load(page(0));
    assert_eq!(first.found_in, FoundIn::L1Tlb);
}

#[test]
fn the_sides_of_a_split_second_level_do_not_serve_each_other() {
    for (parent, shared) in [("zen3-guest", false), ("skylake-sp", true)] {
        let mut world = World::<X86_64>::of(&Profile::builtin(parent).unwrap(), 1);
        world.map_pages(VA, 1);
        world.load(VA);
        world.try_access(CPU, AccessKind::Fetch, VA).unwrap();
        let fetch = &world.system.counters(CPU).fetch;
        assert_eq!(
            (fetch.l2_hits, fetch.walks),
            if shared { (1, 0) } else { (0, 1) }
        );
    }
}

#[test]
fn a_walk_for_the_next_page_saves_one_and_never_faults() {
    let ahead = "[tlb.policy]\nl2_coalesces = { value = \"none\", source = \"test\", quality = \"estimated\" }\n\
        next_page_prefetch = { value = true, source = \"test\", quality = \"estimated\" }\n";
    let profile = machine("cortex-a76", ahead);
    let mut world = World::<Aarch64>::of(&profile, 1);
    world.map_pages(VA, 8);
    for n in 0..8 {
        world.load(page(n));
    }
    let data = &world.system.counters(CPU).data;
    // Page 7 came with page 6; behind page 6 nothing is left to fetch.
    assert_eq!((data.walks, data.prefetches, data.l2_hits), (4, 4, 4));
    assert_eq!(data.faults, 0);
    world.load(page(7));
    assert!(world.try_access(CPU, AccessKind::Load, page(8)).is_err());
    assert_eq!(world.system.counters(CPU).data.prefetches, 4);
}

/// One step of a random life of eight pages.
#[derive(Copy, Clone, Debug)]
enum Event {
    /// Maps page `.0` to frame `.1`, after break and before make.
    Map(u64, u64, bool),
    Unmap(u64),
    Access(u64, bool),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        (0..8_u64, 0..12_u64, any::<bool>()).prop_map(|(p, f, w)| Event::Map(p, f, w)),
        (0..8_u64).prop_map(Event::Unmap),
        (0..8_u64, any::<bool>()).prop_map(|(p, s)| Event::Access(p, s)),
        (0..8_u64, any::<bool>()).prop_map(|(p, s)| Event::Access(p, s)),
    ];
    proptest::collection::vec(event, 1..80)
}

/// Under software that invalidates what it changes, joined entries answer as the tables do.
fn never_stale<A: TestArch>(policy: &str, events: &[Event]) -> Result<(), TestCaseError> {
    let mut world = world::<A>(policy);
    let mut frames = [None; 8];
    for event in events {
        match *event {
            Event::Map(p, frame, writable) => {
                world.map(page(p), 0);
                world.system.invalidate(CPU, &A::one(page(p), 1));
                let pa = DATA + frame * 0x1000;
                let descriptor = if writable {
                    A::page(pa, false)
                } else {
                    A::read_only(pa)
                };
                world.map(page(p), descriptor);
                frames[usize::try_from(p).unwrap()] = Some((pa, writable));
            }
            Event::Unmap(p) => {
                world.map(page(p), 0);
                world.system.invalidate(CPU, &A::one(page(p), 1));
                frames[usize::try_from(p).unwrap()] = None;
            }
            Event::Access(p, store) => {
                let kind = if store {
                    AccessKind::Store
                } else {
                    AccessKind::Load
                };
                let expected = frames[usize::try_from(p).unwrap()]
                    .filter(|(_, writable)| *writable || !store)
                    .map(|(pa, _)| Pa::new(pa));
                let got = world.try_access(CPU, kind, page(p)).ok();
                prop_assert_eq!(got.map(|it| it.pa), expected);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn joined_entries_answer_as_the_tables_do(events in events()) {
        for policy in ["all-four", "valid-bits"] {
            never_stale::<Aarch64>(policy, &events)?;
            never_stale::<X86_64>(policy, &events)?;
        }
    }
}
