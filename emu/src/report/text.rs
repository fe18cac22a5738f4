//! Text for a terminal, at most [`WIDTH`] columns wide.

#[cfg(test)]
mod tests;
mod uncertain;

use std::fmt::Write as _;

use comfy_table::{
    CellAlignment, ContentArrangement, ContentLineStyle, LineStyle, Table, TableStyle,
};
use mmuscope_models::addr::Level;
use mmuscope_models::cost::{Category, Cycles};
use mmuscope_models::profile::Quality;
use mmuscope_models::system::Timing;

use super::figures::{barriers, flatten, invalidations, table_stores};
use super::number::{grouped, short, times};
use super::{
    Comparison, ExportError, Exporter, Machine, Names, PublishedPair, Region, Report, Run, Verdict,
    names,
};

/// The widest line, in columns.
pub const WIDTH: usize = 100;

/// The report as text: a table a machine with a sentence that compares, published ratios, and
/// what the figures rest on.
#[derive(Copy, Clone, Debug, Default)]
pub struct Text {
    /// One metric a row instead of one run a row: everything that is not zero.
    pub long: bool,
    /// Counts under the names of other tools instead.
    pub names: Option<Names>,
}

impl Exporter for Text {
    fn export(&self, report: &Report) -> Result<Vec<u8>, ExportError> {
        let mut out = String::new();
        paragraph(&mut out, &title(report));
        for machine in &report.machines {
            out.push('\n');
            paragraph(&mut out, &heading(report, machine));
            out.push('\n');
            if let Some(names) = self.names {
                lines(&mut out, &named_table(report, machine, names));
            } else if self.long {
                long_tables(&mut out, report, machine)?;
            } else {
                lines(&mut out, &short_table(report, machine));
            }
            let told = told(report, machine);
            if !told.is_empty() {
                out.push('\n');
            }
            for sentence in told {
                paragraph(&mut out, &sentence);
            }
        }
        published(&mut out, &report.published);
        out.push('\n');
        for note in notes(report) {
            paragraph(&mut out, &note);
        }
        Ok(out.into_bytes())
    }
}

/// What is said about the runs on a machine, one sentence each.
pub(super) fn told(report: &Report, machine: &Machine) -> Vec<String> {
    let mut told = sentences(report, machine);
    told.extend(uncertain::told(report, machine));
    told.extend(where_cycles_go(report, machine));
    told
}

/// `text` broken at spaces, with a line break at its end.
#[must_use]
pub fn wrapped(text: &str) -> String {
    let mut out = String::new();
    paragraph(&mut out, text);
    out
}

/// Appends `text`, broken at spaces.
fn paragraph(out: &mut String, text: &str) {
    let mut column = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column != 0 && column + 1 + length > WIDTH {
            out.push_str("\n  ");
            column = 2;
        } else if column != 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
}

/// Appends a table without the spaces that pad its last column.
fn lines(out: &mut String, table: &Table) {
    for line in table.to_string().lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
}

/// Columns apart by spaces, a line below the header.
const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('-').junction(' '))
    .content_lines(ContentLineStyle::none().junction(' '));

