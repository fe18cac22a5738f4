//! Machine profiles: what a machine looks like to the models, and what its operations cost.
//!
//! A profile is a TOML text. Every number in it is a table `{ value, source, quality }`: where the
//! number comes from and how far it can be trusted ([`Quality`]). Keys carry their units; nothing
//! unknown is accepted. A profile can extend a built-in one and change only what differs:
//!
//! ```toml
//! name = "my-n1"
//! extends = "neoverse-n1"
//!
//! [topology]
//! cpus = { value = 64, source = "lscpu", quality = "read" }
//! ```
//!
//! The same values can be changed one by one ([`Profile::set`]); such a value loses its source
//! and counts as an estimate. [`Profile::hash`] identifies the values whatever way they came.

mod builtin;
mod check;
mod document;
mod features;
mod skeleton;
mod spec;

use std::fmt;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::cost::{Costs, Cycles, Operation};

pub use features::{Feature, Features};
pub use spec::{
    ArrayName, ArraySpec, Cache, CacheSpec, Clock, Cost, DvmDomain, Interconnect, Machine, Memory,
    Sourced, TableLevel, Tlb, TlbPolicy, Topology, WalkCacheSpec, WalkerPort,
};

/// What is wrong with a profile. Every message is one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProfileError {
    /// No built-in profile has this name.
    #[error("unknown profile `{name}`; known are: {known}")]
    UnknownName {
        /// The name asked for.
        name: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// The text is not TOML, or a key is missing, unknown, or of the wrong type.
    #[error("profile `{profile}`: {}{message}", place(.key))]
    Syntax {
        /// The profile's name, as far as it is known.
        profile: String,
        /// The path of what is wrong, as far as it is known.
        key: Option<String>,
        /// What is wrong.
        message: String,
    },
    /// A value is not possible.
    #[error("profile `{profile}`: `{key}` is {found}, expected {expected}")]
    Implausible {
        /// The profile's name.
        profile: String,
        /// The path of the value.
        key: String,
        /// What the profile says.
        found: String,
        /// What would be possible.
        expected: String,
    },
    /// An override names no value of the profile.
    #[error("profile `{profile}` has no value `{key}`")]
    UnknownKey {
        /// The profile's name.
        profile: String,
        /// The path asked for.
        key: String,
    },
}

fn place(key: &Option<String>) -> String {
    key.as_ref()
        .map_or_else(String::new, |key| format!("`{key}`: "))
}

impl ProfileError {
    /// The path of the value that is wrong, as far as it is known: keys joined by dots.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::UnknownName { .. } => None,
            Self::Syntax { key, .. } => key.as_deref(),
            Self::Implausible { key, .. } | Self::UnknownKey { key, .. } => Some(key),
        }
    }
}

/// How far a value can be trusted, best first.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// Read in the named document.
    Read,
    /// Measured on such a machine.
    Measured,
    /// Computed from values that were read or measured.
    Derived,
    /// Recalled from the named document and not looked up again.
    Recalled,
    /// Estimated, for the stated reason.
    Estimated,
    /// Chosen so that a published result comes out.
    Fitted,
}

impl Quality {
    /// Every quality, best first.
    pub const ALL: [Self; 6] = [
        Self::Read,
        Self::Measured,
        Self::Derived,
        Self::Recalled,
        Self::Estimated,
        Self::Fitted,
    ];

    /// How far off a value of this quality may be: it lies between itself divided and multiplied
    /// by one plus this. A stated convention for intervals, not a measurement.
    #[must_use]
    pub const fn range(self) -> f64 {
        match self {
            Self::Read => 0.0,
            Self::Measured => 0.1,
            Self::Derived => 0.15,
            Self::Recalled => 0.2,
            Self::Fitted => 0.25,
            Self::Estimated => 0.5,
        }
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Read => "read",
            Self::Measured => "measured",
            Self::Derived => "derived",
            Self::Recalled => "recalled",
            Self::Estimated => "estimated",
            Self::Fitted => "fitted",
        })
    }
}

/// One number of a profile, with its path.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Constant {
    /// Where it stands: keys joined by dots.
    pub key: String,
    /// Its value as TOML text.
    pub value: String,
    /// Where it comes from.
    pub source: String,
    /// How far it can be trusted.
    pub quality: Quality,
}

/// A checked machine profile.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// What the text says, `extends` resolved.
    document: Table,
    machine: Machine,
    costs: Costs,
}

