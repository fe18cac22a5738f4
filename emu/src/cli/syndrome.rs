//! `mmuscope esr` and `mmuscope pf`: fault syndromes in words.

use mmuscope_models::explain;

use super::{Exit, facts, output};

const ESR_EXAMPLES: &str = "\
Examples:
  mmuscope esr 0x9600004f
  mmuscope esr 0x82000006 --json";

const PF_EXAMPLES: &str = "\
Examples:
  mmuscope pf 0x7
  mmuscope pf 0x11 --cr2 0x7f0000001000";

/// Arguments of `esr`.
#[derive(Debug, clap::Args)]
#[command(after_help = ESR_EXAMPLES)]
pub struct Esr {
    /// ESR_EL1, ESR_EL2 or ESR_EL3
    #[arg(value_parser = facts::number)]
    value: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `pf`.
#[derive(Debug, clap::Args)]
#[command(after_help = PF_EXAMPLES)]
pub struct PageFault {
    /// The error code
    #[arg(value_parser = facts::number32)]
    code: u32,
    /// CR2: the address that faulted
    #[arg(long, value_name = "VA", value_parser = facts::number)]
    cr2: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Explains an AArch64 syndrome.
pub fn esr(arguments: &Esr) -> anyhow::Result<Exit> {
    let it = explain::esr(arguments.value);
    print(&it, arguments.json)
}

/// Explains an x86 error code.
pub fn page_fault(arguments: &PageFault) -> anyhow::Result<Exit> {
    let it = explain::page_fault(arguments.code, arguments.cr2);
    print(&it, arguments.json)
}

fn print(it: &explain::Explanation, json: bool) -> anyhow::Result<Exit> {
    if json {
        facts::json(it)?;
    } else {
        output::print(facts::explanation(it, 8).as_bytes())?;
    }
    Ok(Exit::Fine)
}