fn table(header: &[String], left: usize) -> Table {
    let mut table = Table::new();
    table
        .load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(WIDTH).unwrap_or(u16::MAX))
        .set_header(header);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 0));
        if at >= left {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

pub(super) fn title(report: &Report) -> String {
    let mut title = report.scenario.clone();
    for (axis, values) in &report.axes.0 {
        let _ = write!(title, " {axis}={}", values.join(","));
    }
    title
}

pub(super) fn heading(report: &Report, machine: &Machine) -> String {
    let mut heading = format!(
        "{} ({}, {} GHz)",
        machine.profile, machine.arch, machine.clock_ghz
    );
    if !machine.features.is_empty() {
        let _ = write!(heading, " with {}", machine.features.join(" "));
    }
    if !machine.overrides.is_empty() {
        let _ = write!(heading, " set {}", machine.overrides.join(" "));
    }
    if !report.base.0.is_empty() {
        let words = report.base.0.iter().map(|(k, v)| format!("{k}={v}"));
        let words: Vec<_> = words.collect();
        let _ = write!(heading, ", baseline {}", words.join(" "));
    }
    heading
}

/// What names a run: its varying axes, or the scenario if there are none.
pub(super) fn variant(report: &Report, run: &Run) -> Vec<String> {
    let varying: Vec<_> = report.varying().collect();
    if varying.is_empty() {
        return vec![report.scenario.clone()];
    }
    let value = |axis: &&str| run.point.get(axis).map_or("-", |it| it.as_str());
    varying.iter().map(|it| value(it).to_owned()).collect()
}

pub(super) fn variant_header(report: &Report) -> Vec<String> {
    let header: Vec<_> = report.varying().map(str::to_owned).collect();
    if header.is_empty() {
        vec!["variant".to_owned()]
    } else {
        header
    }
}

pub(super) const COLUMNS: [&str; 11] = [
    "cycles", "ns", "faster", "instr", "walks", "L1", "L2", "L3", "TLB ops", "barriers", "IPIs",
];

fn short_table(report: &Report, machine: &Machine) -> Table {
    let mut header = variant_header(report);
    let left = header.len();
    header.extend(COLUMNS.map(str::to_owned));
    let mut table = table(&header, left);
    for run in report.runs_on(&machine.profile) {
        let mut row = variant(report, run);
        row.extend(short_cells(report, run));
        table.add_row(row);
    }
    table
}

pub(super) fn short_cells(report: &Report, run: &Run) -> Vec<String> {
    let Some(region) = run.region(&report.region) else {
        return vec![status(&run.verdict).unwrap_or("-").to_owned()];
    };
    let counters = &region.counters;
    let time = match status(&run.verdict) {
        Some(status) => [status.to_owned(), "-".to_owned(), "-".to_owned()],
        None => [
            region.cycles.map_or_else(absent, |it| short(it.as_f64())),
            region.nanoseconds.map_or_else(absent, short),
            run.speedup.map_or_else(absent, times),
        ],
    };
    let operations = invalidations(counters);
    let operations: Vec<_> = operations
        .into_iter()
        .map(|(name, count)| format!("{} {name}", grouped(count)))
        .collect();
    let operations = if operations.is_empty() {
        "0".to_owned()
    } else {
        operations.join("\n")
    };
    let mut cells = Vec::from(time);
    #[expect(
        clippy::cast_precision_loss,
        reason = "printed with four digits where it is large"
    )]
    cells.push(short(counters.instructions.total() as f64));
    cells.push(grouped(counters.data.walks + counters.fetch.walks));
    let levels = [Level::L1, Level::L2, Level::L3];
    cells.extend(levels.map(|level| grouped(table_stores(counters, level))));
    cells.push(operations);
    cells.push(grouped(barriers(counters)));
    cells.push(format!(
        "{}/{}",
        grouped(counters.ipis_sent),
        grouped(counters.ipis_received)
    ));
    cells
}

fn absent() -> String {
    "-".to_owned()
}

pub(super) fn status(verdict: &Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Fine => None,
        Verdict::Unsafe(_) => Some("UNSAFE"),
        Verdict::Failed(_) => Some("FAILED"),
    }
}

/// How many runs stand side by side in the long form.
const LONG_COLUMNS: usize = 4;

fn long_tables(out: &mut String, report: &Report, machine: &Machine) -> Result<(), ExportError> {
    let runs: Vec<_> = report.runs_on(&machine.profile).collect();
    for (at, runs) in runs.chunks(LONG_COLUMNS).enumerate() {
        if at != 0 {
            out.push('\n');
        }
        let mut header = vec![variant_header(report).join(" ")];
        header.extend(runs.iter().map(|run| variant(report, run).join(" ")));
        let mut table = table(&header, 1);
        for row in long_rows(report, runs)? {
            table.add_row(row);
        }
        lines(out, &table);
    }
    Ok(())
}

/// The counts of all runs side by side, under the names of other tools.
fn named_table(report: &Report, machine: &Machine, family: Names) -> Table {
    let runs: Vec<_> = report.runs_on(&machine.profile).collect();
    let mut header = vec!["count".to_owned()];
    header.extend(runs.iter().map(|run| variant(report, run).join(" ")));
    let mut table = table(&header, 1);
    let columns: Vec<_> = runs
        .iter()
        .map(|run| run.region(&report.region))
        .map(|it| it.map(|region| names::named(family, &machine.arch, region)))
        .collect();
    let named = columns.iter().flatten().next();
    for (at, (name, _)) in named.into_iter().flatten().enumerate() {
        let mut row = vec![(*name).to_owned()];
        row.extend(columns.iter().map(|it| {
            let value = it.as_ref().and_then(|it| it.get(at));
            value.map_or_else(absent, |it| grouped(it.1))
        }));
        table.add_row(row);
    }
    table
}

