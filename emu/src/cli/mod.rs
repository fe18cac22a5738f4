//! The command line: arguments, commands, exit codes. What a command does beyond reading
//! arguments and writing files is the library's.

mod axes;
mod compare;
mod curve;
mod exit;
mod output;
mod profile;
mod progress;
mod run;

use std::io::Write as _;

use clap::{Parser, Subcommand};

pub use exit::Exit;

const EXAMPLES: &str = "\
Examples:
  mmuscope compare mremap level=pte,pmd,pud size=1G src=pud dst=pud --on cortex-a76,skylake-sp
  mmuscope compare mremap level=pmd flush=extent,end --on cortex-a76 --base flush=end --long
  mmuscope axes mremap
  mmuscope run guest.elf cpus=8 --on cortex-a76 --json -
  mmuscope curve --on cortex-a76,zen3-guest --html curves.html
  mmuscope profile show cortex-a76

Exit codes: 0 fine, 1 a check failed, 2 bad input, 3 a variant is unsafe.";

/// Count what memory-management code makes the MMU do, and what it costs.
///
/// Guest code runs in an emulator, every access goes through a model of the MMU, and the report
/// says what happened: walks, TLB invalidations, table stores, IPIs, cycles.
#[derive(Debug, Parser)]
#[command(name = "mmuscope", version, after_help = EXAMPLES, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario at every combination of axis values, and compare the runs
    Compare(compare::Arguments),
    /// List the axes of a scenario with their values and defaults
    Axes(axes::Arguments),
    /// Run a guest program of your own
    Run(run::Arguments),
    /// Draw access latency against footprint
    Curve(curve::Arguments),
    /// Look at the machine profiles
    Profile(profile::Arguments),
}

/// Reads the arguments and does what they ask. Errors are printed, one line each.
pub fn main() -> Exit {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return exit::from_clap(&error),
    };
    let done = match arguments.command {
        Command::Compare(it) => compare::run(&it),
        Command::Axes(it) => axes::run(&it),
        Command::Run(it) => run::run(&it),
        Command::Curve(it) => curve::run(&it),
        Command::Profile(it) => profile::run(&it),
    };
    done.unwrap_or_else(|error| {
        // Nothing is left to be told if stderr is closed.
        let _ = writeln!(std::io::stderr(), "mmuscope: {error:#}");
        Exit::of(&error)
    })
}
