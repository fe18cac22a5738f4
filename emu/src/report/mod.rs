//! Results: one structure, many exporters.
//!
//! A [`Report`] says what was run (scenario, axes, machines with all their figures), what each run
//! counted and took, how the runs compare to a baseline, and what was published about the same
//! thing. Every format prints this structure and nothing else; see [`Exporter`]. Nothing in it
//! depends on the host: two runs of the same command give the same bytes.
//!
//! Which figures are exact: instructions, accesses, table stores, invalidations, barriers and
//! interrupts are counted. TLB, walk and cache figures are exact for the profile's geometry.
//! Cycles and nanoseconds are sums of the profile's costs, whose qualities
//! [`Machine::qualities`] counts.
//!
//! ```json
//! { "schema": "mmuscope-report/1", "scenario": "mremap", "machines": [ ],
//!   "runs": [ { "machine": "cortex-a76", "point": { "level": "pud" },
//!               "verdict": { "status": "fine" }, "speedup": 19.3, "regions": [ ] } ] }
//! ```

mod basis;
mod compare;
mod csv;
mod figures;
mod json;
mod markdown;
mod names;
mod number;
mod page;
mod published;
mod region;
#[cfg(test)]
mod sample;
mod text;

use mmuscope_models::profile::{Constant, Quality};
use mmuscope_models::sensitivity::Interval;
use mmuscope_models::system::Timing;
use serde::{Serialize, Serializer};
use thiserror::Error;

pub use basis::{EXACTNESS, Exactness, poorest_qualities};
pub use compare::{Comparison, Standing};
pub use csv::Csv;
pub use json::Json;
pub use markdown::Markdown;
pub use names::Names;
pub use page::{Page, sheet};
pub use published::PublishedPair;
pub use region::{Calls, Core, Region, Spread, Stolen};
pub use text::{Text, wrapped};

/// The name and version of the structure, as every export carries it. The number grows when a
/// reader of the old form would misread the new one.
pub const SCHEMA: &str = "mmuscope-report/1";

/// Why a report could not be exported.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The JSON form.
    #[error("the report cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The CSV form.
    #[error("the report cannot be written as CSV: {0}")]
    Csv(#[from] ::csv::Error),
    /// The CSV form: the last row could not be finished.
    #[error("the report cannot be written as CSV: {0}")]
    Flush(String),
}

/// An output format.
pub trait Exporter {
    /// The report in this format.
    ///
    /// # Errors
    /// The report holds something that the format cannot.
    fn export(&self, report: &Report) -> Result<Vec<u8>, ExportError>;
}

/// Names with values, in an order of their own; a map when serialised.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pairs<V>(pub Vec<(String, V)>);

impl<V> Pairs<V> {
    /// The value of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&V> {
        self.0.iter().find(|it| it.0 == name).map(|it| &it.1)
    }
}

impl<V: Serialize> Serialize for Pairs<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn timing_name<S: Serializer>(timing: &Timing, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match timing {
        Timing::Off => "off",
        Timing::Full => "full",
    })
}

/// What one command ran, and what came out.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The version of mmuscope.
    pub version: &'static str,
    /// The scenario, or the file name of a guest program.
    pub scenario: String,
    /// [`EXACTNESS`].
    pub exactness: Exactness,
    /// The region of interest that the comparison is about.
    pub region: String,
    /// Whether time passed: without it there are no figures of time, and none of the data path.
    #[serde(serialize_with = "timing_name")]
    pub timing: Timing,
    /// The seeds of the cores' phases that every point was run with; without any, all cores
    /// begin at once and nothing disturbs them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub seeds: Vec<u64>,
    /// The axes with their values, in the order of the command; the first varies slowest.
    pub axes: Pairs<Vec<String>>,
    /// The values that make a run the baseline of the runs that differ from it in these only.
    pub base: Pairs<String>,
    /// The machines, in the order of the command.
    pub machines: Vec<Machine>,
    /// The runs: machine by machine, points in the order of the axes.
    pub runs: Vec<Run>,
    /// Published ratios beside this report's.
    pub published: Vec<PublishedPair>,
    /// What else the figures rest on, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A machine that runs were made on.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The profile's name.
    pub profile: String,
    /// What the profile describes.
    pub about: String,
    /// `aarch64` or `x86_64`.
    pub arch: String,
    /// Core clock in GHz.
    pub clock_ghz: f64,
    /// Hash of every figure of the profile, overrides included.
    pub hash: String,
    /// Figures that were overridden on the command line, as `path=value`.
    pub overrides: Vec<String>,
    /// Architectural features that the guest sees.
    pub features: Vec<String>,
    /// How many of the profile's figures are of each quality (read, measured, estimated, ..).
    pub qualities: Pairs<usize>,
    /// The poorest quality among the figures that each category of cycles rests on.
    pub category_qualities: Pairs<Quality>,
    /// Every figure of the profile with its source and quality.
    pub figures: Vec<Constant>,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "status", content = "message", rename_all = "snake_case")]
