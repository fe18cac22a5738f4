//! `mmuscope run`: a guest program of one's own.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use mmuscope_emu::experiment::{Experiment, execute, machines};

use super::Exit;
use super::compare::{Common, run_and_write};

/// Arguments of `run`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A static 64-bit ELF file for the guest ABI (docs/guest-abi.md)
    program: PathBuf,
    /// cpus, ram and features of the machine, and parameters of the program's own
    #[arg(value_name = "KEY=VALUE[,VALUE..]")]
    words: Vec<String>,
    /// CPUs of the machine; the same as cpus=N
    #[arg(long, value_name = "N[,N..]")]
    cpus: Option<String>,
    #[command(flatten)]
    common: Common,
}

/// Runs the program and writes the report.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let path = arguments.program.display();
    let elf = fs::read(&arguments.program).with_context(|| format!("guest program `{path}`"))?;
    let arch = execute::arch_of_program(&elf).with_context(|| format!("guest program `{path}`"))?;
    let machines = machines::select(&arguments.common.on, &arguments.common.set)?;
    let mut words = arguments.words.clone();
    words.extend(arguments.cpus.iter().map(|it| format!("cpus={it}")));
    let name = arguments.program.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let experiment = Experiment::program(&name, &elf, arch, &words, machines)?;
    run_and_write(&experiment, &arguments.common)
}
