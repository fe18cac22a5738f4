//! The walkers against QEMU, in random walks.
//!
//! A small server of ours (`walkserver/`) runs bare-metal under QEMU's full-system emulator and
//! answers translation requests with the processor's own means: address translation instructions on
//! AArch64, and on both architectures loads, stores and fetches of either privilege. Requests, answers and random translation tables lie in the guest's RAM,
//! a file that the test maps as well. The same tables and registers go to this project's walkers;
//! every answer must agree, or differ as a listed deviation of QEMU says.
//!
//! The tests here need QEMU and take minutes, so `make test` leaves them out; `make test-long`
//! runs them. `MMUSCOPE_WALKS` sets the number of walks per architecture, `MMUSCOPE_SEED` the
//! seed.
//!
//! The room is in this crate because the server is a guest program and is built as the others
//! are, and because nothing here needs the emulator that the walkers are otherwise used in.
#![allow(clippy::print_stderr, reason = "the report of a test goes to stderr")]
#![allow(missing_docs, reason = "a test has no users")]

mod aarch64;
mod emulator;
mod ram;
mod random;
mod tally;
mod x86;

use std::env;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Instant;

use emulator::Machine;
use fastrand::Rng;
use tally::Tally;

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Ok(value) => value
            .parse()
            .unwrap_or_else(|_| panic!("{name}={value}: expected a number")),
        Err(_) => default,
    }
}

/// Repeats `round` until enough walks are compared. `required` must all be covered.
fn run(
    machine: &Machine,
    dir: &Path,
    mut round: impl FnMut(&mut Rng, &Path, &mut Tally),
    required: &[&str],
) {
    let walks = setting("MMUSCOPE_WALKS", 1_000_000);
    let seed = setting("MMUSCOPE_SEED", 1);
    eprintln!("{}: seed {seed}", machine.version());
    let mut rng = Rng::with_seed(seed);
    let mut tally = Tally::default();
    let start = Instant::now();
    let terminal = std::io::stderr().is_terminal();
    while tally.walks() < walks {
        round(&mut rng, dir, &mut tally);
        if terminal {
            eprint!("\r{} of {walks} walks ", tally.walks());
        }
    }
    if terminal {
        eprintln!();
    }
    eprint!("{tally}");
    eprintln!("  in {:.1} seconds", start.elapsed().as_secs_f64());
    tally.check(required);
}

#[test]
#[ignore = "needs qemu-system-aarch64 and minutes: make test-long"]
fn aarch64_walks_agree_with_qemu() {
    let dir = tempfile::tempdir().unwrap();
    let features = aarch64::features(dir.path());
    let round = |rng: &mut Rng, dir: &Path, tally: &mut Tally| {
        aarch64::round(rng, &features, dir, tally);
    };
    run(&aarch64::MACHINE, dir.path(), round, aarch64::REQUIRED);
}

#[test]
#[ignore = "needs qemu-system-x86_64 and minutes: make test-long"]
fn x86_walks_agree_with_qemu() {
    let dir = tempfile::tempdir().unwrap();
    let features = x86::features(dir.path());
    let round = |rng: &mut Rng, dir: &Path, tally: &mut Tally| {
        x86::round(rng, &features, dir, tally);
    };
    run(&x86::MACHINE, dir.path(), round, x86::REQUIRED);
}
