//! `mmuscope profile`: what the machines are made of.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use mmuscope_emu::experiment::machines;
use mmuscope_models::profile::{Constant, Profile, Quality};

use super::exit::Internal;
use super::{Exit, output};

/// Arguments of `profile`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Name the built-in profiles
    List {
        /// Count the figures of each quality
        #[arg(long)]
        long: bool,
    },
    /// Print every figure of a profile with its quality and source
    Show {
        /// A built-in profile or the path of a .toml file
        name: String,
        /// Change one figure first: path=value
        #[arg(long, value_name = "PATH=VALUE")]
        set: Vec<String>,
        /// Print the profile as the TOML text of a profile file
        #[arg(long)]
        toml: bool,
    },
    /// Print the figures in which two profiles differ
    Diff {
        /// A built-in profile or the path of a .toml file
        left: String,
        /// Another one
        right: String,
    },
    /// Write a profile file to begin with: another profile, every figure of it as a comment
    New {
        /// The name of the new profile: lower-case letters, digits, `-` and `.`
        name: String,
        /// The built-in profile that it extends
        #[arg(long, value_name = "PROFILE", default_value = "cortex-a76")]
        from: String,
        /// Where it goes; `-` is the standard output [default: NAME.toml]
        file: Option<PathBuf>,
    },
    /// Check profile files
    Check {
        /// Built-in profiles or paths of .toml files; default: every built-in profile
        names: Vec<String>,
    },
}

/// Does what the subcommand says.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let text = match &arguments.command {
        Command::List { long } => list(*long)?,
        Command::Show { name, set, toml } => {
            let selected = machines::select(std::slice::from_ref(name), set)?;
            let profile = &selected[0].profile;
            if *toml {
                profile.to_toml()
            } else {
                show(profile)
            }
        }
        Command::Diff { left, right } => diff(&machines::find(left)?, &machines::find(right)?),
        Command::New { name, from, file } => new(name, from, file.as_deref())?,
        Command::Check { names } => check(names)?,
    };
    output::print(text.as_bytes())?;
    Ok(Exit::Fine)
}

fn list(long: bool) -> anyhow::Result<String> {
    let mut text = String::new();
    let names = Profile::names();
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0);
    if long {
        let _ = write!(text, "{:<width$}  figures", "");
        for quality in Quality::ALL {
            let _ = write!(text, "  {quality:>9}");
        }
        text.push('\n');
    }
    for name in names {
        let profile = machines::find(name)?;
        if long {
            let figures = profile.constants();
            let _ = write!(text, "{name:<width$}  {:>7}", figures.len());
            for quality in Quality::ALL {
                let count = figures.iter().filter(|it| it.quality == quality).count();
                let _ = write!(text, "  {count:>9}");
            }
            text.push('\n');
            continue;
        }
        let (arch, about) = (profile.arch(), profile.about());
        let _ = writeln!(text, "{name:<width$}  {arch:<8} {about}");
    }
    Ok(text)
}

fn heading(profile: &Profile) -> String {
    format!(
        "{} ({}, {} GHz, {} CPUs): {}\nhash {:016x}\n",
        profile.name(),
        profile.arch(),
        profile.ghz(),
        profile.cpus(),
        profile.about(),
        profile.hash()
    )
}

fn show(profile: &Profile) -> String {
    let mut text = heading(profile);
    text.push('\n');
    let figures = profile.constants();
    let width = |of: &dyn Fn(&Constant) -> usize| figures.iter().map(of).max().unwrap_or(0);
    let keys = width(&|it| it.key.len());
    let values = width(&|it| it.value.len());
    for it in &figures {
        let quality = it.quality.to_string();
        let _ = writeln!(
            text,
            "{:<keys$}  {:>values$}  {quality:<9}  {}",
            it.key, it.value, it.source
        );
    }
    text.push('\n');
    let settings = profile.settings();
    let keys = settings.iter().map(|it| it.0.len()).max().unwrap_or(0);
    for (key, value) in settings {
        let _ = writeln!(text, "{key:<keys$}  {value}");
    }
    text
}

fn diff(left: &Profile, right: &Profile) -> String {
    let mut figures: BTreeMap<String, [Option<String>; 2]> = BTreeMap::new();
    for (side, profile) in [left, right].into_iter().enumerate() {
        let constants = profile.constants().into_iter();
        let constants = constants.map(|it| (it.key, it.value));
        for (key, value) in constants.chain(profile.settings()) {
            figures.entry(key).or_default()[side] = Some(value);
        }
    }
    figures.retain(|_, [left, right]| left != right);
    let keys = figures.keys().map(String::len).max().unwrap_or(0);
    let values = figures.values().filter_map(|it| it[0].as_ref());
    let values = values.map(String::len).max().unwrap_or(0);
    let column = left.name().len().max(values).max(12);
    let mut text = format!(
        "{:<keys$}  {:>column$}  {}\n",
        "",
        left.name(),
        right.name()
    );
    for (key, [left, right]) in figures {
        let [left, right] = [left, right].map(|it| it.unwrap_or_else(|| "-".to_owned()));
        let _ = writeln!(text, "{key:<keys$}  {left:>column$}  {right}");
    }
    text
}

/// Writes the skeleton of a profile and says where; never over a file that exists.
fn new(name: &str, parent: &str, file: Option<&Path>) -> anyhow::Result<String> {
    // An unknown parent gets the same message as everywhere.
    machines::find(parent)?;
    let text = Profile::skeleton(name, parent)?;
    let default = PathBuf::from(format!("{name}.toml"));
    let path = file.unwrap_or(&default);
    if path == Path::new("-") {
        return Ok(text);
    }
    let place = path.display();
    let created = fs::File::create_new(path);
    let mut created = created.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            anyhow!("`{place}` exists already: expected a new file, such as FILE behind the name")
        }
        _ => anyhow!("`{place}` cannot be created: {error}"),
    })?;
    created
        .write_all(text.as_bytes())
        .map_err(|error| Internal(format!("`{place}` cannot be written: {error}")))?;
    Ok(format!(
        "{place}: written; it is {parent} until lines are changed\n"
    ))
}

fn check(names: &[String]) -> anyhow::Result<String> {
    let built_in = Profile::names().into_iter().map(str::to_owned);
    let names = if names.is_empty() {
        built_in.collect()
    } else {
        names.to_vec()
    };
    let mut text = String::new();
    for name in names {
        let profile = machines::find(&name)?;
        let _ = writeln!(
            text,
            "{name}: fine, {} figures, hash {:016x}",
            profile.constants().len(),
            profile.hash()
        );
    }
    Ok(text)
}
