//! Running the guest for a golden case.

use mmuscope_emu::machine::{Feature, GuestExit, MachineConfig, RunOutcome, run_guest};
use mmuscope_guest::ArchName;
use mmuscope_guest::mremap::MREMAP;
use mmuscope_models::profile::Profile;
use mmuscope_models::system::Timing;

use super::case::{Align, Key, Run, Threads};
use super::columns::Measured;

/// Runs the call that `key` describes, and counts its region of interest.
pub fn run(key: &Key) -> Result<Measured, String> {
    let params = params(key);
    let (arch, profile, cpus, features) = machine(key.run);
    let profile = Profile::builtin(profile).map_err(|error| error.to_string())?;
    let config = MachineConfig {
        cpus,
        // Counts do not depend on time unless CPUs wait for each other.
        timing: if cpus == 1 { Timing::Off } else { Timing::Full },
        features: features
            .iter()
            .fold(0, |bits, feature| bits | feature.bit()),
        ..MachineConfig::new(profile, MREMAP.ram(&params))
    };
    let outcome = run_guest(&config, (MREMAP.elf)(arch), &params, &mut |_| {})
        .map_err(|error| error.to_string())?;
    measured(&outcome)
}

/// The machine that corresponds to the recorded one. Counts do not depend on the profile, only
/// on what the kernel is told the CPU can do.
fn machine(run: Run) -> (ArchName, &'static str, usize, &'static [Feature]) {
    match run {
        Run::Arm64N1 => (
            ArchName::Aarch64,
            "cortex-a76",
            1,
            &[Feature::RepeatTlbi, Feature::HardwareDirty],
        ),
        Run::Arm64Max => (
            ArchName::Aarch64,
            "cortex-a76",
            1,
            &[
                Feature::TlbiRange,
                Feature::LevelHint,
                Feature::HardwareDirty,
            ],
        ),
        Run::Amd64 => (ArchName::X86_64, "skylake-sp", 1, &[Feature::GlobalPages]),
        Run::Amd64Two => (ArchName::X86_64, "skylake-sp", 2, &[Feature::GlobalPages]),
    }
}

fn measured(outcome: &RunOutcome) -> Result<Measured, String> {
    if outcome.exit != GuestExit::Code(0) || !outcome.unsafe_reports.is_empty() {
        return Err(format!(
            "the guest ended with {:?} {:?}: {}",
            outcome.exit, outcome.unsafe_reports, outcome.console
        ));
    }
    let mut regions = outcome.regions.iter();
    let region = regions
        .find(|region| region.name == "mremap")
        .ok_or("the guest marked no region called mremap")?;
    let mut measured = Measured::default();
    for (index, core) in region.per_core.iter().enumerate() {
        match index {
            0 => measured.initiator.merge(&core.account.counters),
            _ => measured.others.merge(&core.account.counters),
        }
    }
    Ok(measured)
}

/// The scenario's parameters that express the call.
fn params(key: &Key) -> Vec<(String, String)> {
    let (src, dst) = match key.align {
        // Linux aligned neither, and by different amounts.
        Align::Pte => ("pte", "pte+1"),
        Align::PteSame => ("pte", "pte"),
        Align::Pmd => ("pmd", "pmd"),
        Align::Pud => ("pud", "pud"),
    };
    let folio = match key.folio {
        // Shared memory had no huge pages on the recorded kernels.
        _ if key.shared => "4K",
        0x1000 => "4K",
        0x1_0000 => "64K",
        _ => "2M",
    };
    let threads = match key.threads {
        Threads::None => "none",
        Threads::Spin => "spin",
        Threads::Lazy => "lazy",
    };
    let size = key.size.to_string();
    let pairs = [
        // What 6.7 and later do; the recorded kernels are 6.12.
        ("level", "realign"),
        ("flush", "extent"),
        ("size", size.as_str()),
        ("src", src),
        ("dst", dst),
        ("map", if key.shared { "shared" } else { "private" }),
        ("folio", folio),
        ("threads", threads),
    ];
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .to_vec()
}
