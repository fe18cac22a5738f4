//! The events that are not accesses: retirement, invalidations, barriers, register writes and
//! inter-processor interrupts. Exceptions have a file of their own.

use super::{CoreId, System, Timing};
use crate::arch::{Arch, Reach};
use crate::cost::{Category, Costs, Cycles, Operation};
use crate::counters::MaintenanceKind;
use crate::observer::Observer;

/// Retired instructions by class; see [`crate::counters::Instructions`].
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct InstructionMix {
    /// Integer, address and other plain instructions.
    pub integer: u32,
    /// Loads.
    pub load: u32,
    /// Stores.
    pub store: u32,
    /// Atomic read-modify-writes and exclusives.
    pub atomic: u32,
    /// Branches.
    pub branch: u32,
    /// Barriers and fences. They cost nothing here: [`System::barrier`] charges them.
    pub barrier: u32,
    /// System instructions.
    pub system: u32,
    /// The rest: floating point, vector.
    pub other: u32,
}

impl InstructionMix {
    /// All classes together.
    #[must_use]
    pub fn total(&self) -> u64 {
        let classes = [
            self.integer,
            self.load,
            self.store,
            self.atomic,
            self.branch,
            self.barrier,
            self.system,
            self.other,
        ];
        classes.into_iter().map(u64::from).sum()
    }

    /// What the instructions take, without stalls.
    fn cost(&self, costs: &Costs) -> Cycles {
        [
            (self.integer, Operation::Integer),
            (self.load, Operation::Load),
            (self.store, Operation::Store),
            (self.atomic, Operation::Atomic),
            (self.branch, Operation::Branch),
            (self.system, Operation::System),
            (self.other, Operation::Other),
        ]
        .into_iter()
        .map(|(count, class)| costs.of(class).times(u64::from(count)))
        .sum()
    }
}

/// The shareability domain of a DSB.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Domain {
    /// SY: the full system.
    Full,
    /// ISH: the inner-shareable domain.
    Inner,
    /// OSH: the outer-shareable domain.
    Outer,
    /// NSH: the core.
    Non,
}

/// The accesses that a DSB waits for. Only one that waits for both completes invalidations.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum OrderedAccesses {
    /// Loads and stores.
    All,
    /// Loads.
    Loads,
    /// Stores.
    Stores,
}

/// A barrier instruction.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Barrier {
    /// AArch64 DSB.
    Dsb {
        /// How far it reaches.
        domain: Domain,
        /// What it waits for.
        kind: OrderedAccesses,
    },
    /// AArch64 DMB of any kind.
    Dmb,
    /// AArch64 ISB.
    Isb,
    /// x86 MFENCE, LFENCE or SFENCE.
    Fence,
    /// AMD's TLBSYNC: waits for the core's INVLPGBs. Counted and priced as a fence.
    TlbSync,
}

/// A register that translation depends on.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum ContextRegister {
    /// TTBR0_EL1.
    Ttbr0,
    /// TTBR1_EL1.
    Ttbr1,
    /// TCR_EL1.
    Tcr,
    /// MAIR_EL1.
    Mair,
    /// SCTLR_EL1.
    Sctlr,
    /// CR0.
    Cr0,
    /// CR3. Its time is charged by the invalidation it causes, or as one that keeps the TLB.
    Cr3 {
        /// The write removes translations: an invalidation of kind
        /// [`MaintenanceKind::Cr3`] comes with it.
        flushes: bool,
    },
    /// CR4.
    Cr4,
    /// IA32_EFER.
    Efer,
}

impl<A: Arch, O: Observer<A>> System<A, O> {
    /// Counts and charges retired instructions.
    #[inline]
    pub fn retire(&mut self, core: CoreId, mix: &InstructionMix) {
        let state = &mut self.cores[core.index()];
        let counts = &mut state.counters.instructions;
        counts.integer += u64::from(mix.integer);
        counts.load += u64::from(mix.load);
        counts.store += u64::from(mix.store);
        counts.atomic += u64::from(mix.atomic);
        counts.branch += u64::from(mix.branch);
        counts.barrier += u64::from(mix.barrier);
        counts.system += u64::from(mix.system);
        counts.other += u64::from(mix.other);
        if self.shared.timing == Timing::Full {
            state.charge(Category::Execute, mix.cost(&self.shared.parameters.costs));
        }
    }

