//! `mmuscope compare mprotect`: counts against those of Linux kernels for the same calls, and what
//! the variants of changing contiguous groups issue.

#![allow(clippy::print_stdout, reason = "the test reports what it compared")]

use assert_cmd::Command;
use serde::Deserialize;
use serde_json::Value;

/// Runs `compare mprotect` and gives the report's runs.
fn protected(words: &[&str]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmuscope"));
    let output = command
        .args(["compare", "mprotect"])
        .args(words)
        .args(["--json", "-"]);
    let output = output.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {error}");
    let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
    match report["runs"].take() {
        Value::Array(runs) => runs,
        other => panic!("{words:?}: runs are {other}"),
    }
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
    #[serde(rename = "pt_L2_clear_table")]
    l2_clear_table: i64,
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

    /// The region that does what the row's call does.
    fn region(&self) -> &'static str {
        match self.roi.split(' ').next().unwrap() {
            "mprotect-ro" | "mprotect-1-in-block" => "protect",
            "mprotect-rw" | "mprotect-1-back" => "unprotect",
            "retouch-after-mprotect" => "retouch",
            other => panic!("{other} is no row of mprotect"),
        }
    }

    fn size(&self) -> String {
        let (_, pages) = self.roi.split_once("pages=").unwrap();
        format!("size={}", pages.parse::<u64>().unwrap() * 4096)
    }

    /// A page in the middle of a block has the same area around it; it is neither the first nor the
    /// last of its group of 16 or its leaf of 512.
    fn pad(&self) -> &'static str {
        let middle = self.roi.contains("mprotect-1-");
        if middle { "pad=2117632" } else { "pad=0" }
    }

    /// Recorded figures with the pointers of ours. The erratum's repeats are TLBIs by address for us.
    fn columns(&self) -> [(&'static str, i64); 15] {
        let va = self.tlbi_va + self.tlbi_erratum_repeat;
        [
            ("/lower_tables/install_table/3", self.l2_install_table),
            ("/lower_tables/install_leaf/3", self.l2_install_leaf),
            ("/lower_tables/install_leaf/4", self.l3_install_leaf),
            ("/lower_tables/clear_table/3", self.l2_clear_table),
            ("/lower_tables/clear_leaf/3", self.l2_clear_leaf),
            ("/lower_tables/clear_leaf/4", self.l3_clear_leaf),
            ("/lower_tables/attr/3", self.l2_attr),
            ("/lower_tables/attr/4", self.l3_attr),
            ("/lower_tables/cont_set/4", self.cont_set),
            ("/tlbi_broadcast/va", va),
            ("/tlbi_broadcast/asid", self.tlbi_asid),
            ("/tlbi_broadcast/range", self.tlbi_range),
            ("/tlbi_broadcast/range_pages", self.tlbi_range_pages),
            ("/flushes/invlpg", self.invlpg_initiator),
            ("/flushes/cr3", self.cr3_initiator),
        ]
    }

    /// The columns in which a run differs, with what was recorded and what was counted.
    fn differences(&self, run: &Value) -> Vec<String> {
        let region = self.region();
        let mut found = Vec::new();
        for (pointer, recorded) in self.columns() {
            let ours = count(run, region, pointer);
            if ours != recorded {
                found.push(format!("{pointer}: {ours}, recorded {recorded}"));
            }
        }
        let more = self.dsb_ish - count(run, region, "/barriers/dsb_ish");
        if !(0..=TIMER_BARRIERS).contains(&more) || more % 2 != 0 {
            found.push(format!("{more} barriers more are recorded"));
        }
        found
    }
}

/// Barriers of timer interrupts that a recording of a long call holds at most; they come in pairs.
const TIMER_BARRIERS: i64 = 8;

fn rows() -> Vec<Row> {
    let text = include_str!("../../guest/tests/data/linux-mprotect.csv");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

#[test]
fn changes_of_access_count_as_in_linux() {
    let rows = rows();
    let mut equal = 0;
    let mut wrong = Vec::new();
    let mut last: Option<([String; 4], Value)> = None;
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|it| (it.machine(), it.folio(), it.size(), it.pad()));
    for row in sorted {
        let key = [
            row.machine().to_owned(),
            row.folio().to_owned(),
            row.size(),
            row.pad().to_owned(),
        ];
        if last.as_ref().is_none_or(|(it, _)| *it != key) {
            let [machine, folio, size, pad] = &key;
            let words = [size, folio, pad, "--on", machine, "--timing", "off"];
            let run = protected(&words).swap_remove(0);
            assert_eq!(run["verdict"]["status"], "fine", "{words:?}: {run}");
            last = Some((key, run));
        }
        let (_, run) = last.as_ref().unwrap();
        let found = row.differences(run);
        if found.is_empty() {
            equal += 1;
        } else {
            wrong.push(format!("{} {} {}: {found:?}", row.run, row.thp, row.roi));
        }
    }
    println!("{equal} of {} rows equal", rows.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(equal, 315);
}

/// 64 blocks of 64 KiB: what newer kernels save.
#[test]
fn batches_leave_whole_groups_folded() {
    for (machine, pages, operations) in [("neoverse-n1", 16, 0), ("neoverse-v2", 0, 1)] {
        let words = ["change=unfold_each,batched", "size=4M", "--timing", "off"];
        let runs = protected(&[&words[..], &["--on", machine]].concat());
        for region in ["protect", "unprotect"] {
            for (run, conversions) in runs.iter().zip([2, 0]) {
                let of = |pointer| count(run, region, pointer);
                let stores = 1024 * (1 + conversions);
                assert_eq!(of("/lower_tables/clear_leaf/4"), stores);
                assert_eq!(of("/lower_tables/install_leaf/4"), stores);
                // One more for the range itself; without range operations it is by ASID.
                let range = conversions * 64 * operations + operations;
                assert_eq!(of("/tlbi_broadcast/range"), range);
                assert_eq!(of("/tlbi_broadcast/asid"), 1 - operations);
                assert_eq!(of("/tlbi_broadcast/va"), conversions * 64 * pages);
                assert_eq!(run["verdict"]["status"], "fine");
            }
        }
    }
}

/// Ranges that begin or end inside, beside and at the ends of groups, up to three groups long.
#[test]
fn ranges_that_cut_groups_keep_every_page() {
    for pad in [0_u64, 1, 7, 15, 16, 17] {
        for pages in [1_u64, 2, 9, 15, 16, 17, 31, 32, 33, 48] {
            let (size, pad) = (
                format!("size={}", pages * 4096),
                format!("pad={}", pad * 4096),
            );
            let words = ["change=unfold_each,batched", &size, &pad, "--timing", "off"];
            for run in protected(&[&words[..], &["--on", "neoverse-n1"]].concat()) {
                assert_eq!(run["verdict"]["status"], "fine", "{size} {pad}: {run}");
            }
        }
    }
}

#[test]
fn other_cpus_are_asked_once_a_change() {
    let words = [
        "size=128K",
        "cpus=4",
        "threads=none,spin",
        "--on",
        "skylake-sp",
    ];
    let runs = protected(&words);
    let ipis = |run: &Value| count(run, "protect", "/ipis_sent");
    assert_eq!((ipis(&runs[0]), ipis(&runs[1])), (0, 3));
}
