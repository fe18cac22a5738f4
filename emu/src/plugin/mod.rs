//! The MMU model as a plugin of a Unicorn instance.
//!
//! [`attach`] takes any instance, before its first run, and maps guest RAM into it. From then on
//! every fetch and every data access of the guest goes through the model: the model's TLBs decide
//! what it sees, faults enter the guest's own vectors, and everything is counted. The instance
//! stays the user's: hooks and devices that the user adds keep working. The guest is run through
//! [`Attached::run`].
//!
//! ```no_run
//! use mmuscope_emu::plugin::{Config, attach};
//! use mmuscope_emu::ram::Ram;
//! use mmuscope_models::{aarch64::Aarch64, addr::Pa, profile::Profile};
//! use unicorn_engine::{Arch, Mode, Unicorn};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ram = Ram::new(Pa::new(0x4000_0000), 64 << 20)?;
//! // mov x1, #0x40000000; ldr x0, [x1]
//! ram.write(Pa::new(0x4020_0000), &0xd2a8_0001_u32.to_le_bytes());
//! ram.write(Pa::new(0x4020_0004), &0xf940_0020_u32.to_le_bytes());
//! let mut uc = Unicorn::new(Arch::ARM64, Mode::LITTLE_ENDIAN)?;
//! let profile = Profile::builtin("cortex-a76")?;
//! let mut guest = attach::<Aarch64, _>(&mut uc, ram, &Config::new(&profile))?;
//! guest.run(0x4020_0000, Some(0x4020_0008))?;
//! assert_eq!(guest.counters().loads, 1);
//! # Ok(())
//! # }
//! ```
//!
//! # How
//! The engine's virtual-TLB hook answers its misses from the model without changing the model
//! ([`hooks`](self)). One memory hook sees every data access and asks the model, counting. If the
//! model's answer is not what the engine's TLB gave (the entry is stale, was evicted in the model,
//! or has lost its permission), the access is undone and the instruction retried or the fault
//! delivered. One block hook counts instructions and fetches.
//!
//! # Limits
//! - Physical addresses from 1 TiB on belong to the plugin; devices must be mapped below, outside
//!   RAM. Accesses to them are translated by the model but not counted.
//! - On AArch64 the engine calls only the first hook of MRS, MSR and SYS instructions, which is
//!   the plugin's.
//! - The guest must not be run by `emu_start` directly.

mod hooks;
mod lines;
mod run;
mod shared;
mod soft;
mod strings;
mod vcpu;

use std::cell::RefCell;
use std::rc::Rc;

use mmuscope_models::access::AccessKind;
use mmuscope_models::addr::Va;
use mmuscope_models::cost::{Attribution, Cycles};
use mmuscope_models::counters::Counters;
use mmuscope_models::profile::{Feature, Profile, ProfileError};
use mmuscope_models::system::{CoreId, System, Timing, TranslationMode};
use thiserror::Error;
use unicorn_engine::{HookType, MemType, Prot, TlbType, Unicorn, uc_error};

use crate::arch::EmuArch;
use crate::decode::BlockCache;
use crate::machine::Account;
use crate::machine::phase::{self, Phase};
use crate::ram::Ram;

pub use lines::{Line, Lines};
pub use run::{RunError, Stop};
pub use shared::{Sent, Shared};
pub use vcpu::{Exit, Interrupt, Vcpu};

pub(crate) use hooks::{abort, flush, piece, stop};

/// How to model a single attached core.
#[derive(Clone, Debug)]
pub struct Config<'p> {
    /// The machine to model.
    pub profile: &'p Profile,
    /// How translations are made.
    pub mode: TranslationMode,
    /// Whether time passes.
    pub timing: Timing,
    /// Optional features that the guest sees, as bits of [`crate::machine::Feature`].
    pub features: u64,
}

impl<'p> Config<'p> {
    /// One modelled core of `profile`, without optional features.
    #[must_use]
    pub const fn new(profile: &'p Profile) -> Self {
        Self {
            profile,
            mode: TranslationMode::Modelled,
            timing: Timing::Full,
            features: 0,
        }
    }
}

/// A plugin that cannot be attached.
#[derive(Debug, Error)]
pub enum AttachError {
    /// The profile does not fit.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The engine refused a request.
    #[error("the engine refused to attach the MMU model: {0:?}")]
    Engine(uc_error),
    /// The engine was used before with pages of another size, which cannot be changed any more.
    #[error(
        "the engine uses pages of {found} bytes, not 4096, and says {prepared:?} to a change: set them before anything else"
    )]
    PageSize {
        /// Its page size in bytes.
        found: u32,
        /// What it said to being prepared.
        prepared: Result<(), uc_error>,
    },
    /// The engine emulates another architecture.
    #[error("the engine emulates {found:?}, but the model is of {expected}")]
    Architecture {
        /// What the engine emulates.
        found: unicorn_engine::Arch,
        /// What the model is of.
        expected: &'static str,
    },
}

