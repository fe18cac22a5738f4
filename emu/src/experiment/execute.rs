//! Runs jobs in the emulator.

use mmuscope_guest::ArchName;
use mmuscope_models::cost::{Attribution, Cycles};
use mmuscope_models::counters::Counters;

use super::{Finished, Job};
use crate::loader::{GuestArch, GuestImage, LoadError};
use crate::machine::{self, GuestExit, MachineConfig, RegionCore, RunOutcome, run_guest};
use crate::report::{Core, Pairs, Region, Verdict};

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
        ..MachineConfig::new(job.profile.clone(), job.ram)
    };
    let outcome = run_guest(&config, job.elf, &job.params, &mut |_| {});
    let outcome = outcome.map_err(|error| error.to_string())?;
    Ok(finished(outcome, job.profile.ghz()))
}

fn finished(outcome: RunOutcome, ghz: f64) -> Finished {
    let mut regions: Vec<_> = outcome.regions.iter().map(|it| region(it, ghz)).collect();
    if regions.is_empty() {
        regions.push(region(&whole_run(&outcome), ghz));
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
    let cores = outcome.totals.iter().zip(&outcome.attributions);
    machine::Region {
        name: WHOLE_RUN.to_owned(),
        per_core: cores
            .map(|(counters, attribution)| RegionCore {
                counters: counters.clone(),
                attribution: attribution.clone(),
                start: Cycles::ZERO,
                end: attribution.total(),
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

fn region(region: &machine::Region, ghz: f64) -> Region {
    let mut counters = Counters::default();
    let mut attribution = Attribution::default();
    let mut cores = Vec::new();
    for (core, part) in region.per_core.iter().enumerate() {
        counters.merge(&part.counters);
        attribution.merge(&part.attribution);
        cores.push(Core {
            core,
            cycles: part.end - part.start,
            counters: part.counters.clone(),
            attribution: part.attribution.clone(),
        });
    }
    // Scenarios mark their regions on the boot CPU.
    let cycles = cores.first().map(|it| it.cycles).unwrap_or_default();
    if cores.len() == 1 {
        cores.clear();
    }
    Region {
        name: region.name.clone(),
        cycles,
        nanoseconds: cycles.nanoseconds(ghz),
        counters,
        attribution,
        cores,
    }
}

#[cfg(test)]
mod tests {
    use mmuscope_models::cost::Category;

    use super::*;

    fn outcome(exit: GuestExit, unsafe_reports: &[&str]) -> RunOutcome {
        RunOutcome {
            exit,
            console: String::new(),
            regions: Vec::new(),
            results: Vec::new(),
            unsafe_reports: unsafe_reports.iter().map(|&it| it.to_owned()).collect(),
            total_cycles: Cycles::ZERO,
            totals: Vec::new(),
            attributions: Vec::new(),
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
            let mut attribution = Attribution::default();
            attribution.charge(Category::Execute, Cycles::new(end - start));
            RegionCore {
                counters: Counters {
                    loads,
                    ..Counters::default()
                },
                attribution,
                start: Cycles::new(start),
                end: Cycles::new(end),
            }
        };
        let both = machine::Region {
            name: "r".to_owned(),
            per_core: vec![part(100, 300, 5), part(150, 250, 7)],
        };
        let both = region(&both, 2.0);
        assert_eq!(both.cycles, Cycles::new(200));
        assert!((both.nanoseconds - 100.0).abs() < 1e-9);
        assert_eq!(both.counters.loads, 12);
        assert_eq!(both.attribution.total(), Cycles::new(300));
        assert_eq!(both.cores.len(), 2);
    }
}
