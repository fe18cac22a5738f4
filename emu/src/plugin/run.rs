//! The run loop: everything that happens between two entries of the engine.

use mmuscope_models::access::Access;
use mmuscope_models::addr::Va;
use thiserror::Error;
use unicorn_engine::uc_error;

use super::Attached;
use super::hooks::flush;
use super::vcpu::{Counted, Exit};
use crate::arch::{EmuArch, Trap};

/// Why [`Attached::run`] came back.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The address given as the end was reached.
    Until,
    /// The guest calls the host with this number. The program counter is behind the call.
    Hypercall(u16),
    /// The guest sleeps until an interrupt.
    Idle,
    /// The guest waits in a loop (only with several cores).
    Spin,
    /// The slice is over, or another core must come first.
    Slice,
}

/// A run that cannot go on.
#[derive(Debug, Error)]
pub enum RunError {
    /// The engine refused a request.
    #[error("the engine refused a request: {0:?}")]
    Engine(uc_error),
    /// The engine stopped by itself.
    #[error("the engine stopped at {pc}: {error:?}")]
    Stopped {
        /// The program counter.
        pc: Va,
        /// What it says.
        error: uc_error,
    },
    /// An exception that no guest vector is defined for here.
    #[error("exception {number} of the engine at {pc} cannot be delivered to the guest")]
    Unexpected {
        /// The engine's number.
        number: u32,
        /// The program counter.
        pc: Va,
    },
    /// The guest has no usable handler.
    #[error("exception at {pc}: {reason}")]
    NoHandler {
        /// The program counter.
        pc: Va,
        /// Why it cannot be entered.
        reason: String,
    },
    /// An instruction is undone and retried for ever.
    #[error("the instruction at {pc} makes no progress after {attempts} attempts")]
    NoProgress {
        /// The program counter.
        pc: Va,
        /// How often it was tried.
        attempts: u32,
    },
}

impl From<uc_error> for RunError {
    fn from(error: uc_error) -> Self {
        Self::Engine(error)
    }
}

/// An instruction that crosses pages, both stale, with a soft-TLB flush between, needs four.
const MAX_ATTEMPTS: u32 = 64;

