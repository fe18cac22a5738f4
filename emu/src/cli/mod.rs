//! The command line: arguments, commands, exit codes. What a command does beyond reading
//! arguments and writing files is the library's.

mod axes;
mod compare;
mod curve;
mod exit;
mod facts;
mod image;
mod output;
mod profile;
mod progress;
mod ptdump;
mod ptdump_page;
mod replay;
mod run;
mod syndrome;
mod tlbi;
mod walk;

use std::io::Write as _;

use clap::{Parser, Subcommand};

pub use exit::Exit;

const EXAMPLES: &str = "\
Examples:
  mmuscope compare mremap level=pte,pmd,pud size=1G src=pud dst=pud --on cortex-a76,skylake-sp
  mmuscope compare mremap level=pmd flush=extent,end --on cortex-a76 --base flush=end --long
  mmuscope axes mremap
  mmuscope run guest.elf cpus=8 --on cortex-a76 --json -
  mmuscope replay munmap64.trc.zst --on neoverse-n1,neoverse-v2
  mmuscope curve --on cortex-a76,zen3-guest --html curves.html
  mmuscope profile show cortex-a76
  mmuscope walk 0xffff9a600000 --image munmap64.trc.zst
  mmuscope esr 0x9600004f
  mmuscope tlbi vale1is --va 0xffff0000 --asid 7

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
    /// Replay recordings of real kernels on modelled machines
    Replay(replay::Arguments),
    /// Draw access latency against footprint
    Curve(curve::Arguments),
    /// Look at the machine profiles
    Profile(profile::Arguments),
    /// Explain a table walk in a memory image, step by step
    Walk(walk::Arguments),
    /// Print a whole address space of a memory image, and what is wrong with its tables
    Ptdump(ptdump::Arguments),
    /// Explain an AArch64 exception syndrome (ESR_ELx)
    Esr(syndrome::Esr),
    /// Explain the error code of an x86 page fault
    Pf(syndrome::PageFault),
    /// Explain or make an AArch64 TLB invalidation instruction
    Tlbi(tlbi::Arguments),
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
        Command::Replay(it) => replay::run(&it),
        Command::Curve(it) => curve::run(&it),
        Command::Profile(it) => profile::run(&it),
        Command::Walk(it) => walk::run(&it),
        Command::Ptdump(it) => ptdump::run(&it),
        Command::Esr(it) => syndrome::esr(&it),
        Command::Pf(it) => syndrome::page_fault(&it),
        Command::Tlbi(it) => tlbi::run(&it),
    };
    done.unwrap_or_else(|error| {
        // Nothing is left to be told if stderr is closed.
        let _ = writeln!(std::io::stderr(), "mmuscope: {error:#}");
        Exit::of(&error)
    })
}
