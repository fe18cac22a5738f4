//! Whole systems over the recordings: fetches, data accesses, table stores, register writes,
//! invalidations and barriers go through modelled TLBs and walk caches, and every answer must be
//! the recorded physical address.
//!
//! This tests both sides of invalidation. A model that removes too little answers with a stale
//! address. And what a real kernel issues has to be enough for any machine, so it is also run
//! under a TLB that never evicts.
//!
//! The same stores, TLBIs and barriers must also keep the architecture's rules for changing tables.
//!
//! Set `MMUSCOPE_RECORDINGS` to a directory to run over more recordings.

#![allow(clippy::print_stdout, reason = "the test reports what it compared")]

mod common;

use std::path::Path;

use common::{name, recordings};
use mmuscope_models::counters::Counters;
use mmuscope_models::profile::Profile;
use mmuscope_models::rules::{BbmLevel, BreakChecker};
use mmuscope_models::system::{CoreId, System, TranslationMode};
use mmuscope_models::{aarch64::Aarch64, x86::X86_64};
use mmuscope_traces::recording::{Event, Isa, RecordedArch, Recording, Replay};

#[derive(Debug, Default)]
struct Tally {
    equal: u64,
    /// Faults that a second try does not take.
    spurious: u64,
    wrong: Vec<String>,
    counters: Counters,
}

fn run<A: RecordedArch>(path: &Path, profile: &str, mode: TranslationMode) -> Tally {
    run_records::<A>(path, profile, mode, |_| true)
}

/// Replays the records that `keep` lets through.
fn run_records<A: RecordedArch>(
    path: &Path,
    profile: &str,
    mode: TranslationMode,
    keep: impl Fn(&Event) -> bool,
) -> Tally {
    let profile = Profile::builtin(profile).unwrap();
    let mut system = System::<A>::new(&profile, 2, ()).unwrap();
    system.set_mode(mode);
    let mut replay = Replay::new(system);
    let mut tally = Tally::default();
    for record in mmuscope_traces::open::<Recording>(path).unwrap() {
        let record = record.unwrap();
        if !keep(&record.event) {
            continue;
        }
        let (Event::Load(access) | Event::Store(access)) = &record.event else {
            replay.step(&record).unwrap();
            continue;
        };
        let mut answer = replay.step(&record).unwrap();
        if matches!(answer, Some(Err(_))) {
            tally.spurious += 1;
            answer = replay.step(&record).unwrap();
        }
        match answer {
            None => {}
            Some(Ok(translation)) if translation.pa == access.pa => tally.equal += 1,
            Some(answer) => tally.wrong.push(format!("{access:?}: {answer:?}")),
        }
    }
    for core in 0..2 {
        tally
            .counters
            .merge(replay.system().counters(CoreId::new(core)));
    }
    tally
}

fn check(mode: TranslationMode) {
    let mut equal = 0;
    for path in recordings() {
        let tally = match common::isa(&path) {
            Isa::Aarch64 => run::<Aarch64>(&path, "cortex-a76", mode),
            Isa::X86_64 => run::<X86_64>(&path, "skylake-sp", mode),
        };
        let data = &tally.counters.data;
        println!(
            "{:42} {:6} equal {} spurious faults {} wrong; L1 misses {}, walks {}, reads {}, removed {} + {}",
            name(&path),
            tally.equal,
            tally.spurious,
            tally.wrong.len(),
            data.l1_misses,
            data.walks,
            data.walk_reads.iter().sum::<u64>(),
            tally.counters.removed.l1_entries,
            tally.counters.removed.l2_entries,
        );
        let first = &tally.wrong[..tally.wrong.len().min(5)];
        assert!(first.is_empty(), "{}: {first:#?}", name(&path));
        assert_eq!(tally.counters.fetch.faults, 0, "{}", name(&path));
        assert!(data.walks > 0 && data.walks < tally.equal, "{data:?}");
        equal += tally.equal;
    }
    println!("{mode:?}: {equal} accesses, every answer the recorded address");
}

#[test]
fn no_modelled_tlb_answers_with_a_stale_address() {
    check(TranslationMode::Modelled);
}

#[test]
fn real_kernels_maintain_even_a_tlb_that_never_evicts() {
    check(TranslationMode::Hoarder);
}

/// The same comparison notices when maintenance is missing: without its TLBIs, a fork and the
/// copies on write after it leave the parent with entries of the old pages.
#[test]
fn a_kernel_without_maintenance_is_caught() {
    let path = common::data().join("arm64-6.12-n1-never.fork4M.trc.zst");
    let mode = TranslationMode::Hoarder;
    let tally = run_records::<Aarch64>(&path, "cortex-a76", mode, |event| {
        !matches!(event, Event::Tlbi(_))
    });
    println!("{} of {} accesses wrong", tally.wrong.len(), tally.equal);
    assert!(!tally.wrong.is_empty());
}

/// What the rules say of a recording, and how many values may still be cached at its end.
fn judge(path: &Path, keep: impl Fn(&Event) -> bool) -> (Vec<String>, u64, usize) {
    let profile = Profile::builtin("cortex-a76").unwrap();
    let checker = BreakChecker::new(2, BbmLevel::Level0);
    let system = System::<Aarch64, _>::new(&profile, 2, checker).unwrap();
    let mut replay = Replay::new(system);
    for record in mmuscope_traces::open::<Recording>(path).unwrap() {
        let record = record.unwrap();
        if keep(&record.event) {
            replay.step(&record).unwrap();
        }
    }
    let checker = replay.system().observer();
    let found = checker.violations().iter().map(ToString::to_string);
    (found.collect(), checker.count(), checker.outstanding())
}

#[test]
fn real_kernels_break_before_they_make() {
    let arm = |path: &&std::path::PathBuf| common::isa(path) == Isa::Aarch64;
    for path in recordings().iter().filter(arm) {
        let (found, count, outstanding) = judge(path, |_| true);
        println!(
            "{:42} {count} violations, {outstanding} old values at the end",
            name(path)
        );
        assert_eq!(count, 0, "{}: {found:#?}", name(path));
    }
}

/// The checker notices missing maintenance: copies on write put new pages in the place of old
/// ones.
#[test]
fn copies_on_write_without_maintenance_break_the_rules() {
    let path = common::data().join("arm64-6.12-n1-never.fork4M.trc.zst");
    let (found, count, _) = judge(&path, |event| !matches!(event, Event::Tlbi(_)));
    println!("{count} violations; the first: {found:?}");
    assert!(count > 0);
}
