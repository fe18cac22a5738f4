//! HTML: a page for people who would rather look, with every number in a table below its figure.

use mmuscope_models::cost::{Attribution, Category};

use super::number::{short, times};
use super::text::{
    COLUMNS, heading, notes, short_cells, status, title, told, variant, variant_header,
};
use super::{ExportError, Exporter, Machine, PublishedPair, Report, Run, Verdict};
use crate::chart::{Axis, Bar, Bars, Exporter as _, Html, Panel, Scale, Sheet, Table};

/// The report as one HTML page that needs nothing else.
#[derive(Copy, Clone, Debug, Default)]
pub struct Page;

impl Exporter for Page {
    fn export(&self, report: &Report) -> Result<Vec<u8>, ExportError> {
        Ok(Html.export(&sheet(report)).into_bytes())
    }
}

/// The report as figures: cycles and where they go, machine by machine, then published ratios.
#[must_use]
pub fn sheet(report: &Report) -> Sheet {
    let mut figures = Vec::new();
    for machine in &report.machines {
        figures.push(Panel::Bars(cycles(report, machine)));
        figures.extend(shares(report, machine).map(Panel::Bars));
    }
    if !report.published.is_empty() {
        figures.push(Panel::Bars(published(&report.published)));
    }
    let mut notes = notes(report);
    notes.extend(
        report
            .command()
            .map(|it| format!("To see the same again: {it}")),
    );
    notes.push(format!("mmuscope {}, {}.", report.version, report.schema));
    Sheet {
        title: title(report),
        lead: format!(
            "{} runs of guest code under a model of the MMU of {}: what they counted, and what it \
             took in simulated cycles.",
            report.runs.len(),
            names(report)
        ),
        figures,
        notes,
    }
}

fn names(report: &Report) -> String {
    let names: Vec<_> = report
        .machines
        .iter()
        .map(|it| it.profile.as_str())
        .collect();
    names.join(", ")
}

/// The name of a run's bar.
fn name(report: &Report, run: &Run) -> String {
    variant(report, run).join(" ")
}

/// Cycles of each run on a machine, with everything that its table says.
fn cycles(report: &Report, machine: &Machine) -> Bars {
    let bar = |run: &Run| {
        let region = run.region(&report.region);
        let interval = region.and_then(|it| it.interval);
        let cycles = region.and_then(|it| it.cycles).map(|it| it.as_f64());
        let fine = run.verdict == Verdict::Fine;
        let label = match (status(&run.verdict), cycles) {
            (Some(status), _) => status.to_owned(),
            (None, Some(cycles)) => {
                let faster = run.speedup.filter(|it| (it - 1.0).abs() > 1e-9);
                let faster = faster.map_or_else(String::new, |it| format!(", {}", times(it)));
                format!("{}{faster}", short(cycles))
            }
            (None, None) => "no time".to_owned(),
        };
        Bar {
            name: name(report, run),
            parts: cycles
                .filter(|_| fine)
                .map(|it| (0, it))
                .into_iter()
                .collect(),
            label,
            interval: interval.filter(|_| fine).map(|it| (it.low, it.high)),
            mark: None,
        }
    };
    Bars {
        title: format!("{}: cycles of {}", machine.profile, report.region),
        caption: heading(report, machine),
        axis: Axis {
            label: "cycles; whiskers: nine in ten, as uncertain constants move".to_owned(),
            scale: Scale::Log10,
        },
        bars: report.runs_on(&machine.profile).map(bar).collect(),
        parts: Vec::new(),
        mark: None,
        words: told(report, machine),
        table: counts(report, machine),
    }
}

fn counts(report: &Report, machine: &Machine) -> Table {
    let mut head = variant_header(report);
    head.extend(COLUMNS.map(str::to_owned));
    let row = |run: &Run| {
        let mut row = variant(report, run);
        row.extend(
            short_cells(report, run)
                .into_iter()
                .map(|it| it.replace('\n', ", ")),
        );
        row.resize(head.len(), String::new());
        row
    };
    let rows = report.runs_on(&machine.profile).map(row).collect();
    Table { head, rows }
}

/// How many categories of cycles have a colour of their own; the others share the last one.
const CATEGORIES: usize = 5;

/// The part of the cycles of all cores that went into `category`, in per cent.
fn part(attribution: &Attribution, category: Category) -> f64 {
    100.0 * attribution.get(category).as_f64() / attribution.total().as_f64()
}

/// The runs among `runs` that are results and took time, with where it went.
fn attributed<'a>(
    report: &'a Report,
    runs: impl Iterator<Item = &'a Run>,
) -> Vec<(&'a Run, &'a Attribution)> {
    runs.filter(|it| it.verdict == Verdict::Fine)
        .filter_map(|run| Some((run, run.region(&report.region)?.attribution.as_ref()?)))
        .filter(|it| it.1.total().millis() > 0)
        .collect()
}

/// The categories that have a colour, the same one for every machine: the largest over all runs.
fn coloured(report: &Report) -> Vec<Category> {
    let runs = attributed(report, report.runs.iter());
    let weight = |category| runs.iter().map(|it| part(it.1, category)).sum::<f64>();
    let categories = Category::ALL.into_iter();
    let mut weighed: Vec<_> = categories.map(|it| (it, weight(it))).collect();
    weighed.retain(|it| it.1 > 0.0);
    weighed.sort_by(|a, b| b.1.total_cmp(&a.1));
    weighed.truncate(CATEGORIES);
    weighed.into_iter().map(|it| it.0).collect()
}

