//! A recording through a modelled system.

use mmuscope_models::access::{AccessKind, Privilege, Translation};
use mmuscope_models::addr::{Pa, PageSize, Va};
use mmuscope_models::arch::Arch;
use mmuscope_models::cost::Cycles;
use mmuscope_models::memory::TableMemory;
use mmuscope_models::observer::Observer;
use mmuscope_models::system::{self, CoreId, Domain, ExceptionKind, OrderedAccesses, System};

use super::arch::{RecordedArch, UnusableRecord};
use super::cpus::RecordedCpus;
use super::record::{Barrier, ContextRegister, DataAccess, Event, Record};
use super::retire::Unretired;
use super::sections::{Section, Sections};
use super::tables::RecordedTables;

/// No instruction is longer, on either architecture.
const LONGEST_INSTRUCTION: u64 = 15;

/// Feeds a system with a recording: instructions, fetches, data accesses, table stores, register
/// writes, invalidations, barriers and IPIs.
///
/// What a recording does not show is filled in: classes of instructions (see the module `retire`),
/// entries into the kernel from user mode (charged as system calls, faults among them), and where
/// an IPI goes (to every other CPU). What CPUs wait for each other is what the recorded machine
/// waited: its rounds of a spin loop are replayed as they were.
///
/// Records before the first table are passed over: nothing can be translated there.
#[derive(Debug)]
pub struct Replay<A: RecordedArch, O: Observer<A> = ()> {
    system: System<A, O>,
    tables: RecordedTables,
    cpus: RecordedCpus<A>,
    state: Vec<CpuState>,
    /// CPUs whose registers the system does not have yet: roots are shown to it together with
    /// the tables, and those come in the records that follow.
    pending: Vec<u8>,
}

/// What a replay knows of a CPU beyond its registers.
#[derive(Clone, Debug, Default)]
struct CpuState {
    unretired: Unretired,
    sections: Sections,
    mode: Option<Privilege>,
    /// It was entered from user mode, and has not returned.
    in_call: bool,
    /// IPIs that it has not taken, by arrival.
    arrivals: Vec<Cycles>,
    in_interrupt: bool,
}

/// What the system answered to a data access.
pub type Answer<A> = Result<Translation, <A as Arch>::Fault>;

impl<A: RecordedArch, O: Observer<A>> Replay<A, O> {
    /// Replays into `system`, which should be fresh.
    #[must_use]
    pub fn new(system: System<A, O>) -> Self {
        let cores = u8::try_from(system.cores()).unwrap_or(u8::MAX);
        Self {
            system,
            tables: RecordedTables::new(A::ISA),
            cpus: RecordedCpus::new(),
            state: vec![CpuState::default(); cores.into()],
            pending: (0..cores).collect(),
        }
    }

    /// The system, for its counters.
    #[must_use]
    pub const fn system(&self) -> &System<A, O> {
        &self.system
    }

    /// The tables as they are now.
    #[must_use]
    pub const fn tables(&self) -> &RecordedTables {
        &self.tables
    }

