//! Guest accesses a second under the MMU plugin, beside Unicorn's bare memory hook on the same
//! loop.
//!
//! First the comparison: the three engines take turns in one process, so that whatever else the
//! host does meets all of them, and the medians are set in proportion. Then criterion measures
//! each by itself.
#![allow(clippy::print_stdout, reason = "a bench reports on its output")]

mod bare;
mod guest;
mod modelled;

use std::time::{Duration, Instant};

use bare::Bare;
use criterion::{Criterion, Throughput};
use guest::{AARCH64, ACCESSES, Guest, X86_64};
use mmuscope_emu::arch::EmuArch;
use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::system::Timing;
use mmuscope_models::x86;
use modelled::Modelled;
use unicorn_engine::{RegisterARM64CP, RegisterX86, Unicorn};

/// Rounds of the loop in one turn.
const ROUNDS: u64 = 200_000;
/// Turns of each engine.
const TURNS: usize = 21;
/// At least these parts of the bare hook's rate, with timing off and full.
const TARGETS: [f64; 2] = [0.85, 0.5];

/// What the bench needs to know about an architecture.
trait Target: EmuArch + 'static {
    const PROFILE: &'static str;
    const GUEST: Guest;

    /// Turns translation on.
    fn translate(engine: &mut Unicorn<'_, ()>, root: u64);
}

impl Target for Aarch64 {
    const PROFILE: &'static str = "cortex-a76";
    const GUEST: Guest = AARCH64;

    fn translate(engine: &mut Unicorn<'_, ()>, root: u64) {
        // MAIR_EL1, TCR_EL1 (4K granule, 48 bits), TTBR0_EL1, SCTLR_EL1.
        for (crn, crm, op2, val) in [
            (10, 2, 0, 0xff),
            (2, 0, 2, 16 | 16 << 16 | 0b10 << 30 | 0b101 << 32),
            (2, 0, 0, root),
            (1, 0, 0, 1),
        ] {
            let (op0, op1) = (3, 0);
            engine
                .reg_write_arm64_coproc(&RegisterARM64CP {
                    op0,
                    op1,
                    crn,
                    crm,
                    op2,
                    val,
                })
                .unwrap();
        }
    }
}

impl Target for x86::X86_64 {
    const PROFILE: &'static str = "skylake-sp";
    const GUEST: Guest = X86_64;

    fn translate(engine: &mut Unicorn<'_, ()>, root: u64) {
        // PAE; PG, WP, ET, PE.
        engine.reg_write(RegisterX86::CR4, 0x20).unwrap();
        engine.reg_write(RegisterX86::CR3, root).unwrap();
        engine.reg_write(RegisterX86::CR0, 0x8001_0011).unwrap();
    }
}

/// The engines, by what the comparison calls them.
type Engines = [(&'static str, Box<dyn FnMut(u64) -> u64>); 3];

fn engines<A: Target>() -> Engines {
    let mut bare = Bare::new(A::GUEST);
    let mut off = Modelled::<A>::new(Timing::Off);
    let mut full = Modelled::<A>::new(Timing::Full);
    [
        ("bare hook", Box::new(move |rounds| bare.run(rounds))),
        ("timing off", Box::new(move |rounds| off.run(rounds))),
        ("timing full", Box::new(move |rounds| full.run(rounds))),
    ]
}

/// Runs one turn and checks that every access was seen.
fn turn(run: &mut dyn FnMut(u64) -> u64, rounds: u64) -> Duration {
    let start = Instant::now();
    let seen = run(rounds);
    let time = start.elapsed();
    assert_eq!(seen, rounds * ACCESSES);
    time
}

fn compare<A: Target>() {
    let mut engines = engines::<A>();
    let mut times: [Vec<Duration>; 3] = Default::default();
    for warm_up in [true].into_iter().chain([false; TURNS]) {
        for (index, (_, run)) in engines.iter_mut().enumerate() {
            let time = turn(run, ROUNDS);
            if !warm_up {
                times[index].push(time);
            }
        }
    }
    let medians = times.map(|mut times| {
        times.sort();
        times[times.len() / 2].as_secs_f64()
    });
    for (index, (name, _)) in engines.iter().enumerate() {
        let rate = (ROUNDS * ACCESSES) as f64 / medians[index] / 1e6;
        let ratio = medians[0] / medians[index];
        print!(
            "{:8} {name:12} {rate:6.2} M accesses/s  {ratio:.2} of the bare hook",
            A::NAME
        );
        match index.checked_sub(1).map(|index| TARGETS[index]) {
            Some(target) => println!(" (target {target})"),
            None => println!(),
        }
    }
}

fn measure<A: Target>(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group(format!("accesses/{}", A::NAME));
    group.throughput(Throughput::Elements(ROUNDS / 10 * ACCESSES));
    group.sample_size(10);
    for (name, mut run) in engines::<A>() {
        group.bench_function(name, |bencher| bencher.iter(|| run(ROUNDS / 10)));
    }
    group.finish();
}

fn main() {
    compare::<Aarch64>();
    compare::<x86::X86_64>();
    let mut criterion = Criterion::default().configure_from_args();
    measure::<Aarch64>(&mut criterion);
    measure::<x86::X86_64>(&mut criterion);
    criterion.final_summary();
}
