//! What commands print and write when they work.

use std::fs;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// The standard output of a command that must end well.
fn printed(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmuscope"));
    let output = command.args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    assert_eq!(error, "", "no progress where stderr is no terminal");
    String::from_utf8(output.stdout).unwrap()
}

/// A comparison that takes little time.
fn compared(options: &[&str]) -> String {
    let words = ["level=pte,pmd", "size=8M", "src=pmd", "dst=pmd"];
    let command = ["compare", "mremap", "--on", "cortex-a76,skylake-sp"];
    printed(&[&command[..], &words, options].concat())
}

#[track_caller]
fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

#[test]
fn a_comparison_names_machines_variants_and_the_faster_one() {
    let text = compared(&[]);
    assert_has(
        &text,
        &[
            "cortex-a76 (aarch64",
            "skylake-sp (x86_64",
            "faster than pte.",
        ],
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn table_stores_are_those_of_the_moved_entries() {
    let report: Value = serde_json::from_str(&compared(&["--json", "-"])).unwrap();
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4);
    for run in runs {
        let stores = &run["regions"][0]["counters"]["lower_tables"];
        // 8 MiB are 2048 pages, or four tables of pages; level 2 is element 3, level 3 is 4.
        let (kind, element, entries) = match run["point"]["level"].as_str() {
            Some("pte") => ("clear_leaf", 4, 2048),
            _ => ("clear_table", 3, 4),
        };
        assert_eq!(stores[kind][element], entries, "{stores}");
    }
}

#[test]
fn two_runs_give_the_same_bytes_whatever_the_number_of_jobs() {
    let folder = TempDir::new().unwrap();
    let files = ["one.json", "two.json"].map(|it| folder.path().join(it));
    for (path, jobs) in files.iter().zip(["1", "2"]) {
        compared(&["--json", path.to_str().unwrap(), "--jobs", jobs]);
    }
    let [one, two] = files.map(|it| fs::read(it).unwrap());
    assert!(one == two, "the reports differ");
    assert!(one.starts_with(b"{\n  \"schema\": \"mmuscope-report/1\""));
}

#[test]
fn the_page_and_the_markdown_have_what_the_text_says() {
    let folder = TempDir::new().unwrap();
    let [html, md] = ["report.html", "report.md"].map(|it| folder.path().join(it));
    let text = compared(&[
        "--html",
        html.to_str().unwrap(),
        "--md",
        md.to_str().unwrap(),
    ]);
    let said = text.lines().find(|it| it.ends_with("faster than pte."));
    let [html, md] = [html, md].map(|it| fs::read_to_string(it).unwrap());
    for other in [&html, &md] {
        assert_has(
            other,
            &[
                said.unwrap(),
                "CR3",
                "--on cortex-a76,skylake-sp --base level=pte",
            ],
        );
    }
}

#[test]
fn the_command_in_a_page_makes_the_same_report_again() {
    let page = compared(&["--html", "-", "--set", "cost.cycles.integer=0.5"]);
    let (_, command) = page.split_once("To see the same again: mmuscope ").unwrap();
    let (command, _) = command.split_once("</p>").unwrap();
    let mut words: Vec<_> = command.split(' ').collect();
    words.extend(["--html", "-"]);
    assert!(
        printed(&words) == page,
        "another page comes from `{command}`"
    );
}

#[test]
fn csv_has_a_row_for_each_run() {
    let text = compared(&["--csv", "-"]);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    assert!(reader.headers().unwrap().iter().any(|it| it == "cycles"));
    assert_eq!(reader.records().map(Result::unwrap).count(), 4);
}

#[test]
fn the_long_form_has_a_row_for_each_metric() {
    let metrics = [
        "instructions.load",
        "lower_tables.clear_leaf.l3",
        "cycles in execute",
    ];
    assert_has(&compared(&["--long"]), &metrics);
}

#[test]
fn a_program_in_a_file_runs_with_parameters_of_its_own() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("mremap.elf");
    let elf = (mmuscope_guest::mremap::MREMAP.elf)(mmuscope_guest::ArchName::X86_64);
    fs::write(&path, elf).unwrap();
    let path = path.to_str().unwrap();
    let words = [
        "level=pmd,pud",
        "size=4M",
        "src=pud",
        "dst=pud",
        "flush=end",
    ];
    let command = ["run", path, "ram=128M", "--on", "skylake-sp"];
    let text = printed(&[&command[..], &words].concat());
    assert_has(&text, &["mremap.elf", "skylake-sp (x86_64", "pmd", "pud"]);
}

