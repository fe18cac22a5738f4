//! What data accesses cost: distance, sharing, dependence, bandwidth.

mod world;

use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::Va;
use mmuscope_models::cost::{Category, Cycles};
use mmuscope_models::memory::SparseMemory;
use mmuscope_models::profile::Profile;
use mmuscope_models::system::{CoreId, System};
use mmuscope_models::x86::X86_64;
use proptest::prelude::*;

const CPU: CoreId = CoreId::new(0);

/// A system with the MMU off: addresses are physical, and nothing but data costs anything.
fn flat(profile: &Profile, cores: usize) -> System<X86_64> {
    System::new(profile, cores, ()).unwrap()
}

fn skylake() -> Profile {
    Profile::builtin("skylake-sp").unwrap()
}

/// What an access of 8 bytes by `core` costs in `category`.
fn cost(
    system: &mut System<X86_64>,
    memory: &mut SparseMemory,
    (core, kind, address): (u16, AccessKind, u64),
) -> Cycles {
    let core = CoreId::new(core);
    let before = system.clock(core);
    let access = Access::new(Va::new(address), kind, Privilege::Supervisor);
    system.access(core, &access, 8, memory).unwrap();
    system.clock(core) - before
}

/// `ns` beyond a first-level hit, divided by the overlap of independent misses.
fn stall(profile: &Profile, ns: f64, overlaps: bool) -> Cycles {
    let cache = &profile.machine().cache;
    let beyond = profile.cycles(ns).as_f64() - cache.l1d.latency_cycles.value;
    let factor = if overlaps {
        cache.overlap_factor.value
    } else {
        1.0
    };
    Cycles::from_f64(beyond / factor)
}

#[test]
fn memory_of_another_node_costs_more() {
    let mut profile = skylake();
    profile.set("memory.interleave_kib", "4").unwrap();
    let machine = profile.machine();
    let own = stall(&profile, machine.cache.dram_ns.value, true);
    let other = machine.memory.remote_ns.as_ref().unwrap().value;
    let other = stall(&profile, other, true);
    let (mut system, mut memory) = (flat(&profile, 96), SparseMemory::new());
    let mut load =
        |core, address| cost(&mut system, &mut memory, (core, AccessKind::Load, address));
    assert_eq!(load(0, 0x10000), own);
    assert_eq!(load(0, 0x11000), other);
    assert_eq!(load(95, 0x12000), other);
    assert_eq!(load(95, 0x13000), own);
    let lines = &system.counters(CPU).data_lines;
    assert_eq!((lines.memory, lines.remote_memory), (1, 1));
}

#[test]
fn a_contended_line_is_charged_by_distance_to_whoever_takes_it() {
    let profile = skylake();
    let cache = &profile.machine().cache;
    let near = cache.transfer_ns.as_ref().unwrap().value;
    let near = stall(&profile, near, false);
    let far = cache.transfer_remote_ns.as_ref().unwrap().value;
    let far = stall(&profile, far, false);
    let (mut system, mut memory) = (flat(&profile, 96), SparseMemory::new());
    let mut store = |core| cost(&mut system, &mut memory, (core, AccessKind::Store, 0x8000));
    store(0);
    assert_eq!(store(0), Cycles::ZERO, "it is the only copy");
    assert_eq!(store(1), near);
    assert_eq!(store(95), far);
    assert_eq!(store(95), Cycles::ZERO);
    assert_eq!(store(0), far);
    let lines = &system.counters(CPU).data_lines;
    assert_eq!((lines.core, lines.remote_core), (0, 1));
}

#[test]
fn a_load_whose_address_was_loaded_cannot_overlap() {
    let profile = skylake();
    let dram = profile.machine().cache.dram_ns.value;
    let (alone, after) = (stall(&profile, dram, true), stall(&profile, dram, false));
    let (mut system, mut memory) = (flat(&profile, 1), SparseMemory::new());
    // Each node points into the next one's page.
    let nodes = [0x10_0040, 0x20_0080, 0x30_00c0, 0x40_0000];
    for pair in nodes.windows(2) {
        memory.write(mmuscope_models::addr::Pa::new(pair[0]), pair[1]);
    }
    let chased = nodes.map(|node| cost(&mut system, &mut memory, (0, AccessKind::Load, node)));
    assert_eq!(chased, [alone, after, after, after]);
    // A second load of a page that was pointed to is independent again.
    let next = cost(&mut system, &mut memory, (0, AccessKind::Load, 0x40_0040));
    assert_eq!(next, alone);
    assert_eq!(system.counters(CPU).data_lines.dependent, 3);
}

#[test]
fn more_cores_than_a_node_can_feed_wait_for_it() {
    let run = |rate: &str, cores: u16| {
        let mut profile = skylake();
        profile.set("memory.node_gb_per_s", rate).unwrap();
        let (mut system, mut memory) = (flat(&profile, 96), SparseMemory::new());
        for round in 0..2000 {
            for core in 0..cores {
                let address = 0x1000_0000 + (round * 96 + u64::from(core)) * 64;
                cost(&mut system, &mut memory, (core, AccessKind::Load, address));
            }
        }
        // Bytes in a nanosecond.
        2000.0 * f64::from(cores) * 64.0 / system.clock(CPU).nanoseconds(profile.ghz())
    };
    let (few, many) = (run("20", 4), run("20", 24));
    assert!(few < 10.0, "{few}");
    assert!((19.0..=20.5).contains(&many), "{many}");
    assert!(run("1000", 24) > 30.0);
}

#[test]
fn table_walks_see_the_lines_that_stores_have_brought_in() {
    let mut world = world::World::<Aarch64>::new(1);
    world.map_pages(0x4000_0000, 1);
    world.load(0x4000_0000);
    let cold = world.system.attribution(CPU).get(Category::Walk);
    world.system.invalidate(CPU, &world::tlbi(7, 0, 0));
    world.load(0x4000_0000);
    let warm = world.system.attribution(CPU).get(Category::Walk) - cold;
    assert!(warm.times(5) < cold, "{warm} {cold}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever cores do, a core that has just stored to a line finds it next to itself.
    #[test]
    fn who_wrote_last_has_the_line(
        events in prop::collection::vec((0_u16..6, any::<bool>(), 0_u64..40), 1..300),
    ) {
        let mut profile = skylake();
        profile.set("topology.cpus", "6").unwrap();
        // Caches so small that lines leave them all the time.
        for (key, value) in [
            ("cache.l1d.ways", "2"), ("cache.l1d.size_kib", "1"),
            ("cache.l2.ways", "4"), ("cache.l2.size_kib", "1"),
            ("cache.l3.ways", "4"), ("cache.l3.size_kib", "2"),
        ] {
            profile.set(key, value).unwrap();
        }
        let (mut system, mut memory) = (flat(&profile, 6), SparseMemory::new());
        for (core, write, line) in events {
            let kind = if write { AccessKind::Store } else { AccessKind::Load };
            cost(&mut system, &mut memory, (core, kind, line * 64));
            let again = cost(&mut system, &mut memory, (core, kind, line * 64));
            prop_assert_eq!(again, Cycles::ZERO);
            let id = CoreId::new(core);
            prop_assert_eq!(system.attribution(id).total(), system.clock(id));
        }
    }
}
