//! The move mechanism against real kernels, without a machine.
//!
//! The kernel's own C code is built for the host, with tables in ordinary memory
//! and maintenance instructions that are recorded instead of executed
//! (`kernel/host`). Every recorded call of a real kernel is repeated with it and
//! must give the same counts.

mod common;

use std::collections::BTreeMap;

use common::{Counts, HostKernel};

/// The counts that must be equal in every row.
const EXACT: [&str; 24] = [
    "pt_L0_install_table",
    "pt_L1_install_table",
    "pt_L1_install_leaf",
    "pt_L2_install_table",
    "pt_L2_install_leaf",
    "pt_L3_install_leaf",
    "pt_L0_clear_table",
    "pt_L1_clear_table",
    "pt_L1_clear_leaf",
    "pt_L2_clear_table",
    "pt_L2_clear_leaf",
    "pt_L3_clear_leaf",
    "pt_L2_attr",
    "pt_L3_attr",
    "tlbi_va",
    "tlbi_asid",
    "tlbi_range",
    "tlbi_range_pages",
    "tlbi_erratum_repeat",
    "dsb_ishst",
    "invlpg_initiator",
    "cr3_initiator",
    "dsb_ish",
    "flush_tlb_func_others",
];

const TLBIRANGE: u64 = 1 << 0;
const TTL: u64 = 1 << 1;
const REPEAT_TLBI: u64 = 1 << 2;

type Row = BTreeMap<String, String>;

fn recorded_rows() -> Vec<Row> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/linux-mremap.csv");
    csv::Reader::from_path(path)
        .unwrap()
        .deserialize()
        .map(Result::unwrap)
        .collect()
}

/// `size=4M align=pte map=priv` as a lookup.
fn roi_word<'a>(row: &'a Row, key: &str) -> &'a str {
    row["roi"]
        .split(' ')
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
        .unwrap()
}

/// The arguments that ask for the same call. Shared memory came in single pages
/// on these kernels, whatever the setting for huge pages.
fn same_call(row: &Row) -> Vec<String> {
    let (src, dst) = match roi_word(row, "align") {
        "pte" => ("pte", "pte+1"),
        "ptesame" => ("pte", "pte"),
        level => (level, level),
    };
    let size: u64 = match roi_word(row, "size") {
        "4M" => 4 << 20,
        "64M" => 64 << 20,
        _ => 1 << 30,
    };
    let order = match (roi_word(row, "map"), row["thp"].as_str()) {
        ("priv", "64K") => 4,
        ("priv", "2M") => 9,
        _ => 0,
    };
    let features = match (row["arch"].as_str(), row["cpu"].as_str()) {
        ("amd64", _) => 0,
        (_, "max") => TLBIRANGE | TTL,
        _ => REPEAT_TLBI,
    };
    vec![
        "level=realign".to_owned(),
        format!("size={size}"),
        format!("src={src}"),
        format!("dst={dst}"),
        format!("order={order}"),
        format!("threads={}", row["threads"]),
        format!("cpus={}", row["smp"]),
        format!("features={features}"),
    ]
}

/// Whether our count agrees with the recorded one.
fn agrees(name: &str, row: &Row, recorded: u64, ours: u64) -> bool {
    match name {
        // A context switch inside the call has a barrier of its own; with the
        // return to the task there are two.
        "dsb_ish" => {
            recorded >= ours && recorded - ours <= 6 && (recorded - ours).is_multiple_of(2)
        }
        // A spinning thread that was preempted needs no interrupt (its CPU runs
        // another address space); an idle CPU may have dropped this one before.
        "flush_tlb_func_others" => match row["threads"].as_str() {
            "spin" => recorded <= ours && recorded * 10 >= ours * 6,
            _ => recorded <= 1 && ours <= 1,
        },
        _ => recorded == ours,
    }
}

