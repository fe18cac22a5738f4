//! Runs jobs in the emulator.

use mmuscope_guest::ArchName;
use mmuscope_models::cost::{Attribution, Category, Cycles, Operation};
use mmuscope_models::counters::Counters;
use mmuscope_models::profile::Profile;
use mmuscope_models::sensitivity::{Interval, Recorded, Sensitivity};
use mmuscope_models::system::Timing;

use super::{Finished, Job};
use crate::loader::{GuestArch, GuestImage, LoadError};
use crate::machine::{self, GuestExit, MachineConfig, RegionCore, RunOutcome, run_guest};
use crate::report::{Core, Pairs, Region, Stolen, Verdict};

/// The exit code of a guest whose own checks failed.
const EXIT_UNSAFE: u64 = 3;

/// The name of the region of a guest that marks none.
const WHOLE_RUN: &str = "whole run";

/// The architecture that a guest program is built for.
///
/// # Errors
/// It is no guest program.
pub fn arch_of_program(elf: &[u8]) -> Result<ArchName, LoadError> {
    Ok(match GuestImage::parse(elf)?.arch() {
        GuestArch::Aarch64 => ArchName::Aarch64,
        GuestArch::X86_64 => ArchName::X86_64,
    })
}

/// Runs a job on a machine of its own, made and dropped in the calling thread.
///
/// # Errors
/// Why the machine could not be made or run to the guest's end, in one line.
pub fn run(job: &Job<'_>) -> Result<Finished, String> {
    let config = MachineConfig {
        cpus: job.cpus,
        features: job.features.bits(),
        timing: job.timing,
        seed: job.seed,
        ..MachineConfig::new(job.profile.clone(), job.ram)
    };
    let outcome = run_guest(&config, job.elf, &job.params, &mut |_| {});
    let outcome = outcome.map_err(|error| error.to_string())?;
    Ok(finished(outcome, job))
}

fn finished(outcome: RunOutcome, job: &Job<'_>) -> Finished {
    let pricing = (job.timing == Timing::Full).then(|| Pricing::new(job.profile));
    let region = |it: &machine::Region| region(it, BOOT, pricing.as_ref());
    let mut regions: Vec<_> = outcome.regions.iter().map(region).collect();
    if regions.is_empty() {
        regions.push(region(&whole_run(&outcome)));
    }
    Finished {
        verdict: verdict(&outcome),
        results: Pairs(outcome.results),
        regions,
        console: outcome.console,
    }
}

/// A guest that marks nothing is reported from its first instruction to its last.
fn whole_run(outcome: &RunOutcome) -> machine::Region {
    let cores = outcome.totals.iter();
    machine::Region {
        name: WHOLE_RUN.to_owned(),
        per_core: cores
            .map(|account| RegionCore {
                account: account.clone(),
                start: Cycles::ZERO,
                end: account.attribution.total(),
            })
            .collect(),
    }
}

fn verdict(outcome: &RunOutcome) -> Verdict {
    if let Some(first) = outcome.unsafe_reports.first() {
        return Verdict::Unsafe(first.clone());
    }
    match &outcome.exit {
        GuestExit::Code(0) => Verdict::Fine,
        GuestExit::Code(EXIT_UNSAFE) => Verdict::Unsafe("the guest's checks failed".to_owned()),
        GuestExit::Code(code) => Verdict::Failed(format!("the guest ended with code {code}")),
        GuestExit::Panic(message) => Verdict::Failed(format!("the guest panicked: {message}")),
    }
}

/// What turns accounts into times.
pub(crate) struct Pricing {
    ghz: f64,
    sensitivity: Sensitivity,
}

impl Pricing {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self {
            ghz: profile.ghz(),
            sensitivity: Sensitivity::new(profile),
        }
    }
}

/// The core that scenarios mark their regions on.
const BOOT: usize = 0;

/// A region with its sums and, if time passed, what core `measured` took and what others lost.
pub(crate) fn region(
    region: &machine::Region,
    measured: usize,
    pricing: Option<&Pricing>,
) -> Region {
    let mut counters = Counters::default();
    for part in &region.per_core {
        counters.merge(&part.account.counters);
    }
    let mut cores: Vec<Core> = region.per_core.iter().enumerate().map(core).collect();
    if pricing.is_none() {
        for core in &mut cores {
            (core.cycles, core.attribution, core.interrupted) = (None, None, None);
        }
    }
    let mut summed = Region {
        name: region.name.clone(),
        counters,
        ..Region::default()
    };
    if let Some(pricing) = pricing {
        take_times(&mut summed, &region.per_core, measured, pricing);
    }
    if cores.len() > 1 {
        summed.cores = cores;
    }
    summed
}

