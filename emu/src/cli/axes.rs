//! `mmuscope axes`: what a scenario offers.

use mmuscope_emu::experiment::grammar::size_text;
use mmuscope_emu::experiment::{axes_of, find_scenario};
use mmuscope_guest::{Axis, AxisKind};

use super::{Exit, output};

/// Arguments of `axes`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The scenario; without it, every scenario is named
    name: Option<String>,
}

/// Prints the axes of a scenario, or the scenarios.
pub fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let mut text = String::new();
    match &arguments.name {
        None => {
            for scenario in mmuscope_guest::scenario::ALL {
                text.push_str(&format!("{:<12} {}\n", scenario.name, scenario.about));
            }
        }
        Some(name) => {
            let scenario = find_scenario(name)?;
            text.push_str(&format!("{}: {}\n", scenario.name, scenario.about));
            for axis in axes_of(scenario) {
                describe(&mut text, axis);
            }
        }
    }
    output::print(text.as_bytes())?;
    Ok(Exit::Fine)
}

fn describe(text: &mut String, axis: &Axis) {
    let only = axis.arch.map(|it| format!(", {} only", it.name()));
    text.push_str(&format!(
        "\n{}: {}{}\n",
        axis.key,
        axis.about,
        only.unwrap_or_default()
    ));
    match axis.kind {
        AxisKind::Choice(choices) => {
            for (value, about) in choices {
                let default = if *value == axis.default {
                    " (default)"
                } else {
                    ""
                };
                text.push_str(&format!("  {value:<20} {about}{default}\n"));
            }
        }
        AxisKind::Size { min, max, unit } => text.push_str(&format!(
            "  {} to {} in steps of {} (default {})\n",
            size_text(min),
            size_text(max),
            size_text(unit),
            axis.default
        )),
        AxisKind::Count { min, max } => {
            text.push_str(&format!("  {min} to {max} (default {})\n", axis.default));
        }
    }
}
