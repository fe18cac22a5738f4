//! `mmuscope compare munmap`: counts against those of Linux kernels for the same call.

#![allow(clippy::print_stdout, reason = "the test reports what it compared")]

use std::collections::HashMap;

use assert_cmd::Command;
use serde_json::Value;

fn unmapped(words: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmuscope"));
    let output = command
        .args(["compare", "munmap"])
        .args(words)
        .args(["--json", "-"]);
    let output = output.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn count(run: &Value, pointer: &str) -> i64 {
    let counters = &run["regions"][0]["counters"];
    counters.pointer(pointer).unwrap().as_i64().unwrap()
}

type Row = HashMap<String, String>;

fn number(row: &Row, name: &str) -> i64 {
    row[name].parse().unwrap()
}

/// Recorded columns and ours. The erratum's repeats are TLBIs by address for us.
const COLUMNS: [(&str, &[&str]); 12] = [
    ("/lower_tables/clear_table/2", &["pt_L1_clear_table"]),
    ("/lower_tables/clear_table/3", &["pt_L2_clear_table"]),
    ("/lower_tables/clear_leaf/3", &["pt_L2_clear_leaf"]),
    ("/lower_tables/clear_leaf/4", &["pt_L3_clear_leaf"]),
    ("/lower_tables/install_leaf/4", &["pt_L3_install_leaf"]),
    ("/tlbi_broadcast/va", &["tlbi_va", "tlbi_erratum_repeat"]),
    ("/tlbi_broadcast/asid", &["tlbi_asid"]),
    ("/tlbi_broadcast/range", &["tlbi_range"]),
    ("/tlbi_broadcast/range_pages", &["tlbi_range_pages"]),
    ("/barriers/dsb_ishst", &["dsb_ishst"]),
    ("/flushes/invlpg", &["invlpg_initiator"]),
    ("/flushes/cr3", &["cr3_initiator"]),
];

/// Barriers of timer interrupts that a recording of a long call holds at most.
const TIMER_BARRIERS: i64 = 8;

fn differences(row: &Row) -> Vec<String> {
    let machine = match row["run"].as_str() {
        "arm64-6.12-n1-s1" => "qemu-n1",
        "arm64-6.12-max-s1" => "qemu-max",
        _ => "qemu-amd64",
    };
    let folio = match row["thp"].as_str() {
        "never" => "folio=4K",
        "64K" => "folio=64K",
        _ => "folio=2M",
    };
    let (roi, pages) = row["roi"].split_once(" pages=").unwrap();
    let size = format!("size={}", pages.parse::<u64>().unwrap() * 4096);
    // One page in the middle of a block of an area that stays.
    let pad = if roi == "munmap" { "pad=0" } else { "pad=64K" };
    // A block of 2 MiB was none there: the recorded area was smaller.
    let folio = if roi != "munmap" && folio == "folio=2M" {
        "folio=64K"
    } else {
        folio
    };
    let report = unmapped(&[&size, pad, folio, "--on", machine, "--timing", "off"]);
    let run = &report["runs"][0];
    let mut differences = Vec::new();
    for (pointer, recorded) in COLUMNS {
        let recorded: i64 = recorded.iter().map(|it| number(row, it)).sum();
        let ours = count(run, pointer);
        if ours != recorded {
            differences.push(format!("{pointer} {ours}, recorded {recorded}"));
        }
    }
    let more = number(row, "dsb_ish") - count(run, "/barriers/dsb_ish");
    if !(0..=TIMER_BARRIERS).contains(&more) {
        differences.push(format!("{more} more barriers recorded"));
    }
    differences
}

#[test]
fn munmap_counts_as_in_linux() {
    let text = include_str!("../../guest/tests/data/linux-munmap.csv");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut wrong = Vec::new();
    let mut equal = 0;
    for row in reader.deserialize() {
        let row: Row = row.unwrap();
        match differences(&row) {
            none if none.is_empty() => equal += 1,
            some => wrong.push(format!(
                "{} {} {}: {some:?}",
                row["run"], row["roi"], row["thp"]
            )),
        }
    }
    println!("{equal} rows equal, {} not", wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(equal, 108);
}

/// Shootdowns on x86: up to 33 pages one by one on every CPU that runs the process, then all at once.
#[test]
fn other_cpus_flush_what_this_one_does() {
    for (pages, invlpg, cr3) in [(1, 1, 0), (33, 33, 0), (34, 0, 1)] {
        let size = format!("size={}", pages * 4096);
        let words = [
            &size,
            "pad=64K",
            "cpus=4",
            "threads=spin",
            "--on",
            "qemu-amd64",
        ];
        let report = unmapped(&words);
        let run = &report["runs"][0];
        assert_eq!(count(run, "/flushes/invlpg"), 4 * invlpg, "{pages} pages");
        assert_eq!(count(run, "/flushes/cr3"), 4 * cr3, "{pages} pages");
        assert_eq!(count(run, "/ipis_received"), 3, "{pages} pages");
    }
}

/// CPUs without the address space in use are not asked, as long as no table goes.
#[test]
fn lazy_cpus_are_left_alone() {
    let words = [
        "size=4K",
        "pad=64K",
        "cpus=4",
        "threads=lazy",
        "--on",
        "qemu-amd64",
    ];
    assert_eq!(count(&unmapped(&words)["runs"][0], "/ipis_sent"), 0);
}

/// A size may be zero, and is still whole pages.
#[test]
fn a_pad_of_no_whole_pages_is_refused_before_anything_runs() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmuscope"));
    let output = command.args(["compare", "munmap", "pad=5000", "--on", "zen3"]);
    let output = output.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        error.contains("`pad`: 5000 is no multiple of 4K"),
        "{error}"
    );
    assert!(error.contains("`8K`"), "{error}");
}