/// Where the cycles of each run went; none if no time passed.
fn shares(report: &Report, machine: &Machine) -> Option<Bars> {
    let runs = attributed(report, report.runs_on(&machine.profile));
    if runs.is_empty() {
        return None;
    }
    let coloured = coloured(report);
    let bar = |(run, attribution): &(&Run, &Attribution)| {
        let shares = coloured.iter().map(|&it| part(attribution, it));
        let mut parts: Vec<_> = shares.enumerate().collect();
        let rest = 100.0 - parts.iter().map(|it| it.1).sum::<f64>();
        parts.push((coloured.len(), rest.max(0.0)));
        Bar {
            name: name(report, run),
            parts,
            label: String::new(),
            interval: None,
            mark: None,
        }
    };
    let spaced = |it: &Category| it.name().replace('_', " ");
    let mut parts: Vec<_> = coloured.iter().map(spaced).collect();
    parts.push("the rest".to_owned());
    Some(Bars {
        title: format!("{}: where the cycles go", machine.profile),
        caption: "every cycle of every core belongs to one category; the table has cycles"
            .to_owned(),
        axis: Axis {
            label: "per cent of the cycles of all cores".to_owned(),
            scale: Scale::Linear,
        },
        bars: runs.iter().map(bar).collect(),
        parts,
        mark: None,
        words: Vec::new(),
        table: attributions(report, &runs),
    })
}

/// The cycles of each run by category, those that any run spent any in.
fn attributions(report: &Report, runs: &[(&Run, &Attribution)]) -> Table {
    let spent = |category: &Category| runs.iter().any(|it| it.1.get(*category).millis() > 0);
    let present: Vec<_> = Category::ALL.into_iter().filter(spent).collect();
    let mut head = variant_header(report);
    head.extend(present.iter().map(|it| it.name().replace('_', " ")));
    let row = |(run, attribution): &(&Run, &Attribution)| {
        let mut row = variant(report, run);
        row.extend(present.iter().map(|&it| attribution.get(it).to_string()));
        row
    };
    Table {
        head,
        rows: runs.iter().map(row).collect(),
    }
}

/// Ratios of this report, each with the published one on it.
fn published(pairs: &[PublishedPair]) -> Bars {
    let step = |pair: &PublishedPair| {
        let fixed = pair.fixed.0.iter().map(|it| format!(" {}", it.1));
        let fixed = fixed.collect::<String>();
        format!(
            "{}{fixed}: {} to {}",
            pair.machine, pair.slower, pair.faster
        )
    };
    let bar = |pair: &PublishedPair| Bar {
        name: format!("{}, published for {}", step(pair), pair.measured_on),
        parts: vec![(0, pair.here)],
        label: format!("{} / {}", times(pair.here), times(pair.published)),
        interval: None,
        mark: Some(pair.published),
    };
    let head = [
        "step",
        "here",
        "published",
        "here/published",
        "measured on",
        "source",
    ];
    let row = |pair: &PublishedPair| {
        vec![
            step(pair),
            times(pair.here),
            times(pair.published),
            times(pair.here_per_published),
            pair.measured_on.clone(),
            pair.source.clone(),
        ]
    };
    Bars {
        title: "Beside published measurements".to_owned(),
        caption: "how many times faster the second variant is".to_owned(),
        axis: Axis {
            label: "times faster".to_owned(),
            scale: Scale::Log10,
        },
        bars: pairs.iter().map(bar).collect(),
        parts: vec!["here".to_owned()],
        mark: Some("published".to_owned()),
        words: Vec::new(),
        table: Table {
            head: head.map(str::to_owned).to_vec(),
            rows: pairs.iter().map(row).collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn each_machine_has_its_cycles_and_where_they_go() {
        let report = sample::report();
        let sheet = sheet(&report);
        let titles: Vec<_> = sheet
            .figures
            .iter()
            .map(|it| match it {
                Panel::Plot(it) => it.title.as_str(),
                Panel::Bars(it) => it.title.as_str(),
            })
            .collect();
        assert_eq!(
            titles,
            [
                "cortex-a76: cycles of mremap",
                "cortex-a76: where the cycles go",
                "skylake-sp: cycles of mremap",
                "Beside published measurements",
            ],
            "an unsafe run has no shares"
        );
    }

    #[test]
    fn an_unsafe_run_has_a_label_and_no_bar() {
        let report = sample::report();
        let bars = cycles(&report, &report.machines[1]);
        assert_eq!(bars.bars.len(), 1);
        assert_eq!(bars.bars[0].label, "UNSAFE");
        assert_eq!(bars.bars[0].parts, []);
    }

    #[test]
    fn shares_sum_to_the_whole() {
        let report = sample::report();
        let bars = shares(&report, &report.machines[0]).unwrap();
        for bar in &bars.bars {
            let sum: f64 = bar.parts.iter().map(|it| it.1).sum();
            assert!((sum - 100.0).abs() < 1e-9, "{bar:?}");
        }
        assert_eq!(bars.bars[0].parts[0].1.round(), 75.0);
        assert_eq!(bars.parts[0], "execute");
    }

    #[test]
    fn the_page_needs_nothing_else_and_says_how_to_see_it_again() {
        let text = String::from_utf8(Page.export(&sample::report()).unwrap()).unwrap();
        assert!(
            text.contains("mmuscope compare mremap level=pte,pmd,pud size=1G"),
            "{text}"
        );
        for outside in ["<script", "<link", "src=", "@import", "url("] {
            assert!(!text.contains(outside), "{outside}");
        }
    }
}
