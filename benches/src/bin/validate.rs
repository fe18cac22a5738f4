//! `make validate`: mremap and the pointer chase on this host, beside the simulation of the same
//! with the profile of this machine.

use std::fs;
use std::io::Write as _;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::Parser;
use mmuscope_benches::native::host;
use mmuscope_benches::validate;
use mmuscope_emu::experiment::grammar::parse_size;
use mmuscope_emu::experiment::machines;

/// The least footprint of the chase in bytes.
const LEAST: u64 = 64 << 10;

/// Do mremap and the pointer chase on this host and by the model, and print both.
#[derive(Debug, Parser)]
#[command(name = "validate", max_term_width = 100)]
struct Arguments {
    /// The profile of this machine [default: by /proc/cpuinfo]
    #[arg(long, value_name = "PROFILE")]
    on: Option<String>,
    /// Change one figure of the profile: path=value
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// How much memory mremap moves
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = size)]
    size: u64,
    /// How often it is moved
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: usize,
    /// The greatest footprint of the chase; the least is 64K
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = footprint)]
    footprint: u64,
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).filter(|it| *it >= 4096 && it.is_multiple_of(4096));
    bytes.ok_or_else(|| "expected whole pages of 4K, such as 64K or 1G".to_owned())
}

fn footprint(text: &str) -> Result<u64, String> {
    let bytes = size(text).ok().filter(|it| *it >= LEAST);
    bytes.ok_or_else(|| "expected at least 64K in whole pages, such as 64K or 1G".to_owned())
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() => return refused(first_paragraph(&error.to_string())),
        // Help.
        Err(error) => {
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => refused(format!("{error:#}")),
    }
}

fn refused(message: String) -> ExitCode {
    // Nothing is left to be told if stderr is closed.
    let _ = writeln!(std::io::stderr(), "validate: {message}");
    ExitCode::from(2)
}

/// What is wrong, on one line, without the usage that follows it.
fn first_paragraph(text: &str) -> String {
    let text = text.split("\n\n").next().unwrap_or(text);
    let text = text.strip_prefix("error: ").unwrap_or(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    const CPUINFO: &str = "/proc/cpuinfo";
    let cpu = fs::read_to_string(CPUINFO).with_context(|| format!("`{CPUINFO}`"))?;
    let name = host::name_of(&cpu);
    let profile = match &arguments.on {
        Some(named) => named.clone(),
        None => host::profile_of(&cpu)
            .ok_or_else(|| anyhow!("no profile is of `{name}`: name the closest with --on"))?
            .to_owned(),
    };
    let selected = machines::select(std::slice::from_ref(&profile), &arguments.set)?;
    let machine = &selected[0];
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{name}, simulated as {profile} (hash {:016x})\n",
        machine.profile.hash()
    )?;
    let bytes = usize::try_from(arguments.size)?;
    let moves = validate::moves(machine, bytes, arguments.rounds.max(1))?;
    writeln!(out, "{}", validate::table(&moves))?;
    let chases = validate::chases(machine, LEAST, arguments.footprint)?;
    writeln!(out, "{}", validate::table(&chases))?;
    Ok(())
}
