//! Recordings of real kernels on modelled machines: what a system call that was recorded once
//! would count and cost elsewhere.
//!
//! Every recording goes through the whole model of every machine of its architecture: fetches, data
//! accesses, walks through the recorded tables, TLB maintenance, barriers, IPIs. Counts of what the
//! kernel did are those of the recording; TLB misses and walks are exact for the machine's geometry;
//! cycles rest on the profile, and those of instructions on an average, since a recording does not
//! show opcodes. Every answer is compared with the recorded physical address.
//!
//! ```text
//! names   what recordings are called beside each other
//! ```

mod names;

use std::path::PathBuf;

use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::cost::Cycles;
use mmuscope_models::profile::{Profile, ProfileError};
use mmuscope_models::system::{System, Timing, TranslationMode};
use mmuscope_models::x86::X86_64;
use mmuscope_traces::ReadError;
use mmuscope_traces::recording::{
    Compared, Isa, RecordedArch, Recording, Replay, Section, Summary, UnusableRecord,
};
use rayon::prelude::*;
use thiserror::Error;

use crate::experiment::execute::{Pricing, region};
use crate::experiment::machines::Selected;
use crate::machine::{self, Account, RegionCore};
use crate::report::{EXACTNESS, Machine, Pairs, Region, Report, Run, SCHEMA, Verdict};

/// The scenario of a report of replays.
const SCENARIO: &str = "replay";
/// Its axis: the recordings.
const AXIS: &str = "trace";
/// The region that is compared: what ran in the kernel.
const KERNEL: &str = "kernel";
/// The other region.
const USER: &str = "user";

/// Why recordings cannot be replayed. Each prints as one line.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// A file that cannot be read, or is no recording.
    #[error("recording `{}`: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: ReadError,
    },
    /// The same recording again.
    #[error("recording `{}` is given twice", path.display())]
    Twice {
        /// The file.
        path: PathBuf,
    },
    /// No machine of a recording's architecture.
    #[error(
        "recording `{}` is of {arch}: expected a profile of that architecture among --on {machines}",
        path.display()
    )]
    NoMachine {
        /// The file.
        path: PathBuf,
        /// Its architecture.
        arch: &'static str,
        /// The profiles that were named.
        machines: String,
    },
    /// A machine that has nothing to run.
    #[error("profile {profile} is of {arch}, and none of the recordings is")]
    NoRecording {
        /// The profile.
        profile: String,
        /// Its architecture.
        arch: String,
    },
    /// A baseline that is no recording.
    #[error("--base: no recording is called `{found}`: expected {names}")]
    Base {
        /// What was asked for.
        found: String,
        /// What there is.
        names: String,
    },
    /// A machine that cannot be modelled with as many CPUs as the recording has.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The host has no threads.
    #[error("threads cannot be started: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// How to replay.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How many at a time; one a processor if `None`.
    pub jobs: Option<usize>,
    /// Whether time passes.
    pub timing: Timing,
    /// How addresses are translated.
    pub mode: TranslationMode,
    /// The recording that others are compared with, by its name; the first if `None`.
    pub base: Option<String>,
}

/// A recording that has been looked through.
#[derive(Clone, Debug)]
pub struct Trace {
    path: PathBuf,
    name: String,
    summary: Summary,
}

impl Trace {
    /// What the recording holds.
    #[must_use]
    pub const fn summary(&self) -> &Summary {
        &self.summary
    }

    fn arch(&self) -> &'static str {
        match self.summary.header.isa {
            Isa::Aarch64 => "aarch64",
            Isa::X86_64 => "x86_64",
        }
    }
}

/// Looks through the recordings at `paths`, and gives them names.
///
/// # Errors
/// A file that is no recording, is broken, or given twice.
pub fn open(paths: &[PathBuf]) -> Result<Vec<Trace>, ReplayError> {
    for (at, path) in paths.iter().enumerate() {
        if paths[..at].contains(path) {
            return Err(ReplayError::Twice { path: path.clone() });
        }
    }
    let read = |path: &PathBuf| {
        Summary::of(path).map_err(|error| ReplayError::Read {
            path: path.clone(),
            error,
        })
    };
    let summaries: Vec<_> = paths.par_iter().map(read).collect::<Result<_, _>>()?;
    let names = names::apart(paths);
    Ok(paths
        .iter()
        .zip(names)
        .zip(summaries)
        .map(|((path, name), summary)| Trace {
            path: path.clone(),
            name,
            summary,
        })
        .collect())
}