#[test]
fn axes_are_listed_with_values_and_defaults() {
    assert_has(&printed(&["axes"]), &["mremap "]);
    let text = printed(&["axes", "mremap"]);
    assert_has(
        &text,
        &["level:", "pud", "(default", "tlbirange:", "aarch64 only"],
    );
}

#[test]
fn profiles_can_be_listed_shown_compared_and_checked() {
    assert_has(
        &printed(&["profile", "list"]),
        &["cortex-a76", "skylake-sp"],
    );
    let long = printed(&["profile", "list", "--long"]);
    for line in long.lines().skip(1) {
        let cells = line.split_whitespace().skip(1);
        let counts: Vec<usize> = cells.map(|it| it.parse().unwrap()).collect();
        assert_eq!(counts[0], counts[1..].iter().sum::<usize>(), "{line}");
    }
    let shown = printed(&["profile", "show", "skylake-sp", "--set", "clock.ghz=1.25"]);
    assert_has(&shown, &["set by the user"]);
    assert_has(&shown, &["cache.walker_reads", "tlb.l2.shared.sizes"]);
    let differ = printed(&["profile", "diff", "ivy-bridge", "haswell-ex"]);
    assert_has(&differ, &["tlb.l2.shared.sizes", "clock.ghz"]);
    let same = printed(&["profile", "diff", "cortex-a76", "cortex-a76"]);
    assert_eq!(same.lines().count(), 1, "{same}");
    assert_has(&printed(&["profile", "check"]), &["cortex-a76: fine"]);
}

#[test]
fn a_profile_survives_the_way_through_a_file() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("copy.toml");
    fs::write(&path, printed(&["profile", "show", "cortex-a76", "--toml"])).unwrap();
    let hash = |name: &str| {
        let text = printed(&["profile", "check", name]);
        text.rsplit(' ').next().map(str::to_owned)
    };
    assert_eq!(hash(path.to_str().unwrap()), hash("cortex-a76"));
}

#[test]
fn help_has_examples_and_the_exit_codes() {
    assert_has(&printed(&["--help"]), &["Examples:", "Exit codes: 0 fine"]);
}

#[test]
fn curves_are_drawn_as_text_json_picture_and_page() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (json, svg, html) = (file("c.json"), file("c.svg"), file("c.html"));
    let command = [
        "curve",
        "--on",
        "cortex-a76",
        "--from",
        "64K",
        "--to",
        "8M",
        "--jobs",
        "2",
        "--set",
        "tlb.policy.l2_coalesces=none",
    ];
    let files = ["--json", &json, "--svg", &svg, "--html", &html];
    let text = printed(&[&command[..], &files].concat());
    assert_has(&text, &["4K walks", "L1 TLB ends at 192K.", "its hash is"]);
    let read: Value = serde_json::from_str(&fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(read["schema"], "mmuscope-curve/1");
    let walks = |line: usize, point: usize| {
        let point = &read["curves"][0]["lines"][line]["points"][point];
        point["walks"].as_f64().unwrap()
    };
    // 8 MiB are 2048 pages, more than the 1280 entries of the second level hold; as contiguous
    // groups they are 128. 64 KiB are 16 pages, for which the first level has room.
    assert!(walks(0, 14) > 0.9 && walks(1, 14) < 0.001 && walks(0, 0) == 0.0);
    assert!(fs::read_to_string(svg).unwrap().contains("<polyline"));
    assert!(
        fs::read_to_string(html)
            .unwrap()
            .starts_with("<!DOCTYPE html>")
    );
    assert_eq!(text, printed(&command));
}

