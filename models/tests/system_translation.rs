//! What a system translates, remembers and forgets.

mod world;

use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::access::{Access, AccessKind, FoundIn, Privilege};
use mmuscope_models::addr::{Level, Pa, PageSize, Va};
use mmuscope_models::arch::Half;
use mmuscope_models::memory::TableMemory;
use mmuscope_models::profile::Profile;
use mmuscope_models::system::TranslationMode;
use mmuscope_models::x86::X86_64;
use world::{CPU, DATA, OTHER, ROOT, TestArch, World, tlbi};

const VA: u64 = 0x12_3456_7000;

for_both!(
    a_stale_translation_is_used_until_it_is_invalidated,
    an_eviction_shows_the_new_translation_early,
    a_pass_through_system_is_never_stale,
    a_hoarder_stays_stale_whatever_else_is_used,
    walks_start_at_the_deepest_known_table,
    a_moved_table_keeps_serving_through_the_walk_cache,
    tags_keep_address_spaces_apart_unless_the_page_is_global,
    invalidating_one_space_leaves_the_others,
    peeking_answers_like_an_access_and_leaves_no_trace,
    stores_to_tables_are_classified_by_what_they_do,
    tables_below_a_new_root_are_found,
    a_refill_is_blamed_on_the_invalidation_that_caused_it,
    each_first_level_array_hits_up_to_its_capacity_and_no_further,
);

fn a_stale_translation_is_used_until_it_is_invalidated<A: TestArch>() {
    let mut world = World::<A>::new(1);
    world.map(VA, A::page(DATA, false));
    assert_eq!(world.load(VA + 8).pa, Pa::new(DATA + 8));
    world.map(VA, A::page(DATA + 0x1000, false));
    let stale = world.load(VA);
    assert_eq!((stale.pa, stale.found_in), (Pa::new(DATA), FoundIn::L1Tlb));
    world.system.invalidate(CPU, &A::one(VA, 1));
    let fresh = world.load(VA);
    assert_eq!(fresh.pa, Pa::new(DATA + 0x1000));
    assert_eq!(fresh.found_in, FoundIn::Walk);
}

fn an_eviction_shows_the_new_translation_early<A: TestArch>() {
    let mut world = World::<A>::new(1);
    world.map(VA, A::page(DATA, false));
    world.load(VA);
    world.map(VA, A::page(DATA + 0x1000, false));
    // More pages than any array of the profiles holds.
    let others = 0x4000_0000;
    world.map_pages(others, 4096);
    for n in 0..4096 {
        world.load(others + n * 0x1000);
    }
    assert_eq!(world.load(VA).pa, Pa::new(DATA + 0x1000));
}

fn a_pass_through_system_is_never_stale<A: TestArch>() {
    let mut world = World::<A>::new(1);
    world.system.set_mode(TranslationMode::PassThrough);
    world.map(VA, A::page(DATA, false));
    world.load(VA);
    world.map(VA, A::page(DATA + 0x1000, false));
    assert_eq!(world.load(VA).pa, Pa::new(DATA + 0x1000));
}

fn a_hoarder_stays_stale_whatever_else_is_used<A: TestArch>() {
    let mut world = World::<A>::new(1);
    world.system.set_mode(TranslationMode::Hoarder);
    world.map(VA, A::page(DATA, false));
    world.load(VA);
    world.map(VA, A::page(DATA + 0x1000, false));
    let others = 0x4000_0000;
    world.map_pages(others, 4096);
    for n in 0..4096 {
        world.load(others + n * 0x1000);
    }
    assert_eq!(world.load(VA).pa, Pa::new(DATA));
    world.system.invalidate(CPU, &A::one(VA, 1));
    assert_eq!(world.load(VA).pa, Pa::new(DATA + 0x1000));
}

fn walks_start_at_the_deepest_known_table<A: TestArch>() {
    let mut world = World::<A>::new(1);
    let gib = 1 << 30;
    for va in [VA, VA + 0x1000, VA + 0x20_0000, VA + gib, VA + (1 << 39)] {
        world.map(va, A::page(DATA, false));
        world.load(va);
    }
    let data = &world.system.counters(CPU).data;
    // The first walk reads all four levels; each later one enters where its address parts from
    // what is known: same table, same level 2 table, same level 1 table, nothing.
    assert_eq!(data.walk_starts, [0, 2, 1, 1, 1]);
    assert_eq!(data.walk_cache_hits, [0, 0, 1, 1, 1]);
    assert_eq!(data.walk_reads, [0, 2, 3, 4, 5]);
    assert_eq!(data.walk_cache_misses, 2);
}

