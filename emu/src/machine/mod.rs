//! A bare machine: virtual CPUs that share RAM, run in one host thread in the order of their
//! simulated clocks, and know the guest ABI of `docs/guest-abi.md`.
//!
//! ```text
//! config     what goes in and what comes out
//! abi        hypercalls, regions of interest
//! phase      seeded start offsets and jitter
//! schedule   whose turn it is; sleeping and waking
//! ```
//!
//! A machine is deterministic: what it gives depends on configuration, image and parameters only.

mod abi;
mod config;
pub mod phase;
mod schedule;

use std::cell::RefCell;
use std::rc::Rc;

use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::addr::{Pa, Va};
use mmuscope_models::cost::Cycles;
use mmuscope_models::system::CoreId;
use mmuscope_models::x86::X86_64;
use thiserror::Error;
use unicorn_engine::{Unicorn, uc_error};

use crate::arch::EmuArch;
use crate::loader::{BootInfo, GuestArch, GuestImage, LoadError};
use crate::plugin::{AttachError, Attached, Config, RunError, Shared, attach_core, share};
use crate::ram::{Ram, RamError};

pub use config::{
    Account, Feature, GuestExit, MachineConfig, Progress, Region, RegionCore, RunOutcome,
};

/// A machine that cannot be made, or a guest that cannot go on.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The image is no guest.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The RAM cannot be made.
    #[error(transparent)]
    Ram(#[from] RamError),
    /// The model cannot be attached.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The engine cannot be made.
    #[error("the engine cannot be made: {0:?}")]
    Engine(uc_error),
    /// The profile is of another architecture than the image.
    #[error("the guest is built for {guest}, but profile {profile} is of {machine}")]
    Architecture {
        /// The image's.
        guest: GuestArch,
        /// The profile's name.
        profile: String,
        /// The profile's.
        machine: String,
    },
    /// A number of cores that cannot be built.
    #[error("{0} cores: a machine has 1 to {MAX_CPUS}")]
    Cpus(usize),
    /// A core cannot go on.
    #[error("core {core}: {source}")]
    Run {
        /// Which.
        core: usize,
        /// Why.
        source: RunError,
    },
    /// A hypercall with arguments that make no sense.
    #[error("core {core}: hypercall {number} with arguments {arguments:x?}: {reason}")]
    Hypercall {
        /// Which core called.
        core: usize,
        /// What it called.
        number: u16,
        /// With what.
        arguments: [u64; 4],
        /// What is wrong.
        reason: String,
    },
    /// Every core sleeps and nothing will wake it.
    #[error("deadlock: every core sleeps and nothing will wake it ({0})")]
    Deadlock(String),
    /// The guest does not end.
    #[error(
        "the guest was stopped after {executed} instructions without an end (core {core} at {pc})"
    )]
    InstructionLimit {
        /// Instructions executed by all cores.
        executed: u64,
        /// The core that ran last.
        core: usize,
        /// Where it was.
        pc: Va,
    },
}

/// The most cores of a machine.
pub const MAX_CPUS: usize = 256;

/// A booted machine.
#[derive(Debug)]
pub struct Machine<A: EmuArch + 'static> {
    shared: Rc<RefCell<Shared<A>>>,
    ram: Ram,
    cores: Vec<Core<A>>,
    slice: u64,
    instruction_limit: u64,
    executed: u64,
    abi: abi::State,
}

/// One virtual CPU of a machine.
#[derive(Debug)]
struct Core<A: EmuArch + 'static> {
    attached: Attached<'static, A, ()>,
    pc: u64,
    state: schedule::State,
    /// The registers at the last waiting hint.
    at_hint: Vec<u64>,
}

