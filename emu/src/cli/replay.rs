//! `mmuscope replay`: recordings of real kernels on modelled machines.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::bail;
use mmuscope_emu::experiment::machines;
use mmuscope_emu::replay::{self, Options, Plan};
use mmuscope_models::system::TranslationMode;

use super::compare::{Common, Outputs, verdict};
use super::{Exit, progress};

const EXAMPLES: &str = "\
Examples:
  mmuscope replay munmap64.trc.zst --on neoverse-n1,neoverse-v2
  mmuscope replay never.munmap64.trc.zst 64K.munmap64.trc.zst --on neoverse-n1 --base never
  mmuscope replay fork4M.trc.zst --on cortex-a76 --hoarder --json -";

/// Arguments of `replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// Recordings of system calls of real kernels (docs/recordings.md), plain or compressed
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// The recording that the others are compared with, by the name the table gives it; default:
    /// the first, if all are of the same system call
    #[arg(long, value_name = "NAME")]
    base: Option<String>,
    /// Let no second-level TLB evict anything: a stale translation that any machine could use is
    /// then used
    #[arg(long)]
    hoarder: bool,
    #[command(flatten)]
    common: Common,
}

/// Replays every recording on every machine of its architecture, and writes the report.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let common = &arguments.common;
    if common.seed.is_some() || common.seeds.is_some() {
        bail!("--seed: the phases of a recording are what they were: expected no seed");
    }
    let options = common.options()?;
    let options = Options {
        jobs: common.jobs.map(NonZeroUsize::get),
        timing: options.timing,
        mode: if arguments.hoarder {
            TranslationMode::Hoarder
        } else {
            TranslationMode::Modelled
        },
        base: arguments.base.clone(),
    };
    let machines = machines::select(&common.on, &common.set)?;
    let outputs = Outputs::prepare(common)?;
    let traces = replay::open(&arguments.traces)?;
    let plan = Plan::new(&traces, &machines)?;
    let bar = progress::bar(plan.runs());
    let report = plan.run(&options, &|| bar.inc(1))?;
    bar.finish_and_clear();
    outputs.write(&report, &common.text())?;
    Ok(verdict(&report))
}
