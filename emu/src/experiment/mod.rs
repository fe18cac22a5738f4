//! Experiments: a guest, the axes it is run at, the machines it is run on.
//!
//! [`Experiment::scenario`] and [`Experiment::program`] turn the words of a command into a list of
//! jobs and refuse what cannot run; [`Experiment::run`] runs the jobs, in parallel, and gives a
//! [`Report`]. How a job is run is the caller's: [`execute`] has the emulator, tests have their
//! own.

mod assemble;
pub mod execute;
pub mod grammar;
pub mod machine_axes;
pub mod machines;
mod profile_file;
mod spread;

use mmuscope_guest::{ArchName, Axis, Scenario};
use mmuscope_models::profile::{Features, Profile};
use mmuscope_models::system::Timing;
use rayon::prelude::*;
use thiserror::Error;

use crate::report::{Pairs, Region, Report, Verdict};
use grammar::{GrammarError, Point, Setting, Value, list, suggest};
use machines::Selected;

/// Why an experiment was refused. Each prints as one line.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// A word of the command.
    #[error(transparent)]
    Grammar(#[from] GrammarError),
    /// No scenario has this name.
    #[error(
        "unknown scenario `{name}`: expected {}{}",
        list(.expected), grammar::hint(.suggestion.as_deref())
    )]
    UnknownScenario {
        /// The name as given.
        name: String,
        /// The names there are.
        expected: Vec<String>,
        /// The name that was probably meant.
        suggestion: Option<String>,
    },
    /// An axis that none of the machines has.
    #[error("axis `{key}` exists on {arch} only: expected a machine of that architecture in --on")]
    NoSuchArch {
        /// The axis.
        key: String,
        /// Its architecture.
        arch: &'static str,
    },
    /// More CPUs than a machine has.
    #[error(
        "axis `cpus`: {cpus} are more than the {available} of profile `{profile}`: expected at \
         most {available}; --set topology.cpus={cpus} makes the machine larger"
    )]
    TooManyCpus {
        /// The number asked for.
        cpus: u64,
        /// The profile.
        profile: String,
        /// The CPUs that it has.
        available: usize,
    },
    /// A baseline at a value that is not run.
    #[error(
        "--base: {key}={value} is not run: expected one of the values of this command, {}",
        list(.expected)
    )]
    BaseNotRun {
        /// The axis.
        key: String,
        /// The value as given.
        value: String,
        /// The values that are run.
        expected: Vec<String>,
    },
    /// A guest program for another architecture than a machine's.
    #[error(
        "guest program: its code is for {guest}, but profile `{profile}` is {machine}: expected a profile of {guest}"
    )]
    OtherArch {
        /// The program's architecture.
        guest: &'static str,
        /// The profile.
        profile: String,
        /// The profile's architecture.
        machine: String,
    },
    /// The host's threads.
    #[error("--jobs: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// What one run needs.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// The machine.
    pub profile: &'a Profile,
    /// The guest.
    pub elf: &'a [u8],
    /// Parameters of the guest: keys with their text.
    pub params: Vec<(String, String)>,
    /// CPUs of the machine.
    pub cpus: usize,
    /// RAM in bytes.
    pub ram: u64,
    /// Optional features of the architecture.
    pub features: Features,
    /// Whether time passes.
    pub timing: Timing,
    /// The seed of the cores' phases, if they have any.
    pub seed: Option<u64>,
}

/// How the jobs of an experiment are run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Jobs at a time; as many as the host has processors if not given.
    pub jobs: Option<usize>,
    /// Whether time passes.
    pub timing: Timing,
    /// Every job is run once with each of these seeds; once without one if there are none.
    pub seeds: Vec<u64>,
}

/// What a job gives.
#[derive(Clone, Debug)]
pub struct Finished {
    /// How it ended.
    pub verdict: Verdict,
    /// What the guest reported by name.
    pub results: Pairs<String>,
    /// The regions of interest, in the order they ended.
    pub regions: Vec<Region>,
    /// What the guest printed.
    pub console: String,
}

enum Guest<'a> {
    Scenario(&'static Scenario),
    Program { name: String, elf: &'a [u8] },
}

/// A checked experiment.
pub struct Experiment<'a> {
    guest: Guest<'a>,
    settings: Vec<Setting>,
    base: Vec<(String, Value)>,
    machines: Vec<Selected>,
    /// Machine by index, point by point: what is run.
    plan: Vec<(usize, Point)>,
}

/// The guests' name of a profile's architecture.
pub(crate) fn arch_of(profile: &Profile) -> ArchName {
    let mut known = ArchName::ALL.into_iter();
    let known = known.find(|it| it.name() == profile.arch());
    // A checked profile has one of the two.
    known.unwrap_or(ArchName::Aarch64)
}