fn a_moved_table_keeps_serving_through_the_walk_cache<A: TestArch>() {
    let mut world = World::<A>::new(1);
    world.map(VA, A::page(DATA, false));
    world.map(VA + 0x1000, A::page(DATA + 0x1000, false));
    world.load(VA);
    // Another level 3 table takes the place of the one that the walk cache knows.
    let pointer = world.entry(ROOT, VA, 2);
    let table = world.new_table();
    let slot = table + 8 * ((VA + 0x1000) >> 12 & 511);
    world.store(slot, A::page(DATA + 0x5000, false));
    world.store(pointer, A::table(table));
    // The page was never used before: its walk goes through the old table.
    let starts = world.system.counters(CPU).data.walk_starts[Level::L3.index()];
    assert_eq!(world.load(VA + 0x1000).pa, Pa::new(DATA + 0x1000));
    let data = &world.system.counters(CPU).data;
    assert_eq!(data.walk_starts[Level::L3.index()], starts + 1);
    world.system.invalidate(CPU, &A::one(VA + 0x1000, 1));
    assert_eq!(world.load(VA + 0x1000).pa, Pa::new(DATA + 0x5000));
}

fn tags_keep_address_spaces_apart_unless_the_page_is_global<A: TestArch>() {
    let mut world = World::<A>::new(1);
    let other_root = world.new_table();
    world.map(VA, A::page(DATA, false));
    world.map(VA + 0x1000, A::page(DATA + 0x1000, true));
    for (page, pa) in [(0, 0x8000), (0x1000, 0x9000)] {
        let at = world.entry(other_root, VA + page, 3);
        world.memory.write(Pa::new(at), A::page(DATA + pa, false));
    }
    world.load(VA);
    world.load(VA + 0x1000);
    world.switch(CPU, other_root, 2);
    assert_eq!(world.load(VA).pa, Pa::new(DATA + 0x8000));
    assert_eq!(world.load(VA + 0x1000).pa, Pa::new(DATA + 0x1000));
    world.switch(CPU, ROOT, 1);
    assert_eq!(world.load(VA).found_in, FoundIn::L1Tlb);
    assert_eq!(world.load(VA).pa, Pa::new(DATA));
}

fn invalidating_one_space_leaves_the_others<A: TestArch>() {
    let mut world = World::<A>::new(1);
    world.map(VA, A::page(DATA, false));
    world.map(VA + 0x1000, A::page(DATA, true));
    world.load(VA);
    world.load(VA + 0x1000);
    world.system.invalidate(CPU, &A::space(2));
    assert_eq!(world.load(VA).found_in, FoundIn::L1Tlb);
    world.system.invalidate(CPU, &A::space(1));
    assert_eq!(world.load(VA).found_in, FoundIn::Walk);
    assert_eq!(world.load(VA + 0x1000).found_in, FoundIn::L1Tlb);
    let removed = &world.system.counters(CPU).removed;
    assert_eq!((removed.l1_entries, removed.l2_entries), (1, 1));
    assert_eq!(removed.table_pointers, 3);
}

fn peeking_answers_like_an_access_and_leaves_no_trace<A: TestArch>() {
    let mut world = World::<A>::new(1);
    world.map(VA, A::page(DATA, false));
    for found_in in [FoundIn::Walk, FoundIn::L1Tlb] {
        let access = Access::new(Va::new(VA + 4), AccessKind::Store, Privilege::Supervisor);
        let before = world.system.counters(CPU).clone();
        let peeked = world.system.peek(CPU, &access, &world.memory);
        assert_eq!(*world.system.counters(CPU), before);
        let made = world.try_access(CPU, AccessKind::Store, VA + 4);
        assert_eq!(peeked, made);
        assert_eq!(made.unwrap().found_in, found_in);
    }
    let nowhere = Access::new(Va::new(0), AccessKind::Load, Privilege::Supervisor);
    assert!(world.system.peek(CPU, &nowhere, &world.memory).is_err());
    assert_eq!(world.system.counters(CPU).data.faults, 0);
}