fn long_rows(report: &Report, runs: &[&Run]) -> Result<Vec<Vec<String>>, ExportError> {
    let of_time = |text: &dyn Fn(&Run, &Region) -> String| -> Vec<String> {
        let cell = |run: &&Run| match (status(&run.verdict), run.region(&report.region)) {
            (Some(status), _) => status.to_owned(),
            (None, Some(region)) => text(run, region),
            (None, None) => "-".to_owned(),
        };
        runs.iter().map(cell).collect()
    };
    let mut rows = vec![
        (
            "cycles".to_owned(),
            of_time(&|_, it| it.cycles.map_or_else(absent, |it| it.to_string())),
        ),
        (
            "nanoseconds".to_owned(),
            of_time(&|_, it| it.nanoseconds.map_or_else(absent, |it| format!("{it:.3}"))),
        ),
        (
            "times faster".to_owned(),
            of_time(&|run, _| run.speedup.map_or_else(absent, times)),
        ),
    ];
    let mut columns = Vec::new();
    for run in runs {
        columns.push(match run.region(&report.region) {
            Some(region) => metrics(region)?,
            None => Vec::new(),
        });
    }
    // All regions have the same metrics, so that the first column with any names them.
    let names = columns.iter().find(|it| !it.is_empty());
    for (at, (name, _)) in names.into_iter().flatten().enumerate() {
        let cells = columns.iter().map(|it| it.get(at).map(|it| it.1.as_str()));
        let cells: Vec<_> = cells.map(|it| it.unwrap_or("-").to_owned()).collect();
        if cells
            .iter()
            .any(|it| !matches!(it.as_str(), "0" | "0.0" | "-"))
        {
            rows.push((name.clone(), cells));
        }
    }
    let whole = |(name, cells): (String, Vec<String>)| [vec![name], cells].concat();
    Ok(rows.into_iter().map(whole).collect())
}

/// Every counter, then the cycles by category.
fn metrics(region: &Region) -> Result<Vec<(String, String)>, ExportError> {
    let counted = flatten(&region.counters)?.into_iter();
    let spent = match &region.attribution {
        Some(attribution) => flatten(attribution)?,
        None => Vec::new(),
    };
    let spent = spent.into_iter();
    let spent = spent.map(|(name, value)| (format!("cycles in {name}"), value));
    let stolen = match &region.stolen {
        Some(stolen) => flatten(stolen)?,
        None => Vec::new(),
    };
    let stolen = stolen.into_iter();
    let stolen = stolen.map(|(name, value)| (format!("of other CPUs' cycles, in {name}"), value));
    Ok(counted
        .chain(spent)
        .chain(stolen)
        .map(|(name, value)| match value.as_u64() {
            Some(count) => (name, grouped(count)),
            None => (name, value.to_string()),
        })
        .collect())
}

/// What a machine's table says, in words; a line for each run that is no result.
fn sentences(report: &Report, machine: &Machine) -> Vec<String> {
    let mut sentences = Vec::new();
    for run in report.runs_on(&machine.profile) {
        let name = variant(report, run).join(" ");
        match &run.verdict {
            Verdict::Fine => {}
            Verdict::Unsafe(message) => sentences.push(format!("{name} is UNSAFE: {message}")),
            Verdict::Failed(message) => sentences.push(format!("{name} FAILED: {message}")),
        }
    }
    let groups = report.comparisons();
    let groups = groups.iter().filter(|it| it.machine == machine.profile);
    sentences.extend(groups.filter_map(sentence));
    sentences
}

/// Ratios below this are told as no difference.
const ALIKE: f64 = 1.02;

fn sentence(comparison: &Comparison<'_>) -> Option<String> {
    let (fastest, others) = comparison.standings.split_first()?;
    let than = |it: &super::Standing<'_>| match it.cycles / fastest.cycles {
        ..ALIKE => format!("as fast as {}", it.name),
        ratio => format!("{} faster than {}", times(ratio), it.name),
    };
    // Many variants: the runner-up and the baseline say enough, the table has the rest.
    let told: Vec<_> = if others.len() <= 3 {
        others.iter().map(than).collect()
    } else {
        let base = comparison.base.iter();
        let base = base.filter(|it| it.name != fastest.name && it.name != others[0].name);
        others[..1].iter().chain(base).map(than).collect()
    };
    let (last, first) = told.split_last()?;
    let told = match first {
        [] => last.clone(),
        _ => format!("{} and {last}", first.join(", ")),
    };
    let fixed = comparison.fixed.iter().map(|(k, v)| format!("{k}={v}"));
    let fixed: Vec<_> = fixed.collect();
    let place = match fixed.as_slice() {
        [] => String::new(),
        _ => format!("{}: ", fixed.join(" ")),
    };
    Some(format!("{place}{} is {told}.", fastest.name))
}

