//! A system: cores with their TLBs, walk caches and data caches, what they share, and the tables
//! they use, under one profile.
//!
//! A system is driven by events in simulated-time order: accesses, retired instructions,
//! invalidations, barriers, register writes, exceptions, interrupts. Each core has its own clock;
//! the caller decides which core goes next, and serves shared operations (a DSB that completes
//! broadcasts, an inter-processor interrupt) smallest clock first. The same events give the same
//! counts and cycles, however a run is cut into slices.
//!
//! An invalidation removes entries on every core it reaches at once; the architectures allow it
//! to take effect any time up to the barrier that completes it. Its *cost* is outstanding until
//! then.

mod core;
mod data;
mod events;
mod exceptions;
mod levels;
mod memo;
mod parameters;

use crate::access::{Access, Translation};
use crate::addr::Pa;
use crate::arch::Arch;
use crate::cache::DataPath;
use crate::cost::{Attribution, Category, Cycles, Ledger, Operation};
use crate::counters::Counters;
use crate::interconnect::Dvm;
use crate::memory::TableMemory;
use crate::observer::{Observer, TableStore};
use crate::profile::{Profile, ProfileError};
use crate::tables::Tables;

use self::core::Core;
use self::parameters::Parameters;

pub use self::events::{Barrier, ContextRegister, Domain, InstructionMix, OrderedAccesses};
pub use self::exceptions::ExceptionKind;
pub use crate::interconnect::CoreId;

/// How addresses are translated.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum TranslationMode {
    /// Through the profile's TLBs and walk caches.
    #[default]
    Modelled,
    /// Through TLBs of which the second level, and the walk caches in it, never evict: a stale
    /// entry stays until something removes it. Only under this mode does "no stale translation
    /// was used" say something about every machine.
    Hoarder,
    /// By a walk from the root for every access: no TLB, no walk cache.
    PassThrough,
}

/// Whether time passes.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Timing {
    /// Only counts; clocks move only by [`System::wait_until`] and [`System::ipi_receive`].
    Off,
    /// Every event is charged, and data accesses occupy the modelled caches.
    #[default]
    Full,
}

/// What all cores share.
#[derive(Clone, Debug)]
struct Shared {
    parameters: Parameters,
    timing: Timing,
    /// Software isolates page tables.
    isolates: bool,
    data: DataPath,
    /// One per broadcast domain.
    dvm: Vec<Dvm>,
}

impl Shared {
    fn price(&self, operation: Operation) -> Cycles {
        self.parameters.costs.of(operation)
    }
}

/// Cores and interconnect under one profile. `O` sees every event.
#[derive(Clone, Debug)]
pub struct System<A: Arch, O: Observer<A> = ()> {
    cores: Vec<Core<A>>,
    shared: Shared,
    tables: Tables,
    mode: TranslationMode,
    observer: O,
}

impl<A: Arch, O: Observer<A>> System<A, O> {
    /// A system of the first `cores` cores of the profile's machine, caches cold, clocks at zero,
    /// translating as [`TranslationMode::Modelled`] with [`Timing::Full`].
    ///
    /// # Errors
    /// If the profile is of another architecture or has fewer cores, or `cores` is 0.
    pub fn new(profile: &Profile, cores: usize, observer: O) -> Result<Self, ProfileError> {
        let implausible = |key: &str, found: String, expected: String| ProfileError::Implausible {
            profile: profile.name().to_owned(),
            key: key.to_owned(),
            found,
            expected,
        };
        if profile.arch() != A::NAME {
            let found = profile.arch().to_owned();
            return Err(implausible("arch", found, A::NAME.to_owned()));
        }
        if cores == 0 || cores > profile.cpus() {
            let expected = format!("1 to {} (topology.cpus)", profile.cpus());
            return Err(implausible("cpus", cores.to_string(), expected));
        }
        let parameters = Parameters::of(profile);
        let per_socket = profile.cpus() / profile.sockets();
        let mode = TranslationMode::default();
        Ok(Self {
            cores: (0..cores)
                .map(|index| Core::new(&parameters, index / per_socket, mode))
                .collect(),
            shared: Shared {
                data: DataPath::new(data::machine(profile, cores)),
                dvm: vec![Dvm::default(); profile.sockets()],
                timing: Timing::default(),
                isolates: false,
                parameters,
            },
            tables: Tables::new(),
            mode,
            observer,
        })
    }

    /// How many cores there are.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// How addresses are translated.
    #[must_use]
    pub const fn mode(&self) -> TranslationMode {
        self.mode
    }

