//! A reality check: what this host measures beside what the model says of it.
//!
//! Nothing is adjusted so that the two agree. The guest kernel is far leaner than Linux, so that
//! system calls come out cheaper; what is comparable is how the times move from row to row.

use std::fmt::Write as _;

use mmuscope_emu::curve::{CurveError, Curves, Folio, Request, Touch};
use mmuscope_emu::experiment::grammar::size_text;
use mmuscope_emu::experiment::machines::Selected;
use mmuscope_emu::experiment::{Experiment, ExperimentError, Options, execute};
use mmuscope_emu::report::{Report, Verdict};

use crate::native::moves::{self, MOVES};
use crate::native::{NativeError, Pages, chase};

/// Why the check could not be made. Each prints as one line, its sources behind it.
#[derive(Debug, thiserror::Error)]
pub enum ValidateError {
    /// The host's part.
    #[error("on this host")]
    Native(#[from] NativeError),
    /// The simulated chase.
    #[error("simulated")]
    Curve(#[from] CurveError),
    /// The simulated moves.
    #[error("simulated")]
    Experiment(#[from] ExperimentError),
    /// A simulated move came to no good end.
    #[error("simulated mremap {words}: {message}")]
    Run {
        /// Which.
        words: String,
        /// What happened.
        message: String,
    },
}

/// One thing that was done both ways.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// What.
    pub what: String,
    /// Nanoseconds on this host, the least of several; `None` if it could not be done.
    pub native: Option<f64>,
    /// The middle of the same.
    pub median: Option<f64>,
    /// Nanoseconds by the model.
    pub simulated: f64,
}

impl Row {
    fn ratio(&self) -> Option<f64> {
        self.native.map(|native| self.simulated / native)
    }
}

/// Moves `bytes` at each level, both ways.
///
/// # Errors
/// The host or the model cannot do it.
pub fn moves(machine: &Selected, bytes: usize, rounds: usize) -> Result<Vec<Row>, ValidateError> {
    let size = format!("size={}", size_text(bytes as u64));
    let mut rows = Vec::new();
    for it in &MOVES {
        let native = moves::measure(it, bytes, rounds)?;
        let words: Vec<String> = it.words.iter().map(|&word| word.to_owned()).collect();
        let words = [words, vec![size.clone()]].concat();
        let experiment = Experiment::scenario("mremap", &words, &[], vec![machine.clone()])?;
        let report = experiment.run(&Options::default(), &execute::run, &|_| {}, &|| {})?;
        rows.push(Row {
            what: format!("mremap {}, {}", size_text(bytes as u64), it.name),
            native: Some(native.least),
            median: Some(native.median),
            simulated: simulated(&report, &words)?,
        });
    }
    Ok(rows)
}

fn simulated(report: &Report, words: &[String]) -> Result<f64, ValidateError> {
    let failed = |message: &str| ValidateError::Run {
        words: words.join(" "),
        message: message.to_owned(),
    };
    let run = report.runs.first().ok_or_else(|| failed("nothing ran"))?;
    match &run.verdict {
        Verdict::Fine => {}
        Verdict::Unsafe(message) | Verdict::Failed(message) => return Err(failed(message)),
    }
    let region = run.region(&report.region);
    let region = region.ok_or_else(|| failed("no region"))?;
    region.nanoseconds.ok_or_else(|| failed("no time"))
}

/// Chases pointers through footprints between `from` and `to`, both ways.
///
/// # Errors
/// The host or the model cannot do it; huge pages that the host does not give are no error.
pub fn chases(machine: &Selected, from: u64, to: u64) -> Result<Vec<Row>, ValidateError> {
    const SEED: u64 = 1;
    let request = Request {
        machines: vec![machine.clone()],
        from,
        to,
        touch: Touch::Page,
        seed: SEED,
    };
    let curves = request.draw(None, &execute::run, &|| {})?;
    let mut rows = Vec::new();
    for pages in [Pages::Small, Pages::Huge] {
        for (footprint, simulated) in points(&curves, pages) {
            let bytes = usize::try_from(footprint).unwrap_or(usize::MAX);
            let native = match chase::measure(bytes, pages, SEED) {
                Ok(spread) => Some(spread),
                Err(NativeError::NotHuge { .. }) => None,
                Err(other) => return Err(other.into()),
            };
            rows.push(Row {
                what: format!("chase {}, {pages} pages", size_text(footprint)),
                native: native.map(|it| it.least),
                median: native.map(|it| it.median),
                simulated,
            });
        }
    }
    Ok(rows)
}

/// The points of a curve at powers of two.
fn points(curves: &Curves, pages: Pages) -> Vec<(u64, f64)> {
    let folio = match pages {
        Pages::Small => Folio::Page,
        Pages::Huge => Folio::Huge,
    };
    let lines = curves.curves.iter().flat_map(|it| &it.lines);
    let points = lines
        .filter(|it| it.folio == folio)
        .flat_map(|it| &it.points);
    points
        .filter(|it| it.footprint.is_power_of_two())
        .map(|it| (it.footprint, it.nanoseconds))
        .collect()
}

/// Rows as a table.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let width = rows.iter().map(|it| it.what.len()).max().unwrap_or(0);
    let mut text = format!(
        "{:<width$}  {:>12}  {:>12}  {:>12}  {:>9}\n",
        "nanoseconds", "native least", "median", "simulated", "simulated"
    );
    let _ = writeln!(
        text,
        "{:<width$}  {:>12}  {:>12}  {:>12}  {:>9}",
        "", "", "", "", "/ native"
    );
    for row in rows {
        let cell = |value: Option<f64>, decimals: usize| {
            value.map_or_else(|| "-".to_owned(), |it| format!("{it:.decimals$}"))
        };
        let greatest = row.native.unwrap_or(0.0).max(row.simulated);
        let decimals = if greatest < 1e4 { 2 } else { 0 };
        let _ = writeln!(
            text,
            "{:<width$}  {:>12}  {:>12}  {:>12}  {:>9}",
            row.what,
            cell(row.native, decimals),
            cell(row.median, decimals),
            cell(Some(row.simulated), decimals),
            cell(row.ratio(), 2)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_show_both_and_their_ratio() {
        let rows = [
            Row {
                what: "one".to_owned(),
                native: Some(4.0),
                median: Some(5.0),
                simulated: 2.0,
            },
            Row {
                what: "two".to_owned(),
                native: None,
                median: None,
                simulated: 3.5,
            },
        ];
        let text = table(&rows);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|it| it.split_whitespace().collect())
            .collect();
        assert_eq!(lines[2], ["one", "4.00", "5.00", "2.00", "0.50"]);
        assert_eq!(lines[3], ["two", "-", "-", "3.50", "-"]);
    }
}
