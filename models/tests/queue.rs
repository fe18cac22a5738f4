//! The broadcast server against queueing theory.
//!
//! N cores think for Z, then broadcast one invalidation and wait for it. If thinking and service
//! times are exponential, mean value analysis of a closed network with one first-come
//! first-served server gives the throughput exactly; if they are constant, the cores settle out of
//! phase and each completes min(1/(Z+S), 1/(N S)) broadcasts a cycle.

mod world;

use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::cost::Cycles;
use mmuscope_models::interconnect::{Dvm, DvmTiming, Outstanding};
use mmuscope_models::profile::Profile;
use mmuscope_models::system::{Barrier, CoreId, Domain, OrderedAccesses, System};
use world::tlbi;

/// The demands fitted to the fork times published for Neoverse N1, as parts of the time of one
/// iteration without contention: the shape of the curve, not its scale, is what is tested.
const THINK: f64 = 1.014;
const SERVICE: f64 = 0.095;
/// Change of throughput in percent that exact mean value analysis gives for them, by cores.
const CURVE: [(usize, f64); 5] = [(1, -9.8), (8, -16.9), (16, -36.4), (24, -56.1), (32, -67.1)];

/// Broadcasts of one simulation: its standard deviation is then a third of a point.
const BROADCASTS: usize = 120_000;

/// SplitMix64, seeded: the same times on every host.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Exponentially distributed with this mean.
    fn exponential(&mut self, mean: f64) -> Cycles {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are kept")]
        let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        Cycles::from_f64(-mean * (1.0 - uniform).ln())
    }
}

/// Throughput of one of `cores` by exact mean value analysis, as change against 1/1 in percent.
fn analysis(cores: usize) -> f64 {
    let (mut queue, mut throughput) = (0.0, 0.0);
    for n in 1..=cores {
        let response = SERVICE * (1.0 + queue);
        throughput = f64::from(u32::try_from(n).unwrap()) / (THINK + response);
        queue = throughput * response;
    }
    100.0 * (throughput / f64::from(u32::try_from(cores).unwrap()) - 1.0)
}

/// The same by simulation: every core broadcasts `rounds` times.
fn simulated(cores: usize, rounds: usize, seed: u64) -> f64 {
    /// Cycles of one iteration without contention.
    const SCALE: f64 = 100_000.0;
    let mut random = Random(seed);
    let mut server = Dvm::default();
    let mut own = Outstanding::default();
    let mut clocks: Vec<Cycles> = (0..cores)
        .map(|_| random.exponential(THINK * SCALE))
        .collect();
    for _ in 0..rounds * cores {
        // The core with the smallest clock goes first, as in every machine.
        let index = (0..cores)
            .min_by_key(|core| (clocks[*core], *core))
            .unwrap();
        let timing = DvmTiming {
            service: random.exponential(SERVICE * SCALE),
            ..DvmTiming::default()
        };
        own.issue(clocks[index]);
        let done = server.synchronise(&timing, &mut own, clocks[index]);
        clocks[index] = done + random.exponential(THINK * SCALE);
    }
    let end = clocks.into_iter().map(Cycles::as_f64).sum::<f64>()
        / f64::from(u32::try_from(cores).unwrap());
    100.0 * (f64::from(u32::try_from(rounds).unwrap()) * SCALE / end - 1.0)
}

#[test]
fn exponential_times_follow_mean_value_analysis() {
    for (cores, expected) in CURVE {
        assert!(
            (analysis(cores) - expected).abs() < 0.06,
            "{cores} cores by analysis: {:.2} %",
            analysis(cores)
        );
        for seed in 1..=3 {
            let change = simulated(cores, BROADCASTS / cores, seed);
            assert!(
                (change - expected).abs() < 2.0,
                "{cores} cores, seed {seed}: {change:.2} % instead of {expected} %"
            );
        }
    }
}

/// A machine of `cores` on which a broadcast costs nothing but its service and that of the
/// synchronisation.
fn machine(cores: usize, service: u64, sync: u64) -> System<Aarch64> {
    let mut profile = Profile::builtin("cortex-a76").unwrap();
    profile.set("topology.cpus", "64").unwrap();
    profile.set("clock.ghz", "1.0").unwrap();
    for free in ["tlbi_issue", "dvm_latency", "dsb"] {
        profile.set(&format!("cost.ns.{free}"), "0").unwrap();
    }
    let mut set = |key: &str, ns: u64| {
        profile
            .set(&format!("cost.ns.{key}"), &ns.to_string())
            .unwrap();
    };
    set("dvm_service", service);
    set("dvm_sync", sync);
    System::new(&profile, cores, ()).unwrap()
}

#[test]
fn constant_times_give_the_bound_of_a_closed_queue_exactly() {
    const DSB: Barrier = Barrier::Dsb {
        domain: Domain::Inner,
        kind: OrderedAccesses::All,
    };
    const THINK: u64 = 900;
    const ROUNDS: u64 = 50;
    for (service, sync) in [(100, 0), (70, 30)] {
        let demand = service + sync;
        for cores in [1_usize, 2, 9, 10, 11, 20, 64] {
            let mut system = machine(cores, service, sync);
            let ids: Vec<_> = (0..cores)
                .map(|core| CoreId::new(u16::try_from(core).unwrap()))
                .collect();
            // Warm-up: the cores find their phases in the first round after all have queued.
            let mut settled = Vec::new();
            for round in 0..2 + ROUNDS {
                if round == 2 {
                    settled = ids.iter().map(|id| system.clock(*id)).collect();
                }
                for _ in 0..cores {
                    let next = *ids
                        .iter()
                        .min_by_key(|id| (system.clock(**id), **id))
                        .unwrap();
                    system.wait_until(next, system.clock(next) + Cycles::new(THINK));
                    system.invalidate(next, &tlbi(3, 0, 0));
                    system.barrier(next, DSB);
                }
            }
            let period = (THINK + demand).max(cores as u64 * demand);
            for (id, start) in ids.iter().zip(&settled) {
                assert_eq!(
                    system.clock(*id) - *start,
                    Cycles::new(period * ROUNDS),
                    "{cores} cores, service {service} and {sync}"
                );
            }
        }
    }
}