/// Every recording on every machine of its architecture.
#[derive(Debug)]
pub struct Plan<'a> {
    traces: &'a [Trace],
    machines: &'a [Selected],
    /// Indices of a machine and a recording, machine by machine.
    pairs: Vec<(usize, usize)>,
}

impl<'a> Plan<'a> {
    /// Pairs recordings and machines.
    ///
    /// # Errors
    /// A recording without a machine or the reverse, or a machine with too few CPUs.
    pub fn new(traces: &'a [Trace], machines: &'a [Selected]) -> Result<Self, ReplayError> {
        for trace in traces {
            if !machines.iter().any(|it| it.profile.arch() == trace.arch()) {
                let names: Vec<_> = machines.iter().map(|it| it.profile.name()).collect();
                return Err(ReplayError::NoMachine {
                    path: trace.path.clone(),
                    arch: trace.arch(),
                    machines: names.join(","),
                });
            }
        }
        let mut pairs = Vec::new();
        for (machine, selected) in machines.iter().enumerate() {
            let profile = &selected.profile;
            let before = pairs.len();
            for (index, trace) in traces.iter().enumerate() {
                if trace.arch() == profile.arch() {
                    check(profile, trace)?;
                    pairs.push((machine, index));
                }
            }
            if pairs.len() == before {
                return Err(ReplayError::NoRecording {
                    profile: profile.name().to_owned(),
                    arch: profile.arch().to_owned(),
                });
            }
        }
        Ok(Self {
            traces,
            machines,
            pairs,
        })
    }

    /// How many replays there are.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.pairs.len()
    }

    /// Replays everything. `ended` is called after each replay.
    ///
    /// # Errors
    /// A baseline that there is not, or threads that cannot be had.
    pub fn run(&self, options: &Options, ended: &(dyn Fn() + Sync)) -> Result<Report, ReplayError> {
        let base = self.base(options)?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(options.jobs.unwrap_or(0))
            .build()?;
        let runs: Vec<Run> = pool.install(|| {
            let pairs = self.pairs.par_iter().with_max_len(1);
            pairs
                .map(|&(machine, trace)| {
                    let run = run(&self.traces[trace], &self.machines[machine], options);
                    ended();
                    run
                })
                .collect()
        });
        let names = self.traces.iter().map(|it| it.name.clone()).collect();
        Ok(Report {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION"),
            scenario: SCENARIO.to_owned(),
            exactness: EXACTNESS,
            region: KERNEL.to_owned(),
            timing: options.timing,
            seeds: Vec::new(),
            axes: Pairs(vec![(AXIS.to_owned(), names)]),
            base,
            machines: self.machines.iter().map(Machine::of).collect(),
            runs,
            published: Vec::new(),
            notes: self.notes(options),
        }
        .complete())
    }

    fn base(&self, options: &Options) -> Result<Pairs<String>, ReplayError> {
        let names = || self.traces.iter().map(|it| it.name.as_str());
        let base = match &options.base {
            Some(name) if !names().any(|it| it == name) => {
                return Err(ReplayError::Base {
                    found: name.clone(),
                    names: names().collect::<Vec<_>>().join(", "),
                });
            }
            Some(name) => Some(name.as_str()),
            None if self.traces.len() > 1 && self.same_case() => names().next(),
            None => None,
        };
        let base = base.map(|it| (AXIS.to_owned(), it.to_owned()));
        Ok(Pairs(base.into_iter().collect()))
    }

    /// Whether all recordings are of one system call: only then is one of them faster.
    fn same_case(&self) -> bool {
        let case = |it: &Trace| it.summary.header.case().map(str::to_owned);
        self.traces
            .iter()
            .all(|it| case(it) == case(&self.traces[0]))
    }

    fn notes(&self, options: &Options) -> Vec<String> {
        let mut notes = vec![
            "Figures are of what ran in the kernel, from the first recorded table on; the time is \
             that of the CPU that makes the call, the counts of all."
                .to_owned(),
            "A recording shows no opcodes: instructions are priced as loads and stores where they \
             access memory and as integer instructions elsewhere, so that cycles to execute are \
             estimated. Entries into the kernel are priced as system calls, faults among them, and \
             CPUs wait for each other as long as they did when recorded."
                .to_owned(),
        ];
        if options.mode == TranslationMode::Hoarder {
            notes.push(
                "The second-level TLBs never evict: that no stale translation was used holds for \
                 every machine."
                    .to_owned(),
            );
        }
        for trace in self.traces {
            let it = &trace.summary;
            notes.push(format!(
                "{}: {} instructions, {} accesses, {} TLB maintenance instructions, {} barriers, {} \
                 IPIs recorded ({}).",
                trace.name,
                it.instructions,
                it.accesses,
                it.maintenance,
                it.barriers,
                it.ipis,
                it.header.text.trim_end()
            ));
        }
        notes
    }
}