    /// Feeds one record. If it is a data access, gives what the system answered for its first
    /// byte.
    ///
    /// # Errors
    /// A record of another architecture, of a CPU that the system does not have, or with an
    /// operation that the models do not execute.
    pub fn step(&mut self, record: &Record) -> Result<Option<Answer<A>>, UnusableRecord> {
        if usize::from(record.cpu) >= self.system.cores() {
            return Err(UnusableRecord::Cpu(record.cpu));
        }
        let flush = self.cpus.apply(record)?;
        if let Event::Context { register, .. } = record.event {
            self.write_context(record.cpu, register, flush);
            return Ok(None);
        }
        if matches!(record.event, Event::Table(_)) || self.tables.is_empty() {
            self.tables.apply(&record.event);
            return Ok(None);
        }
        self.show_contexts();
        let core = CoreId::new(record.cpu.into());
        match &record.event {
            Event::Exec {
                start,
                instructions,
                bytes,
                privilege,
            } => {
                self.begin_run(record.cpu, *privilege);
                self.state[core.index()].unretired.run(*instructions);
                let longest = u64::from(*instructions) * LONGEST_INSTRUCTION;
                self.fetch(record.cpu, *start, (*bytes).min(longest));
            }
            Event::Load(access) => {
                self.state[core.index()].unretired.load();
                return Ok(Some(self.access(record.cpu, AccessKind::Load, access)));
            }
            Event::Store(access) => {
                self.state[core.index()].unretired.store();
                let answer = self.access(record.cpu, AccessKind::Store, access);
                self.store(core, access, &record.event);
                return Ok(Some(answer));
            }
            Event::Tlbi(maintenance) => {
                let op = A::maintenance(self.cpus.context(record.cpu), maintenance)?;
                self.state[core.index()].unretired.system();
                self.retire(core);
                self.system.invalidate(core, &op);
            }
            Event::Barrier(barrier) => {
                self.state[core.index()].unretired.barrier();
                self.retire(core);
                self.system.barrier(core, decode(*barrier));
            }
            Event::Ipi(_) => {
                self.state[core.index()].unretired.system();
                self.retire(core);
                self.send(core);
            }
            Event::Context { .. } | Event::Table(_) => {}
        }
        Ok(None)
    }

    /// Ends the replay: what was run is retired, and interrupts return.
    pub fn finish(&mut self) {
        for index in 0..self.state.len() {
            let core = CoreId::new(u16::try_from(index).unwrap_or(u16::MAX));
            self.retire(core);
            self.leave_interrupt(core);
            let mode = self.state[index].mode.unwrap_or(Privilege::User);
            self.state[index].sections.enter(&self.system, core, mode);
        }
    }

    /// What a CPU did in user mode, up to its last change of mode or [`Replay::finish`].
    ///
    /// # Panics
    /// The system has no such CPU.
    #[must_use]
    pub fn user(&self, cpu: usize) -> &Section {
        &self.state[cpu].sections.user
    }

    /// What a CPU did in the kernel, up to its last change of mode or [`Replay::finish`].
    ///
    /// # Panics
    /// The system has no such CPU.
    #[must_use]
    pub fn kernel(&self, cpu: usize) -> &Section {
        &self.state[cpu].sections.kernel
    }

    fn retire(&mut self, core: CoreId) {
        let mix = self.state[core.index()].unretired.take();
        self.system.retire(core, &mix);
    }

    /// The instructions that follow run with `mode`.
    fn begin_run(&mut self, cpu: u8, mode: Privilege) {
        let core = CoreId::new(cpu.into());
        self.retire(core);
        let state = &mut self.state[core.index()];
        let (user, kernel) = (Privilege::User, Privilege::Supervisor);
        match (state.mode.replace(mode), mode) {
            // The call ends before the section does.
            (Some(Privilege::Supervisor), Privilege::User) => {
                if std::mem::take(&mut state.in_call) {
                    self.system.exception_exit(core, ExceptionKind::Syscall);
                }
                self.state[core.index()]
                    .sections
                    .enter(&self.system, core, user);
            }
            (Some(Privilege::User), Privilege::Supervisor) => {
                state.in_call = true;
                state.sections.enter(&self.system, core, kernel);
                self.system
                    .exception_entry(core, ExceptionKind::Syscall, user);
            }
            (None, mode) => state.sections.enter(&self.system, core, mode),
            _ => {}
        }
        if mode == kernel {
            self.take_interrupts(core);
        }
    }

    /// An IPI to every other CPU.
    fn send(&mut self, from: CoreId) {
        for index in 0..self.state.len() {
            let to = CoreId::new(u16::try_from(index).unwrap_or(u16::MAX));
            if to != from {
                let arrival = self.system.ipi_send(from, to);
                self.state[index].arrivals.push(arrival);
            }
        }
    }

    /// A CPU that runs kernel code takes the IPIs that were sent to it.
    fn take_interrupts(&mut self, core: CoreId) {
        for arrival in std::mem::take(&mut self.state[core.index()].arrivals) {
            self.leave_interrupt(core);
            self.system.ipi_receive(core, arrival);
            let (kind, from) = (ExceptionKind::Interrupt, Privilege::User);
            self.system.exception_entry(core, kind, from);
            self.state[core.index()].in_interrupt = true;
        }
    }

