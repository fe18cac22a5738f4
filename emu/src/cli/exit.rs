//! Exit codes.

use std::process::{ExitCode, Termination};

/// How the program ends.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Everything asked for was done. Code 0.
    Fine,
    /// A check failed, a guest did not come to its end, or a result could not be written. Code 1.
    Failed,
    /// The arguments or a file they name cannot be used. Code 2.
    BadInput,
    /// A variant lost data or used a stale translation. Code 3.
    Unsafe,
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(match self {
            Self::Fine => 0,
            Self::Failed => 1,
            Self::BadInput => 2,
            Self::Unsafe => 3,
        })
    }
}

/// Marks an error that is not the fault of the input; see [`Exit::of`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Internal(pub String);

impl Exit {
    /// The exit code of an error: bad input, unless it is marked as [`Internal`].
    pub fn of(error: &anyhow::Error) -> Self {
        if error.chain().any(|it| it.is::<Internal>()) {
            Self::Failed
        } else {
            Self::BadInput
        }
    }
}

/// Help and version are no errors; of an error only its first paragraph is printed, on one line.
pub fn from_clap(error: &clap::Error) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Fine;
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return Exit::BadInput;
    }
    let text = error.to_string();
    let words = text.split("\n\nUsage:").next().unwrap_or(&text);
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    let line = line
        .strip_suffix("For more information, try '--help'.")
        .unwrap_or(line);
    let _ = std::io::Write::write_fmt(
        &mut std::io::stderr(),
        format_args!("mmuscope: {}; try `mmuscope --help`\n", line.trim_end()),
    );
    Exit::BadInput
}
