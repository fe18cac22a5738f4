//! Operations that a profile prices, their prices on one machine, and how often they were paid.

use serde::Deserialize;

use super::Cycles;

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

            /// What it takes where a profile gives no price: so many of another operation,
            /// which stands before it.
            #[must_use]
            pub const fn fallback(self) -> Option<(Self, u64)> {
                match self {
                    Self::BlockLine => Some((Self::Store, 8)),
                    Self::IsolationSwitch => Some((Self::Cr3Keep, 1)),
                    _ => None,
                }
            }

            /// Which machines must price it.
            #[must_use]
            pub const fn applies(self) -> Applies {
                match self { $(Self::$variant => Applies::$on,)* }
            }
        }
    };
}

/// Which machines must price an operation.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Applies {
    /// All.
    Everywhere,
    /// Arm only.
    Aarch64,
    /// x86 only.
    X86,
    /// All that do it, without a price in most profiles: what it takes where none is given is
    /// derived from other prices.
    Optional,
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
    /// Writing or reading a whole line by an instruction that moves many (DC ZVA, REP STOS, REP
    /// MOVS), beside its stall. Default: eight stores.
    BlockLine = "block_line", Optional;
    /// Changing to the other set of page tables when the kernel is entered or left, where
    /// software isolates page tables. Default: a CR3 write that keeps the TLB.
    IsolationSwitch = "isolation_switch", Optional;
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

/// How often each priced thing happened on a core, as far as counters do not say it already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ledger {
    operations: [u64; Operation::COUNT],
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            operations: [0; Operation::COUNT],
        }
    }
}

impl Ledger {
    /// One more `operation` was charged.
    #[inline]
    pub const fn count(&mut self, operation: Operation) {
        self.operations[operation as usize] += 1;
    }

    /// How often `operation` was charged. Instruction classes are not kept here: see
    /// [`crate::counters::Instructions`].
    #[must_use]
    pub const fn of(&self, operation: Operation) -> u64 {
        self.operations[operation as usize]
    }

    /// Adds what `other` holds.
    pub fn merge(&mut self, other: &Self) {
        for (own, more) in self.operations.iter_mut().zip(&other.operations) {
            *own += more;
        }
    }

    /// What was added since `earlier`, a previous state of the same ledger.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut difference = self.clone();
        for (now, then) in difference.operations.iter_mut().zip(&earlier.operations) {
            *now = now.saturating_sub(*then);
        }
        difference
    }
}