impl<A: EmuArch + 'static> Machine<A> {
    /// Builds the machine and loads the guest. The first core is about to execute its entry point.
    ///
    /// # Errors
    /// When the image does not fit the machine, or the host has no room.
    pub fn boot(
        config: &MachineConfig,
        elf: &[u8],
        params: &[(String, String)],
    ) -> Result<Self, MachineError> {
        if config.cpus == 0 || config.cpus > MAX_CPUS {
            return Err(MachineError::Cpus(config.cpus));
        }
        let image = GuestImage::parse(elf)?;
        check_architecture::<A>(config, image.arch())?;
        let ram = Ram::new(Pa::new(A::RAM_BASE), config.ram)?;
        let free_start = image.load(&ram)?;
        let info = BootInfo {
            cpus: u32::try_from(config.cpus).unwrap_or(u32::MAX),
            features: config.features,
            free_start,
            params,
        };
        let info = info.write(&ram)?;
        let modelled = Config {
            profile: &config.profile,
            mode: config.mode,
            timing: config.timing,
            features: config.features,
        };
        let shared = share::<A>(ram.clone(), &modelled, config.cpus)?;
        let mut machine = Self {
            shared,
            ram,
            cores: Vec::with_capacity(config.cpus),
            slice: config.slice.max(1),
            instruction_limit: config.instruction_limit,
            executed: 0,
            abi: abi::State::default(),
        };
        let sites = sites::<A>(&image);
        for index in 0..config.cpus {
            machine.add_core(index, &sites)?;
            if let Some(seed) = config.seed {
                machine.cores[index].attached.set_phase(seed);
            }
        }
        machine.start_core(0, image.entry().raw(), info.raw())?;
        Ok(machine)
    }

    fn add_core(&mut self, index: usize, sites: &[u64]) -> Result<(), MachineError> {
        let (arch, mode) = A::ENGINE;
        let mut uc = Unicorn::new(arch, mode).map_err(MachineError::Engine)?;
        let id = CoreId::new(u16::try_from(index).unwrap_or(u16::MAX));
        let mut attached = attach_core(&mut uc, &self.shared, id)?;
        attached
            .hook_addresses(sites)
            .map_err(|source| MachineError::Run {
                core: index,
                source,
            })?;
        self.cores.push(Core {
            attached,
            pc: 0,
            state: schedule::State::Off,
            at_hint: Vec::new(),
        });
        Ok(())
    }

    /// Puts a core into its start state.
    fn start_core(&mut self, index: usize, entry: u64, argument: u64) -> Result<(), MachineError> {
        let core = &mut self.cores[index];
        A::start(core.attached.engine(), argument).map_err(MachineError::Engine)?;
        core.pc = entry;
        core.state = schedule::State::Runnable;
        Ok(())
    }

    fn clock(&self, index: usize) -> Cycles {
        self.cores[index].attached.clock()
    }

    /// Guest RAM, to look at before and after a run.
    #[must_use]
    pub const fn ram(&self) -> &Ram {
        &self.ram
    }

    /// Runs the guest to its end.
    ///
    /// # Errors
    /// When a core cannot go on, all sleep for ever, or the instruction limit is reached.
    pub fn run(&mut self) -> Result<RunOutcome, MachineError> {
        self.run_with(&mut |_| {})
    }

    /// As [`Machine::run`], reporting progress about once a slice.
    ///
    /// # Errors
    /// As [`Machine::run`].
    pub fn run_with(
        &mut self,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<RunOutcome, MachineError> {
        loop {
            let index = self.next_core()?;
            if let Some(exit) = self.turn(index)? {
                return Ok(self.outcome(exit));
            }
            progress(Progress {
                instructions: self.executed,
                clock: self.clock(index),
                region: self.abi.region(),
            });
        }
    }

    fn outcome(&mut self, exit: GuestExit) -> RunOutcome {
        let shared = self.shared.borrow();
        let ids = (0..self.cores.len()).map(|index| self.cores[index].attached.core());
        let ids: Vec<_> = ids.collect();
        let abi = std::mem::take(&mut self.abi);
        RunOutcome {
            exit,
            console: abi.console,
            regions: abi.regions,
            results: abi.results,
            unsafe_reports: abi.unsafe_reports,
            total_cycles: ids
                .iter()
                .map(|id| shared.system.clock(*id))
                .max()
                .unwrap_or_default(),
            totals: ids.iter().map(|id| shared.account(*id)).collect(),
        }
    }
}

fn check_architecture<A: EmuArch>(
    config: &MachineConfig,
    guest: GuestArch,
) -> Result<(), MachineError> {
    let machine = config.profile.arch();
    if guest.name() == A::NAME && machine == A::NAME {
        return Ok(());
    }
    Err(MachineError::Architecture {
        guest,
        profile: config.profile.name().to_owned(),
        machine: machine.to_owned(),
    })
}

/// The addresses, before and after the guest turns its MMU on, of instructions that need hooks.
fn sites<A: EmuArch>(image: &GuestImage<'_>) -> Vec<u64> {
    let mut sites = Vec::new();
    for range in image.code() {
        for offset in A::scan(range.code) {
            sites.push(range.va.raw().wrapping_add(offset));
            if range.pa.raw() != range.va.raw() {
                sites.push(range.pa.raw().wrapping_add(offset));
            }
        }
    }
    sites
}

/// Boots `elf` on the machine of its architecture and runs it to its end.
///
/// # Errors
/// As [`Machine::boot`] and [`Machine::run`].
pub fn run_guest(
    config: &MachineConfig,
    elf: &[u8],
    params: &[(String, String)],
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<RunOutcome, MachineError> {
    match GuestImage::parse(elf)?.arch() {
        GuestArch::Aarch64 => Machine::<Aarch64>::boot(config, elf, params)?.run_with(progress),
        GuestArch::X86_64 => Machine::<X86_64>::boot(config, elf, params)?.run_with(progress),
    }
}
