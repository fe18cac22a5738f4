//! The test guests boot, run to their exit and see what they should, on both architectures.

#[path = "common/guests.rs"]
mod guests;

use guests::{config, result, run, run_elf};
use mmuscope_emu::machine::{GuestExit, MachineError, run_guest};
use mmuscope_guest::{ArchName, tests};
use mmuscope_models::system::{Timing, TranslationMode};

#[test]
fn hello_prints_and_exits() {
    for arch in ArchName::ALL {
        let (outcome, _) = run(&config(arch, 1), &tests::HELLO, arch, &[]);
        assert_eq!(outcome.exit, GuestExit::Code(0), "{arch:?}");
        assert!(!outcome.console.is_empty());
        assert_eq!(result(&outcome, "cpus"), 1);
        assert!(outcome.totals[0].counters.instructions.total() > 100);
    }
}

#[test]
fn stale_translations_live_until_flush_or_eviction() {
    for arch in ArchName::ALL {
        let (outcome, _) = run(&config(arch, 1), &tests::STALE, arch, &[]);
        let keys = [
            "before",
            "after_change",
            "after_flush",
            "again_before",
            "after_eviction",
        ];
        let seen = keys.map(|key| result(&outcome, key));
        assert_eq!(seen[..3], [0x100, 0x100, 0x200], "{arch:?}");
        assert_ne!(seen[3], seen[4], "{arch:?}: evicted by 8192 other pages");

        let (outcome, _) = run(
            &config(arch, 1),
            &tests::STALE,
            arch,
            &[("evict_pages", "8")],
        );
        assert_eq!(
            result(&outcome, "again_before"),
            result(&outcome, "after_eviction"),
            "{arch:?}"
        );

        let mut hoarder = config(arch, 1);
        hoarder.mode = TranslationMode::Hoarder;
        let (outcome, _) = run(&hoarder, &tests::STALE, arch, &[]);
        assert_eq!(
            result(&outcome, "again_before"),
            result(&outcome, "after_eviction"),
            "{arch:?}"
        );
    }
}

#[test]
fn a_moved_table_is_found_at_its_old_address() {
    for arch in ArchName::ALL {
        let (outcome, _) = run(&config(arch, 1), &tests::TABLEMOVE, arch, &[]);
        let page = |key: &str| result(&outcome, key);
        assert_eq!(
            [page("none_old"), page("none_full"), page("none_new")],
            [0x140, 0, 0x140],
            "{arch:?}"
        );
        if arch == ArchName::Aarch64 {
            assert_eq!(
                [page("leaf_old"), page("leaf_full"), page("leaf_new")],
                [0x140, 0, 0x140]
            );
        }
    }
}

#[test]
fn faults_and_system_calls_from_user_mode() {
    for arch in ArchName::ALL {
        let (outcome, _) = run(&config(arch, 1), &tests::FAULTS, arch, &[]);
        let totals = &outcome.totals[0].counters;
        assert_eq!(outcome.exit, GuestExit::Code(0), "{arch:?}");
        // Two rounds.
        assert_eq!(result(&outcome, "calls"), 20);
        // The stack of the user code is a page more.
        assert!((64..=65).contains(&result(&outcome, "demand_faults")));
        assert_eq!(result(&outcome, "protect_faults"), 64);
        let taken = result(&outcome, "demand_faults") + result(&outcome, "protect_faults");
        assert_eq!(totals.exceptions.sync, taken, "{arch:?}");
        assert_eq!(totals.fetch.faults + totals.data.faults, taken, "{arch:?}");
        assert!(totals.exceptions.syscall >= 10);
    }
}

#[test]
fn cores_share_memory_and_interrupt_each_other() {
    for arch in ArchName::ALL {
        let (outcome, _) = run(&config(arch, 4), &tests::SMP, arch, &[("rounds", "200")]);
        assert_eq!(outcome.exit, GuestExit::Code(0), "{arch:?}");
        assert_eq!(result(&outcome, "counter"), 4 * 200, "{arch:?}");
        assert_eq!(result(&outcome, "handled"), 3 * 20, "{arch:?}");
        let sent: u64 = outcome
            .totals
            .iter()
            .map(|core| core.counters.ipis_sent)
            .sum();
        let received: u64 = outcome
            .totals
            .iter()
            .map(|core| core.counters.ipis_received)
            .sum();
        assert_eq!((sent, received), (60, 60), "{arch:?}");
    }
}