    fn leave_interrupt(&mut self, core: CoreId) {
        if std::mem::take(&mut self.state[core.index()].in_interrupt) {
            self.system.exception_exit(core, ExceptionKind::Interrupt);
        }
    }

    fn write_context(
        &mut self,
        cpu: u8,
        register: ContextRegister,
        flush: Option<A::Invalidation>,
    ) {
        self.pending.push(cpu);
        if self.tables.is_empty() {
            return;
        }
        let core = CoreId::new(cpu.into());
        self.state[core.index()].unretired.system();
        self.retire(core);
        self.system.context_write(
            core,
            match register {
                ContextRegister::Ttbr0 => system::ContextRegister::Ttbr0,
                ContextRegister::Ttbr1 => system::ContextRegister::Ttbr1,
                ContextRegister::Tcr => system::ContextRegister::Tcr,
                ContextRegister::Cr3 => system::ContextRegister::Cr3 {
                    flushes: flush.is_some(),
                },
            },
        );
        if let Some(op) = flush {
            self.system.invalidate(core, &op);
        }
    }

    fn show_contexts(&mut self) {
        for cpu in self.pending.drain(..) {
            let context = self.cpus.context(cpu).clone();
            let core = CoreId::new(cpu.into());
            self.system.set_context(core, context, &self.tables);
        }
    }

    /// Fetches from every page of a run. A fault shows in the system's counters.
    fn fetch(&mut self, cpu: u8, start: Va, bytes: u64) {
        let core = CoreId::new(cpu.into());
        let mut done = 0;
        while done < bytes.max(1) {
            let va = start.wrapping_add(done);
            let piece = rest_of_page(va).min(bytes.max(1) - done);
            let access = self.cpus.access(cpu, va, AccessKind::Fetch);
            let size = u32::try_from(piece).unwrap_or(4096);
            // The caller learns of faults from the counters.
            let _ = self.system.access(core, &access, size, &mut self.tables);
            done += piece;
        }
    }

    fn access(&mut self, cpu: u8, kind: AccessKind, recorded: &DataAccess) -> Answer<A> {
        let core = CoreId::new(cpu.into());
        let size = u64::from(recorded.size);
        let first = rest_of_page(recorded.va).min(size);
        let mut piece = |va: Va, bytes: u64| {
            let access = self.cpus.access(cpu, va, kind);
            let bytes = u32::try_from(bytes).unwrap_or(64);
            self.system.access(core, &access, bytes, &mut self.tables)
        };
        let answer = piece(recorded.va, first)?;
        if first < size {
            piece(recorded.va.wrapping_add(first), size - first)?;
        }
        Ok(answer)
    }

    /// Stores the recorded value, and tells the system if that changed a table.
    fn store(&mut self, core: CoreId, store: &DataAccess, event: &Event) {
        let word = Pa::new(store.pa.raw() & !7);
        let old = self.tables.read_descriptor(word);
        self.tables.apply(event);
        if let (Some(old), Some(new)) = (old, self.tables.read_descriptor(word))
            && old != new
        {
            let tables = &self.tables;
            self.system.table_store(core, word, old, new, tables);
        }
    }
}

fn rest_of_page(va: Va) -> u64 {
    PageSize::Size4K.bytes() - va.offset_in(PageSize::Size4K)
}

/// A barrier's CRm in the system's terms: the domain in bits 3:2, the accesses in bits 1:0.
fn decode(barrier: Barrier) -> system::Barrier {
    match barrier {
        Barrier::Isb => system::Barrier::Isb,
        Barrier::Dsb(crm) => system::Barrier::Dsb {
            domain: match crm >> 2 & 3 {
                0 => Domain::Outer,
                1 => Domain::Non,
                2 => Domain::Inner,
                _ => Domain::Full,
            },
            kind: match crm & 3 {
                1 => OrderedAccesses::Loads,
                2 => OrderedAccesses::Stores,
                _ => OrderedAccesses::All,
            },
        },
    }
}