/// The scenario called `name`.
///
/// # Errors
/// There is none; the message suggests one.
pub fn find_scenario(name: &str) -> Result<&'static Scenario, ExperimentError> {
    let names = || mmuscope_guest::scenario::ALL.iter().map(|it| it.name);
    mmuscope_guest::scenario::find(name).ok_or_else(|| ExperimentError::UnknownScenario {
        name: name.to_owned(),
        expected: names().map(str::to_owned).collect(),
        suggestion: suggest(name, names()).map(str::to_owned),
    })
}

/// The axes of a scenario: its own, then the machine's features that its guest acts on. An axis
/// that changes nothing would only look like a finding.
pub fn axes_of(scenario: &'static Scenario) -> Vec<&'static Axis> {
    scenario
        .axes
        .iter()
        .chain(machine_axes::features().filter(|it| scenario.features.contains(&it.key)))
        .collect()
}

impl<'a> Experiment<'a> {
    /// The scenario `name` at the settings of `words`, compared with the runs at `base`.
    ///
    /// # Errors
    /// The first word that cannot be used.
    pub fn scenario(
        name: &str,
        words: &[String],
        base: &[String],
        machines: Vec<Selected>,
    ) -> Result<Self, ExperimentError> {
        let scenario = find_scenario(name)?;
        let axes = axes_of(scenario);
        let settings = grammar::parse_words(&axes, words)?;
        Self::plan(
            Guest::Scenario(scenario),
            &axes,
            settings,
            words,
            base,
            machines,
        )
    }

    /// The guest program `elf` with the settings of `words`. Words that name no axis of the
    /// machine are the program's own parameters.
    ///
    /// # Errors
    /// The first word that cannot be used, or a machine of another architecture.
    pub fn program(
        name: &str,
        elf: &'a [u8],
        arch: ArchName,
        words: &[String],
        machines: Vec<Selected>,
    ) -> Result<Self, ExperimentError> {
        for machine in &machines {
            if arch_of(&machine.profile) != arch {
                return Err(ExperimentError::OtherArch {
                    guest: arch.name(),
                    profile: machine.profile.name().to_owned(),
                    machine: machine.profile.arch().to_owned(),
                });
            }
        }
        let mut axes = vec![&machine_axes::CPUS, &machine_axes::RAM];
        axes.extend(machine_axes::features());
        let settings = grammar::parse_open(&axes, words)?;
        let guest = Guest::Program {
            name: name.to_owned(),
            elf,
        };
        Self::plan(guest, &axes, settings, words, &[], machines)
    }

    fn plan(
        guest: Guest<'a>,
        axes: &[&Axis],
        mut settings: Vec<Setting>,
        words: &[String],
        base: &[String],
        machines: Vec<Selected>,
    ) -> Result<Self, ExperimentError> {
        // A feature that nobody mentions is a matter of the profile, not an axis of the report.
        let named = |key: &str| words.iter().any(|it| it.split('=').next() == Some(key));
        settings.retain(|it| named(&it.key) || !machine_axes::is_feature(&it.key));
        let arch_only = |key: &str| axes.iter().find(|it| it.key == key).and_then(|it| it.arch);
        let has = |machine: &Selected, key: &str| {
            arch_only(key).is_none_or(|it| it == arch_of(&machine.profile))
        };
        for setting in settings.iter().filter(|it| named(&it.key)) {
            if let Some(arch) = arch_only(&setting.key)
                && !machines.iter().any(|it| has(it, &setting.key))
            {
                return Err(ExperimentError::NoSuchArch {
                    key: setting.key.clone(),
                    arch: arch.name(),
                });
            }
        }
        settings.retain(|setting| machines.iter().any(|it| has(it, &setting.key)));
        for machine in &machines {
            enough_cpus(&machine.profile, &settings)?;
        }
        let base = baseline(axes, &settings, base)?;
        let mut plan: Vec<(usize, Point)> = Vec::new();
        for (index, machine) in machines.iter().enumerate() {
            for mut point in grammar::cross(&settings) {
                point.retain(|key, _| has(machine, key));
                // Points that differ in another architecture's axis only are one run here.
                if !plan.iter().any(|it| it.0 == index && it.1 == point) {
                    plan.push((index, point));
                }
            }
        }
        Ok(Self {
            guest,
            settings,
            base,
            machines,
            plan,
        })
    }

    /// The number of runs, each with one seed.
    #[must_use]
    pub const fn runs(&self) -> usize {
        self.plan.len()
    }

    /// The region that the runs are compared in, if the guest's description names one.
    fn region(&self) -> Option<&'static str> {
        match &self.guest {
            Guest::Scenario(scenario) => scenario.regions.first().copied(),
            Guest::Program { .. } => None,
        }
    }

    /// What a run is, for people: `mremap level=pud on cortex-a76`.
    fn describe(&self, (machine, point): &(usize, Point)) -> String {
        let mut point = point.clone();
        let varies = |key: &str| {
            self.settings
                .iter()
                .any(|it| it.key == key && it.values.len() > 1)
        };
        point.retain(|key, _| varies(key));
        let profile = self.machines[*machine].profile.name();
        format!("{} {point} on {profile}", self.name())
    }

    fn name(&self) -> &str {
        match &self.guest {
            Guest::Scenario(scenario) => scenario.name,
            Guest::Program { name, .. } => name,
        }
    }

    fn job(&self, (machine, point): &(usize, Point), timing: Timing, seed: Option<u64>) -> Job<'_> {
        let profile = &self.machines[*machine].profile;
        let number = |key: &str, default: u64| {
            let value = point.get(key).and_then(|it| it.param().parse().ok());
            value.unwrap_or(default)
        };
        let mut own = point.clone();
        own.retain(|key, _| !machine_axes::is_feature(key) && key != machine_axes::RAM.key);
        let params = own.params();
        let (elf, ram) = match &self.guest {
            Guest::Scenario(scenario) => ((scenario.elf)(arch_of(profile)), scenario.ram(&params)),
            Guest::Program { elf, .. } => (*elf, number(machine_axes::RAM.key, 256 << 20)),
        };
        Job {
            profile,
            elf,
            params,
            cpus: usize::try_from(number(machine_axes::CPUS.key, 1)).unwrap_or(usize::MAX),
            ram,
            features: machine_axes::apply(profile.features(), point),
            timing,
            seed,
        }
    }

    /// Runs everything. The report does not depend on how many jobs run at a time. Of the runs of
    /// a job with several seeds, the report holds the middle one, and how far all are apart.
    ///
    /// `run` runs one job; a job that cannot be run is an error message of one line. `starting`
    /// and `ended` are told about progress, in any order.
    ///
    /// # Errors
    /// The host gives no threads.
    pub fn run(
        &self,
        options: &Options,
        run: &(dyn Fn(&Job<'_>) -> Result<Finished, String> + Sync),
        starting: &(dyn Fn(&str) + Sync),
        ended: &(dyn Fn() + Sync),
    ) -> Result<Report, ExperimentError> {
        // The longest runs stand first: starting them first keeps every thread busy.
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.jobs.unwrap_or(0))
            .build()?;
        let seeds: Vec<Option<u64>> = if options.seeds.is_empty() {
            vec![None]
        } else {
            options.seeds.iter().copied().map(Some).collect()
        };
        let each = self
            .plan
            .iter()
            .flat_map(|it| seeds.iter().map(move |seed| (it, *seed)));
        let each: Vec<_> = each.collect();
        let finished: Vec<Finished> = pool.install(|| {
            each.par_iter()
                .with_max_len(1)
                .map(|(planned, seed)| {
                    starting(&self.describe(planned));
                    let job = self.job(planned, options.timing, *seed);
                    let finished = run(&job).unwrap_or_else(failed);
                    ended();
                    finished
                })
                .collect()
        });
        let runs = finished.chunks(seeds.len());
        let runs = runs.map(|it| spread::middle(it, self.region())).collect();
        Ok(self.report(runs, options))
    }
}

