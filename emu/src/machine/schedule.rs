//! Whose turn it is.
//!
//! The core with the smallest clock runs, for at most a slice. Before anything that another core
//! can observe it also stops if another core is behind it ([`Vcpu::horizon`]), so that such things
//! happen in the order of simulated time whatever the length of the slices. Equal clocks are
//! ordered by core number.
//!
//! [`Vcpu::horizon`]: crate::plugin::Vcpu

use mmuscope_models::addr::Va;
use mmuscope_models::cost::Cycles;
use mmuscope_models::system::Timing;

use super::{GuestExit, Machine, MachineError};
use crate::arch::EmuArch;
use crate::plugin::{Interrupt, Stop};

/// What a core is doing.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Not started.
    Off,
    /// Executing.
    Runnable,
    /// In WFI or HLT: an interrupt wakes it.
    Idle,
    /// In a loop that waits for memory: a store to what it reads wakes it, or an interrupt.
    Waiting,
}

/// How far ahead of the others a core may run at most: more would save the host little.
const LOOKAHEAD: Cycles = Cycles::new(300);

/// A whole turn of a machine with one core, in instructions: nobody else wants one.
const SOLO_SLICE: u64 = 20_000_000;

impl<A: EmuArch + 'static> Machine<A> {
    /// When the core can go on, if nothing else happens.
    fn ready_at(&self, index: usize) -> Option<Cycles> {
        let core = &self.cores[index];
        let clock = core.attached.now();
        let interrupt = || {
            core.attached
                .handle()
                .with(|vcpu, _| vcpu.interrupts.first().copied())
        };
        match core.state {
            State::Off => None,
            State::Runnable => Some(clock),
            State::Idle => interrupt().map(|first| first.arrival.max(clock)),
            State::Waiting if core.attached.interruptible() => {
                interrupt().map(|first| first.arrival.max(clock))
            }
            State::Waiting => None,
        }
    }

    /// The core whose turn it is, ready to run.
    pub(super) fn next_core(&mut self) -> Result<usize, MachineError> {
        let ready = (0..self.cores.len()).filter_map(|index| Some((self.ready_at(index)?, index)));
        let Some((when, index)) = ready.min() else {
            return Err(MachineError::Deadlock(self.describe()));
        };
        if self.cores[index].state != State::Runnable {
            self.wake(index, when);
        }
        Ok(index)
    }

    fn wake(&mut self, index: usize, when: Cycles) {
        let core = &mut self.cores[index];
        core.state = State::Runnable;
        core.attached.handle().with(|vcpu, shared| {
            shared.wait_until(vcpu.core, when);
            vcpu.disturb(shared);
            if let Some(lines) = shared.lines.as_mut() {
                lines.wake(vcpu.core);
            }
        });
    }

    fn describe(&self) -> String {
        let cores = self.cores.iter().enumerate();
        let states: Vec<_> = cores
            .map(|(index, core)| format!("core {index} {:?} at {}", core.state, Va::new(core.pc)))
            .collect();
        states.join(", ")
    }

    /// How far other cores have come: the latest clock at which core `index` may do what they can
    /// observe.
    fn horizon(&self, index: usize) -> Cycles {
        let others = (0..self.cores.len()).filter(|other| *other != index);
        let limits = others.filter_map(|other| {
            let ready = self.ready_at(other)?;
            // At equal clocks the core with the lower number goes first.
            let first = if other < index { 1 } else { 0 };
            Some(Cycles::from_millis(ready.millis().saturating_sub(first)))
        });
        limits.min().unwrap_or(Cycles::from_millis(u64::MAX))
    }

    /// How far ahead of the others a core may run: not further than an interrupt is on its way, so
    /// that one that arrives is taken at the first block after its arrival. Without time there is
    /// no such moment.
    pub(super) fn lookahead(&self) -> Cycles {
        let shared = self.shared.borrow();
        match shared.system.timing() {
            Timing::Full => shared.system.shortest_flight().min(LOOKAHEAD),
            Timing::Off => LOOKAHEAD,
        }
    }

    /// Lets a core run, and sees to what it did. Says how the guest ended, if it did.
    pub(super) fn turn(&mut self, index: usize) -> Result<Option<GuestExit>, MachineError> {
        let alone = self.cores.len() == 1;
        let slice = if alone { SOLO_SLICE } else { self.slice };
        let slice = slice.min(self.instruction_limit.saturating_sub(self.executed));
        let pc = self.cores[index].pc;
        if slice == 0 {
            return Err(MachineError::InstructionLimit {
                executed: self.executed,
                core: index,
                pc: Va::new(pc),
            });
        }
        let horizon = self.horizon(index);
        let limit = horizon.millis().saturating_add(self.lookahead().millis());
        let core = &mut self.cores[index];
        let before = core.attached.retired();
        core.attached.handle().with(|vcpu, _| {
            vcpu.budget = slice;
            vcpu.horizon = horizon;
            vcpu.limit = Cycles::from_millis(limit);
        });
        let fail = |source| MachineError::Run {
            core: index,
            source,
        };
        let stop = core.attached.run(pc, None).map_err(fail)?;
        core.pc = core.attached.pc().map_err(fail)?;
        let after = core.attached.retired();
        self.executed += after - before;
        self.deliver(index);
        match stop {
            Stop::Until | Stop::Slice => Ok(None),
            Stop::Hypercall(number) => self.hypercall(index, number),
            Stop::Idle => {
                self.cores[index].state = State::Idle;
                Ok(None)
            }
            Stop::Spin => {
                self.spin(index)?;
                Ok(None)
            }
        }
    }

    /// Hands over interrupts that were sent, and wakes cores whose lines were written.
    fn deliver(&mut self, writer: usize) {
        let now = self.cores[writer].attached.now();
        let (sent, woken) = {
            let mut shared = self.shared.borrow_mut();
            let woken = shared.lines.as_mut().map(|lines| lines.take_woken());
            (
                std::mem::take(&mut shared.outbox),
                woken.unwrap_or_default(),
            )
        };
        for sent in sent {
            let interrupt = Interrupt {
                arrival: sent.arrival,
                number: sent.number,
            };
            if let Some(core) = self.cores.get(sent.to.index()) {
                core.attached
                    .handle()
                    .with(|vcpu, _| vcpu.interrupt(interrupt));
            }
        }
        for core in woken {
            if self
                .cores
                .get(core.index())
                .is_some_and(|core| core.state == State::Waiting)
            {
                self.wake(core.index(), now);
            }
        }
    }

    /// A waiting hint. If the registers are as they were at the last one, and the round between
    /// read the same lines as the one before and wrote none that others use, nothing will change
    /// until one of the lines is written or an interrupt comes: the core sleeps.
    fn spin(&mut self, index: usize) -> Result<(), MachineError> {
        let core = &mut self.cores[index];
        let registers = A::registers(core.attached.engine()).map_err(MachineError::Engine)?;
        let same = registers == core.at_hint;
        core.at_hint = registers;
        let sleeps = core.attached.handle().with(|vcpu, shared| {
            let round = vcpu.round.end()?;
            let lines = shared.lines.as_mut()?;
            (same && lines.sleep(vcpu.core, &round)).then_some(())
        });
        if sleeps.is_some() {
            core.state = State::Waiting;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mmuscope_models::aarch64::Aarch64;
    use mmuscope_models::profile::Profile;

    use super::*;
    use crate::machine::MachineConfig;

    fn lookahead(flight_ns: &str) -> Cycles {
        let mut profile = Profile::builtin("cortex-a76").unwrap();
        profile.set("cost.ns.ipi_flight", flight_ns).unwrap();
        let config = MachineConfig::new(profile, 64 << 20);
        let elf = mmuscope_guest::tests::HELLO.elf(mmuscope_guest::ArchName::Aarch64);
        Machine::<Aarch64>::boot(&config, elf, &[])
            .unwrap()
            .lookahead()
    }

    #[test]
    fn no_core_runs_past_the_arrival_of_an_interrupt() {
        assert_eq!(lookahead("300"), LOOKAHEAD);
        let profile = Profile::builtin("cortex-a76").unwrap();
        assert_eq!(lookahead("2"), profile.cycles(2.0));
        assert_eq!(lookahead("0"), Cycles::ZERO);
    }
}