/// The engine's pages must be the smallest that the models have.
const PAGE_SIZE: u32 = 4096;

/// One virtual CPU and what it shares, as the hooks hold it.
#[derive(Debug)]
pub struct Handle<A: EmuArch> {
    vcpu: Rc<RefCell<Vcpu<A>>>,
    shared: Rc<RefCell<Shared<A>>>,
}

impl<A: EmuArch> Clone for Handle<A> {
    fn clone(&self) -> Self {
        Self {
            vcpu: Rc::clone(&self.vcpu),
            shared: Rc::clone(&self.shared),
        }
    }
}

impl<A: EmuArch> Handle<A> {
    /// Works on the state. Not to be nested: the engine must not be made to access guest memory
    /// meanwhile.
    #[inline]
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Vcpu<A>, &mut Shared<A>) -> R) -> R {
        work(&mut self.vcpu.borrow_mut(), &mut self.shared.borrow_mut())
    }
}

/// A Unicorn instance whose guest runs under the model.
#[derive(Debug)]
pub struct Attached<'a, A: EmuArch, D: 'a> {
    uc: Unicorn<'a, D>,
    handle: Handle<A>,
    /// The instruction last retried and how often.
    attempts: (u64, u32),
}

/// Attaches the model to an instance that has not run yet, and maps `ram` into it.
///
/// # Errors
/// When the architectures differ, the profile does not fit or the engine refuses.
pub fn attach<'a, A: EmuArch, D: 'a>(
    uc: &mut Unicorn<'a, D>,
    ram: Ram,
    config: &Config<'_>,
) -> Result<Attached<'a, A, D>, AttachError> {
    let shared = share(ram, config, 1)?;
    attach_core(uc, &shared, CoreId::new(0))
}

/// The state that `cores` virtual CPUs will share.
/// The feature bit of page-table isolation.
const ISOLATION: u64 = 1 << Feature::Pti as u64;

pub(crate) fn share<A: EmuArch>(
    ram: Ram,
    config: &Config<'_>,
    cores: usize,
) -> Result<Rc<RefCell<Shared<A>>>, AttachError> {
    let mut system = System::new(config.profile, cores, ())?;
    system.set_mode(config.mode);
    system.set_timing(config.timing);
    system.set_isolation(config.features & ISOLATION != 0);
    let lines = (cores > 1).then(|| Lines::new(ram.base(), ram.size()));
    Ok(Rc::new(RefCell::new(Shared {
        system,
        blocks: BlockCache::new(ram.size()),
        ram,
        code_epoch: 0,
        lines,
        outbox: Vec::new(),
        features: config.features,
    })))
}

/// Attaches one of several cores.
pub(crate) fn attach_core<'a, A: EmuArch, D: 'a>(
    uc: &mut Unicorn<'a, D>,
    shared: &Rc<RefCell<Shared<A>>>,
    core: CoreId,
) -> Result<Attached<'a, A, D>, AttachError> {
    if uc.get_arch() != A::ENGINE.0 {
        return Err(AttachError::Architecture {
            found: uc.get_arch(),
            expected: A::NAME,
        });
    }
    let prepared = A::prepare(uc);
    match uc.ctl_get_page_size().map_err(AttachError::Engine)? {
        PAGE_SIZE => {}
        found => return Err(AttachError::PageSize { found, prepared }),
    }
    let ram = shared.borrow().ram.clone();
    let handle = Handle {
        vcpu: Rc::new(RefCell::new(Vcpu::new(core, ram.size()))),
        shared: Rc::clone(shared),
    };
    set_up(uc, &ram, &handle).map_err(AttachError::Engine)?;
    Ok(Attached {
        uc: uc.clone(),
        handle,
        attempts: (0, 0),
    })
}