#[test]
fn a_new_profile_is_valid_and_the_same_machine_as_the_one_it_is_from() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("mine.toml");
    let file = path.to_str().unwrap();
    let said = printed(&["profile", "new", "mine", "--from", "zen3", file]);
    assert_has(&said, &["mine.toml: written"]);
    assert_has(&printed(&["profile", "check", file]), &["fine"]);
    assert_eq!(
        printed(&["profile", "diff", "zen3", file]).lines().count(),
        1
    );
    let shown = printed(&["profile", "new", "mine", "--from", "zen3", "-"]);
    assert_eq!(shown, fs::read_to_string(&path).unwrap());
    assert_has(
        &shown,
        &["# [cost.cycles]", "#   INVLPG.", "extends = \"zen3\""],
    );
}

#[test]
fn without_time_there_are_counts_and_no_times() {
    let off: Value = serde_json::from_str(&compared(&["--timing", "off", "--json", "-"])).unwrap();
    let full: Value = serde_json::from_str(&compared(&["--json", "-"])).unwrap();
    assert_eq!(off["timing"], "off");
    for (off, full) in [0, 3].map(|at| (&off["runs"][at], &full["runs"][at])) {
        assert!(off["speedup"].is_null());
        let (off, full) = (&off["regions"][0], &full["regions"][0]);
        for absent in ["cycles", "nanoseconds", "interval", "attribution"] {
            assert!(off.get(absent).is_none(), "{absent}");
            assert!(full.get(absent).is_some(), "{absent}");
        }
        for counted in [
            "instructions",
            "data",
            "lower_tables",
            "tlbi_broadcast",
            "flushes",
        ] {
            assert_eq!(off["counters"][counted], full["counters"][counted]);
        }
        assert!(off["counters"].get("data_lines").is_none());
    }
    let text = compared(&["--timing", "off"]);
    assert_has(&text, &["No time passed"]);
    assert!(!text.contains("faster than"), "{text}");
    let csv = compared(&["--timing", "off", "--csv", "-"]);
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header = reader.headers().unwrap().clone();
    let row = reader.records().next().unwrap().unwrap();
    for (name, value) in header.iter().zip(&row) {
        let absent = name.starts_with("cycles") || name.starts_with("data_lines");
        assert!(!absent || value.is_empty(), "{name} is {value}");
    }
}

#[test]
fn constants_that_are_uncertain_give_intervals_and_seeds_a_spread() {
    let text = compared(&[]);
    assert_has(
        &text,
        &["Cycles as uncertain constants move, nine in ten: pte "],
    );
    let report: Value = serde_json::from_str(&compared(&["--json", "-"])).unwrap();
    for run in report["runs"].as_array().unwrap() {
        let region = &run["regions"][0];
        let cycles = region["cycles"].as_f64().unwrap();
        let bound = |name: &str| region["interval"][name].as_f64().unwrap();
        assert!(bound("low") < cycles && cycles < bound("high"), "{region}");
    }
    let parallel = ["cpus=2", "threads=spin", "--seeds", "3"];
    let text = compared(&parallel);
    assert_has(&text, &["Cycles over seeds 1, 2, 3 of the phases: pte "]);
    assert_eq!(text, compared(&parallel));
}

#[test]
fn counts_have_the_names_of_other_tools() {
    let text = compared(&["--names", "pmu"]);
    assert_has(&text, &["L1D_TLB_REFILL", "DTLB_WALK", "walk_completed"]);
    let text = compared(&["--names", "vmstat"]);
    assert_has(&text, &["pgfault", "nr_tlb_local_flush_one"]);
}
