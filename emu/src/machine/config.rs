//! What a machine is made of, and what a run of it gives.

use mmuscope_models::cost::{Attribution, Cycles, Ledger};
use mmuscope_models::counters::Counters;
use mmuscope_models::profile::Profile;
use mmuscope_models::system::{Timing, TranslationMode};

/// An optional feature that the guest is told of; the bit is that of the boot information.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Feature {
    /// AArch64: TLBI by range (FEAT_TLBIRANGE).
    TlbiRange,
    /// AArch64: level hints of TLBI (FEAT_TTL).
    LevelHint,
    /// AArch64: the erratum workaround that repeats each TLBI.
    RepeatTlbi,
    /// AArch64: hardware access flag and dirty state (FEAT_HAFDBS).
    HardwareDirty,
    /// AArch64: break-before-make level 2 without conflict aborts.
    BbmNoAbort,
    /// x86: process-context identifiers.
    Pcid,
    /// x86: INVPCID.
    Invpcid,
    /// x86: separate page tables for user mode.
    PageTableIsolation,
    /// x86: global pages.
    GlobalPages,
    /// x86: five-level paging.
    La57,
}

impl Feature {
    /// Its bit of the boot information's feature word.
    #[must_use]
    pub const fn bit(self) -> u64 {
        1 << match self {
            Self::TlbiRange => 0,
            Self::LevelHint => 1,
            Self::RepeatTlbi => 2,
            Self::HardwareDirty => 3,
            Self::BbmNoAbort => 4,
            Self::Pcid => 16,
            Self::Invpcid => 17,
            Self::PageTableIsolation => 18,
            Self::GlobalPages => 19,
            Self::La57 => 20,
        }
    }
}

/// A machine to boot.
#[derive(Clone, Debug)]
pub struct MachineConfig {
    /// What its cores are.
    pub profile: Profile,
    /// How many; at least 1.
    pub cpus: usize,
    /// RAM in bytes, a multiple of 4 KiB.
    pub ram: u64,
    /// Feature bits ([`Feature::bit`]).
    pub features: u64,
    /// How translations are made.
    pub mode: TranslationMode,
    /// Whether time passes.
    pub timing: Timing,
    /// Where the cores' phases come from; without one, every core begins at once and nothing
    /// disturbs it. See [`super::phase`].
    pub seed: Option<u64>,
    /// The longest time that one core runs before the others get their turn, in instructions.
    /// With one core it only says how often progress is reported. Does not change results.
    pub slice: u64,
    /// The most instructions that all cores together may execute.
    pub instruction_limit: u64,
}

impl MachineConfig {
    /// One core of `profile` with `ram` bytes.
    #[must_use]
    pub const fn new(profile: Profile, ram: u64) -> Self {
        Self {
            profile,
            cpus: 1,
            ram,
            features: 0,
            mode: TranslationMode::Modelled,
            timing: Timing::Full,
            seed: None,
            slice: 2000,
            instruction_limit: 100_000_000_000,
        }
    }
}

/// How a guest ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GuestExit {
    /// By the exit call, with this code: 0 is fine, 3 says that a check failed.
    Code(u64),
    /// By the panic call.
    Panic(String),
}

/// What one core has counted and taken.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Account {
    /// What it counted.
    pub counters: Counters,
    /// Where its cycles went.
    pub attribution: Attribution,
    /// How often it paid each price.
    pub ledger: Ledger,
    /// The time that interrupts took.
    pub interrupted: Cycles,
}

impl Account {
    /// What was added since `earlier`, a previous state of the same account.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            counters: self.counters.since(&earlier.counters),
            attribution: self.attribution.since(&earlier.attribution),
            ledger: self.ledger.since(&earlier.ledger),
            interrupted: self.interrupted - earlier.interrupted,
        }
    }
}

/// One core's part of a region of interest.
#[derive(Clone, PartialEq, Debug)]
pub struct RegionCore {
    /// What it counted and took.
    pub account: Account,
    /// Its clock at the beginning.
    pub start: Cycles,
    /// Its clock at the end.
    pub end: Cycles,
}

/// A region of interest that the guest has marked.
#[derive(Clone, PartialEq, Debug)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Every core, whether it took part or not.
    pub per_core: Vec<RegionCore>,
}

/// What a run gives.
#[derive(Clone, PartialEq, Debug)]
pub struct RunOutcome {
    /// How the guest ended.
    pub exit: GuestExit,
    /// What it printed.
    pub console: String,
    /// Its regions of interest, in the order of their ends.
    pub regions: Vec<Region>,
    /// Key and value pairs that it reported.
    pub results: Vec<(String, String)>,
    /// Checks of its own that failed: if there are any, its results cannot be trusted.
    pub unsafe_reports: Vec<String>,
    /// The latest clock of any core.
    pub total_cycles: Cycles,
    /// What each core counted and took from boot to end.
    pub totals: Vec<Account>,
}

/// How far a run has come.
#[derive(Copy, Clone, Debug)]
pub struct Progress<'a> {
    /// Instructions executed by all cores.
    pub instructions: u64,
    /// The clock of the core that ran last.
    pub clock: Cycles,
    /// The region that was last entered and not left.
    pub region: Option<&'a str>,
}
