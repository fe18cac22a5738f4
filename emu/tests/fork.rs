//! `mmuscope compare fork`: counts against those of Linux kernels for the same call, and what the
//! variants of write-protecting contiguous groups issue.
//!
//! The recorded fork rows hold the whole test program: some thirty pages of its own, and the child's
//! first steps. Two sizes differ by the pages of the area alone, so differences are compared there.
//! Rows of writes after the fork are compared as they are.

#![allow(clippy::print_stdout, reason = "the test reports what it compared")]

use assert_cmd::Command;
use serde::Deserialize;
use serde_json::Value;

/// Runs `compare fork` and gives the report.
fn forked(words: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmuscope"));
    let output = command
        .args(["compare", "fork"])
        .args(words)
        .args(["--json", "-"]);
    let output = output.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A counter of a region of a run, by JSON pointer below `counters`.
fn count(run: &Value, region: &str, pointer: &str) -> i64 {
    let regions = run["regions"].as_array().unwrap();
    let region = regions.iter().find(|it| it["name"] == region).unwrap();
    region["counters"]
        .pointer(pointer)
        .unwrap()
        .as_i64()
        .unwrap()
}

/// A row of the golden file.
#[derive(Debug, Deserialize)]
struct Row {
    run: String,
    roi: String,
    thp: String,
    #[serde(rename = "pt_L2_install_table")]
    l2_install_table: i64,
    #[serde(rename = "pt_L2_install_leaf")]
    l2_install_leaf: i64,
    #[serde(rename = "pt_L3_install_leaf")]
    l3_install_leaf: i64,
    #[serde(rename = "pt_L2_clear_leaf")]
    l2_clear_leaf: i64,
    #[serde(rename = "pt_L3_clear_leaf")]
    l3_clear_leaf: i64,
    #[serde(rename = "pt_L2_attr")]
    l2_attr: i64,
    #[serde(rename = "pt_L3_attr")]
    l3_attr: i64,
    cont_set: i64,
    tlbi_va: i64,
    tlbi_asid: i64,
    tlbi_range: i64,
    tlbi_range_pages: i64,
    tlbi_erratum_repeat: i64,
    dsb_ish: i64,
    dsb_ishst: i64,
    invlpg_initiator: i64,
    cr3_initiator: i64,
}

impl Row {
    fn machine(&self) -> &'static str {
        match self.run.as_str() {
            "arm64-6.12-n1-s1" => "qemu-n1",
            "arm64-6.12-max-s1" => "qemu-max",
            _ => "qemu-amd64",
        }
    }

    fn folio(&self) -> &'static str {
        match self.thp.as_str() {
            "never" => "folio=4K",
            "64K" => "folio=64K",
            _ => "folio=2M",
        }
    }

    /// Recorded figures with the pointers of ours. The erratum's repeats are TLBIs by address for us.
    fn columns(&self) -> [(&'static str, i64); 14] {
        [
            ("/lower_tables/install_table/3", self.l2_install_table),
            ("/lower_tables/install_leaf/3", self.l2_install_leaf),
            ("/lower_tables/install_leaf/4", self.l3_install_leaf),
            ("/lower_tables/clear_leaf/3", self.l2_clear_leaf),
            ("/lower_tables/clear_leaf/4", self.l3_clear_leaf),
            ("/lower_tables/attr/3", self.l2_attr),
            ("/lower_tables/attr/4", self.l3_attr),
            (
                "/tlbi_broadcast/va",
                self.tlbi_va + self.tlbi_erratum_repeat,
            ),
            ("/tlbi_broadcast/asid", self.tlbi_asid),
            ("/tlbi_broadcast/range", self.tlbi_range),
            ("/tlbi_broadcast/range_pages", self.tlbi_range_pages),
            ("/barriers/dsb_ishst", self.dsb_ishst),
            ("/flushes/invlpg", self.invlpg_initiator),
            ("/flushes/cr3", self.cr3_initiator),
        ]
    }
}

