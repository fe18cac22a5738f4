//! The published measurements (`published/*.csv`) as typed figures.
//!
//! ```
//! use mmuscope_benches::published::{Figures, Unit};
//!
//! let figures = Figures::bundled()?;
//! let pud = figures.mean("mremap", "arm64 device, 5.4 kernel", "pud").unwrap();
//! assert_eq!(pud.unit, Unit::Nanoseconds);
//! # Ok::<(), mmuscope_benches::published::PublishedError>(())
//! ```

use serde::Deserialize;

/// The files that come with the crate: name and content.
const BUNDLED: [(&str, &str); 4] = [
    (
        "contpte_fork.csv",
        include_str!("../published/contpte_fork.csv"),
    ),
    ("mremap.csv", include_str!("../published/mremap.csv")),
    (
        "struct_page.csv",
        include_str!("../published/struct_page.csv"),
    ),
    ("xpfo.csv", include_str!("../published/xpfo.csv")),
];

/// A file of figures that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PublishedError {
    /// A row is not of the form that `published/README.md` describes.
    #[error("{file}: {source}")]
    Row {
        /// The file.
        file: String,
        /// What is wrong, with the line.
        source: csv::Error,
    },
    /// A value that no measurement can have.
    #[error("{file}: {table} {variant} {metric} is {value}")]
    NotANumber {
        /// The file.
        file: String,
        /// Table of the row.
        table: String,
        /// Variant of the row.
        variant: String,
        /// Metric of the row.
        metric: String,
        /// The value.
        value: f64,
    },
}

/// The unit of a figure.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Deserialize)]
pub enum Unit {
    /// Nanoseconds.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Seconds.
    #[serde(rename = "s")]
    Seconds,
    /// Per cent, as a difference to something (−10.4 means 10.4 % less).
    #[serde(rename = "percent")]
    Percent,
    /// A ratio.
    #[serde(rename = "x")]
    Ratio,
}

/// One published figure.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// The table it belongs to.
    pub table: String,
    /// The machine, as far as the author says.
    pub machine: String,
    /// What was timed.
    pub workload: String,
    /// Which of the compared variants.
    pub variant: String,
    /// `time[N]` for a repetition, `mean` for the author's mean, else what it is.
    pub metric: String,
    /// The value in `unit`.
    pub value: f64,
    /// The unit.
    pub unit: Unit,
    /// Author, year or patch version, patch number.
    pub source: String,
}

impl Figure {
    /// The number of the repetition, if this is a single one.
    #[must_use]
    pub fn repetition(&self) -> Option<u32> {
        let number = self.metric.strip_prefix("time[")?.strip_suffix(']')?;
        number.parse().ok()
    }
}

/// A set of figures.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Figures {
    all: Vec<Figure>,
}

impl Figures {
    /// The figures that come with the crate.
    ///
    /// # Errors
    /// None, unless the bundled files are broken.
    pub fn bundled() -> Result<Self, PublishedError> {
        let mut all = Vec::new();
        for (file, text) in BUNDLED {
            all.extend(Self::parse(file, text)?.all);
        }
        Ok(Self { all })
    }

    /// Reads the CSV `text`; `file` is for the error message.
    ///
    /// # Errors
    /// A row with a missing, unknown or malformed field, or a value that is not finite.
    pub fn parse(file: &str, text: &str) -> Result<Self, PublishedError> {
        let mut all = Vec::new();
        for row in csv::Reader::from_reader(text.as_bytes()).into_deserialize() {
            let figure: Figure = row.map_err(|source| PublishedError::Row {
                file: file.to_owned(),
                source,
            })?;
            if !figure.value.is_finite() {
                return Err(PublishedError::NotANumber {
                    file: file.to_owned(),
                    table: figure.table,
                    variant: figure.variant,
                    metric: figure.metric,
                    value: figure.value,
                });
            }
            all.push(figure);
        }
        Ok(Self { all })
    }

    /// Every figure, in the order of the files.
    #[must_use]
    pub fn as_slice(&self) -> &[Figure] {
        &self.all
    }

    /// The figures of one table.
    pub fn table(&self, table: &str) -> impl Iterator<Item = &Figure> {
        self.all.iter().filter(move |figure| figure.table == table)
    }

    /// The single repetitions of one variant on one machine, in order.
    #[must_use]
    pub fn repetitions(&self, table: &str, machine: &str, variant: &str) -> Vec<f64> {
        let mut found: Vec<_> = self
            .table(table)
            .filter(|figure| figure.machine == machine && figure.variant == variant)
            .filter_map(|figure| Some((figure.repetition()?, figure.value)))
            .collect();
        found.sort_by_key(|&(repetition, _)| repetition);
        found.into_iter().map(|(_, value)| value).collect()
    }