/// Whether a machine can be made that has the recording's CPUs.
fn check(profile: &Profile, trace: &Trace) -> Result<(), ProfileError> {
    let cpus = trace.summary.cpus;
    match trace.summary.header.isa {
        Isa::Aarch64 => System::<Aarch64>::new(profile, cpus, ()).map(drop),
        Isa::X86_64 => System::<X86_64>::new(profile, cpus, ()).map(drop),
    }
}

/// Why one replay came to no end.
#[derive(Debug, Error)]
enum Stopped {
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error("record {record}: {source}")]
    Unusable { record: u64, source: UnusableRecord },
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// What came out of one replay.
struct Replayed {
    compared: Compared,
    regions: Vec<machine::Region>,
}

fn run(trace: &Trace, selected: &Selected, options: &Options) -> Run {
    let profile = &selected.profile;
    let replayed = match trace.summary.header.isa {
        Isa::Aarch64 => replay::<Aarch64>(trace, profile, options),
        Isa::X86_64 => replay::<X86_64>(trace, profile, options),
    };
    let (verdict, results, regions) = match replayed {
        Ok(it) => outcome(trace, profile, options, &it),
        Err(stopped) => {
            let message = format!("{}: {stopped}", trace.path.display());
            (Verdict::Failed(message), Pairs(Vec::new()), Vec::new())
        }
    };
    Run {
        machine: profile.name().to_owned(),
        point: Pairs(vec![(AXIS.to_owned(), trace.name.clone())]),
        verdict,
        speedup: None,
        speedup_interval: None,
        calls: None,
        results,
        regions,
        console: String::new(),
    }
}

fn outcome(
    trace: &Trace,
    profile: &Profile,
    options: &Options,
    replayed: &Replayed,
) -> (Verdict, Pairs<String>, Vec<Region>) {
    let compared = &replayed.compared;
    let verdict = match &compared.first {
        None => Verdict::Fine,
        Some(first) => Verdict::Unsafe(format!(
            "{} of {} accesses have another answer than recorded; the first: {first}",
            compared.wrong,
            compared.wrong + compared.equal
        )),
    };
    let results = [
        ("accesses_equal", compared.equal),
        ("accesses_wrong", compared.wrong),
        ("spurious_faults", compared.spurious),
    ];
    let pricing = (options.timing == Timing::Full).then(|| Pricing::new(profile));
    let regions = replayed.regions.iter();
    (
        verdict,
        Pairs(
            results
                .map(|(name, count)| (name.to_owned(), count.to_string()))
                .into(),
        ),
        regions
            .map(|it| region(it, trace.summary.caller, pricing.as_ref()))
            .collect(),
    )
}

fn replay<A: RecordedArch>(
    trace: &Trace,
    profile: &Profile,
    options: &Options,
) -> Result<Replayed, Stopped> {
    let cpus = trace.summary.cpus;
    let mut system = System::<A>::new(profile, cpus, ())?;
    system.set_mode(options.mode);
    system.set_timing(options.timing);
    let mut replay = Replay::new(system);
    let mut compared = Compared::default();
    for (record, number) in mmuscope_traces::open::<Recording>(&trace.path)?.zip(1..) {
        compared
            .step(&mut replay, &record?)
            .map_err(|source| Stopped::Unusable {
                record: number,
                source,
            })?;
    }
    replay.finish();
    let region = |name: &str, section: &dyn Fn(usize) -> RegionCore| machine::Region {
        name: name.to_owned(),
        per_core: (0..cpus).map(section).collect(),
    };
    Ok(Replayed {
        compared,
        regions: vec![
            region(KERNEL, &|cpu| part(replay.kernel(cpu))),
            region(USER, &|cpu| part(replay.user(cpu))),
        ],
    })
}

fn part(section: &Section) -> RegionCore {
    RegionCore {
        account: Account {
            counters: section.counters.clone(),
            attribution: section.attribution.clone(),
            ledger: section.ledger.clone(),
            interrupted: section.interrupted,
        },
        start: Cycles::ZERO,
        end: section.cycles,
    }
}