/// Runs with slices of different lengths and compares everything that is counted or timed.
fn equal_for_all_slices(arch: ArchName, elf: &[u8], params: &[(&str, &str)]) {
    let outcomes = [50, 500, 5000].map(|slice| {
        let mut config = config(arch, 4);
        config.slice = slice;
        run_elf(&config, elf, arch, params).0
    });
    for outcome in &outcomes[1..] {
        assert_eq!(outcome.totals, outcomes[0].totals, "{arch:?}");
        assert_eq!(outcome.total_cycles, outcomes[0].total_cycles, "{arch:?}");
        assert_eq!(outcome.regions, outcomes[0].regions, "{arch:?}");
    }
}

#[test]
fn the_length_of_slices_changes_nothing() {
    for arch in ArchName::ALL {
        equal_for_all_slices(arch, tests::SMP.elf(arch), &[("rounds", "200")]);
    }
}

#[test]
fn nor_does_it_while_shootdowns_interrupt_user_code() {
    let moving = [
        ("level", "pte"),
        ("size", "1048576"),
        ("src", "pte"),
        ("dst", "pte+1"),
    ];
    for arch in ArchName::ALL {
        for threads in ["spin", "lazy"] {
            let mut params = moving.to_vec();
            params.push(("threads", threads));
            equal_for_all_slices(arch, (mmuscope_guest::mremap::MREMAP.elf)(arch), &params);
        }
    }
}

#[test]
fn waiting_in_a_loop_costs_the_host_little() {
    let params = [("level", "pte"), ("size", "1048576"), ("threads", "spin")];
    for arch in ArchName::ALL {
        let elf = (mmuscope_guest::mremap::MREMAP.elf)(arch);
        let (outcome, _) = run_elf(&config(arch, 4), elf, arch, &params);
        let waiting = outcome.totals[3].counters.instructions.total();
        let working = outcome.totals[0].counters.instructions.total();
        assert!(
            waiting * 10 < working,
            "{arch:?}: {waiting} against {working}"
        );
    }
}

#[test]
fn without_time_cores_still_make_progress() {
    for arch in ArchName::ALL {
        let mut config = config(arch, 4);
        config.timing = Timing::Off;
        let (outcome, _) = run(&config, &tests::SMP, arch, &[("rounds", "100")]);
        assert_eq!(result(&outcome, "counter"), 400, "{arch:?}");
        assert_eq!(result(&outcome, "handled"), 60, "{arch:?}");
    }
}

#[test]
fn two_runs_are_equal() {
    for arch in ArchName::ALL {
        let (first, ram) = run(&config(arch, 3), &tests::SMP, arch, &[("rounds", "100")]);
        let (second, again) = run(&config(arch, 3), &tests::SMP, arch, &[("rounds", "100")]);
        assert_eq!(first, second, "{arch:?}");
        assert!(ram.same(&again), "{arch:?}");
    }
}

#[test]
fn under_the_model_and_without_it_memory_ends_equal() {
    for arch in ArchName::ALL {
        for image in [&tests::TRANSPARENCY, &tests::FAULTS] {
            let (modelled, ram) = run(&config(arch, 1), image, arch, &[]);
            let mut bare = config(arch, 1);
            bare.mode = TranslationMode::PassThrough;
            let (passed, bare_ram) = run(&bare, image, arch, &[]);
            assert_eq!(modelled.results, passed.results, "{arch:?} {}", image.name);
            assert!(ram.same(&bare_ram), "{arch:?} {}", image.name);
        }
    }
}

#[test]
fn a_guest_that_does_not_end_is_stopped() {
    for arch in ArchName::ALL {
        let mut config = config(arch, 1);
        config.instruction_limit = 1_000_000;
        let stopped = run_guest(&config, tests::LOOP.elf(arch), &[], &mut |_| {});
        assert!(
            matches!(stopped, Err(MachineError::InstructionLimit { .. })),
            "{arch:?} {stopped:?}"
        );
    }
}

#[test]
fn a_profile_of_the_other_architecture_is_refused() {
    let config = config(ArchName::Aarch64, 1);
    let refused = run_guest(
        &config,
        tests::HELLO.elf(ArchName::X86_64),
        &[],
        &mut |_| {},
    );
    assert!(
        matches!(refused, Err(MachineError::Architecture { .. })),
        "{refused:?}"
    );
}
