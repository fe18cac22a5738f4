//! What a recording's CPUs did in user mode, and what in the kernel.

use mmuscope_models::access::Privilege;
use mmuscope_models::cost::{Attribution, Cycles, Ledger};
use mmuscope_models::counters::Counters;
use mmuscope_models::observer::Observer;
use mmuscope_models::system::{CoreId, System};

use super::arch::RecordedArch;

/// What one CPU counted and took in one of its modes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Section {
    /// What it counted.
    pub counters: Counters,
    /// Where its cycles went.
    pub attribution: Attribution,
    /// How often it paid each price.
    pub ledger: Ledger,
    /// The time that interrupts took.
    pub interrupted: Cycles,
    /// What its clock advanced.
    pub cycles: Cycles,
}

impl Section {
    fn of<A: RecordedArch, O: Observer<A>>(system: &System<A, O>, core: CoreId) -> Self {
        Self {
            counters: system.counters(core).clone(),
            attribution: system.attribution(core).clone(),
            ledger: system.ledger(core).clone(),
            interrupted: system.interrupted(core),
            cycles: system.clock(core),
        }
    }

    fn add(&mut self, now: &Self, since: &Self) {
        self.counters.merge(&now.counters.since(&since.counters));
        self.attribution
            .merge(&now.attribution.since(&since.attribution));
        self.ledger.merge(&now.ledger.since(&since.ledger));
        self.interrupted += now.interrupted - since.interrupted;
        self.cycles += now.cycles - since.cycles;
    }
}

/// A CPU's sections.
#[derive(Clone, Debug)]
pub(super) struct Sections {
    mode: Privilege,
    since: Section,
    pub(super) user: Section,
    pub(super) kernel: Section,
}

impl Default for Sections {
    fn default() -> Self {
        Self {
            mode: Privilege::User,
            since: Section::default(),
            user: Section::default(),
            kernel: Section::default(),
        }
    }
}

impl Sections {
    /// Ends the section that `core` is in, and goes on in `mode`.
    pub(super) fn enter<A: RecordedArch, O: Observer<A>>(
        &mut self,
        system: &System<A, O>,
        core: CoreId,
        mode: Privilege,
    ) {
        let now = Section::of(system, core);
        let section = match self.mode {
            Privilege::User => &mut self.user,
            _ => &mut self.kernel,
        };
        section.add(&now, &self.since);
        self.since = now;
        self.mode = mode;
    }
}
