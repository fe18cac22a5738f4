//! `mmuscope ptdump`: a whole address space.

use std::fmt::Write as _;
use std::path::PathBuf;

use mmuscope_emu::inspect::{self, ArchName};
use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::explain::{self, Dump, Limits, Range};
use mmuscope_models::x86::X86_64;
use serde::Serialize;

use super::output::Output;
use super::{Exit, facts, image, output, ptdump_page};

const EXAMPLES: &str = "\
Examples:
  mmuscope ptdump --image munmap64.trc.zst
  mmuscope ptdump --image vmcore --html tables.html";

/// Arguments of `ptdump`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(flatten)]
    image: image::Arguments,
    /// Stop after this many ranges
    #[arg(long, default_value_t = 100_000)]
    ranges: usize,
    /// List this many findings; the rest is counted
    #[arg(long, default_value_t = 1000)]
    findings: usize,
    /// Draw the address space in a page that needs no other file; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A dump, and what it rests on.
#[derive(Serialize)]
pub struct Answer {
    /// The image.
    pub image: String,
    /// Its architecture.
    pub arch: &'static str,
    /// Registers that neither the image nor an option gave.
    pub assumed: Vec<String>,
    /// The dump.
    #[serde(flatten)]
    pub dump: Dump,
}

/// Dumps and prints.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let page = arguments.html.as_deref();
    let page = page.map(|it| Output::prepare("--html", it)).transpose()?;
    let opened = arguments.image.open()?;
    let limits = Limits {
        ranges: arguments.ranges,
        findings: arguments.findings,
    };
    let image = &opened.image;
    let (assumed, dump) = match opened.arch {
        ArchName::Aarch64 => {
            let known = inspect::aarch64(&opened.given, None)?;
            let dump = explain::dump::<Aarch64, _>(&known.context, image, limits);
            (known.assumed, dump)
        }
        ArchName::X86_64 => {
            let known = inspect::x86_64(&opened.given)?;
            let dump = explain::dump::<X86_64, _>(&known.context, image, limits);
            (known.assumed, dump)
        }
    };
    let name = arguments.image.image.file_name().unwrap_or_default();
    let answer = Answer {
        image: name.to_string_lossy().into_owned(),
        arch: opened.arch.name(),
        assumed,
        dump,
    };
    let text_wanted = page.as_ref().is_none_or(|it| !it.is_stdout());
    if let Some(page) = page {
        page.write(ptdump_page::page(&answer).as_bytes())?;
    }
    if arguments.json {
        facts::json(&answer)?;
    } else if text_wanted {
        output::print(text(&answer).as_bytes())?;
    }
    Ok(Exit::Fine)
}

/// Bytes with a binary unit, exact.
pub fn bytes(count: u64) -> String {
    let units = [
        (1_u64 << 40, "T"),
        (1 << 30, "G"),
        (1 << 20, "M"),
        (1 << 10, "K"),
    ];
    let unit = units
        .iter()
        .find(|(unit, _)| count >= *unit && count.is_multiple_of(*unit));
    unit.map_or_else(
        || count.to_string(),
        |(unit, name)| format!("{}{name}", count / unit),
    )
}

/// The leaves of a range: `L3 4K x16`, with the group if they form one.
pub fn leaves(it: &Range) -> String {
    let group = it
        .group
        .map_or_else(String::new, |size| format!(" in {}", bytes(size)));
    format!("L{} {}{group}", it.level, bytes(it.page))
}

fn text(answer: &Answer) -> String {
    let dump = &answer.dump;
    let mut text = format!("{} ({})\n", answer.image, answer.arch);
    if !answer.assumed.is_empty() {
        let _ = writeln!(text, "assumed: {}", answer.assumed.join(", "));
    }
    let _ = writeln!(
        text,
        "\n{:<18}  {:<18}  {:>7}  {:<14}  user  kernel  attributes",
        "from", "to physical", "size", "leaves"
    );
    for it in &dump.ranges {
        let _ = writeln!(
            text,
            "{:#018x}  {:#018x}  {:>7}  {:<14}  {:<4}  {:<6}  {}",
            it.va,
            it.pa,
            bytes(it.bytes),
            leaves(it),
            it.user,
            it.supervisor,
            it.attributes
        );
    }
    if dump.truncated {
        let _ = writeln!(
            text,
            "cut short after {} ranges: --ranges lists more",
            dump.ranges.len()
        );
    }
    let _ = writeln!(
        text,
        "\n{} ranges in {} tables, {} findings",
        dump.ranges.len(),
        dump.tables,
        dump.findings_total
    );
    for it in &dump.findings {
        let _ = writeln!(text, "{:#018x}  {:<19}  {}", it.va, it.kind, it.text);
    }
    let listed = dump.findings.len() as u64;
    if dump.findings_total > listed {
        let _ = writeln!(
            text,
            "and {} more: --findings lists them",
            dump.findings_total - listed
        );
    }
    text
}
