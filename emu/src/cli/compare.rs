//! `mmuscope compare`: a scenario at every combination of axis values.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::bail;
use mmuscope_emu::experiment::{Experiment, Options, execute, machines};
use mmuscope_emu::report::{Csv, Exporter, Json, Markdown, Names, Page, Report, Text};
use mmuscope_models::system::Timing;

use super::output::{self, Output};
use super::{Exit, progress};

/// Arguments of `compare`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The scenario; `mmuscope axes` lists them
    name: String,
    /// Axes with one or more values: key=value[,value..]; lists are crossed
    #[arg(value_name = "AXIS=VALUE[,VALUE..]")]
    words: Vec<String>,
    /// What the other runs are compared with: key=value; default: the first value of the first
    /// list
    #[arg(long, value_name = "AXIS=VALUE")]
    base: Vec<String>,
    #[command(flatten)]
    common: Common,
}

/// Arguments that every command takes that runs guests.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// Machines: names of built-in profiles or paths of .toml files
    #[arg(
        long,
        value_name = "PROFILE[,PROFILE..]",
        value_delimiter = ',',
        required = true
    )]
    pub on: Vec<String>,
    /// Change one figure of the profiles: path=value, such as cost.cycles.invlpg=90
    #[arg(long, value_name = "PATH=VALUE")]
    pub set: Vec<String>,
    /// Write the report as JSON; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Write the report as CSV; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Write the report as a page with figures that needs nothing else; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the report as Markdown; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    pub md: Option<PathBuf>,
    /// Print one metric a row: everything that is not zero
    #[arg(long)]
    pub long: bool,
    /// Print counts under the names of `perf` events (pmu) or of /proc/vmstat
    #[arg(long, value_name = "FAMILY", conflicts_with = "long")]
    pub names: Option<Family>,
    /// Whether time passes: `off` gives counts only, sooner
    #[arg(long, value_name = "off|full", default_value = "full")]
    pub timing: Clock,
    /// Let the cores' phases come from this seed: late starts, and jitter at every return
    #[arg(long, value_name = "SEED", conflicts_with = "seeds")]
    pub seed: Option<u64>,
    /// Run everything with the seeds 1 to N; show the middle run, and the spread
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,
    /// How many runs at a time [default: one a processor]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,
}

/// Names of counts.
#[derive(Copy, Clone, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Family {
    /// Events of performance counters.
    Pmu,
    /// Lines of /proc/vmstat.
    Vmstat,
}

/// Whether time passes.
#[derive(Copy, Clone, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Clock {
    /// It does not.
    Off,
    /// It does.
    Full,
}

impl Common {
    pub(super) fn options(&self) -> anyhow::Result<Options> {
        let seeds: Vec<u64> = match (self.seed, self.seeds) {
            (Some(seed), _) => vec![seed],
            (None, Some(last)) => (1..=last).collect(),
            (None, None) => Vec::new(),
        };
        if self.timing == Clock::Off && !seeds.is_empty() {
            let option = if self.seed.is_some() {
                "--seed"
            } else {
                "--seeds"
            };
            bail!("{option}: without time there are no phases: expected --timing full");
        }
        Ok(Options {
            jobs: self.jobs.map(NonZeroUsize::get),
            timing: match self.timing {
                Clock::Off => Timing::Off,
                Clock::Full => Timing::Full,
            },
            seeds,
        })
    }

    pub(super) fn text(&self) -> Text {
        Text {
            long: self.long,
            names: self.names.map(|family| match family {
                Family::Pmu => Names::Pmu,
                Family::Vmstat => Names::Vmstat,
            }),
        }
    }
}

/// Runs the comparison and writes the report.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let machines = machines::select(&arguments.common.on, &arguments.common.set)?;
    let (words, base) = (&arguments.words, &arguments.base);
    let experiment = Experiment::scenario(&arguments.name, words, base, machines)?;
    run_and_write(&experiment, &arguments.common)
}

/// Runs `experiment` with a progress bar and writes what was asked for.
pub fn run_and_write(experiment: &Experiment<'_>, common: &Common) -> anyhow::Result<Exit> {
    let options = common.options()?;
    let outputs = Outputs::prepare(common)?;
    let bar = progress::bar(experiment.runs() * options.seeds.len().max(1));
    let report = experiment.run(
        &options,
        &execute::run,
        &|run| bar.set_message(run.to_owned()),
        &|| bar.inc(1),
    )?;
    bar.finish_and_clear();
    outputs.write(&report, &common.text())?;
    Ok(verdict(&report))
}

/// Unsafe outweighs failed: it is a finding, the other a mishap.
pub(super) fn verdict(report: &Report) -> Exit {
    if report.has_unsafe() {
        Exit::Unsafe
    } else if report.has_failed() {
        Exit::Failed
    } else {
        Exit::Fine
    }
}

/// The formats that can be asked for, with where they go.
pub(super) struct Outputs(Vec<(Output, &'static dyn Exporter)>);

impl Outputs {
    pub(super) fn prepare(common: &Common) -> anyhow::Result<Self> {
        let asked: [(&str, &Option<PathBuf>, &'static dyn Exporter); 4] = [
            ("--json", &common.json, &Json),
            ("--csv", &common.csv, &Csv),
            ("--html", &common.html, &Page),
            ("--md", &common.md, &Markdown),
        ];
        let mut taken: Vec<(&str, &Path)> = Vec::new();
        let mut outputs = Vec::new();
        for (option, path, format) in asked {
            let Some(path) = path.as_deref() else {
                continue;
            };
            if let Some((other, _)) = taken.iter().find(|it| it.1 == path) {
                bail!(
                    "{option}: `{}` is where {other} goes: expected another file",
                    path.display()
                );
            }
            taken.push((option, path));
            outputs.push((Output::prepare(option, path)?, format));
        }
        Ok(Self(outputs))
    }

    /// The text goes to the standard output unless another format was sent there.
    pub(super) fn write(self, report: &Report, text: &Text) -> anyhow::Result<()> {
        let mut text_wanted = true;
        for (output, format) in self.0 {
            text_wanted &= !output.is_stdout();
            output.write(&format.export(report)?)?;
        }
        if text_wanted {
            output::print(&text.export(report)?)?;
        }
        Ok(())
    }
}
