//! What a system charges, and to whom.

mod world;

use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::access::{AccessKind, Privilege};
use mmuscope_models::cost::{Category, Cycles, Operation};
use mmuscope_models::profile::Profile;
use mmuscope_models::sensitivity::{Recorded, Sensitivity};
use mmuscope_models::system::{
    Barrier, ContextRegister, CoreId, Domain, ExceptionKind, InstructionMix, OrderedAccesses,
    System, Timing,
};
use mmuscope_models::x86::X86_64;
use proptest::prelude::*;
use world::{CPU, OTHER, TestArch, World, tlbi};

const DSB_ISH: Barrier = Barrier::Dsb {
    domain: Domain::Inner,
    kind: OrderedAccesses::All,
};

fn price<A: TestArch>(operation: Operation) -> Cycles {
    Profile::builtin(A::PROFILE).unwrap().costs().of(operation)
}

fn spent(world: &World<Aarch64>, core: CoreId, category: Category) -> Cycles {
    world.system.attribution(core).get(category)
}

#[test]
fn a_dsb_waits_for_its_own_broadcasts_only() {
    let mut world = World::<Aarch64>::new(2);
    world.system.barrier(CPU, DSB_ISH);
    assert_eq!(spent(&world, CPU, Category::BarrierWait), Cycles::ZERO);
    // VAE1 (local), then VAE1IS.
    world.system.invalidate(CPU, &tlbi(7, 1, 0));
    world.system.barrier(CPU, DSB_ISH);
    assert_eq!(spent(&world, CPU, Category::BarrierWait), Cycles::ZERO);
    world.system.invalidate(CPU, &tlbi(3, 1, 0));
    world.system.barrier(OTHER, DSB_ISH);
    assert_eq!(spent(&world, OTHER, Category::BarrierWait), Cycles::ZERO);
    let issued = world.system.clock(CPU);
    world.system.barrier(CPU, DSB_ISH);
    let latency = price::<Aarch64>(Operation::DvmLatency);
    let service = price::<Aarch64>(Operation::DvmService) + price::<Aarch64>(Operation::DvmSync);
    assert_eq!(world.system.clock(CPU), issued + latency + service);
    world.system.barrier(CPU, DSB_ISH);
    assert_eq!(
        world.system.clock(CPU),
        issued + latency + service + price::<Aarch64>(Operation::Dsb)
    );
}

#[test]
fn stores_only_and_local_barriers_do_not_complete_broadcasts() {
    let mut world = World::<Aarch64>::new(1);
    world.system.invalidate(CPU, &tlbi(3, 1, 0));
    for (domain, kind) in [
        (Domain::Inner, OrderedAccesses::Stores),
        (Domain::Non, OrderedAccesses::All),
    ] {
        world.system.barrier(CPU, Barrier::Dsb { domain, kind });
        assert_eq!(spent(&world, CPU, Category::BarrierWait), Cycles::ZERO);
    }
    world.system.barrier(CPU, DSB_ISH);
    assert!(spent(&world, CPU, Category::BarrierWait) > Cycles::ZERO);
    let barriers = &world.system.counters(CPU).barriers;
    assert_eq!(
        (barriers.dsb_ish, barriers.dsb_ishst, barriers.dsb_nsh),
        (1, 1, 1)
    );
}

#[test]
fn concurrent_broadcasters_queue_at_the_shared_server() {
    let broadcast = |world: &mut World<Aarch64>, core| {
        for _ in 0..8 {
            world.system.invalidate(core, &tlbi(3, 1, 0));
        }
        world.system.barrier(core, DSB_ISH);
        world.system.clock(core)
    };
    let mut alone = World::<Aarch64>::new(2);
    let lone = broadcast(&mut alone, CPU);
    let mut both = World::<Aarch64>::new(2);
    assert_eq!(broadcast(&mut both, CPU), lone);
    let second = broadcast(&mut both, OTHER);
    let service = price::<Aarch64>(Operation::DvmService).times(8);
    assert!(second >= lone + service, "{second} {lone}");
}