impl Profile {
    /// The names of the built-in profiles, in the order of listings.
    #[must_use]
    pub fn names() -> Vec<&'static str> {
        builtin::PROFILES.iter().map(|(name, _)| *name).collect()
    }

    /// A built-in profile.
    ///
    /// # Errors
    /// [`ProfileError::UnknownName`].
    pub fn builtin(name: &str) -> Result<Self, ProfileError> {
        Self::parse(builtin::text(name)?)
    }

    /// Parses and checks a profile.
    ///
    /// # Errors
    /// Says what is wrong with the text, or which value is implausible.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        Self::from_document(document::resolve(text, 0)?)
    }

    /// Changes one value: `path` is its keys joined by dots (`cost.cycles.invlpg`), `value` a TOML
    /// value. For a number with a source, the value is replaced and becomes an estimate.
    ///
    /// # Errors
    /// If there is no such value, or the profile is not plausible with it; the profile is then
    /// unchanged.
    pub fn set(&mut self, path: &str, value: &str) -> Result<(), ProfileError> {
        let mut document = self.document.clone();
        let unknown = || ProfileError::UnknownKey {
            profile: self.name().to_owned(),
            key: path.to_owned(),
        };
        let place = document::find(&mut document, path).ok_or_else(unknown)?;
        let parsed = document::parse_value(value);
        match place {
            Value::Table(table) if table.contains_key("quality") => {
                let value = document::fit_type(parsed, table.get("value"));
                table.insert("value".to_owned(), value);
                table.insert("source".to_owned(), "set by the user".into());
                table.insert("quality".to_owned(), "estimated".into());
            }
            Value::Table(_) => return Err(unknown()),
            other => *other = parsed,
        }
        *self = Self::from_document(document)?;
        Ok(())
    }

    /// The text of a profile called `name` that extends the built-in profile `parent`: valid as it
    /// stands, with every figure of the parent as a comment.
    ///
    /// # Errors
    /// There is no such parent, or `name` is no name of a profile.
    pub fn skeleton(name: &str, parent: &str) -> Result<String, ProfileError> {
        let text = skeleton::skeleton(name, parent, &Self::builtin(parent)?.document);
        Self::parse(&text)?;
        Ok(text)
    }

    fn from_document(document: Table) -> Result<Self, ProfileError> {
        let name = document::name_in(&document);
        let machine: Machine = document
            .clone()
            .try_into()
            .map_err(|error| document::syntax(&name, &error))?;
        check::sources(&name, &document::constants(&document))?;
        check::check(&machine)?;
        let costs = resolve_costs(&machine);
        Ok(Self {
            document,
            machine,
            costs,
        })
    }

    /// The name, as in `--on NAME`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.machine.name
    }

    /// What machine this is, in one line.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.machine.about
    }

    /// The architecture: [`crate::arch::Arch::NAME`].
    #[must_use]
    pub fn arch(&self) -> &str {
        &self.machine.arch
    }

    /// The clock of every core in GHz.
    #[must_use]
    pub fn ghz(&self) -> f64 {
        self.machine.clock.ghz.value
    }

    /// How many cores the machine has.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.machine.topology.cpus.value
    }

    /// How many sockets the cores are in.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.machine.topology.sockets.value
    }

    /// The architecture's options that the machine has.
    #[must_use]
    pub fn features(&self) -> Features {
        let present = self.machine.features.iter();
        present
            .filter(|(_, present)| present.value)
            .map(|(feature, _)| *feature)
            .collect()
    }

    /// Everything, as written.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The price of every operation, in cycles at the profile's clock.
    #[must_use]
    pub const fn costs(&self) -> &Costs {
        &self.costs
    }

    /// A duration of `ns` nanoseconds at the profile's clock.
    #[must_use]
    pub fn cycles(&self, ns: f64) -> Cycles {
        Cycles::from_f64(ns * self.ghz())
    }

    /// Every number of the profile, in the order of its path.
    #[must_use]
    pub fn constants(&self) -> Vec<Constant> {
        document::constants(&self.document)
    }

    /// What the profile says beside its numbers, by path: page sizes, where walkers read and so on.
    #[must_use]
    pub fn settings(&self) -> Vec<(String, String)> {
        document::settings(&self.document)
    }

    /// A 64-bit FNV-1a hash over the paths and values of the profile. Sources and descriptions do
    /// not enter it: profiles of one hash give the same results.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let text = document::canonical(&self.document);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// The profile as TOML text that parses to the same profile.
    #[must_use]
    pub fn to_toml(&self) -> String {
        self.document.to_string()
    }
}

fn resolve_costs(machine: &Machine) -> Costs {
    let mut costs = Costs::free();
    let ghz = machine.clock.ghz.value;
    for operation in Operation::ALL {
        if let Some(cycles) = machine.cost.cycles.get(operation) {
            costs.set(*operation, Cycles::from_f64(cycles.value));
        } else if let Some(ns) = machine.cost.ns.get(operation) {
            costs.set(*operation, Cycles::from_f64(ns.value * ghz));
        } else if let Some((other, times)) = operation.fallback() {
            costs.set(*operation, costs.of(other).times(times));
        }
    }
    costs
}

#[cfg(test)]
mod tests;