fn stores_to_tables_are_classified_by_what_they_do<A: TestArch>() {
    let mut world = World::<A>::new(1);
    world.map(VA, A::page(DATA, false));
    let entry = world.entry(ROOT, VA, 3);
    world.store(entry, A::read_only(DATA));
    world.store(entry, A::page(DATA + 0x1000, false));
    world.store(entry, 0);
    world.store(entry, 0x10);
    world.store(ROOT + 8, 0);
    let pointer = world.entry(ROOT, VA, 2);
    world.store(pointer, 0);
    assert!(!world.system.is_table(Pa::new(entry)));
    let stores = world.system.counters(CPU).tables(Half::Lower).clone();
    assert_eq!(stores.install_table, [0, 1, 1, 1, 0]);
    assert_eq!(stores.install_leaf, [0, 0, 0, 0, 2]);
    assert_eq!(stores.attr, [0, 0, 0, 0, 1]);
    assert_eq!(stores.clear_leaf, [0, 0, 0, 0, 1]);
    assert_eq!(stores.clear_table, [0, 0, 0, 1, 0]);
    assert_eq!(stores.invalid, [0, 1, 0, 0, 1]);
}

fn tables_below_a_new_root_are_found<A: TestArch>() {
    let mut world = World::<A>::new(1);
    let root = world.new_table();
    let at = world.entry(root, VA, 3);
    world.memory.write(Pa::new(at), A::page(DATA, false));
    assert!(!world.system.is_table(Pa::new(root)));
    world.switch(CPU, root, 2);
    for level in 0..4 {
        let at = world.entry(root, VA, level);
        assert!(world.system.is_table(Pa::new(at)), "level {level}");
    }
    assert_eq!(world.system.tables().level(Pa::new(at)), Some(Level::L3));
    assert!(!world.system.is_table(Pa::new(DATA)));
}

fn a_refill_is_blamed_on_the_invalidation_that_caused_it<A: TestArch>() {
    let mut world = World::<A>::new(1);
    world.map_pages(VA, 8);
    for round in 0..2 {
        for n in 0..8 {
            world.load(VA + n * 0x1000);
        }
        if round == 0 {
            world.system.invalidate(CPU, &A::space(1));
        }
    }
    let data = &world.system.counters(CPU).data;
    assert_eq!((data.walks, data.refills), (16, 8));
}

fn each_first_level_array_hits_up_to_its_capacity_and_no_further<A: TestArch>() {
    for name in Profile::names() {
        let mut profile = Profile::builtin(name).unwrap();
        if profile.arch() != A::NAME {
            continue;
        }
        if profile.machine().tlb.policy.l1_coalesces.is_some() {
            profile.set("tlb.policy.l1_coalesces", "none").unwrap();
        }
        let arrays = profile.machine().tlb.l1d.values();
        let small = arrays
            .filter(|array| array.sizes.contains(&PageSize::Size4K))
            .map(|array| (array.entries.value as u64, array.ways.value as u64));
        for (entries, ways) in small {
            assert_eq!(second_round_misses::<A>(&profile, entries), 0, "{name}");
            // One page more overflows one set, whose ways + 1 pages then evict each other.
            assert_eq!(second_round_misses::<A>(&profile, entries + 1), ways + 1);
        }
    }
}

/// First-level misses of the second of two rounds over `pages` pages.
fn second_round_misses<A: TestArch>(profile: &Profile, pages: u64) -> u64 {
    let mut world = World::<A>::of(profile, 1);
    let base = 0x4000_0000;
    world.map_pages(base, pages);
    let mut misses = 0;
    for _ in 0..2 {
        let before = world.system.counters(CPU).data.l1_misses;
        for n in 0..pages {
            world.load(base + n * 0x1000);
        }
        misses = world.system.counters(CPU).data.l1_misses - before;
    }
    misses
}

