//! Where the time of several cores goes: shootdowns by interrupt and by broadcast, the sum of the
//! categories, phases by seed.

#[path = "common/guests.rs"]
mod guests;

use guests::{config, profile, result, run, run_elf};
use mmuscope_emu::machine::{Region, RegionCore, RunOutcome};
use mmuscope_guest::{ArchName, mremap::MREMAP, tests};
use mmuscope_models::cost::{Category, Cycles, Operation};

const EXTENTS: u64 = 4;

/// Moves [`EXTENTS`] extents of 2 MiB, each with a shootdown, while the other `cpus - 1` run a
/// thread of the same process.
fn shootdowns(arch: ArchName, cpus: usize) -> RunOutcome {
    let params = [("level", "pmd"), ("size", "8388608"), ("threads", "spin")];
    run_elf(&config(arch, cpus), (MREMAP.elf)(arch), arch, &params).0
}

fn region(outcome: &RunOutcome) -> &Region {
    &outcome.regions[0]
}

fn taken(core: &RegionCore) -> Cycles {
    core.end - core.start
}

#[test]
fn a_shootdown_by_interrupt_grows_by_the_same_for_each_further_target() {
    let time = |cpus| taken(&region(&shootdowns(ArchName::X86_64, cpus)).per_core[0]).as_f64();
    let times = [1, 2, 10, 18, 34].map(time);
    let first = times[1] - times[0];
    let next = [
        (times[2] - times[1]) / 8.0,
        (times[3] - times[2]) / 8.0,
        (times[4] - times[3]) / 16.0,
    ];
    // The first target costs the flight, the handler and the reply; each further one only what
    // addressing it and fetching its reply take.
    assert!(
        next.iter().all(|it| *it > 0.0 && *it < first / 2.0),
        "{first} {next:?}"
    );
    let (low, high) = (
        next[0].min(next[1]).min(next[2]),
        next[0].max(next[1]).max(next[2]),
    );
    assert!(high < low * 1.3, "{next:?}");
    let further = profile(ArchName::X86_64).costs().of(Operation::IpiSendNext);
    assert!(low / EXTENTS as f64 > further.as_f64(), "{next:?}");
}

#[test]
fn the_targets_pay_for_their_own_interrupts() {
    let outcome = shootdowns(ArchName::X86_64, 5);
    let costs = profile(ArchName::X86_64).costs().clone();
    let entered = [
        Operation::IpiReceive,
        Operation::InterruptEntry,
        Operation::InterruptExit,
        Operation::Cr3Flush,
    ];
    let least: Cycles = entered.into_iter().map(|it| costs.of(it)).sum();
    let (initiator, targets) = region(&outcome).per_core.split_first().unwrap();
    assert_eq!(initiator.account.interrupted, Cycles::ZERO);
    for target in targets {
        let received = target.account.counters.ipis_received;
        assert!(received >= EXTENTS, "{received}");
        assert!(target.account.interrupted > least.times(received));
        let spent = target.account.attribution.get(Category::IpiReceive);
        assert_eq!(spent, costs.of(Operation::IpiReceive).times(received));
    }
}

#[test]
fn a_shootdown_by_broadcast_does_not_depend_on_who_listens() {
    let time = |cpus| {
        let outcome = shootdowns(ArchName::Aarch64, cpus);
        let (initiator, others) = region(&outcome).per_core.split_first().unwrap();
        assert!(
            others
                .iter()
                .all(|it| it.account.interrupted == Cycles::ZERO)
        );
        taken(initiator).as_f64()
    };
    let (alone, many) = (time(1), time(8));
    assert!((many / alone - 1.0).abs() < 0.02, "{alone} {many}");
}

#[test]
fn categories_sum_to_the_clock_of_every_core_in_every_region() {
    for arch in ArchName::ALL {
        let outcomes = [
            shootdowns(arch, 4),
            run(&config(arch, 4), &tests::SMP, arch, &[("rounds", "100")]).0,
        ];
        for core in outcomes.iter().flat_map(|it| &region(it).per_core) {
            assert_eq!(core.account.attribution.total(), taken(core), "{arch:?}");
        }
    }
}

#[test]
fn a_lock_that_cores_contend_for_costs_transfers() {
    for arch in ArchName::ALL {
        let sharing = |cpus| {
            let params = [("rounds", "100"), ("calls", "0")];
            let outcome = run(&config(arch, cpus), &tests::SMP, arch, &params).0;
            let cores = region(&outcome).per_core.iter();
            cores
                .map(|it| it.account.attribution.get(Category::Sharing))
                .sum::<Cycles>()
        };
        assert_eq!(sharing(1), Cycles::ZERO, "{arch:?}");
        assert!(sharing(4) > Cycles::new(1000), "{arch:?} {}", sharing(4));
    }
}

#[test]
fn equal_seeds_give_equal_runs_and_others_other_phases() {
    for arch in ArchName::ALL {
        let seeded = |seed| {
            let mut config = config(arch, 4);
            config.seed = seed;
            let outcome = run(&config, &tests::SMP, arch, &[("rounds", "100")]).0;
            assert_eq!(result(&outcome, "counter"), 400, "{arch:?}");
            outcome
        };
        assert_eq!(seeded(Some(7)), seeded(Some(7)), "{arch:?}");
        let times = [None, Some(1), Some(2)].map(|seed| seeded(seed).total_cycles);
        assert!(times[0] != times[1] && times[1] != times[2], "{times:?}");
    }
}