#[test]
fn interrupts_are_charged_to_sender_and_receiver() {
    let mut world = World::<X86_64>::new(96);
    let far = CoreId::new(95);
    let first = world.system.ipi_send(CPU, OTHER);
    let to_first = price::<X86_64>(Operation::IpiSendFirst);
    assert_eq!(first, to_first + price::<X86_64>(Operation::IpiFlight));
    let second = world.system.ipi_send(CPU, far);
    let sent = to_first + price::<X86_64>(Operation::IpiSendNext);
    assert_eq!(world.system.clock(CPU), sent);
    assert_eq!(second, sent + price::<X86_64>(Operation::IpiFlightRemote));
    world.system.ipi_receive(OTHER, first);
    let attribution = world.system.attribution(OTHER);
    assert_eq!(attribution.get(Category::Wait), first);
    let receive = price::<X86_64>(Operation::IpiReceive);
    assert_eq!(attribution.get(Category::IpiReceive), receive);
    assert_eq!(world.system.counters(CPU).ipis_sent, 2);
    assert_eq!(world.system.counters(OTHER).ipis_received, 1);
}

#[test]
fn a_machine_without_multicast_pays_every_target_in_full() {
    let mut profile = Profile::builtin(X86_64::PROFILE).unwrap();
    let one = "ipi_multicast = { value = false, source = \"a test\", quality = \"read\" }";
    let text = format!("{}\n[interconnect]\n{one}\n", profile.to_toml());
    let sent = |profile: &Profile| {
        let mut system = System::<X86_64>::new(profile, 4, ()).unwrap();
        for target in 1..4 {
            system.ipi_send(CPU, CoreId::new(target));
        }
        system.clock(CPU)
    };
    let (first, next) = (Operation::IpiSendFirst, Operation::IpiSendNext);
    let (first, next) = (price::<X86_64>(first), price::<X86_64>(next));
    assert_eq!(sent(&profile), first + next.times(2));
    profile = Profile::parse(&text).unwrap();
    assert_eq!(sent(&profile), first.times(3));
}

#[test]
fn isolated_tables_are_changed_where_user_mode_is_left_and_entered() {
    let profile = Profile::builtin(X86_64::PROFILE).unwrap();
    let spent = |isolates, from| {
        let mut system = System::<X86_64>::new(&profile, 1, ()).unwrap();
        system.set_isolation(isolates);
        system.exception_entry(CPU, ExceptionKind::Syscall, from);
        // An interrupt of the kernel changes nothing.
        system.exception_entry(CPU, ExceptionKind::Interrupt, Privilege::Supervisor);
        system.exception_exit(CPU, ExceptionKind::Interrupt);
        system.exception_exit(CPU, ExceptionKind::Syscall);
        system.attribution(CPU).get(Category::Exception)
    };
    let plain = spent(false, Privilege::User);
    assert_eq!(spent(true, Privilege::Supervisor), plain);
    let switch = price::<X86_64>(Operation::Cr3Keep);
    assert_eq!(spent(true, Privilege::User), plain + switch.times(2));
}

#[test]
fn time_in_interrupts_is_known_from_acknowledgement_to_exit() {
    let mut world = World::<X86_64>::new(2);
    let arrival = world.system.ipi_send(CPU, OTHER);
    world.system.ipi_receive(OTHER, arrival);
    world
        .system
        .exception_entry(OTHER, ExceptionKind::Interrupt, Privilege::User);
    let mix = InstructionMix {
        integer: 100,
        ..InstructionMix::default()
    };
    world.system.retire(OTHER, &mix);
    let inside = world.system.interrupted(OTHER);
    world.system.exception_exit(OTHER, ExceptionKind::Interrupt);
    world.system.retire(OTHER, &mix);
    let outside = world.system.interrupted(OTHER);
    assert!(inside < outside);
    assert_eq!(
        outside,
        world.system.clock(OTHER) - arrival - price::<X86_64>(Operation::Integer).times(100)
    );
    assert_eq!(world.system.interrupted(CPU), Cycles::ZERO);
}

#[test]
fn walks_that_an_invalidation_made_necessary_are_told_apart() {
    let mut world = World::<Aarch64>::new(1);
    world.map_pages(0x4000_0000, 2);
    world.load(0x4000_0000);
    assert_eq!(spent(&world, CPU, Category::Refill), Cycles::ZERO);
    let first = spent(&world, CPU, Category::Walk);
    world.system.invalidate(CPU, &tlbi(7, 0, 0));
    world.load(0x4000_0000);
    assert!(spent(&world, CPU, Category::Refill) > Cycles::ZERO);
    assert_eq!(spent(&world, CPU, Category::Walk), first);
    // Never cached, so that nothing was taken away.
    world.load(0x4000_1000);
    assert!(spent(&world, CPU, Category::Walk) > first);
}