fn failed(message: String) -> Finished {
    Finished {
        verdict: Verdict::Failed(message),
        results: Pairs::default(),
        regions: Vec::new(),
        console: String::new(),
    }
}

fn enough_cpus(profile: &Profile, settings: &[Setting]) -> Result<(), ExperimentError> {
    let cpus = settings
        .iter()
        .filter(|it| it.key == machine_axes::CPUS.key);
    let most = cpus
        .flat_map(|it| &it.values)
        .filter_map(|it| it.param().parse::<u64>().ok())
        .max();
    let available = profile.cpus();
    match most {
        Some(cpus) if usize::try_from(cpus).is_ok_and(|it| it > available) => {
            Err(ExperimentError::TooManyCpus {
                cpus,
                profile: profile.name().to_owned(),
                available,
            })
        }
        _ => Ok(()),
    }
}

/// The baseline: what is asked for, or the first value of the first axis that varies.
fn baseline(
    axes: &[&Axis],
    settings: &[Setting],
    words: &[String],
) -> Result<Vec<(String, Value)>, ExperimentError> {
    let mut base: Vec<(String, Value)> = Vec::new();
    for word in words {
        let (key, value) = grammar::parse_single(axes, word)?;
        if base.iter().any(|it| it.0 == key) {
            return Err(GrammarError::AxisTwice { key }.into());
        }
        let values = settings.iter().find(|it| it.key == key);
        let values = values.map_or(&[][..], |it| it.values.as_slice());
        if !values.contains(&value) {
            return Err(ExperimentError::BaseNotRun {
                key,
                value: value.text().to_owned(),
                expected: values.iter().map(|it| it.text().to_owned()).collect(),
            });
        }
        base.push((key, value));
    }
    if base.is_empty() {
        let varying = settings.iter().find(|it| it.values.len() > 1);
        base.extend(varying.map(|it| (it.key.clone(), it.values[0].clone())));
    }
    Ok(base)
}

#[cfg(test)]
mod tests;
