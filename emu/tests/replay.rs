//! `mmuscope replay` over recordings of real kernels: nothing that was recorded gets lost on the way
//! through a modelled machine, and bad input is one line.

use std::path::PathBuf;

use assert_cmd::Command;
use mmuscope_traces::recording::Summary;
use serde_json::Value;
use tempfile::TempDir;

fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../traces/tests/data/linux")
}

fn recordings(arch: &str) -> Vec<PathBuf> {
    let files = std::fs::read_dir(data()).unwrap();
    let mut files: Vec<_> = files.map(|it| it.unwrap().path()).collect();
    files.retain(|it| {
        let name = it.file_name().unwrap().to_str().unwrap();
        name.starts_with(arch) && name.ends_with(".trc.zst")
    });
    files.sort();
    assert!(!files.is_empty());
    files
}

fn replayed(files: &[PathBuf], options: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmuscope"));
    command.arg("replay").args(files).args(options);
    let output = command.output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn report(files: &[PathBuf], options: &[&str]) -> Value {
    let (code, out, error) = replayed(files, &[options, &["--json", "-"]].concat());
    assert_eq!((code, error.as_str()), (Some(0), ""));
    serde_json::from_str(&out).unwrap()
}

/// The sum of a counter, named by a JSON pointer, over what ran in user mode and in the kernel.
fn sum(run: &Value, pointer: &str) -> u64 {
    let regions = run["regions"].as_array().unwrap();
    let of = |it: &Value| match it["counters"].pointer(pointer).unwrap() {
        Value::Object(fields) => fields.values().filter_map(Value::as_u64).sum(),
        value => value.as_u64().unwrap(),
    };
    regions.iter().map(of).sum()
}

fn assert_complete(arch: &str, machine: &str, options: &[&str]) {
    let files = recordings(arch);
    let report = report(&files, &[&["--on", machine], options].concat());
    let runs = report["runs"].as_array().unwrap();
    assert_eq!(runs.len(), files.len());
    for (file, run) in files.iter().zip(runs) {
        let summary = Summary::of(file).unwrap();
        let name = file.display();
        assert_eq!(run["verdict"]["status"], "fine", "{name}: {run}");
        let maintenance = ["/tlbi_local", "/tlbi_broadcast", "/flushes"];
        let maintenance: u64 = maintenance.iter().map(|it| sum(run, it)).sum();
        let cr3 = sum(run, "/flushes/cr3");
        assert_eq!(
            maintenance - cr3,
            summary.maintenance,
            "{name}: maintenance"
        );
        assert_eq!(sum(run, "/barriers"), summary.barriers, "{name}: barriers");
        // The recordings have two CPUs at most, so that each IPI has one target.
        assert_eq!(sum(run, "/ipis_sent"), summary.ipis, "{name}: IPIs");
        // Nothing before the first table can be replayed, and only there.
        let instructions = sum(run, "/instructions");
        assert!(instructions <= summary.instructions, "{name}");
        if summary.before_tables < 2 {
            assert_eq!(instructions, summary.instructions, "{name}: instructions");
        }
        let accesses: u64 = run["results"]["accesses_equal"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
        assert!(
            accesses + summary.before_tables >= summary.accesses,
            "{name}: {accesses}"
        );
    }
}

#[test]
fn nothing_that_was_recorded_is_lost() {
    assert_complete("arm64", "neoverse-n1", &[]);
    assert_complete("amd64", "zen3", &[]);
}

#[test]
fn nothing_is_lost_or_stale_where_no_entry_is_evicted() {
    assert_complete("arm64", "neoverse-v2", &["--hoarder"]);
    assert_complete("amd64", "skylake-sp", &["--hoarder", "--timing", "off"]);
}

/// Every counter that the kernel decides is the same on every machine.
#[test]
fn machines_differ_in_tlb_figures_and_cycles_only() {
    let files = recordings("arm64-6.12-n1-64K");
    let report = report(&files, &["--on", "cortex-a76,neoverse-v2"]);
    let runs = report["runs"].as_array().unwrap();
    let (one, other) = runs.split_at(files.len());
    let kernel = |run: &Value| run["regions"][0]["counters"].clone();
    for (one, other) in one.iter().zip(other) {
        let (a, b) = (kernel(one), kernel(other));
        for name in [
            "instructions",
            "loads",
            "stores",
            "barriers",
            "tlbi_broadcast",
            "lower_tables",
        ] {
            assert_eq!(a[name], b[name], "{name}");
        }
        assert_ne!(one["regions"][0]["cycles"], other["regions"][0]["cycles"]);
    }
}

#[test]
fn cycles_are_those_of_the_categories_and_the_number_of_jobs_changes_nothing() {
    let files = recordings("amd64-6.12-max-never-spin");
    let options = |jobs: &'static str| ["--on", "skylake-sp,zen3", "--jobs", jobs, "--json", "-"];
    let (one, two) = (
        replayed(&files, &options("1")),
        replayed(&files, &options("2")),
    );
    assert_eq!(one, two);
    let report: Value = serde_json::from_str(&one.1).unwrap();
    for run in report["runs"].as_array().unwrap() {
        for region in run["regions"].as_array().unwrap() {
            for core in region["cores"].as_array().unwrap() {
                let parts = core["attribution"].as_object().unwrap().values();
                let sum: f64 = parts.map(|it| it.as_f64().unwrap()).sum();
                assert!(
                    (sum - core["cycles"].as_f64().unwrap()).abs() < 0.5,
                    "{core}"
                );
            }
        }
    }
}

#[track_caller]
fn assert_refused(files: &[PathBuf], options: &[&str], parts: &[&str]) {
    let (code, out, error) = replayed(files, options);
    assert_eq!(code, Some(2), "{error}");
    assert_eq!(out, "");
    assert_eq!(error.lines().count(), 1, "{error}");
    for part in parts {
        assert_eq!(error.matches(part).count(), 1, "`{part}` once in: {error}");
    }
}

#[test]
fn bad_input_is_one_line() {
    let arm = recordings("arm64-6.12-n1-never.munmap64");
    let on = ["--on", "cortex-a76"];
    assert_refused(
        &arm,
        &["--on", "zen3"],
        &["munmap64", "aarch64", "--on zen3"],
    );
    assert_refused(&arm, &["--on", "cortex-a76,zen3"], &["zen3", "x86_64"]);
    assert_refused(&[arm[0].clone(), arm[0].clone()], &on, &["given twice"]);
    assert_refused(
        &arm,
        &["--on", "cortex-a76", "--base", "64K"],
        &["`64K`", "expected"],
    );
    assert_refused(&arm, &["--on", "cortex-a76", "--seed", "3"], &["--seed"]);
    assert_refused(
        &[data().join("README.md")],
        &on,
        &["README.md", "not a MMTRC001"],
    );
    assert_refused(&[data().join("missing")], &on, &["missing", "No such file"]);
    let folder = TempDir::new().unwrap();
    let cut = folder.path().join("cut.trc.zst");
    let whole = std::fs::read(&arm[0]).unwrap();
    std::fs::write(&cut, &whole[..whole.len() / 2]).unwrap();
    assert_refused(&[cut], &on, &["cut.trc.zst", "reading failed after byte"]);
}
