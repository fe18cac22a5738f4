use super::super::sample;
use super::*;

fn text(report: &Report, long: bool) -> String {
    String::from_utf8(Text { long, names: None }.export(report).unwrap()).unwrap()
}

#[test]
fn the_short_form_reads_as_expected() {
    let printed = text(&sample::report(), false);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/text/sample.txt");
        std::fs::write(path, &printed).unwrap();
        return;
    }
    let expected = include_str!("sample.txt");
    assert_eq!(printed, expected, "\n{printed}");
}

#[test]
fn no_line_is_wider_than_the_limit() {
    let mut report = sample::report();
    // The widest plausible figures, two more axes and a long message.
    for axis in ["software", "flush"] {
        let values = ["extent_no_threshold", "linux-6.12"].map(str::to_owned);
        report.axes.0.push((axis.to_owned(), values.to_vec()));
        for run in &mut report.runs {
            let value = "extent_no_threshold".to_owned();
            run.point.0.push((axis.to_owned(), value));
        }
    }
    report.runs[3].verdict = Verdict::Unsafe("it went wrong ".repeat(20));
    let counters = &mut report.runs[0].regions[0].counters;
    counters.tlbi_broadcast.va = 262_653;
    counters.barriers.dsb_ish = 1_048_576;
    counters.data.walks = 1_048_576;
    counters.ipis_sent = 48_640;
    counters.ipis_received = 48_640;
    let report = report.complete();
    for long in [false, true] {
        for line in text(&report, long).lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }
}

#[test]
fn the_long_form_has_a_row_for_each_metric_that_is_not_zero() {
    let printed = text(&sample::report(), true);
    let row = |name: &str| {
        let mut lines = printed.lines();
        let line = lines.find(|it| it.starts_with(name)).unwrap();
        line.split_whitespace()
            .skip(1)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(row("lower_tables.clear_leaf.l3"), "262,144 0 0");
    assert_eq!(row("tlbi_broadcast.asid"), "512 512 1");
    assert!(!printed.contains("exceptions"), "{printed}");
}

#[test]
fn many_variants_are_summed_up_by_runner_up_and_baseline() {
    let mut report = sample::report();
    for (name, factor) in [("a", 2), ("b", 3)] {
        let mut run = report.runs[1].clone();
        run.point.0[0].1 = name.to_owned();
        let region = &mut run.regions[0];
        region.cycles = region.cycles.map(|it| it.times(factor));
        report.runs.push(run);
    }
    let report = report.complete();
    let sentences = sentences(&report, &report.machines[0]);
    assert_eq!(
        sentences,
        ["pud is 20.0x faster than pmd and 160x faster than pte."]
    );
}