    /// Changes how addresses are translated. All TLBs and walk caches become empty.
    pub fn set_mode(&mut self, mode: TranslationMode) {
        self.mode = mode;
        for core in &mut self.cores {
            core.empty_tlbs(&self.shared.parameters, mode);
        }
    }

    /// Whether time passes.
    #[must_use]
    pub const fn timing(&self) -> Timing {
        self.shared.timing
    }

    /// Switches time on or off. Clocks and caches keep their state.
    pub fn set_timing(&mut self, timing: Timing) {
        self.shared.timing = timing;
    }

    /// The observer.
    #[must_use]
    pub const fn observer(&self) -> &O {
        &self.observer
    }

    /// The observer, to be changed.
    pub const fn observer_mut(&mut self) -> &mut O {
        &mut self.observer
    }

    /// Sets the registers that a core's translation depends on, and makes the root tables that
    /// they name known to [`System::is_table`]. Takes no time and removes nothing: register
    /// writes are charged by [`System::context_write`], and what a write removes comes as
    /// [`System::invalidate`].
    pub fn set_context(&mut self, core: CoreId, context: A::Context, memory: &impl TableMemory) {
        let state = &mut self.cores[core.index()];
        if A::roots(&state.context) != A::roots(&context) {
            self.tables.add_roots::<A>(&context, memory);
        }
        self.observer.context(core, &context);
        state.set_context(context);
    }

    /// The registers that a core's translation depends on.
    #[must_use]
    pub fn context(&self, core: CoreId) -> &A::Context {
        &self.cores[core.index()].context
    }

    /// Makes an access of `size` bytes: translates its address, fills the TLBs, counts and
    /// charges. The access must not cross a 4 KiB boundary; callers split one that does.
    ///
    /// # Errors
    /// The architectural fault that the access takes.
    #[inline]
    pub fn access(
        &mut self,
        core: CoreId,
        access: &Access,
        size: u32,
        memory: &mut impl TableMemory,
    ) -> Result<Translation, A::Fault> {
        let state = &mut self.cores[core.index()];
        state.count_access(access.kind);
        let outcome = state.translate(
            &mut self.shared,
            self.mode,
            core,
            access,
            memory,
            &mut self.observer,
        );
        if let Ok(translation) = &outcome {
            state.charge_data(&mut self.shared, core, access, translation.pa, size, memory);
        }
        self.observer.access(core, access, &outcome);
        outcome
    }

    /// What [`System::access`] would answer now. Nothing is counted, charged, filled or stored.
    ///
    /// # Errors
    /// The architectural fault that the access would take.
    pub fn peek(
        &self,
        core: CoreId,
        access: &Access,
        memory: &impl TableMemory,
    ) -> Result<Translation, A::Fault> {
        self.cores[core.index()].peek(self.mode, access, memory)
    }

    /// Whether the frame of `pa` is known to hold a translation table. Takes constant time.
    #[inline]
    #[must_use]
    pub fn is_table(&self, pa: Pa) -> bool {
        self.tables.contains(pa)
    }

    /// The frames known to hold translation tables.
    #[must_use]
    pub const fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Counts a store that changed the aligned 8-byte word at `pa` from `old` to `new`, if the
    /// word is an entry of a known table, and learns which frames have become tables.
    pub fn table_store(
        &mut self,
        core: CoreId,
        pa: Pa,
        old: u64,
        new: u64,
        memory: &impl TableMemory,
    ) {
        let state = &mut self.cores[core.index()];
        let change = self.tables.store::<A>(&state.context, pa, old, new, memory);
        if let Some(change) = change {
            change.count(state.counters.tables_mut(change.place.half));
            let store = TableStore { pa, old, new };
            self.observer.table_store(core, &store, &change, memory);
        }
    }

    /// The time on a core's clock.
    #[must_use]
    pub fn clock(&self, core: CoreId) -> Cycles {
        self.cores[core.index()].clock
    }

    /// What a core has counted.
    #[must_use]
    pub fn counters(&self, core: CoreId) -> &Counters {
        &self.cores[core.index()].counters
    }

    /// What a core's time went to. The categories sum to its clock.
    #[must_use]
    pub fn attribution(&self, core: CoreId) -> &Attribution {
        let state = &self.cores[core.index()];
        debug_assert_eq!(state.attribution.total(), state.clock);
        &state.attribution
    }

    /// How often a core has paid each price.
    #[must_use]
    pub fn ledger(&self, core: CoreId) -> &Ledger {
        &self.cores[core.index()].ledger
    }

    fn charge(&mut self, core: CoreId, category: Category, operation: Operation) {
        if self.shared.timing == Timing::Full {
            self.cores[core.index()].pay(&self.shared, category, operation);
        }
    }
}
