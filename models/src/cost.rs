//! Simulated time: cycles, the categories they are charged to, and the operations that have a
//! price.
//!
//! A core's clock only moves by charging cycles to exactly one [`Category`]; [`Attribution`]
//! keeps the sums, so the categories always add up to the clock.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize, Serializer};

/// A number of core cycles in fixed point: multiples of 1/1000 cycle.
///
/// Sums are exact and do not depend on their order, so a run gives the same clock on every host.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cycles(u64);

impl Cycles {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// How many units make a cycle.
    pub const UNITS: u64 = 1000;

    /// A whole number of cycles.
    #[must_use]
    pub const fn new(cycles: u64) -> Self {
        Self(cycles * Self::UNITS)
    }

    /// A number of thousandths of a cycle.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// `cycles` rounded to the nearest thousandth; negative and non-finite values become zero.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and the value was made non-negative"
    )]
    pub fn from_f64(cycles: f64) -> Self {
        if cycles.is_finite() && cycles > 0.0 {
            Self((cycles * 1000.0).round() as u64)
        } else {
            Self::ZERO
        }
    }

    /// The time in thousandths of a cycle.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The time in cycles.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "for reports; exact below 2^53 thousandths"
    )]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// The time in nanoseconds at a clock of `ghz`.
    #[must_use]
    pub fn nanoseconds(self, ghz: f64) -> f64 {
        self.as_f64() / ghz
    }

    /// `self - other`, or no time if `other` is later.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The time of `count` operations of this price.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl Add for Cycles {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Cycles {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Cycles {
    type Output = Self;
    /// The difference; no time if `other` is later.
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Sum for Cycles {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / Self::UNITS, self.0 % Self::UNITS)
    }
}

impl fmt::Debug for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cycles({self})")
    }
}

impl Serialize for Cycles {
    /// A number of cycles with up to three decimals.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

/// What a cycle was spent on.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Category {
    /// Instructions, at the cost of their class.
    Execute,
    /// Data accesses that missed the first-level data cache.
    Data,
    /// Translations that the second-level TLB had to give.
    L2Tlb,
    /// Table walks.
    Walk,
    /// Issuing TLB invalidations, and what a local one or an x86 flush takes.
    Invalidate,
    /// Waiting in a barrier for the core's own broadcast invalidations.
    BarrierWait,
    /// Barriers by themselves.
    Barrier,
    /// Writes of registers that translation depends on.
    ContextWrite,
    /// Exception, interrupt and system-call entry and exit.
    Exception,
    /// Sending inter-processor interrupts.
    IpiSend,
    /// Receiving them.
    IpiReceive,
    /// Idle: waiting for an event, an interrupt, or a line that another core will write.
    Wait,
}

impl Category {
    /// The number of categories.
    pub const COUNT: usize = 12;
    /// Every category, in the order of reports.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Execute,
        Self::Data,
        Self::L2Tlb,
        Self::Walk,
        Self::Invalidate,
        Self::BarrierWait,
        Self::Barrier,
        Self::ContextWrite,
        Self::Exception,
        Self::IpiSend,
        Self::IpiReceive,
        Self::Wait,
    ];

    /// The name in reports: lower case with underscores.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Data => "data",
            Self::L2Tlb => "l2_tlb",
            Self::Walk => "walk",
            Self::Invalidate => "invalidate",
            Self::BarrierWait => "barrier_wait",
            Self::Barrier => "barrier",
            Self::ContextWrite => "context_write",
            Self::Exception => "exception",
            Self::IpiSend => "ipi_send",
            Self::IpiReceive => "ipi_receive",
            Self::Wait => "wait",
        }
    }
}

/// Cycles by category.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attribution {
    by: [Cycles; Category::COUNT],
}

impl Attribution {
    /// Adds `cycles` to `category`.
    pub fn charge(&mut self, category: Category, cycles: Cycles) {
        self.by[category as usize] += cycles;
    }

    /// The cycles of one category.
    #[must_use]
    pub const fn get(&self, category: Category) -> Cycles {
        self.by[category as usize]
    }

    /// The sum over all categories: the time on the clock.
    #[must_use]
    pub fn total(&self) -> Cycles {
        self.by.iter().copied().sum()
    }

    /// What was added since `earlier`, a previous state of the same attribution.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = self.clone();
        for (now, then) in difference.by.iter_mut().zip(&earlier.by) {
            *now = *now - *then;
        }
        difference
    }

    /// Adds another core's or region's attribution.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.by.iter_mut().zip(&other.by) {
            *mine += *theirs;
        }
    }

    /// Every category with its cycles, in the order of reports.
    pub fn iter(&self) -> impl Iterator<Item = (Category, Cycles)> + '_ {
        Category::ALL.into_iter().map(|c| (c, self.get(c)))
    }
}

impl Serialize for Attribution {
    /// A map from category name to cycles.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(c, cycles)| (c.name(), cycles)))
    }
}

macro_rules! operations {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal, $on:ident;)*) => {
        /// An operation that a profile prices, in cycles or nanoseconds.
        #[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize)]
        #[repr(u8)]
        pub enum Operation {
            $($(#[doc = $doc])* #[serde(rename = $name)] $variant,)*
        }

        impl Operation {
            /// Every operation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// The number of operations.
            pub const COUNT: usize = Self::ALL.len();

            /// The key in profiles.
            #[must_use]
            pub const fn key(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it is, in a sentence.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),*),)* }
            }

            /// Which machines must price it.
            #[must_use]
            pub const fn applies(self) -> Applies {
                match self { $(Self::$variant => Applies::$on,)* }
            }
        }
    };
}