fn set_up<'a, A: EmuArch, D: 'a>(
    uc: &mut Unicorn<'a, D>,
    ram: &Ram,
    handle: &Handle<A>,
) -> Result<(), uc_error> {
    // An engine that the user has already touched can no longer be prepared; `attach_core` has
    // checked what matters.
    uc.ctl_set_tlb_type(TlbType::VIRTUAL)?;
    // Without a list of its own, the engine stops at address 0, or at a great price elsewhere.
    uc.ctl_exits_enable()?;
    uc.ctl_set_exits(&[])?;
    for window in 1..=soft::FETCH_WINDOW {
        let perms = if window == soft::FETCH_WINDOW {
            Prot::READ | Prot::EXEC
        } else {
            Prot::READ | Prot::WRITE
        };
        // SAFETY: the pointer is to `ram.size()` bytes that live as long as `ram`, and the hooks
        // added below keep a handle to it for as long as the engine lives.
        unsafe {
            uc.mem_map_ptr(
                window << soft::WINDOW_SHIFT,
                ram.size(),
                perms,
                ram.as_mut_ptr().cast(),
            )?;
        }
    }
    let core = handle.vcpu.borrow().core;
    let mut context = handle.shared.borrow().system.context(core).clone();
    A::read_context(uc, &mut context)?;
    handle.with(|_, shared| shared.system.set_context(core, context, &shared.ram));
    add_hooks(uc, handle)?;
    A::install(uc, handle)
}

fn add_hooks<'a, A: EmuArch, D: 'a>(
    uc: &mut Unicorn<'a, D>,
    handle: &Handle<A>,
) -> Result<(), uc_error> {
    let own = handle.clone();
    uc.add_tlb_hook(1, 0, move |uc, page, mem_type| {
        let kind = match mem_type {
            MemType::WRITE => AccessKind::Store,
            MemType::FETCH => AccessKind::Fetch,
            _ => AccessKind::Load,
        };
        own.with(|vcpu, shared| hooks::on_miss(uc, vcpu, shared, Va::new(page), kind))
    })?;
    let own = handle.clone();
    uc.add_mem_hook(
        HookType::MEM_READ | HookType::MEM_WRITE,
        1,
        0,
        move |uc, mem_type, address, size, value| {
            own.with(|vcpu, shared| {
                hooks::on_access(uc, vcpu, shared, (mem_type, address, size, value))
            });
            true
        },
    )?;
    let own = handle.clone();
    uc.add_block_hook(1, 0, move |uc, address, size| {
        own.with(|vcpu, shared| hooks::on_block(uc, vcpu, shared, address, size));
    })?;
    Ok(())
}

impl<A: EmuArch, D> Attached<'_, A, D> {
    /// What has been counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let core = self.handle.vcpu.borrow().core;
        self.handle.shared.borrow().system.counters(core).clone()
    }

    /// Where the cycles went.
    #[must_use]
    pub fn attribution(&self) -> Attribution {
        let core = self.handle.vcpu.borrow().core;
        self.handle.shared.borrow().system.attribution(core).clone()
    }

    /// All of it.
    #[must_use]
    pub(crate) fn account(&self) -> Account {
        let core = self.handle.vcpu.borrow().core;
        self.handle.shared.borrow().account(core)
    }

    /// Gives the core a phase of its own.
    pub(crate) fn set_phase(&mut self, seed: u64) {
        let mut vcpu = self.handle.vcpu.borrow_mut();
        vcpu.phase = Some(Phase::new(seed, vcpu.core));
    }

    /// How late it starts.
    pub(crate) fn start_offset(&self) -> Cycles {
        let mut vcpu = self.handle.vcpu.borrow_mut();
        let phase = vcpu.phase.as_mut();
        phase.map_or(Cycles::ZERO, |it| it.below(phase::START))
    }

    /// The core's clock.
    #[must_use]
    pub fn clock(&self) -> Cycles {
        let core = self.handle.vcpu.borrow().core;
        self.handle.shared.borrow().system.clock(core)
    }

    /// Makes an interrupt pending, to be delivered as soon as the guest lets it.
    pub fn interrupt(&self, number: u32) {
        let arrival = self.clock();
        self.handle
            .vcpu
            .borrow_mut()
            .interrupt(Interrupt { arrival, number });
    }

    /// The time by which the core is scheduled.
    pub(crate) fn now(&self) -> Cycles {
        self.handle.with(|vcpu, shared| shared.now(vcpu.core))
    }

    /// The core's number in its system.
    pub(crate) fn core(&self) -> CoreId {
        self.handle.vcpu.borrow().core
    }

    /// Instructions retired so far.
    pub(crate) fn retired(&self) -> u64 {
        self.handle
            .with(|vcpu, shared| shared.system.counters(vcpu.core).instructions.total())
    }

    /// Whether interrupts are unmasked.
    pub(crate) fn interruptible(&self) -> bool {
        A::interruptible(&self.uc)
    }

    pub(crate) const fn handle(&self) -> &Handle<A> {
        &self.handle
    }
}

impl<'a, A: EmuArch, D> Attached<'a, A, D> {
    /// The engine, for registers and the user's own hooks.
    pub const fn engine(&mut self) -> &mut Unicorn<'a, D> {
        &mut self.uc
    }
}