pub enum Verdict {
    /// The guest ended and its checks passed.
    Fine,
    /// The guest found its data changed, or used a translation that it had given up: whatever it
    /// took, it is no result.
    Unsafe(String),
    /// The guest or the machine gave up.
    Failed(String),
}

/// One run of the guest at one point of the axes on one machine.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The profile's name.
    pub machine: String,
    /// The value of every axis that this machine's architecture has.
    pub point: Pairs<String>,
    /// How it ended.
    pub verdict: Verdict,
    /// How many times faster than its baseline the run is; absent without a baseline, or if
    /// either is no result.
    pub speedup: Option<f64>,
    /// The interval of this ratio that uncertain constants span; both runs' constants are moved
    /// together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speedup_interval: Option<Interval>,
    /// The first and the later times that the compared region was entered, if more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<Calls>,
    /// What the guest reported by name.
    pub results: Pairs<String>,
    /// The regions of interest, in the order they ended.
    pub regions: Vec<Region>,
    /// What the guest printed.
    pub console: String,
}

impl Run {
    /// The region called `name`; the first one with the name if the guest entered it repeatedly.
    #[must_use]
    pub fn region(&self, name: &str) -> Option<&Region> {
        self.regions.iter().find(|it| it.name == name)
    }
}

impl Report {
    /// Completes a report of `runs`: speed-ups against the baseline, published figures.
    #[must_use]
    pub fn complete(mut self) -> Self {
        compare::set_speedups(&mut self);
        for run in &mut self.runs {
            run.calls = Calls::of(&run.regions, &self.region);
        }
        self.published = published::beside(&self);
        self
    }

    /// The command that makes this report again, with every axis said; `None` for a program of
    /// the user's own, whose arguments the report does not have.
    #[must_use]
    pub fn command(&self) -> Option<String> {
        mmuscope_guest::scenario::find(&self.scenario)?;
        let mut words = vec!["mmuscope compare".to_owned(), self.scenario.clone()];
        words.extend(
            self.axes
                .0
                .iter()
                .map(|(k, v)| format!("{k}={}", v.join(","))),
        );
        let machines: Vec<_> = self.machines.iter().map(|it| it.profile.as_str()).collect();
        words.push(format!("--on {}", machines.join(",")));
        words.extend(self.base.0.iter().map(|(k, v)| format!("--base {k}={v}")));
        if let Some(machine) = self.machines.first() {
            words.extend(machine.overrides.iter().map(|it| format!("--set {it}")));
        }
        if self.timing == Timing::Off {
            words.push("--timing off".to_owned());
        }
        match self.seeds.as_slice() {
            [] => {}
            [seed] => words.push(format!("--seed {seed}")),
            [.., last] => words.push(format!("--seeds {last}")),
        }
        Some(words.join(" "))
    }

    /// The axes that have more than one value.
    pub fn varying(&self) -> impl Iterator<Item = &str> {
        let lists = self.axes.0.iter().filter(|it| it.1.len() > 1);
        lists.map(|it| it.0.as_str())
    }

    /// The runs on the machine called `profile`.
    pub fn runs_on(&self, profile: &str) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |it| it.machine == profile)
    }

    /// Whether any run found its data or its translations wrong.
    #[must_use]
    pub fn has_unsafe(&self) -> bool {
        let mut verdicts = self.runs.iter().map(|it| &it.verdict);
        verdicts.any(|it| matches!(it, Verdict::Unsafe(_)))
    }

    /// Whether any run did not come to its end.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let mut verdicts = self.runs.iter().map(|it| &it.verdict);
        verdicts.any(|it| matches!(it, Verdict::Failed(_)))
    }
}
