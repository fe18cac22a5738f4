//! `mmuscope compare memmap`: stores and lines of each way to initialise page descriptors.

use assert_cmd::Command;
use serde_json::Value;

const MACHINES: [&str; 2] = ["neoverse-n1", "haswell-ex"];

/// Stores and lines of a region that are not the descriptors': the stack, range by range, and tables.
const AROUND: u64 = 64;

fn compared(words: &[&str]) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mmuscope"));
    let output = command
        .args(["compare", "memmap"])
        .args(words)
        .args(["--json", "-"])
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.stdout.is_empty(), "{words:?}: {error}");
    (
        output.status.code(),
        serde_json::from_slice(&output.stdout).unwrap(),
    )
}

fn one_run(words: &[&str]) -> Value {
    let (code, report) = compared(words);
    assert_eq!(code, Some(0), "{words:?}: {report}");
    report["runs"][0].clone()
}

fn counters<'a>(run: &'a Value, region: &str) -> &'a Value {
    let regions = run["regions"].as_array().unwrap();
    let found = regions.iter().find(|it| it["name"] == region).unwrap();
    &found["counters"]
}

/// Lines that were not in the first-level cache yet, whether their old contents were read or not.
fn lines(run: &Value, region: &str) -> u64 {
    let lines = counters(run, region)["data_lines"].as_object().unwrap();
    ["l2", "l3", "memory", "remote_memory", "unread"]
        .iter()
        .map(|it| lines[*it].as_u64().unwrap())
        .sum()
}

fn stores(run: &Value, region: &str) -> u64 {
    counters(run, region)["stores"].as_u64().unwrap()
}

#[track_caller]
fn assert_per_page(what: &str, found: u64, pages: u64, each: u64) {
    let least = pages * each;
    assert!(
        (least..=least + AROUND).contains(&found),
        "{what}: {found} for {pages} pages, expected {each} for each"
    );
}

/// Five stores are the contents; what is above them zeroes 64 bytes at the given width.
#[test]
fn a_descriptor_takes_the_stores_of_its_variant() {
    let pages = (64 << 20) / 4096;
    for (zeroing, store, each) in [
        ("none", "8", 5),
        ("early_memset", "8", 5),
        ("in_init_stores", "8", 5 + 8),
        ("in_init_stores", "16", 5 + 4),
        ("in_init_stores", "line", 5 + 1),
    ] {
        let (zeroing, store) = (format!("zeroing={zeroing}"), format!("store={store}"));
        for on in MACHINES {
            let run = one_run(&[&zeroing, &store, "memory=64M", "--on", on]);
            let what = format!("{on} {zeroing} {store}");
            assert_per_page(&what, stores(&run, "init"), pages, each);
        }
    }
}

/// Every width of descriptor is zeroed to its end: with memory that was not zero, all are right.
#[test]
fn every_size_of_descriptor_is_zeroed() {
    let pages = (64 << 20) / 4096;
    for (size, each) in [(56, 5 + 7), (64, 5 + 8), (72, 5 + 9), (80, 5 + 10)] {
        let size = format!("struct_page={size}");
        let words = ["zeroing=in_init_stores", &size, "memory=64M", "fill=poison"];
        for on in MACHINES {
            let run = one_run(&[&words[..], &["--on", on]].concat());
            assert_eq!(run["verdict"]["status"], "fine", "{on} {size}");
            let what = format!("{on} {size}");
            assert_per_page(&what, stores(&run, "init"), pages, each);
        }
    }
}

/// Zeroing where a descriptor is initialised brings each line once, zeroing all of them before twice;
/// and it brings no line that the contents alone would not bring.
#[test]
fn early_zeroing_brings_each_line_twice() {
    let pages = (256 << 20) / 4096;
    for on in MACHINES {
        for store in ["store=8", "store=line"] {
            for (zeroing, populate, init) in [
                ("early_memset", 1, 1),
                ("in_init_stores", 0, 1),
                ("none", 0, 1),
            ] {
                let zeroing = format!("zeroing={zeroing}");
                let run = one_run(&[&zeroing, store, "memory=256M", "--on", on]);
                let what = format!("{on} {zeroing} {store}");
                assert_per_page(&what, lines(&run, "populate"), pages, populate);
                assert_per_page(&what, lines(&run, "init"), pages, init);
            }
        }
    }
}

/// Descriptors of 2 MiB or 4 KiB leaves: as many leaves as their memory needs, and more walks.
#[test]
fn small_leaves_take_more_table_stores_and_walks() {
    for on in MACHINES {
        let [huge, small] = ["mapping=2M", "mapping=4K"].map(|mapping| {
            let words = ["zeroing=in_init_stores", "memory=512M", mapping];
            let run = one_run(&[&words[..], &["--on", on]].concat());
            let boot = counters(&run, "boot");
            let walks = boot["data"]["walks"].as_u64().unwrap();
            let leaves = boot.pointer("/upper_tables/install_leaf").unwrap();
            (
                walks,
                [2, 3, 4].map(|level| leaves[level].as_u64().unwrap()),
            )
        });
        // 8 MiB of descriptors.
        assert_eq!(huge.1.iter().sum::<u64>(), 4, "{on}");
        assert_eq!(small.1.iter().sum::<u64>(), 2048, "{on}");
        // Up to four pages share an entry of Neoverse N1.
        assert!(
            small.0 >= 2048 / 4 && huge.0 < 64,
            "{on}: {huge:?} {small:?}"
        );
    }
}

/// What is never written is found when memory was not zero before.
#[test]
fn left_descriptors_are_unsafe_on_poisoned_memory() {
    for on in MACHINES {
        let words = ["memory=64M", "hole=1M", "fill=poison", "--on", on];
        let (code, report) = compared(
            &[
                &["zeroing=in_init_memset,none", "unavailable=zeroed,left"],
                &words[..],
            ]
            .concat(),
        );
        assert_eq!(code, Some(3), "{on}");
        let statuses: Vec<&Value> = report["runs"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["verdict"]["status"])
            .collect();
        assert_eq!(statuses, ["fine", "unsafe", "unsafe", "unsafe"], "{on}");
    }
}
