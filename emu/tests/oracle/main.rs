//! The walkers against the one in Unicorn, in random walks.
//!
//! Unicorn is QEMU 5.0 inside and has a table walker of its own, which the emulator never uses: it
//! answers translation itself. Here the engine runs with its own TLB, over random tables in random
//! geometries, and says what it makes of them: on AArch64 through address translation instructions
//! and PAR_EL1, on x86-64 through its translation call and CR2. The same tables and registers go
//! to this project's walkers; every answer must agree, or differ as a listed deviation says.
//!
//! `MMUSCOPE_WALKS` sets the number of walks per architecture, `MMUSCOPE_SEED` the seed.
#![allow(clippy::print_stderr, reason = "the report of a test goes to stderr")]
#![allow(missing_docs, reason = "a test has no users")]

mod aarch64;
mod random;
mod tally;
mod x86;

use std::env;

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
fn run(name: &str, mut round: impl FnMut(&mut Rng, &mut Tally), required: &[&str]) {
    let walks = setting("MMUSCOPE_WALKS", 10_000);
    let seed = setting("MMUSCOPE_SEED", 1);
    let mut rng = Rng::with_seed(seed);
    let mut tally = Tally::default();
    while tally.walks() < walks {
        round(&mut rng, &mut tally);
    }
    eprint!("{name}, seed {seed}: {tally}");
    tally.check(required);
}

#[test]
fn aarch64_walks_agree_with_unicorn() {
    let mut engine = aarch64::Engine::new();
    let round = |rng: &mut Rng, tally: &mut Tally| aarch64::round(&mut engine, rng, tally);
    run("aarch64", round, aarch64::REQUIRED);
}

#[test]
fn x86_walks_agree_with_unicorn() {
    let mut engines = [x86::Engine::new(0), x86::Engine::new(3)];
    let round = |rng: &mut Rng, tally: &mut Tally| {
        let engine = &mut engines[rng.usize(..2)];
        x86::round(engine, rng, tally);
    };
    run("x86_64", round, x86::REQUIRED);
}