fn core((core, part): (usize, &RegionCore)) -> Core {
    Core {
        core,
        cycles: Some(part.end - part.start),
        counters: part.account.counters.clone(),
        attribution: Some(part.account.attribution.clone()),
        interrupted: Some(part.account.interrupted),
    }
}

fn take_times(region: &mut Region, cores: &[RegionCore], measured: usize, pricing: &Pricing) {
    let mut attribution = Attribution::default();
    let (mut interrupts, mut refills) = (Cycles::ZERO, Cycles::ZERO);
    for (core, part) in cores.iter().enumerate() {
        attribution.merge(&part.account.attribution);
        if core != measured {
            interrupts += part.account.interrupted;
            refills += part.account.attribution.get(Category::Refill);
        }
    }
    let recorded: Vec<_> = cores
        .iter()
        .map(|it| Recorded {
            counters: &it.account.counters,
            ledger: &it.account.ledger,
            attribution: &it.account.attribution,
        })
        .collect();
    let cycles = cores
        .get(measured)
        .map_or(Cycles::ZERO, |it| it.end - it.start);
    region.cycles = Some(cycles);
    region.nanoseconds = Some(cycles.nanoseconds(pricing.ghz));
    region.attribution = Some(attribution);
    region.repriced = pricing.sensitivity.times(&recorded, measured);
    region.interval = Interval::of(region.repriced.clone());
    region.stolen = (cores.len() > 1).then_some(Stolen {
        interrupts,
        refills,
    });
    let requests = |it: &RegionCore| it.account.ledger.of(Operation::IpiSendFirst);
    region.ipi_requests = Some(cores.iter().map(requests).sum());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Account;

    fn outcome(exit: GuestExit, unsafe_reports: &[&str]) -> RunOutcome {
        RunOutcome {
            exit,
            console: String::new(),
            regions: Vec::new(),
            results: Vec::new(),
            unsafe_reports: unsafe_reports.iter().map(|&it| it.to_owned()).collect(),
            total_cycles: Cycles::ZERO,
            totals: Vec::new(),
        }
    }

    #[test]
    fn a_report_of_lost_data_outweighs_a_good_end() {
        let lost = outcome(GuestExit::Code(0), &["page 3 reads 0x0"]);
        assert_eq!(
            verdict(&lost),
            Verdict::Unsafe("page 3 reads 0x0".to_owned())
        );
        assert!(matches!(
            verdict(&outcome(GuestExit::Code(3), &[])),
            Verdict::Unsafe(_)
        ));
        assert!(matches!(
            verdict(&outcome(GuestExit::Code(1), &[])),
            Verdict::Failed(_)
        ));
        assert_eq!(verdict(&outcome(GuestExit::Code(0), &[])), Verdict::Fine);
    }

    #[test]
    fn a_region_sums_counters_and_takes_the_time_of_the_boot_cpu() {
        let part = |start, end, loads| {
            let mut account = Account::default();
            let spent = Cycles::new(end - start);
            account.attribution.charge(Category::Execute, spent);
            account.counters.loads = loads;
            account.interrupted = Cycles::new(30);
            RegionCore {
                account,
                start: Cycles::new(start),
                end: Cycles::new(end),
            }
        };
        let both = machine::Region {
            name: "r".to_owned(),
            per_core: vec![part(100, 300, 5), part(150, 250, 7)],
        };
        let profile = Profile::builtin("cortex-a76").unwrap();
        let untimed = region(&both, BOOT, None);
        assert_eq!((untimed.cycles, untimed.counters.loads), (None, 12));
        assert!(untimed.cores.iter().all(|it| it.attribution.is_none()));
        let both = region(&both, BOOT, Some(&Pricing::new(&profile)));
        assert_eq!(both.cycles, Some(Cycles::new(200)));
        assert!((both.nanoseconds.unwrap() - 200.0 / profile.ghz()).abs() < 1e-9);
        let stolen = both.stolen.unwrap();
        assert_eq!(
            stolen.interrupts,
            Cycles::new(30),
            "the boot CPU's are its own"
        );
        assert_eq!(both.counters.loads, 12);
        assert_eq!(both.attribution.unwrap().total(), Cycles::new(300));
        assert_eq!(both.cores.len(), 2);
    }
}