    /// Executes a TLB maintenance operation on `core`: removes what it must remove on every core
    /// it reaches, counts and charges it. A broadcast stays outstanding until a barrier of its
    /// issuer completes it.
    pub fn invalidate(&mut self, core: CoreId, op: &A::Invalidation) {
        let broadcast = A::reach(op) != Reach::Local;
        let class = A::class(op);
        let issuer = &mut self.cores[core.index()];
        issuer.counters.count_maintenance(class, broadcast);
        if broadcast {
            self.charge(core, Category::Invalidate, Operation::TlbiIssue);
            if self.shared.timing == Timing::Full {
                let issuer = &mut self.cores[core.index()];
                issuer.outstanding.issue(issuer.clock);
            }
        } else if let Some(operation) = local_price(class.kind) {
            self.charge(core, Category::Invalidate, operation);
        }
        let reached = if broadcast {
            0..self.cores.len()
        } else {
            core.index()..core.index() + 1
        };
        for index in reached {
            let target = &mut self.cores[index];
            let removal = target.remove(op);
            target.count_removal(&removal, index != core.index());
            #[expect(clippy::cast_possible_truncation, reason = "at most 1024 cores")]
            let target = CoreId::new(index as u16);
            self.observer.invalidate(core, target, op, &removal);
        }
    }

    /// Executes a barrier. A DSB that waits for loads and stores and reaches beyond the core
    /// completes the core's broadcasts, and waits for them.
    pub fn barrier(&mut self, core: CoreId, barrier: Barrier) {
        self.observer.barrier(core, barrier);
        let state = &mut self.cores[core.index()];
        let counts = &mut state.counters.barriers;
        let (counter, operation) = match barrier {
            Barrier::Dsb { domain, kind } => {
                let counter = match (domain, kind) {
                    (Domain::Inner, OrderedAccesses::All) => &mut counts.dsb_ish,
                    (Domain::Inner, OrderedAccesses::Stores) => &mut counts.dsb_ishst,
                    (Domain::Non, _) => &mut counts.dsb_nsh,
                    _ => &mut counts.dsb_other,
                };
                let local = domain == Domain::Non;
                let operation = if local {
                    Operation::DsbLocal
                } else {
                    Operation::Dsb
                };
                (counter, operation)
            }
            Barrier::Dmb => (&mut counts.dmb, Operation::Dmb),
            Barrier::Isb => (&mut counts.isb, Operation::Isb),
            Barrier::Fence | Barrier::TlbSync => (&mut counts.fence, Operation::Fence),
        };
        *counter += 1;
        self.charge(core, Category::Barrier, operation);
        if let Barrier::Dsb {
            domain,
            kind: OrderedAccesses::All,
        } = barrier
            && domain != Domain::Non
        {
            self.complete_broadcasts(core);
        }
        if barrier == Barrier::TlbSync {
            self.complete_broadcasts(core);
        }
    }

    fn complete_broadcasts(&mut self, core: CoreId) {
        let state = &mut self.cores[core.index()];
        if state.outstanding.is_empty() {
            return;
        }
        let parameters = &self.shared.parameters;
        let domain = if parameters.dvm_by_socket {
            state.socket
        } else {
            0
        };
        let server = &mut self.shared.dvm[domain];
        let done = server.synchronise(&parameters.dvm, &mut state.outstanding, state.clock);
        state.charge(Category::BarrierWait, done - state.clock);
    }