#[test]
fn a_walk_costs_its_reads_without_overlap_and_a_hit_nothing() {
    let mut world = World::<X86_64>::new(1);
    world.map_pages(0x4000_0000, 1);
    world.load(0x4000_0000);
    let profile = Profile::builtin(X86_64::PROFILE).unwrap();
    let memory = profile.cycles(profile.machine().cache.dram_ns.value);
    let walk = world.system.attribution(CPU).get(Category::Walk);
    assert_eq!(walk, price::<X86_64>(Operation::Walk) + memory.times(4));
    let clock = world.system.clock(CPU);
    world.load(0x4000_0000);
    assert_eq!(world.system.clock(CPU), clock);
}

#[test]
fn without_timing_counts_are_the_same_and_clocks_stand() {
    let run = |timing| {
        let mut world = World::<Aarch64>::new(2);
        world.system.set_timing(timing);
        world.map_pages(0x4000_0000, 200);
        for n in 0..400 {
            world.load(0x4000_0000 + n % 200 * 0x1000);
        }
        world.system.invalidate(CPU, &tlbi(3, 0, 0));
        world.system.barrier(CPU, DSB_ISH);
        let mut counters = world.system.counters(CPU).clone();
        counters.data_lines = Default::default();
        counters.walk_lines = Default::default();
        (counters, world.system.clock(CPU))
    };
    let (timed, untimed) = (run(Timing::Full), run(Timing::Off));
    assert_eq!(timed.0, untimed.0);
    assert_eq!(untimed.1, Cycles::ZERO);
    assert!(timed.1 > Cycles::ZERO);
}

#[test]
fn a_system_needs_cores_that_the_machine_has() {
    let profile = Profile::builtin("cortex-a76").unwrap();
    for cores in [0, 9] {
        let error = System::<Aarch64>::new(&profile, cores, ()).unwrap_err();
        assert!(error.to_string().contains("expected 1 to 8"), "{error}");
    }
    let error = System::<X86_64>::new(&profile, 1, ()).unwrap_err();
    assert!(error.to_string().contains("`arch` is aarch64"), "{error}");
}

/// An event of a random run.
#[derive(Clone, Debug)]
enum Event {
    Access(u8, u64, bool),
    Retire(u8, u32),
    Tlbi(u8, u8, u64),
    Barrier(u8, u8),
    ContextWrite(u8),
    Exception(u8),
    Ipi(u8, u8),
    Store(u64, bool),
}

fn event() -> impl Strategy<Value = Event> {
    let core = 0_u8..4;
    prop_oneof![
        8 => (core.clone(), 0_u64..64, any::<bool>()).prop_map(|(c, p, w)| Event::Access(c, p, w)),
        3 => (core.clone(), 0_u32..100).prop_map(|(c, n)| Event::Retire(c, n)),
        2 => (core.clone(), 0_u8..2, 0_u64..64).prop_map(|(c, k, p)| Event::Tlbi(c, k, p)),
        2 => (core.clone(), 0_u8..4).prop_map(|(c, k)| Event::Barrier(c, k)),
        1 => core.clone().prop_map(Event::ContextWrite),
        1 => core.clone().prop_map(Event::Exception),
        1 => (core.clone(), core).prop_map(|(a, b)| Event::Ipi(a, b)),
        2 => (0_u64..64, any::<bool>()).prop_map(|(p, v)| Event::Store(p, v)),
    ]
}

const BASE: u64 = 0x4000_0000;

