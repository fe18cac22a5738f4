//! Running the guests of the guest crate.

#![allow(dead_code, reason = "not every test uses everything")]

use mmuscope_emu::machine::{Machine, MachineConfig, RunOutcome};
use mmuscope_emu::ram::Ram;
use mmuscope_guest::{ArchName, Image};
use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::profile::Profile;
use mmuscope_models::x86::X86_64;

pub fn profile(arch: ArchName) -> Profile {
    let name = match arch {
        ArchName::Aarch64 => "cortex-a76",
        ArchName::X86_64 => "skylake-sp",
    };
    Profile::builtin(name).unwrap()
}

/// 64 MiB of RAM, and a limit that no test guest should reach.
pub fn config(arch: ArchName, cpus: usize) -> MachineConfig {
    let mut config = MachineConfig::new(profile(arch), 64 << 20);
    config.cpus = cpus;
    config.instruction_limit = 200_000_000;
    config
}

pub fn run_elf(
    config: &MachineConfig,
    elf: &[u8],
    arch: ArchName,
    params: &[(&str, &str)],
) -> (RunOutcome, Ram) {
    let params: Vec<_> = params
        .iter()
        .map(|(key, text)| ((*key).to_owned(), (*text).to_owned()))
        .collect();
    match arch {
        ArchName::Aarch64 => {
            let mut machine = Machine::<Aarch64>::boot(config, elf, &params).unwrap();
            (machine.run().unwrap(), machine.ram().clone())
        }
        ArchName::X86_64 => {
            let mut machine = Machine::<X86_64>::boot(config, elf, &params).unwrap();
            (machine.run().unwrap(), machine.ram().clone())
        }
    }
}

pub fn run(
    config: &MachineConfig,
    image: &Image,
    arch: ArchName,
    params: &[(&str, &str)],
) -> (RunOutcome, Ram) {
    run_elf(config, image.elf(arch), arch, params)
}

/// A result as a number.
pub fn result(outcome: &RunOutcome, key: &str) -> u64 {
    let found = outcome.results.iter().find(|(found, _)| found == key);
    let (_, text) = found.unwrap_or_else(|| panic!("no result {key} in {:?}", outcome.results));
    text.parse().unwrap()
}