    /// Counts and charges the write of a register that translation depends on.
    pub fn context_write(&mut self, core: CoreId, register: ContextRegister) {
        use ContextRegister as Register;
        let counts = &mut self.cores[core.index()].counters.context_writes;
        let counter = match register {
            Register::Ttbr0 => &mut counts.ttbr0,
            Register::Ttbr1 => &mut counts.ttbr1,
            Register::Tcr => &mut counts.tcr,
            Register::Mair => &mut counts.mair,
            Register::Sctlr => &mut counts.sctlr,
            Register::Cr0 => &mut counts.cr0,
            Register::Cr3 { .. } => &mut counts.cr3,
            Register::Cr4 => &mut counts.cr4,
            Register::Efer => &mut counts.efer,
        };
        *counter += 1;
        match register {
            Register::Cr3 { flushes: true } => {}
            Register::Cr3 { flushes: false } => {
                self.charge(core, Category::ContextWrite, Operation::Cr3Keep);
            }
            _ => self.charge(core, Category::ContextWrite, Operation::ContextWrite),
        }
    }

    /// Sends an inter-processor interrupt. Further sends before anything else is charged to the
    /// sender are further targets of the same request, and cheaper, on machines that can address
    /// several with one. Returns when the interrupt
    /// reaches the target, in the time that all clocks share.
    pub fn ipi_send(&mut self, from: CoreId, to: CoreId) -> Cycles {
        let same_request = {
            let sender = &mut self.cores[from.index()];
            sender.counters.ipis_sent += 1;
            self.shared.parameters.ipi_multicast && sender.ipi_sent_at == Some(sender.clock)
        };
        let operation = if same_request {
            Operation::IpiSendNext
        } else {
            Operation::IpiSendFirst
        };
        self.charge(from, Category::IpiSend, operation);
        let target_socket = self.cores[to.index()].socket;
        let sender = &mut self.cores[from.index()];
        sender.ipi_sent_at = Some(sender.clock);
        let flight = if sender.socket == target_socket {
            Operation::IpiFlight
        } else {
            Operation::IpiFlightRemote
        };
        match self.shared.timing {
            Timing::Full => sender.clock + self.shared.parameters.costs.of(flight),
            Timing::Off => sender.clock,
        }
    }

    /// The shortest time between the sending of an interrupt and its arrival at another core.
    #[must_use]
    pub fn shortest_flight(&self) -> Cycles {
        let costs = &self.shared.parameters.costs;
        costs
            .of(Operation::IpiFlight)
            .min(costs.of(Operation::IpiFlightRemote))
    }

    /// Receives an inter-processor interrupt that arrived at `arrival`: a core that is earlier
    /// waits until then. The entry of the handler is charged by [`System::exception_entry`].
    pub fn ipi_receive(&mut self, core: CoreId, arrival: Cycles) {
        self.wait_until(core, arrival);
        self.cores[core.index()].counters.ipis_received += 1;
        let before = self.clock(core);
        self.charge(core, Category::IpiReceive, Operation::IpiReceive);
        let state = &mut self.cores[core.index()];
        state.interrupted.add(state.clock - before);
    }

    /// Lets an idle core's clock run on to `time`, if it is not there yet.
    pub fn wait_until(&mut self, core: CoreId, time: Cycles) {
        let state = &mut self.cores[core.index()];
        state.charge(Category::Wait, time - state.clock);
    }
}

/// What an invalidation that stays on the core costs. MOV CR4 and the rest are priced here too,
/// beside the register write that causes them.
const fn local_price(kind: MaintenanceKind) -> Option<Operation> {
    use MaintenanceKind as Kind;
    Some(match kind {
        Kind::TlbiAll | Kind::TlbiAsid | Kind::TlbiVa | Kind::TlbiVaa | Kind::TlbiRange => {
            Operation::TlbiLocal
        }
        Kind::Invlpg => Operation::Invlpg,
        Kind::InvpcidAddress => Operation::InvpcidAddress,
        Kind::InvpcidContext => Operation::InvpcidContext,
        Kind::InvpcidAll | Kind::InvpcidAllNonGlobal => Operation::InvpcidAll,
        Kind::Cr3 => Operation::Cr3Flush,
        Kind::Cr4 => Operation::Cr4Flush,
        Kind::Other => return None,
    })
}
