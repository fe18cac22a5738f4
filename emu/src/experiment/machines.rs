//! Which machines an experiment runs on: profiles by name or file, with overrides.

use std::fs;
use std::path::Path;

use mmuscope_models::profile::{Profile, ProfileError};
use thiserror::Error;

use super::grammar::suggest;
use super::profile_file;

/// A profile with what the command line changed in it.
#[derive(Clone, Debug)]
pub struct Selected {
    /// The profile, overrides applied.
    pub profile: Profile,
    /// The overrides that it took, as `path=value`.
    pub overrides: Vec<String>,
}

/// Why machines could not be selected. Each prints as one line.
#[derive(Debug, Error)]
pub enum MachineError {
    /// Neither a built-in profile nor a file.
    #[error(
        "unknown profile `{name}`: expected {} or the path of a .toml file{}",
        Profile::names().join(", "), super::grammar::hint(.suggestion.as_deref())
    )]
    Unknown {
        /// The name as given.
        name: String,
        /// The name that was probably meant.
        suggestion: Option<String>,
    },
    /// A profile file that cannot be read.
    #[error("profile file `{path}`: {error}")]
    File {
        /// The path.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// A profile file that holds no usable profile.
    #[error(
        "profile file `{path}`{}: {error}{}",
        line.map_or_else(String::new, |line| format!(", line {line}")),
        super::grammar::hint(.suggestion.as_deref())
    )]
    Content {
        /// The path.
        path: String,
        /// The line that is wrong, if it is in this file.
        line: Option<usize>,
        /// What is wrong with it.
        error: Box<ProfileError>,
        /// The word that was probably meant.
        suggestion: Option<String>,
    },
    /// Two machines of one name: reports could not tell them apart.
    #[error("profile `{name}` is given twice")]
    Twice {
        /// The name.
        name: String,
    },
    /// An override without a value.
    #[error("--set: `{word}` is not an override: expected path=value, such as clock.ghz=2.5")]
    NotAnOverride {
        /// The word as given.
        word: String,
    },
    /// An override that no selected profile has.
    #[error("--set: no value `{path}` in {profiles}{}", super::grammar::hint(.suggestion.as_deref()))]
    UnknownPath {
        /// The path as given.
        path: String,
        /// The selected profiles.
        profiles: String,
        /// The path that was probably meant.
        suggestion: Option<String>,
    },
    /// The profile is not usable, or not with an override.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

/// The profile called `name`: a built-in one, or a file if the name has a `/` or ends in `.toml`.
///
/// # Errors
/// There is none, or its text is not a profile.
pub fn find(name: &str) -> Result<Profile, MachineError> {
    let is_path = name.contains('/')
        || Path::new(name)
            .extension()
            .is_some_and(|it| it.eq_ignore_ascii_case("toml"));
    if is_path {
        let text = fs::read_to_string(name).map_err(|error| MachineError::File {
            path: name.to_owned(),
            error,
        })?;
        return Profile::parse(&text).map_err(|error| MachineError::Content {
            path: name.to_owned(),
            line: error
                .key()
                .and_then(|key| profile_file::line_of(&text, key)),
            suggestion: profile_file::meant(&error),
            error: Box::new(error),
        });
    }
    Profile::builtin(name).map_err(|error| match error {
        ProfileError::UnknownName { .. } => MachineError::Unknown {
            name: name.to_owned(),
            suggestion: suggest(name, Profile::names()).map(str::to_owned),
        },
        other => other.into(),
    })
}

/// The machines called `names`, with `overrides` (`path=value`) applied to each that has the path.
///
/// # Errors
/// A name that is unknown or given twice; an override that no machine has, or that makes a
/// profile implausible.
pub fn select(names: &[String], overrides: &[String]) -> Result<Vec<Selected>, MachineError> {
    let mut selected: Vec<Selected> = Vec::new();
    for name in names {
        let profile = find(name)?;
        if selected
            .iter()
            .any(|it| it.profile.name() == profile.name())
        {
            return Err(MachineError::Twice {
                name: profile.name().to_owned(),
            });
        }
        selected.push(Selected {
            profile,
            overrides: Vec::new(),
        });
    }
    for word in overrides {
        set(&mut selected, word)?;
    }
    Ok(selected)
}

fn set(selected: &mut [Selected], word: &str) -> Result<(), MachineError> {
    let Some((path, value)) = word.split_once('=') else {
        return Err(MachineError::NotAnOverride {
            word: word.to_owned(),
        });
    };
    let mut taken = false;
    for machine in &mut *selected {
        match machine.profile.set(path, value) {
            Ok(()) => {
                machine.overrides.push(word.to_owned());
                taken = true;
            }
            Err(ProfileError::UnknownKey { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if taken {
        return Ok(());
    }
    let names: Vec<_> = selected.iter().map(|it| it.profile.name()).collect();
    let keys = selected.iter().flat_map(|it| it.profile.constants());
    let keys: Vec<_> = keys.map(|it| it.key).collect();
    Err(MachineError::UnknownPath {
        path: path.to_owned(),
        profiles: names.join(", "),
        suggestion: suggest(path, keys.iter().map(String::as_str)).map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|&it| it.to_owned()).collect()
    }

    fn refusal(names: &[&str], overrides: &[&str]) -> String {
        let error = select(&words(names), &words(overrides)).unwrap_err();
        error.to_string()
    }

    #[test]
    fn a_slip_in_a_profile_name_gets_a_suggestion() {
        let message = refusal(&["cortex-a67"], &[]);
        assert!(message.starts_with("unknown profile `cortex-a67`: expected apple-m1, "));
        assert!(message.ends_with("did you mean `cortex-a76`?"), "{message}");
    }

    #[test]
    fn an_override_reaches_the_machines_that_have_the_path() {
        let names = words(&["cortex-a76", "skylake-sp"]);
        let machines = select(&names, &words(&["cost.cycles.invlpg=90", "clock.ghz=1"])).unwrap();
        assert_eq!(machines[0].overrides, ["clock.ghz=1"]);
        assert_eq!(
            machines[1].overrides,
            ["cost.cycles.invlpg=90", "clock.ghz=1"]
        );
        let plain = Profile::builtin("cortex-a76").unwrap();
        assert_ne!(machines[0].profile.hash(), plain.hash());
    }

    #[test]
    fn bad_selections_are_refused() {
        let twice = refusal(&["cortex-a76", "cortex-a76"], &[]);
        assert_eq!(twice, "profile `cortex-a76` is given twice");
        let missing = refusal(&["./none.toml"], &[]);
        assert!(
            missing.starts_with("profile file `./none.toml`: "),
            "{missing}"
        );
        let word = refusal(&["cortex-a76"], &["clock.ghz"]);
        assert!(word.contains("is not an override"), "{word}");
        let path = refusal(&["cortex-a76"], &["clock.gzh=2"]);
        assert!(path.ends_with("did you mean `clock.ghz`?"), "{path}");
        let zero = refusal(&["cortex-a76"], &["clock.ghz=0"]);
        assert!(zero.contains("`clock.ghz` is 0"), "{zero}");
    }
}
