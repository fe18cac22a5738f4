//! `mmuscope walk`: a table walk, explained.

use std::fmt::Write as _;

use anyhow::bail;
use mmuscope_emu::inspect::{self, ArchName};
use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::addr::Va;
use mmuscope_models::explain::{self, Outcome, Walked};
use mmuscope_models::x86::X86_64;
use serde::Serialize;

use super::{Exit, facts, image, output};

const EXAMPLES: &str = "\
Examples:
  mmuscope walk 0xffff80001000 --image memory.bin --base 0x40000000 --arch aarch64 \\
      --ttbr0 0x40001000 --tcr 0x5b5503510
  mmuscope walk 0x7f0000001000 --image vmcore --cr3 0x4062000
  mmuscope walk 0xffff9a600000 --image munmap64.trc.zst --at 1000";

/// Arguments of `walk`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The virtual address
    #[arg(value_parser = facts::number)]
    va: u64,
    #[command(flatten)]
    image: image::Arguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    arch: &'static str,
    /// Registers that neither the image nor an option gave.
    assumed: Vec<String>,
    #[serde(flatten)]
    walk: Walked,
}

/// Walks and prints.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let opened = arguments.image.open()?;
    let (va, image) = (Va::new(arguments.va), &opened.image);
    let (assumed, walk) = match opened.arch {
        ArchName::Aarch64 => {
            let known = inspect::aarch64(&opened.given, Some(va))?;
            (
                known.assumed,
                explain::walk::<Aarch64, _>(&known.context, va, image),
            )
        }
        ArchName::X86_64 => {
            let known = inspect::x86_64(&opened.given)?;
            (
                known.assumed,
                explain::walk::<X86_64, _>(&known.context, va, image),
            )
        }
    };
    if let Some(pa) = image.missed() {
        bail!(
            "`{}`: the descriptor at {:#x}, read {}, is not in the image: it holds {}",
            arguments.image.image.display(),
            pa.raw(),
            after(&walk),
            image.extent()
        );
    }
    let answer = Answer {
        arch: opened.arch.name(),
        assumed,
        walk,
    };
    if arguments.json {
        facts::json(&answer)?;
    } else {
        output::print(text(&answer).as_bytes())?;
    }
    Ok(Exit::Fine)
}

/// Where in the walk something was missing.
fn after(walk: &Walked) -> String {
    walk.steps.last().map_or_else(
        || "at the root".to_owned(),
        |it| format!("after {:#x} at {:#x} (level {})", it.raw, it.at, it.level),
    )
}

fn text(answer: &Answer) -> String {
    let walk = &answer.walk;
    let mut text = format!("{:#018x} on {}\n", walk.va, answer.arch);
    for it in &walk.registers {
        let _ = writeln!(text, "\n{} = {:#x}", it.name, it.value);
        facts::fields(&mut text, &it.fields, 2);
    }
    if !answer.assumed.is_empty() {
        let _ = writeln!(text, "\nassumed: {}", answer.assumed.join(", "));
    }
    for it in &walk.steps {
        let _ = writeln!(
            text,
            "\n{}: address bits {}:{} = {} -> {:#018x} holds {:#018x}",
            it.table, it.index_high, it.index_low, it.index, it.at, it.raw
        );
        facts::fields(&mut text, &it.fields, 2);
        if it.next.is_some() {
            let _ = writeln!(text, "  taken away so far: {}", it.taken_away);
        }
    }
    text.push('\n');
    if let Some(leaf) = &walk.leaf {
        let _ = writeln!(text, "{leaf}");
    }
    for it in &walk.outcomes {
        outcome(&mut text, it);
    }
    text
}

fn outcome(text: &mut String, it: &Outcome) {
    let _ = write!(text, "{:<10} {:<7}  ", it.privilege, it.access);
    if let Some(pa) = it.pa {
        let _ = writeln!(text, "{pa:#018x}");
    }
    if let (Some(fault), Some(reported)) = (&it.fault, &it.reported) {
        let _ = writeln!(text, "{fault}: {reported}");
    }
    for (at, old, new) in &it.updates {
        let _ = writeln!(
            text,
            "{:<20}hardware writes {new:#x} over {old:#x} at {at:#x}",
            ""
        );
    }
}
