//! How runs compare: the baseline of each run, speed-ups, and the order within a group.
//!
//! Runs are compared on one machine, and with runs that differ in the baseline's axes only: with
//! `level=pte,pmd flush=end,extent` and the baseline `level=pte`, each `flush` is a group of its
//! own.

use mmuscope_models::sensitivity::Interval;

use super::{Pairs, Report, Run, Verdict};

/// Runs of one machine that are compared with each other, fastest first.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    /// The profile's name.
    pub machine: &'a str,
    /// The varying axes that are equal within the group.
    pub fixed: Vec<(&'a str, &'a str)>,
    /// The runs that are results, fastest first.
    pub standings: Vec<Standing<'a>>,
    /// The baseline, where it is a result.
    pub base: Option<Standing<'a>>,
}

/// A run within a comparison.
#[derive(Clone, Debug)]
pub struct Standing<'a> {
    /// What tells it from the others of its group: `pud`, or `level=pud flush=end` where more
    /// than one axis does.
    pub name: String,
    /// The run.
    pub run: &'a Run,
    /// Its cycles in the report's region.
    pub cycles: f64,
}

/// The cycles of a run in the compared region, if the run is a result.
fn cycles(region: &str, run: &Run) -> Option<f64> {
    if run.verdict != Verdict::Fine {
        return None;
    }
    let cycles = run.region(region)?.cycles?.as_f64();
    (cycles > 0.0).then_some(cycles)
}

fn is_base(run: &Run, base: &Pairs<String>) -> bool {
    let mut wanted = base.0.iter();
    // An axis that the machine's architecture does not have cannot tell its runs apart.
    wanted.all(|(axis, value)| run.point.get(axis).is_none_or(|it| it == value))
}

/// The axes of a run that the baseline does not fix.
fn group_of<'a>(run: &'a Run, base: &Pairs<String>) -> Vec<(&'a str, &'a str)> {
    let axes = run.point.0.iter();
    axes.filter(|(axis, _)| base.get(axis).is_none())
        .map(|(axis, value)| (axis.as_str(), value.as_str()))
        .collect()
}

fn baseline_of<'a>(runs: &'a [Run], run: &Run, base: &Pairs<String>) -> Option<&'a Run> {
    let group = group_of(run, base);
    let mut same_machine = runs.iter().filter(|it| it.machine == run.machine);
    same_machine.find(|it| is_base(it, base) && group_of(it, base) == group)
}

/// Sets the speed-up of every run that is a result and whose baseline is one.
pub(super) fn set_speedups(report: &mut Report) {
    let speedup = |run| {
        let base = baseline_of(&report.runs, run, &report.base)?;
        let ratio = cycles(&report.region, base)? / cycles(&report.region, run)?;
        Some((ratio, interval(&report.region, base, run)))
    };
    let speedups: Vec<_> = report.runs.iter().map(speedup).collect();
    for (run, speedup) in report.runs.iter_mut().zip(speedups) {
        run.speedup = speedup.map(|it| it.0);
        run.speedup_interval = speedup.and_then(|it| it.1);
    }
}

/// The interval of the ratio of two runs on one machine, whose constants are moved together.
pub(super) fn interval(region: &str, slower: &Run, faster: &Run) -> Option<Interval> {
    let (slower, faster) = (slower.region(region)?, faster.region(region)?);
    let pairs = slower.repriced.iter().zip(&faster.repriced);
    Interval::of(pairs.map(|(slow, fast)| slow / fast).collect())
}

impl Report {
    /// The groups of runs that are compared, in the order of the runs.
    #[must_use]
    pub fn comparisons(&self) -> Vec<Comparison<'_>> {
        let mut groups: Vec<Vec<&Run>> = Vec::new();
        for run in &self.runs {
            let alike = |other: &Run| {
                run.machine == other.machine
                    && group_of(run, &self.base) == group_of(other, &self.base)
            };
            match groups.iter_mut().find(|it| alike(it[0])) {
                Some(group) => group.push(run),
                None => groups.push(vec![run]),
            }
        }
        groups.iter().map(|runs| self.comparison(runs)).collect()
    }

    /// Compares the runs of a group, at least one.
    fn comparison<'a>(&'a self, runs: &[&'a Run]) -> Comparison<'a> {
        let mut fixed = group_of(runs[0], &self.base);
        fixed.retain(|it| self.varying().any(|axis| axis == it.0));
        let standing = |&run: &&'a Run| {
            Some(Standing {
                name: self.name_in_group(run),
                run,
                cycles: cycles(&self.region, run)?,
            })
        };
        let mut standings: Vec<_> = runs.iter().filter_map(standing).collect();
        standings.sort_by(|a, b| a.cycles.total_cmp(&b.cycles));
        let mut bases = standings.iter().filter(|it| is_base(it.run, &self.base));
        let base = bases.next().cloned();
        Comparison {
            machine: &runs[0].machine,
            fixed,
            standings,
            base,
        }
    }

    fn name_in_group(&self, run: &Run) -> String {
        let telling = self.varying().filter(|axis| self.base.get(axis).is_some());
        let told: Vec<_> = telling
            .filter_map(|axis| Some((axis, run.point.get(axis)?)))
            .collect();
        if let [(_, value)] = told.as_slice() {
            return (*value).clone();
        }
        let words = told.iter().map(|(axis, value)| format!("{axis}={value}"));
        words.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn speedups_are_against_the_baseline_of_the_same_machine() {
        let report = sample::report();
        let speedups: Vec<_> = report.runs.iter().map(|it| it.speedup).collect();
        assert_eq!(speedups, [Some(1.0), Some(8.0), Some(160.0), None]);
    }

    #[test]
    fn each_value_of_another_axis_is_a_group_of_its_own() {
        let mut report = sample::report();
        let values = ["extent", "end"].map(str::to_owned).to_vec();
        report.axes.0.push(("flush".to_owned(), values));
        for run in &mut report.runs {
            run.point.0.push(("flush".to_owned(), "extent".to_owned()));
        }
        let mut other = report.runs[1].clone();
        other.point.0[2].1 = "end".to_owned();
        report.runs.push(other);
        set_speedups(&mut report);
        assert_eq!(report.runs[4].speedup, None, "its group has no baseline");
        let groups = report.comparisons();
        assert_eq!(groups.len(), 3);
        assert_eq!(groups[2].fixed, [("flush", "end")]);
        assert!(groups[2].base.is_none());
    }

    #[test]
    fn an_unsafe_run_is_no_result() {
        let report = sample::report();
        let groups = report.comparisons();
        assert_eq!(groups[1].machine, "skylake-sp");
        assert!(groups[1].standings.is_empty());
        let names: Vec<_> = groups[0].standings.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["pud", "pmd", "pte"]);
    }
}