impl<'a, A: EmuArch, D: 'a> Attached<'a, A, D> {
    /// Runs the guest from `pc` until it gets to `until`, or something happens that is not the
    /// plugin's to handle. Retries, faults, interrupts and system calls are hidden.
    ///
    /// # Errors
    /// When the guest cannot go on.
    pub fn run(&mut self, pc: u64, until: Option<u64>) -> Result<Stop, RunError> {
        if let Some(until) = until {
            self.uc.ctl_set_exits(&[until])?;
        }
        let stopped = self.run_on(pc, until);
        if until.is_some() {
            self.uc.ctl_set_exits(&[])?;
        }
        stopped
    }

    /// The program counter.
    ///
    /// # Errors
    /// What the engine says.
    pub fn pc(&self) -> Result<u64, RunError> {
        Ok(self.uc.reg_read(A::PC)?)
    }

    fn run_on(&mut self, mut pc: u64, until: Option<u64>) -> Result<Stop, RunError> {
        self.attempts = (pc, 0);
        loop {
            let ended = self.uc.emu_start(pc, 0, 0, 0);
            if let Some(stop) = self.settle(ended, until)? {
                return Ok(stop);
            }
            pc = self.pc()?;
        }
    }

    /// Makes good what the engine's stop has left, and says whether the caller must know.
    fn settle(
        &mut self,
        ended: Result<(), uc_error>,
        until: Option<u64>,
    ) -> Result<Option<Stop>, RunError> {
        let (exit, soft_fault) = self.take_exit()?;
        let pc = self.pc()?;
        let Some(exit) = exit else {
            if let (Some(access), Err(_)) = (soft_fault, &ended) {
                return self.settle_fault(pc, &access).map(|()| None);
            }
            return self.settle_end(ended, pc, until);
        };
        match exit {
            Exit::Retry => self.again(pc).map(|()| None),
            Exit::Fault(access, fault) => {
                self.abandon(pc);
                A::deliver_fault(&mut self.uc, &self.handle, &access, &fault)?;
                Ok(None)
            }
            Exit::Slice => Ok(Some(Stop::Slice)),
            Exit::Interrupt => {
                A::deliver_interrupt(&mut self.uc, &self.handle)?;
                Ok(None)
            }
            Exit::PlaceHooks(addresses) => self.place_hooks(&addresses).map(|()| None),
            Exit::CodeChanged => self.drop_translations().map(|()| None),
            Exit::Hypercall(number) => {
                let next = pc.wrapping_add(A::HYPERCALL_LEN);
                self.abandon(next);
                self.uc.reg_write(A::PC, next)?;
                Ok(Some(Stop::Hypercall(number)))
            }
            Exit::Trap(trap) => self.settle_trap(pc, trap).map(|()| None),
            Exit::Spin => Ok(Some(Stop::Spin)),
            Exit::Unexpected(number) => Err(RunError::Unexpected {
                number,
                pc: Va::new(pc),
            }),
            Exit::Engine(error) => Err(RunError::Engine(error)),
        }
    }

    /// Why the engine stopped. After an abort, registers and memory are put back.
    fn take_exit(&mut self) -> Result<(Option<Exit<A>>, Option<Access>), RunError> {
        let (exit, soft_fault, saved) = self.handle.with(|vcpu, shared| {
            let exit = vcpu.exit.take();
            let soft_fault = vcpu.soft_fault.take();
            let saved = if std::mem::take(&mut vcpu.aborting) {
                vcpu.undo(shared);
                vcpu.saved.take()
            } else {
                None
            };
            (exit, soft_fault, saved)
        });
        if let Some(saved) = saved {
            self.uc.context_restore(&saved)?;
            let pc = self.pc()?;
            let again = matches!(exit, Some(Exit::Slice));
            self.handle.with(|vcpu, shared| {
                vcpu.saved = Some(saved);
                vcpu.privilege = A::privilege(&self.uc);
                if again {
                    vcpu.abandon_at(shared, pc);
                    vcpu.fetched = Some(pc);
                    vcpu.current.again(pc);
                }
            });
        }
        Ok((exit, soft_fault))
    }

    /// The instruction at `pc` is to be done again, with a fresh soft TLB.
    fn again(&mut self, pc: u64) -> Result<(), RunError> {
        self.attempts = match self.attempts {
            (same, count) if same == pc => (pc, count + 1),
            _ => (pc, 1),
        };
        if self.attempts.1 > MAX_ATTEMPTS {
            return Err(RunError::NoProgress {
                pc: Va::new(pc),
                attempts: self.attempts.1,
            });
        }
        let uc = &mut self.uc;
        self.handle.with(|vcpu, shared| {
            vcpu.abandon_at(shared, pc);
            vcpu.fetched = Some(pc);
            vcpu.current.again(pc);
            flush(uc, vcpu);
        });
        Ok(())
    }

    /// What is before `pc` was completed, and the guest goes elsewhere.
    fn abandon(&mut self, pc: u64) {
        self.handle.with(|vcpu, shared| {
            vcpu.abandon_at(shared, pc);
            vcpu.fetched = None;
            vcpu.current.begin(None);
        });
    }

    /// The whole present block was completed.
    fn complete(&mut self) {
        self.handle.with(|vcpu, shared| {
            vcpu.retire_all(shared);
            vcpu.fetched = None;
            vcpu.current.begin(None);
        });
    }

    /// The soft TLB missed and the model, only asked, said that the access faults: now it counts.
    fn settle_fault(&mut self, pc: u64, access: &Access) -> Result<(), RunError> {
        let fault = self.handle.with(|vcpu, shared| {
            vcpu.abandon_at(shared, pc);
            match shared.system.access(vcpu.core, access, 1, &mut shared.ram) {
                Err(fault) => Some(fault),
                Ok(found) => {
                    vcpu.current.again(pc);
                    vcpu.current.counted.push(Counted {
                        va: access.va,
                        kind: access.kind,
                        pa: found.pa,
                    });
                    None
                }
            }
        });
        match fault {
            Some(fault) => {
                self.abandon(pc);
                A::deliver_fault(&mut self.uc, &self.handle, access, &fault)
            }
            None => self.again(pc),
        }
    }

    /// The engine stopped by itself.
    fn settle_end(
        &mut self,
        ended: Result<(), uc_error>,
        pc: u64,
        until: Option<u64>,
    ) -> Result<Option<Stop>, RunError> {
        if let Err(error) = ended {
            return Err(RunError::Stopped {
                pc: Va::new(pc),
                error,
            });
        }
        self.complete();
        if until == Some(pc) {
            return Ok(Some(Stop::Until));
        }
        // Nothing else makes it stop without an error: WFI, HLT.
        Ok(Some(Stop::Idle))
    }

    fn settle_trap(&mut self, pc: u64, trap: Trap) -> Result<(), RunError> {
        match trap {
            Trap::Syscall => self.complete(),
            Trap::Exception(_) => self.abandon(pc),
        }
        A::deliver_trap(&mut self.uc, &self.handle, trap)
    }

    fn place_hooks(&mut self, addresses: &[u64]) -> Result<(), RunError> {
        self.hook_addresses(addresses)?;
        // Blocks translated before have no call to the hook.
        Ok(self.uc.ctl_flush_tb()?)
    }

    /// Adds hooks for instructions at addresses that have none yet.
    pub(crate) fn hook_addresses(&mut self, addresses: &[u64]) -> Result<(), RunError> {
        for va in addresses {
            let new = self.handle.vcpu.borrow_mut().hooked.insert(*va);
            if new {
                A::hook_address(&mut self.uc, &self.handle, *va)?;
            }
        }
        Ok(())
    }

    fn drop_translations(&mut self) -> Result<(), RunError> {
        self.uc.ctl_flush_tb()?;
        let uc = &mut self.uc;
        self.handle.with(|vcpu, shared| {
            vcpu.code_epoch = shared.code_epoch;
            flush(uc, vcpu);
        });
        Ok(())
    }
}
