//! `mmuscope curve`: access latency against footprint.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::bail;
use mmuscope_emu::chart::{Exporter, Html, Svg};
use mmuscope_emu::curve::{self, CurveError, Curves, Request, Touch};
use mmuscope_emu::experiment::grammar::parse_size;
use mmuscope_emu::experiment::{execute, machines};

use super::exit::Internal;
use super::output::{self, Output};
use super::{Exit, progress};

/// Arguments of `curve`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Machines: names of built-in profiles or paths of .toml files
    #[arg(
        long,
        value_name = "PROFILE[,PROFILE..]",
        value_delimiter = ',',
        required = true
    )]
    on: Vec<String>,
    /// Change one figure of the profiles: path=value, such as cache.dram_ns=80
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// What is linked: one line of each 4 KiB fills TLBs up, every line fills caches up
    #[arg(long, value_enum, default_value = "page")]
    touch: Linked,
    /// The least footprint
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = size)]
    from: u64,
    /// The greatest footprint [default: 512M, or 64M with --touch line]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    to: Option<u64>,
    /// Which random ring
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the curves as JSON; `-` is the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw them into an SVG picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write a page with pictures and numbers that needs no other file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How many runs at a time [default: one a processor]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

#[derive(Copy, Clone, Debug, clap::ValueEnum)]
enum Linked {
    Page,
    Line,
}

impl From<Linked> for Touch {
    fn from(linked: Linked) -> Self {
        match linked {
            Linked::Page => Self::Page,
            Linked::Line => Self::Line,
        }
    }
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).ok_or_else(|| "expected a size such as 64K, 1536K or 2M".to_owned())
}

/// Draws the curves and writes what was asked for.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let touch = Touch::from(arguments.touch);
    let most = match touch {
        Touch::Page => 512 << 20,
        Touch::Line => 64 << 20,
    };
    let request = Request {
        machines: machines::select(&arguments.on, &arguments.set)?,
        from: arguments.from,
        to: arguments.to.unwrap_or(most),
        touch,
        seed: arguments.seed,
    };
    let bar = progress::bar(request.runs()?);
    let outputs = prepare(arguments)?;
    let jobs = arguments.jobs.map(NonZeroUsize::get);
    let curves = request.draw(jobs, &execute::run, &|| bar.inc(1));
    bar.finish_and_clear();
    let curves = curves.map_err(|error| match error {
        CurveError::Run { .. } => Internal(error.to_string()).into(),
        other => anyhow::Error::from(other),
    })?;
    write(outputs, &curves)?;
    Ok(Exit::Fine)
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Format {
    Json,
    Svg,
    Html,
}

fn prepare(arguments: &Arguments) -> anyhow::Result<Vec<(Format, Output)>> {
    let wanted = [
        (Format::Json, "--json", &arguments.json),
        (Format::Svg, "--svg", &arguments.svg),
        (Format::Html, "--html", &arguments.html),
    ];
    let mut outputs = Vec::new();
    let mut taken: Vec<(&str, &PathBuf)> = Vec::new();
    for (format, option, path) in wanted {
        let Some(path) = path else { continue };
        if let Some((first, _)) = taken.iter().find(|it| it.1 == path) {
            let path = path.display();
            bail!("{option}: `{path}` is where {first} goes: expected another file");
        }
        taken.push((option, path));
        outputs.push((format, Output::prepare(option, path)?));
    }
    Ok(outputs)
}

/// The table goes to the standard output unless another format was sent there.
fn write(outputs: Vec<(Format, Output)>, curves: &Curves) -> anyhow::Result<()> {
    let mut text_wanted = true;
    for (format, output) in outputs {
        text_wanted &= !output.is_stdout();
        let text = match format {
            Format::Json => serde_json::to_string_pretty(curves)? + "\n",
            Format::Svg => Svg.export(&curve::sheet(curves)),
            Format::Html => Html.export(&curve::sheet(curves)),
        };
        output.write(text.as_bytes())?;
    }
    if text_wanted {
        output::print(curve::text(curves).as_bytes())?;
    }
    Ok(())
}
