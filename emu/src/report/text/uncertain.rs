//! How sure the times of a report are, in words.

use super::variant;
use crate::report::number::{short, times};
use crate::report::{Machine, Report, Run, Verdict};

/// A sentence each for what uncertain constants, the phases of the cores and warm caches make of
/// the runs of a machine.
pub(super) fn told(report: &Report, machine: &Machine) -> Vec<String> {
    let each = |told: &dyn Fn(&Run) -> Option<String>| -> Option<String> {
        let runs = report.runs_on(&machine.profile);
        let runs = runs.filter(|it| it.verdict == Verdict::Fine);
        let told: Vec<_> = runs
            .filter_map(|run| Some(format!("{} {}", variant(report, run).join(" "), told(run)?)))
            .collect();
        (!told.is_empty()).then(|| told.join("; "))
    };
    let cycles = each(&|run| {
        let interval = run.region(&report.region)?.interval?;
        let ratio = run.speedup_interval;
        let ratio = ratio.map(|it| (times(it.low), times(it.high)));
        let ratio = ratio.filter(|(low, high)| low != high);
        let ratio = ratio.map(|(low, high)| format!(" ({low} to {high})"));
        let (low, high) = (short(interval.low), short(interval.high));
        let median = short(interval.median);
        Some(format!(
            "{low} to {high}, median {median}{}",
            ratio.unwrap_or_default()
        ))
    });
    let spread = each(&|run| {
        let spread = run.region(&report.region)?.spread?;
        let (low, high) = (short(spread.low.as_f64()), short(spread.high.as_f64()));
        Some(format!("{low} to {high}"))
    });
    let calls = each(&|run| {
        let calls = run.calls?;
        let (cold, warm) = (short(calls.cold.as_f64()), short(calls.warm.as_f64()));
        Some(format!("{cold} cold, {warm} warm ({} times)", calls.count))
    });
    let seeds: Vec<_> = report.seeds.iter().map(u64::to_string).collect();
    let seeds = seeds.join(", ");
    [
        cycles.map(|it| format!("Cycles as uncertain constants move, nine in ten: {it}.")),
        spread.map(|it| format!("Cycles over seeds {seeds} of the phases: {it}.")),
        calls.map(|it| format!("Cycles of the first call and of later ones: {it}.")),
    ]
    .into_iter()
    .flatten()
    .collect()
}