/// Which machines have an operation.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Applies {
    /// All.
    Everywhere,
    /// Arm only.
    Aarch64,
    /// x86 only.
    X86,
}

operations! {
    /// An integer, address or other plain instruction.
    Integer = "integer", Everywhere;
    /// A load that hits the first-level cache.
    Load = "load", Everywhere;
    /// A store.
    Store = "store", Everywhere;
    /// An atomic read-modify-write, uncontended.
    Atomic = "atomic", Everywhere;
    /// A branch, at the profile's average rate of misprediction.
    Branch = "branch", Everywhere;
    /// A system instruction that has no price of its own.
    System = "system", Everywhere;
    /// Any other instruction (floating point, vector).
    Other = "other", Everywhere;
    /// A translation from the second-level TLB, on top of a first-level hit.
    L2TlbHit = "l2_tlb_hit", Everywhere;
    /// Starting and finishing a table walk, without its reads.
    Walk = "walk", Everywhere;
    /// Writing TTBR0, TTBR1, TCR or another translation register; x86: CR0.
    ContextWrite = "context_write", Everywhere;
    /// Entering an exception handler by a fault.
    ExceptionEntry = "exception_entry", Everywhere;
    /// Returning from it.
    ExceptionExit = "exception_exit", Everywhere;
    /// Entering an interrupt handler.
    InterruptEntry = "interrupt_entry", Everywhere;
    /// Returning from it.
    InterruptExit = "interrupt_exit", Everywhere;
    /// SVC or SYSCALL.
    SyscallEntry = "syscall_entry", Everywhere;
    /// Return from a system call.
    SyscallExit = "syscall_exit", Everywhere;
    /// Sending an IPI to the first, or only, target of a request.
    IpiSendFirst = "ipi_send_first", Everywhere;
    /// Each further target of the same request.
    IpiSendNext = "ipi_send_next", Everywhere;
    /// From the request to the target's interrupt pin, in the same socket.
    IpiFlight = "ipi_flight", Everywhere;
    /// The same, to another socket.
    IpiFlightRemote = "ipi_flight_remote", Everywhere;
    /// What the target pays beside the interrupt entry: acknowledging, end of interrupt.
    IpiReceive = "ipi_receive", Everywhere;
    /// Issuing a broadcast TLBI.
    TlbiIssue = "tlbi_issue", Aarch64;
    /// A TLBI that stays on the core.
    TlbiLocal = "tlbi_local", Aarch64;
    /// From the issue of a broadcast TLBI to the shared server, and its answer back.
    DvmLatency = "dvm_latency", Aarch64;
    /// What one broadcast TLBI occupies the shared server for.
    DvmService = "dvm_service", Aarch64;
    /// What the synchronisation message of one DSB occupies it for.
    DvmSync = "dvm_sync", Aarch64;
    /// A full DSB with nothing outstanding.
    Dsb = "dsb", Aarch64;
    /// A DSB that reaches no further than the core.
    DsbLocal = "dsb_local", Aarch64;
    /// A DMB.
    Dmb = "dmb", Aarch64;
    /// An ISB.
    Isb = "isb", Aarch64;
    /// MFENCE, LFENCE or SFENCE.
    Fence = "fence", X86;
    /// INVLPG.
    Invlpg = "invlpg", X86;
    /// INVPCID of one address.
    InvpcidAddress = "invpcid_address", X86;
    /// INVPCID of one PCID.
    InvpcidContext = "invpcid_context", X86;
    /// INVPCID of everything.
    InvpcidAll = "invpcid_all", X86;
    /// MOV CR3 that flushes.
    Cr3Flush = "cr3_flush", X86;
    /// MOV CR3 that keeps the TLB.
    Cr3Keep = "cr3_keep", X86;
    /// MOV CR4 that changes PGE or PCIDE.
    Cr4Flush = "cr4_flush", X86;
}

/// The prices of one machine, resolved to cycles at its clock.
#[derive(Clone, PartialEq, Debug)]
pub struct Costs {
    prices: [Cycles; Operation::COUNT],
}

impl Costs {
    /// Prices that are all zero.
    #[must_use]
    pub const fn free() -> Self {
        Self {
            prices: [Cycles::ZERO; Operation::COUNT],
        }
    }

    /// The price of one `operation`.
    #[must_use]
    pub const fn of(&self, operation: Operation) -> Cycles {
        self.prices[operation as usize]
    }

    /// Sets the price of `operation`.
    pub fn set(&mut self, operation: Operation, price: Cycles) {
        self.prices[operation as usize] = price;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_listed_in_the_order_of_their_index() {
        for (index, category) in Category::ALL.into_iter().enumerate() {
            assert_eq!(category as usize, index);
        }
    }

    #[test]
    fn cycles_round_to_thousandths_and_never_go_negative() {
        assert_eq!(Cycles::from_f64(0.25), Cycles::from_millis(250));
        assert_eq!(Cycles::from_f64(-3.0), Cycles::ZERO);
        assert_eq!(Cycles::from_f64(f64::NAN), Cycles::ZERO);
        assert_eq!(Cycles::new(1) - Cycles::new(2), Cycles::ZERO);
        assert_eq!(Cycles::from_millis(1_250).to_string(), "1.250");
    }

    #[test]
    fn attribution_splits_into_before_and_since() {
        let mut early = Attribution::default();
        early.charge(Category::Walk, Cycles::new(3));
        let mut late = early.clone();
        late.charge(Category::Walk, Cycles::new(4));
        late.charge(Category::Data, Cycles::new(5));
        let mut sum = early.clone();
        sum.merge(&late.since(&early));
        assert_eq!(sum, late);
        assert_eq!(late.total(), Cycles::new(12));
    }
}