fn compare(kernel: &HostKernel, rows: &[Row]) {
    assert!(!rows.is_empty());
    let mut differences = Vec::new();
    for row in rows {
        let ours = kernel.run(&same_call(row));
        assert_eq!(ours["pages_wrong"], 0, "{}", row["roi"]);
        for name in EXACT {
            let recorded: u64 = row[name].parse().unwrap();
            if !agrees(name, row, recorded, ours[name]) {
                differences.push(format!(
                    "{} {} thp={} threads={}: {name} {recorded}, ours {}",
                    row["run"], row["roi"], row["thp"], row["threads"], ours[name]
                ));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn arm64_kernels_are_matched_row_by_row() {
    let mut rows = recorded_rows();
    rows.retain(|row| row["arch"] == "arm64");
    compare(&HostKernel::aarch64(), &rows);
}

#[test]
fn amd64_kernels_are_matched_row_by_row() {
    let mut rows = recorded_rows();
    rows.retain(|row| row["arch"] == "amd64");
    compare(&HostKernel::x86(), &rows);
}

fn run(kernel: &HostKernel, words: &str) -> Counts {
    let counts = kernel.run(&words.split(' ').collect::<Vec<_>>());
    assert_eq!(counts["pages_wrong"], 0, "{words}");
    counts
}

#[test]
fn forcing_pte_on_an_aligned_region_flushes_once_a_table() {
    // The control of the published tables: 262,144 entries, 512 extents.
    let n1 = HostKernel::aarch64();
    let counts = run(&n1, "level=pte src=pmd dst=pmd");
    assert_eq!(counts["pt_L3_clear_leaf"], 262_144);
    assert_eq!(counts["pt_L3_install_leaf"], 262_144);
    assert_eq!(counts["extents"], 512);
    // One for each extent; the last is the freed tables of more than 1 GiB.
    assert_eq!(counts["tlbi_asid"], 512 + 1);
    assert_eq!(counts["tlbi_va"], 509);
    let x86 = run(&HostKernel::x86(), "level=pte src=pmd dst=pmd");
    assert_eq!(x86["cr3_initiator"], 512 + 1);
}

#[test]
fn without_a_threshold_every_page_is_named() {
    let n1 = HostKernel::aarch64();
    let counts = run(&n1, "level=pmd src=pmd dst=pmd flush=2");
    assert_eq!(counts["tlbi_va"], 262_144 + 2);
    assert_eq!(counts["tlbi_asid"], 0);
    let x86 = run(
        &HostKernel::x86(),
        "level=pmd src=pmd dst=pmd size=4194304 flush=2",
    );
    assert_eq!(x86["invlpg_initiator"], 1024 + 1);
}

#[test]
fn one_flush_at_the_end_replaces_those_of_the_extents() {
    let n1 = HostKernel::aarch64();
    let counts = run(&n1, "level=pmd src=pmd dst=pmd flush=1");
    assert_eq!(counts["pt_L2_clear_table"], 512);
    assert_eq!((counts["tlbi_asid"], counts["tlbi_va"]), (1, 2));
}

#[test]
fn huge_leaves_move_as_such_at_hpage_pmd_and_are_split_at_pte() {
    let x86 = HostKernel::x86();
    let whole = run(&x86, "level=hpage_pmd order=9 src=pmd dst=pmd");
    assert_eq!(whole["pt_L2_install_leaf"], 512);
    assert_eq!(whole["pt_L3_install_leaf"], 0);
    let split = run(&x86, "level=pte order=9 src=pmd dst=pmd size=4194304");
    assert_eq!(split["pt_L2_install_leaf"], 0);
    assert_eq!(split["pt_L3_install_leaf"], 1024);
    // And tables of pages are nothing that hpage_pmd may move.
    let pages = run(&x86, "level=hpage_pmd src=pmd dst=pmd size=4194304");
    assert_eq!(pages["pt_L3_install_leaf"], 1024);
}

#[test]
fn with_three_levels_the_pud_move_changes_root_entries() {
    let counts = run(&HostKernel::aarch64(), "level=pud levels=3");
    assert_eq!(counts["pt_L1_clear_table"], 1);
    assert_eq!(counts["pt_L1_install_table"], 1);
    assert_eq!(counts["pt_L0_install_table"], 0);
    assert_eq!(counts["tlbi_asid"], 1);
}

#[test]
fn a_move_to_the_end_of_the_address_space_is_complete() {
    for kernel in [HostKernel::aarch64(), HostKernel::x86()] {
        let counts = run(&kernel, "level=pud special=top");
        assert_eq!(counts["extents"], 1);
        let counts = run(&kernel, "level=pud src=pmd size=6291456 special=top");
        assert_eq!(counts["extents"], 3);
        let counts = run(&kernel, "level=pud src=pte size=2097152 special=top");
        assert_eq!(counts["extents"], 2);
    }
    let counts = run(&HostKernel::aarch64(), "level=pud levels=3 special=top");
    assert_eq!(counts["extents"], 1);
}

#[test]
fn empty_source_entries_allocate_no_destination() {
    let counts = run(
        &HostKernel::x86(),
        "level=pte src=pmd dst=pmd size=6291456 special=hole",
    );
    assert_eq!(counts["extents"], 2);
    assert_eq!(counts["pt_L2_install_table"], 2);
}

#[test]
fn a_table_at_the_destination_refuses_the_fast_path() {
    let counts = run(
        &HostKernel::x86(),
        "level=pmd src=pmd dst=pmd size=4194304 special=taken",
    );
    assert_eq!(counts["pt_L3_install_leaf"], 512);
    assert_eq!(counts["pt_L2_install_table"], 1);
}

#[test]
fn contiguous_groups_fold_again_where_frames_and_addresses_fit() {
    // 64 KiB folios, pages moved one by one to the same offset: each group is
    // unfolded by its first page, and folded at the new address by its last.
    let counts = run(
        &HostKernel::aarch64(),
        "level=pte order=4 src=pmd dst=pmd size=4194304",
    );
    assert_eq!(counts["pt_L3_install_leaf"], 1024 + 1024 + 1024);
    assert_eq!(counts["pt_L3_clear_leaf"], 1024 + 1024 + 1024);
    // A CPU that tolerates both kinds of entry at once needs no flush for it.
    let noabort = run(
        &HostKernel::aarch64(),
        "level=pte order=4 src=pmd dst=pmd size=4194304 features=16",
    );
    // Three for the freed tables, two times 16 for each of 64 groups.
    assert_eq!(noabort["tlbi_va"], 3);
    assert_eq!(counts["tlbi_va"], 3 + 2 * 1024);
}
