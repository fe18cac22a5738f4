//! A made-up report for the tests of the formats: an Arm machine with three variants, the first
//! the baseline, and an x86 machine whose one variant is unsafe.

use mmuscope_models::addr::Level;
use mmuscope_models::cost::{Attribution, Category, Cycles};
use mmuscope_models::counters::Counters;
use mmuscope_models::profile::Quality;
use mmuscope_models::system::Timing;

use super::{EXACTNESS, Machine, Pairs, Region, Report, Run, SCHEMA, Verdict};

fn pairs<V>(list: impl IntoIterator<Item = (&'static str, V)>) -> Pairs<V> {
    Pairs(list.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
}

fn machine(profile: &str, arch: &str, clock_ghz: f64) -> Machine {
    Machine {
        profile: profile.to_owned(),
        about: String::new(),
        arch: arch.to_owned(),
        clock_ghz,
        hash: "0123456789abcdef".to_owned(),
        overrides: Vec::new(),
        features: Vec::new(),
        qualities: pairs([("read", 20), ("estimated", 31)]),
        category_qualities: pairs([("execute", Quality::Estimated), ("data", Quality::Read)]),
        figures: Vec::new(),
    }
}

fn run(machine: &str, ghz: f64, level: &str, cycles: u64, counters: Counters) -> Run {
    let mut attribution = Attribution::default();
    attribution.charge(Category::Execute, Cycles::new(cycles / 4 * 3));
    attribution.charge(Category::Data, Cycles::new(cycles - cycles / 4 * 3));
    Run {
        machine: machine.to_owned(),
        point: pairs([("level", level.to_owned()), ("size", "1G".to_owned())]),
        verdict: Verdict::Fine,
        speedup: None,
        speedup_interval: None,
        calls: None,
        results: pairs([("pages", "262144".to_owned())]),
        regions: vec![Region {
            name: "mremap".to_owned(),
            cycles: Some(Cycles::new(cycles)),
            nanoseconds: Some(Cycles::new(cycles).nanoseconds(ghz)),
            counters,
            attribution: Some(attribution),
            ..Region::default()
        }],
        console: String::new(),
    }
}

fn moves(level: Level, entries: u64, flushes: u64) -> Counters {
    let mut counters = Counters::default();
    let tables = &mut counters.lower_tables;
    if level == Level::L3 {
        tables.clear_leaf[level.index()] = entries;
        tables.install_leaf[level.index()] = entries;
    } else {
        tables.clear_table[level.index()] = entries;
        tables.install_table[level.index()] = entries;
    }
    counters.tlbi_broadcast.asid = flushes;
    counters.barriers.dsb_ish = flushes;
    counters.barriers.dsb_ishst = flushes;
    counters.instructions.integer = entries * 60;
    counters
}

/// The report.
pub fn report() -> Report {
    let mut lost = run("skylake-sp", 2.5, "pte", 9_000_000, Counters::default());
    lost.verdict = Verdict::Unsafe("page 17 reads 0x0".to_owned());
    let arm = |level, cycles, counters| run("cortex-a76", 2.0, level, cycles, counters);
    Report {
        schema: SCHEMA,
        version: "0.0.0",
        scenario: "mremap".to_owned(),
        exactness: EXACTNESS,
        region: "mremap".to_owned(),
        timing: Timing::Full,
        seeds: Vec::new(),
        axes: pairs([
            ("level", ["pte", "pmd", "pud"].map(str::to_owned).to_vec()),
            ("size", vec!["1G".to_owned()]),
        ]),
        base: pairs([("level", "pte".to_owned())]),
        machines: vec![
            machine("cortex-a76", "aarch64", 2.0),
            machine("skylake-sp", "x86_64", 2.5),
        ],
        runs: vec![
            arm("pte", 32_000_000, moves(Level::L3, 262_144, 512)),
            arm("pmd", 4_000_000, moves(Level::L2, 512, 512)),
            arm("pud", 200_000, moves(Level::L1, 1, 1)),
            lost,
        ],
        published: Vec::new(),
        notes: Vec::new(),
    }
    .complete()
}