    /// The author's mean of one variant on one machine.
    #[must_use]
    pub fn mean(&self, table: &str, machine: &str, variant: &str) -> Option<&Figure> {
        self.table(table).find(|figure| {
            figure.machine == machine && figure.variant == variant && figure.metric == "mean"
        })
    }

    /// How many times `slow` takes of `fast`, by the authors' means.
    #[must_use]
    pub fn ratio(&self, table: &str, machine: &str, slow: &str, fast: &str) -> Option<f64> {
        let slow = self.mean(table, machine, slow)?;
        let fast = self.mean(table, machine, fast)?;
        Some(slow.value / fast.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARM64: &str = "arm64 device, 5.4 kernel";
    const X86: &str = "x86, 5.4 kernel";

    fn figures() -> Figures {
        Figures::bundled().unwrap()
    }

    fn close(left: f64, right: f64, relative: f64) -> bool {
        (left / right - 1.0).abs() <= relative
    }

    #[test]
    fn every_bundled_file_is_read() {
        let figures = figures();
        for (table, rows) in [
            ("mremap", 55),
            ("mremap-2018", 6),
            ("contpte-fork", 10),
            ("contpte-fork-1g", 4),
            ("xpfo", 10),
            ("struct-page", 12),
            ("struct-page-sparc", 9),
        ] {
            assert_eq!(figures.table(table).count(), rows, "{table}");
        }
        assert_eq!(figures.as_slice().len(), 106);
    }

    #[test]
    fn printed_means_are_the_means_of_the_repetitions() {
        let figures = figures();
        for (machine, variant) in [
            (ARM64, "pte"),
            (ARM64, "pmd"),
            (ARM64, "pud"),
            (X86, "pmd"),
            (X86, "pud"),
        ] {
            let times = figures.repetitions("mremap", machine, variant);
            assert_eq!(times.len(), 10);
            let mean = times.iter().sum::<f64>() / 10.0;
            let printed = figures.mean("mremap", machine, variant).unwrap();
            assert!(
                close(mean, printed.value, 1e-4),
                "{machine} {variant}: {mean} against {}",
                printed.value
            );
        }
    }

    #[test]
    fn the_headline_ratios_follow_from_the_means() {
        let figures = figures();
        let ratio = |machine, slow, fast| figures.ratio("mremap", machine, slow, fast).unwrap();
        assert!(close(ratio(ARM64, "pte", "pmd"), 8.02, 1e-3));
        assert!(close(ratio(ARM64, "pmd", "pud"), 19.1, 1e-3));
        assert!(close(ratio(X86, "pmd", "pud"), 13.2, 1e-3));
    }

    #[test]
    fn printed_percentages_and_ratios_follow_from_the_times() {
        let figures = figures();
        let time = |table: &str, machine: &str, variant: &str| {
            let unit = |figure: &&Figure| figure.unit == Unit::Seconds;
            let of = |figure: &&Figure| figure.machine == machine && figure.variant == variant;
            let found = figures.table(table).filter(unit).find(of);
            found.unwrap().value
        };
        for figure in figures.table("struct-page") {
            if figure.unit == Unit::Percent {
                let base = time(
                    "struct-page",
                    &figure.machine,
                    &format!("base {}", figure.variant),
                );
                let fix = time(
                    "struct-page",
                    &figure.machine,
                    &format!("fix {}", figure.variant),
                );
                let speed_up = (base / fix - 1.0) * 100.0;
                assert!((speed_up - figure.value).abs() < 0.02, "{figure:?}");
            }
        }
        for figure in figures.table("xpfo") {
            if figure.unit == Unit::Ratio {
                let with = time("xpfo", &figure.machine, &figure.variant);
                let without = time("xpfo", &figure.machine, "4.20");
                assert!(close(with / without, figure.value, 5e-3), "{figure:?}");
            }
        }
    }

    #[test]
    fn bad_rows_name_file_and_line() {
        let header = "table,machine,workload,variant,metric,value,unit,source\n";
        let message = |row: &str| {
            let text = format!("{header}{row}\n");
            Figures::parse("x.csv", &text).unwrap_err().to_string()
        };
        assert!(
            message("t,m,w,v,mean,abc,ns,s")
                .contains("x.csv: CSV deserialize error: record 1 (line: 2")
        );
        assert!(message("t,m,w,v,mean,1,miles,s").contains("unknown variant `miles`"));
        assert_eq!(message("t,m,w,v,mean,NaN,ns,s"), "x.csv: t v mean is NaN");
        let missing = "table,machine,workload,variant,metric,value,unit\nt,m,w,v,mean,1,ns\n";
        assert!(Figures::parse("x.csv", missing).is_err());
    }
}