#[test]
fn a_contiguous_group_is_one_entry_and_goes_as_one() {
    let mut world = World::<Aarch64>::new(1);
    let va = 0x4001_0000;
    for n in 0..16 {
        let page = Aarch64::page(DATA + 0x1_0000 + n * 0x1000, false);
        world.map(va + n * 0x1000, page | 1 << 52);
    }
    for n in 0..16 {
        let pa = world.load(va + n * 0x1000 + 8).pa;
        assert_eq!(pa, Pa::new(DATA + 0x1_0000 + n * 0x1000 + 8));
    }
    let counters = world.system.counters(CPU);
    assert_eq!((counters.data.walks, counters.data.l1_hits), (1, 15));
    assert_eq!(counters.lower_tables.cont_set[Level::L3.index()], 16);
    world.system.invalidate(CPU, &Aarch64::one(va + 0x3000, 1));
    assert_eq!(world.load(va).found_in, FoundIn::Walk);
}

#[test]
fn an_arm_leaf_only_invalidation_leaves_the_table_pointer() {
    let mut world = World::<Aarch64>::new(1);
    world.map(VA, Aarch64::page(DATA, false));
    world.load(VA);
    let pointer = world.entry(ROOT, VA, 2);
    let table = world.new_table();
    let slot = table + 8 * (VA >> 12 & 511);
    world.store(slot, Aarch64::page(DATA + 0x5000, false));
    world.store(pointer, Aarch64::table(table));
    let operand = VA >> 12 | 1 << 48;
    // VALE1, then VAE1.
    world.system.invalidate(CPU, &tlbi(7, 5, operand));
    assert_eq!(world.load(VA).pa, Pa::new(DATA));
    world.system.invalidate(CPU, &tlbi(7, 1, operand));
    assert_eq!(world.load(VA).pa, Pa::new(DATA + 0x5000));
}

#[test]
fn an_arm_broadcast_reaches_every_core_and_a_local_one_only_its_own() {
    let mut world = World::<Aarch64>::new(2);
    world.map(VA, Aarch64::page(DATA, false));
    world.on(CPU, VA);
    world.on(OTHER, VA);
    let operand = VA >> 12 | 1 << 48;
    world.system.invalidate(CPU, &tlbi(7, 1, operand));
    assert_eq!(world.on(CPU, VA).found_in, FoundIn::Walk);
    assert_eq!(world.on(OTHER, VA).found_in, FoundIn::L1Tlb);
    world.system.invalidate(CPU, &tlbi(3, 1, operand));
    assert_eq!(world.on(OTHER, VA).found_in, FoundIn::Walk);
    let issuer = world.system.counters(CPU);
    assert_eq!((issuer.tlbi_local.va, issuer.tlbi_broadcast.va), (1, 1));
    assert_eq!(issuer.removed.received, 0);
    assert_eq!(world.system.counters(OTHER).removed.received, 1);
}

#[test]
fn an_x86_page_fault_drops_the_stale_entry_that_caused_it() {
    let mut world = World::<X86_64>::new(1);
    world.map(VA, X86_64::read_only(DATA));
    world.load(VA);
    world.map(VA, X86_64::page(DATA, false));
    assert!(world.try_access(CPU, AccessKind::Store, VA).is_err());
    assert!(world.try_access(CPU, AccessKind::Store, VA).is_ok());
    assert_eq!(world.system.counters(CPU).data.faults, 1);
    assert_eq!(world.system.counters(CPU).removed.l1_entries, 0);
}

#[test]
fn a_first_store_through_a_clean_x86_page_walks_to_set_dirty() {
    let mut world = World::<X86_64>::new(1);
    world.map(VA, X86_64::page(DATA, false) & !0x60);
    assert!(!world.load(VA).rights.write);
    let store = world.try_access(CPU, AccessKind::Store, VA).unwrap();
    assert_eq!(store.found_in, FoundIn::Walk);
    assert!(store.rights.write);
    let at = world.entry(ROOT, VA, 3);
    let entry = world.memory.read_descriptor(Pa::new(at));
    assert_eq!(entry, Some(X86_64::page(DATA, false)));
    let data = &world.system.counters(CPU).data;
    assert_eq!(data.table_updates, [0, 0, 0, 0, 2]);
    let again = world.try_access(CPU, AccessKind::Store, VA).unwrap();
    assert_eq!(again.found_in, FoundIn::L1Tlb);
}