/// How many categories of cycles are named for a run.
const CATEGORIES_TOLD: usize = 3;

/// The largest categories of cycles of each run; a star marks those that rest on figures that
/// nobody has read or measured.
fn where_cycles_go(report: &Report, machine: &Machine) -> Option<String> {
    let unsure = |category: &str| {
        let quality = machine.category_qualities.get(category);
        quality.is_some_and(|&it| it >= Quality::Estimated)
    };
    let told = |run: &Run| {
        let attribution = run.region(&report.region)?.attribution.as_ref()?;
        let total = attribution.total().as_f64();
        if run.verdict != Verdict::Fine || total <= 0.0 {
            return None;
        }
        let mut parts: Vec<_> = attribution.iter().collect();
        parts.sort_by_key(|it| std::cmp::Reverse(it.1));
        parts.truncate(CATEGORIES_TOLD);
        let part = |(category, cycles): &(Category, Cycles)| {
            let name = category.name().replace('_', " ");
            let star = if unsure(category.name()) { "*" } else { "" };
            format!("{name}{star} {:.0} %", 100.0 * cycles.as_f64() / total)
        };
        let parts = parts.iter().filter(|it| it.1 > Cycles::ZERO).map(part);
        let parts: Vec<_> = parts.collect();
        Some(format!(
            "{}: {}",
            variant(report, run).join(" "),
            parts.join(", ")
        ))
    };
    let told: Vec<_> = report.runs_on(&machine.profile).filter_map(told).collect();
    let any = !told.is_empty();
    any.then(|| format!("Cycles (* rests on estimates): {}.", told.join("; ")))
}

fn published(out: &mut String, pairs: &[PublishedPair]) {
    if pairs.is_empty() {
        return;
    }
    out.push_str("\nPublished ratios\n\n");
    let header = [
        "machine",
        "step",
        "here",
        "published",
        "here/published",
        "measured on",
        "source",
    ];
    let mut table = table(&header.map(str::to_owned), 2);
    for column in [5, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Left);
        }
    }
    for pair in pairs {
        let fixed = pair.fixed.0.iter().map(|it| format!(" {}", it.1));
        table.add_row([
            format!("{}{}", pair.machine, fixed.collect::<String>()),
            format!("{} to {}", pair.slower, pair.faster),
            times(pair.here),
            times(pair.published),
            times(pair.here_per_published),
            pair.measured_on.clone(),
            pair.source.clone(),
        ]);
    }
    lines(out, &table);
}

/// What the figures rest on.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut notes = vec![
        "Instructions, table stores (L1 to L3: user tables), TLB operations, barriers and IPIs \
         (sent/received) are counted, not estimated; walks are exact for the profile's TLBs. "
            .to_owned()
            + match report.timing {
                Timing::Full => "Cycles and ns are sums of the profile's costs.",
                Timing::Off => "No time passed (--timing off).",
            },
    ];
    notes.extend(report.notes.iter().cloned());
    for machine in &report.machines {
        let total: usize = machine.qualities.0.iter().map(|it| it.1).sum();
        let qualities = machine.qualities.0.iter();
        let qualities: Vec<_> = qualities.map(|(q, n)| format!("{n} {q}")).collect();
        if total != 0 {
            notes.push(format!(
                "{} rests on {total} figures: {} (`mmuscope profile show {}`); its hash is {}.",
                machine.profile,
                qualities.join(", "),
                machine.profile,
                machine.hash
            ));
        }
    }
    if !report.published.is_empty() {
        let fitted = |it: &Machine| it.qualities.get("fitted").is_some_and(|&n| n != 0);
        notes.push(if report.machines.iter().any(fitted) {
            "Some figures are fitted: see `mmuscope profile show`.".to_owned()
        } else {
            "No figure was fitted to the published ones. Beside estimated costs, software tells the \
             two apart: Linux runs some 17,000 instructions around the move of one PUD entry, the \
             guest kernel a few hundred, so that here cheap moves come out cheaper."
                .to_owned()
        });
    }
    notes
}