fn rows() -> Vec<Row> {
    let text = include_str!("../../guest/tests/data/linux-fork.csv");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

/// Barriers of timer interrupts that a recording of a long call holds at most.
const TIMER_BARRIERS: i64 = 8;

#[test]
fn writes_after_a_fork_count_as_in_linux() {
    let mut compared = 0;
    for row in rows() {
        let touch = match row.roi.split(' ').next().unwrap() {
            "cow-after-fork" => "touch=shared",
            "retouch-after-fork" => "touch=alone",
            _ => continue,
        };
        let size = row.roi.split(' ').nth(1).unwrap();
        let report = forked(&[
            size,
            row.folio(),
            touch,
            "--on",
            row.machine(),
            "--timing",
            "off",
        ]);
        let run = &report["runs"][0];
        for (pointer, recorded) in row.columns() {
            assert_eq!(
                count(run, "retouch", pointer),
                recorded,
                "{pointer}: {row:?}"
            );
        }
        let more = row.dsb_ish - count(run, "retouch", "/barriers/dsb_ish");
        assert!(
            (0..=TIMER_BARRIERS).contains(&more),
            "{more} barriers: {row:?}"
        );
        compared += 1;
    }
    println!("{compared} rows of writes after a fork equal");
    assert_eq!(compared, 27);
}

#[test]
fn a_larger_area_costs_a_fork_what_it_costs_linux() {
    let rows: Vec<_> = rows()
        .into_iter()
        .filter(|it| it.roi.starts_with("fork "))
        .collect();
    for small in rows.iter().filter(|it| it.roi.ends_with("=4M")) {
        let same =
            |it: &&Row| it.run == small.run && it.thp == small.thp && it.roi.ends_with("=128M");
        let large = rows.iter().find(same).unwrap();
        let run = |size| {
            let report = forked(&[
                size,
                small.folio(),
                "--on",
                small.machine(),
                "--timing",
                "off",
            ]);
            report["runs"][0].clone()
        };
        let (ours_small, ours_large) = (run("size=4M"), run("size=128M"));
        for ((pointer, few), (_, many)) in small.columns().into_iter().zip(large.columns()) {
            let ours = count(&ours_large, "fork", pointer) - count(&ours_small, "fork", pointer);
            // The program's own writable pages, a handful, are not always the same.
            let off = if pointer.contains("attr/4") { 16 } else { 0 };
            assert!(
                (ours - (many - few)).abs() <= off,
                "{pointer}: {ours}, {small:?}, {large:?}"
            );
        }
        let cont = |it: &Value| count(it, "fork", "/lower_tables/cont_set/4");
        assert_eq!(
            cont(&ours_large) - cont(&ours_small),
            large.cont_set - small.cont_set
        );
    }
}

/// What 64 KiB blocks cost each variant, beside the one flush and the tables of every fork.
#[test]
fn variants_issue_what_their_patches_say() {
    let words = [
        "wrprotect=none,per_pte,per_pte_no_refold,whole_range",
        "size=4M",
        "--timing",
        "off",
    ];
    for (machine, ranges) in [("neoverse-n1", false), ("neoverse-v2", true)] {
        let report = forked(&[&words[..], &["--on", machine]].concat());
        let runs = report["runs"].as_array().unwrap();
        let blocks = 64;
        let of = |run: &Value, pointer| count(run, "fork", pointer);
        let none = &runs[0];
        for (run, conversions) in runs.iter().zip([0, 2, 1, 0]) {
            let pages = if ranges { 0 } else { 16 };
            let operations = i64::from(ranges);
            assert_eq!(
                of(run, "/tlbi_broadcast/va"),
                blocks * pages * conversions,
                "{run}"
            );
            assert_eq!(
                of(run, "/tlbi_broadcast/range"),
                blocks * operations * conversions
            );
            assert_eq!(of(run, "/tlbi_broadcast/asid"), 1);
            let more = |pointer| of(run, pointer) - of(none, pointer);
            assert_eq!(more("/barriers/dsb_ish"), blocks * conversions);
            assert_eq!(
                of(run, "/lower_tables/clear_leaf/4"),
                blocks * 16 * conversions
            );
            assert_eq!(run["verdict"]["status"], "fine");
        }
        // The child's groups have the bit, whatever the parent's went through.
        let cont = |run: &Value| of(run, "/lower_tables/cont_set/4");
        let counts: Vec<_> = runs.iter().map(cont).collect();
        assert_eq!(
            counts,
            [0, 2 * 1024, 1024, 1024],
            "per_pte also folds the parent's again"
        );
    }
}

/// Areas whose ends lie inside a block: only the parts at the ends are unfolded.
#[test]
fn no_length_leaves_a_group_in_two_states() {
    for pages in [1, 2, 15, 16, 17, 31, 33, 47, 48] {
        let size = format!("size={}", pages * 4096);
        let words = [
            "wrprotect=per_pte,whole_range,whole_range_uniform",
            "touch=shared",
            &size,
        ];
        let report = forked(&[&words[..], &["--on", "neoverse-n1"]].concat());
        for run in report["runs"].as_array().unwrap() {
            assert_eq!(run["verdict"]["status"], "fine", "{size}: {run}");
            assert_eq!(run["results"]["copy_faults"], pages.to_string(), "{size}");
        }
    }
}

#[test]
fn other_cpus_of_an_x86_process_are_asked_once() {
    let words = [
        "size=2M",
        "cpus=4",
        "threads=none,spin",
        "--on",
        "skylake-sp",
    ];
    let report = forked(&words);
    let ipis = |run: &Value| count(run, "fork", "/ipis_sent");
    let runs = report["runs"].as_array().unwrap();
    assert_eq!((ipis(&runs[0]), ipis(&runs[1])), (0, 3));
}
