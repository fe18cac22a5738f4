//! Published measurements beside a report's own ratios.
//!
//! Absolute times of an unnamed machine and another kernel compare with nothing; ratios between
//! two levels of the same move do. The rows are those of the authors' tables, single figures as
//! printed; means are taken here.

use serde::{Deserialize, Serialize};

use super::compare::Standing;
use super::{Pairs, Report};

const MREMAP: &str = include_str!("../../data/published/mremap.csv");

/// The levels of the published moves, slowest first.
const LEVELS: [&str; 3] = ["pte", "pmd", "pud"];

/// A published ratio of two variants, and the same ratio of this report.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PublishedPair {
    /// The profile whose ratio stands beside the published one.
    pub machine: String,
    /// The varying axes that both of the report's runs share.
    pub fixed: Pairs<String>,
    /// The slower variant.
    pub slower: String,
    /// The faster variant.
    pub faster: String,
    /// How many times faster the author measured it.
    pub published: f64,
    /// How many times faster it is here.
    pub here: f64,
    /// `here / published`: 1 is agreement.
    pub here_per_published: f64,
    /// What the author measured on, as far as it is said.
    pub measured_on: String,
    /// What the author timed.
    pub workload: String,
    /// The author, and where the faster variant's figures stand.
    pub source: String,
}

#[derive(Clone, Debug, Deserialize)]
struct Row {
    machine: String,
    workload: String,
    variant: String,
    metric: String,
    value: f64,
    source: String,
}

/// The single measurements of one variant on one machine.
struct Measured<'a> {
    first: &'a Row,
    mean: f64,
}

fn measured<'a>(rows: &'a [Row], machine: &str, variant: &str) -> Option<Measured<'a>> {
    let single = |it: &&Row| {
        it.machine == machine && it.variant == variant && it.metric.starts_with("time[")
    };
    let times: Vec<_> = rows.iter().filter(single).collect();
    let (mut sum, mut count) = (0.0, 0.0);
    for row in &times {
        sum += row.value;
        count += 1.0;
    }
    Some(Measured {
        first: times.first()?,
        mean: sum / count,
    })
}

/// A broken row of the built-in table would be dropped here, and is caught by a test.
fn rows() -> Vec<Row> {
    let mut reader = ::csv::Reader::from_reader(MREMAP.as_bytes());
    reader.deserialize().filter_map(Result::ok).collect()
}

fn same_architecture(measured_on: &str, arch: &str) -> bool {
    match arch {
        "aarch64" => measured_on.starts_with("arm64"),
        _ => measured_on.starts_with("x86"),
    }
}

/// Every published ratio that a report of this scenario and size has a ratio of its own for.
pub(super) fn beside(report: &Report) -> Vec<PublishedPair> {
    if report.scenario != "mremap" {
        return Vec::new();
    }
    let rows = rows();
    let mut machines: Vec<&str> = Vec::new();
    for row in &rows {
        if !machines.contains(&row.machine.as_str()) {
            machines.push(&row.machine);
        }
    }
    let mut pairs = Vec::new();
    for comparison in report.comparisons() {
        let arch = report
            .machines
            .iter()
            .find(|it| it.profile == comparison.machine)
            .map_or("", |it| it.arch.as_str());
        for levels in LEVELS.windows(2) {
            let [slower, faster] = [levels[0], levels[1]].map(|level| {
                let mut standings = comparison.standings.iter();
                standings.find(|it| is_published_move(it, level))
            });
            let (Some(slower), Some(faster)) = (slower, faster) else {
                continue;
            };
            for on in machines.iter().filter(|it| same_architecture(it, arch)) {
                pairs.extend(pair(&rows, on, levels, slower, faster).map(|it| {
                    PublishedPair {
                        fixed: Pairs(
                            comparison
                                .fixed
                                .iter()
                                .map(|&(axis, value)| (axis.to_owned(), value.to_owned()))
                                .collect(),
                        ),
                        ..it
                    }
                }));
            }
        }
    }
    pairs
}

/// Whether a run is the move that was published: 1 GB, at this level.
fn is_published_move(standing: &Standing<'_>, level: &str) -> bool {
    let is = |axis, value| standing.run.point.get(axis).is_some_and(|it| it == value);
    is("level", level) && is("size", "1G")
}

fn pair(
    rows: &[Row],
    on: &str,
    levels: &[&str],
    slower: &Standing<'_>,
    faster: &Standing<'_>,
) -> Option<PublishedPair> {
    let slow = measured(rows, on, levels[0])?;
    let fast = measured(rows, on, levels[1])?;
    let published = slow.mean / fast.mean;
    let here = slower.cycles / faster.cycles;
    Some(PublishedPair {
        machine: slower.run.machine.clone(),
        fixed: Pairs::default(),
        slower: levels[0].to_owned(),
        faster: levels[1].to_owned(),
        published,
        here,
        here_per_published: here / published,
        measured_on: on.to_owned(),
        workload: slow.first.workload.clone(),
        source: fast.first.source.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn every_row_of_the_built_in_table_is_read() {
        // One line is the header.
        assert_eq!(rows().len(), MREMAP.lines().count() - 1);
    }

    #[test]
    fn the_means_are_the_authors() {
        let rows = rows();
        for row in rows.iter().filter(|it| it.metric == "mean") {
            let mean = measured(&rows, &row.machine, &row.variant).unwrap().mean;
            assert!((mean / row.value - 1.0).abs() < 1e-4, "{row:?}: {mean}");
        }
    }

    #[test]
    fn ratios_stand_beside_those_of_the_same_architecture() {
        let pairs = sample::report().published;
        let summary: Vec<_> = pairs
            .iter()
            .map(|it| {
                let step = format!("{} {}->{}", it.machine, it.slower, it.faster);
                (step, format!("{:.2} {:.2}", it.published, it.here))
            })
            .collect();
        let expected = [
            ("cortex-a76 pte->pmd", "8.02 8.00"),
            ("cortex-a76 pmd->pud", "19.10 20.00"),
        ];
        let expected = expected.map(|(step, ratios)| (step.to_owned(), ratios.to_owned()));
        assert_eq!(summary, expected);
    }

    #[test]
    fn another_size_is_not_the_published_move() {
        let mut report = sample::report();
        for run in &mut report.runs {
            run.point.0[1].1 = "2M".to_owned();
        }
        assert!(report.complete().published.is_empty());
    }

    #[test]
    fn the_data_are_those_that_the_reproduction_uses() {
        let reproduced = include_str!("../../../benches/published/mremap.csv");
        assert_eq!(MREMAP, reproduced);
    }
}