fn apply(world: &mut World<Aarch64>, event: &Event) {
    let core = |n: u8| CoreId::new(u16::from(n));
    let system = &mut world.system;
    match *event {
        Event::Access(c, page, write) => {
            let kind = if write {
                AccessKind::Store
            } else {
                AccessKind::Load
            };
            // Pages may be unmapped: a fault is a result like any other.
            let _ = world.try_access(core(c), kind, BASE + page * 0x1000);
        }
        Event::Retire(c, n) => {
            let mix = InstructionMix {
                integer: n,
                atomic: n / 7,
                ..InstructionMix::default()
            };
            system.retire(core(c), &mix);
        }
        Event::Tlbi(c, kind, page) => {
            let operand = ((BASE >> 12) + page) | (1 << 48);
            let crm = if kind == 0 { 3 } else { 7 };
            system.invalidate(core(c), &tlbi(crm, 1, operand));
        }
        Event::Barrier(c, 0) => system.barrier(core(c), Barrier::Isb),
        Event::Barrier(c, 1) => system.barrier(core(c), Barrier::Dmb),
        Event::Barrier(c, _) => system.barrier(core(c), DSB_ISH),
        Event::ContextWrite(c) => system.context_write(core(c), ContextRegister::Ttbr0),
        Event::Exception(c) => {
            system.exception_entry(core(c), ExceptionKind::Syscall, Privilege::User);
            system.exception_exit(core(c), ExceptionKind::Syscall);
        }
        Event::Ipi(a, b) => {
            let arrival = system.ipi_send(core(a), core(b));
            system.ipi_receive(core(b), arrival);
        }
        Event::Store(page, valid) => {
            let value = Aarch64::page(world::DATA + page * 0x1000, false);
            world.map(BASE + page * 0x1000, if valid { value } else { 0 });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn categories_sum_to_clocks_that_never_go_back(
        events in prop::collection::vec(event(), 1..200),
    ) {
        let mut world = World::<Aarch64>::new(4);
        let mut clocks = [Cycles::ZERO; 4];
        for event in &events {
            apply(&mut world, event);
            for (n, clock) in clocks.iter_mut().enumerate() {
                let core = CoreId::new(u16::try_from(n).unwrap());
                let now = world.system.clock(core);
                prop_assert!(now >= *clock);
                *clock = now;
                prop_assert_eq!(world.system.attribution(core).total(), now);
            }
        }
    }

    /// What was recorded accounts for the whole clock: priced again under the same constants, it
    /// gives the same time.
    #[test]
    fn a_record_priced_again_gives_the_same_time(
        events in prop::collection::vec(event(), 1..200),
    ) {
        let mut world = World::<Aarch64>::new(4);
        for event in &events {
            apply(&mut world, event);
        }
        let certain = Profile::builtin(Aarch64::PROFILE).unwrap().to_toml();
        let certain = ["derived", "recalled", "estimated"]
            .iter()
            .fold(certain, |text, quality| text.replace(&format!("\"{quality}\""), "\"read\""));
        let sensitivity = Sensitivity::new(&Profile::parse(&certain).unwrap());
        let system = &world.system;
        let cores: Vec<_> = (0..4).map(CoreId::new).map(|core| Recorded {
            counters: system.counters(core),
            ledger: system.ledger(core),
            attribution: system.attribution(core),
        }).collect();
        for (n, core) in cores.iter().enumerate() {
            let clock = core.attribution.total().as_f64();
            for time in sensitivity.times(&cores, n) {
                prop_assert!((time - clock).abs() <= clock * 1e-9, "{time} {clock}");
            }
        }
    }

    #[test]
    fn the_same_events_give_the_same_result(events in prop::collection::vec(event(), 1..200)) {
        let run = || {
            let mut world = World::<Aarch64>::new(4);
            for event in &events {
                apply(&mut world, event);
            }
            (0..4)
                .map(|n| {
                    let core = CoreId::new(n);
                    let system = &world.system;
                    (system.counters(core).clone(), system.attribution(core).clone())
                })
                .collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn what_an_invalidation_covers_is_never_used_again(
        events in prop::collection::vec(event(), 1..200),
        page in 0_u64..64,
    ) {
        let mut world = World::<Aarch64>::new(4);
        for event in &events {
            apply(&mut world, event);
        }
        let va = BASE + page * 0x1000;
        world.map(va, Aarch64::page(0x7000_0000, false));
        world.system.invalidate(CPU, &tlbi(3, 1, va >> 12 | 1 << 48));
        for n in 0..4 {
            let pa = world.on(CoreId::new(n), va).pa;
            prop_assert_eq!(pa.raw(), 0x7000_0000);
        }
    }
}
