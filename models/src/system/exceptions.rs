//! Exceptions, interrupts and system calls: entry, exit, and the time that interrupts take away from
//! what they interrupt.

use super::{CoreId, System};
use crate::access::Privilege;
use crate::arch::Arch;
use crate::cost::{Category, Cycles, Operation};
use crate::observer::Observer;

/// Why an exception handler is entered.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum ExceptionKind {
    /// A fault or another synchronous exception.
    Sync,
    /// An interrupt.
    Interrupt,
    /// A system call.
    Syscall,
}

/// What a core knows about the handlers it is in.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupted {
    /// Interrupts that have not returned.
    depth: u32,
    /// When the outermost of them was entered.
    since: Cycles,
    /// Time in all that have returned.
    total: Cycles,
    /// For each handler, the innermost in the lowest bit: it was entered from user mode.
    from_user: u64,
}

impl Interrupted {
    /// Time that an interrupt took outside its handler.
    pub(super) fn add(&mut self, time: Cycles) {
        if self.depth == 0 {
            self.total += time;
        }
    }

    fn enter(&mut self, kind: ExceptionKind, now: Cycles, from_user: bool) {
        self.from_user = self.from_user << 1 | u64::from(from_user);
        if kind == ExceptionKind::Interrupt {
            if self.depth == 0 {
                self.since = now;
            }
            self.depth += 1;
        }
    }

    /// Whether the handler that is left returns to user mode.
    const fn leave(&mut self) -> bool {
        let to_user = self.from_user & 1 != 0;
        self.from_user >>= 1;
        to_user
    }

    fn left(&mut self, kind: ExceptionKind, now: Cycles) {
        if kind == ExceptionKind::Interrupt && self.depth != 0 {
            self.depth -= 1;
            if self.depth == 0 {
                self.total += now - self.since;
            }
        }
    }

    fn until(&self, now: Cycles) -> Cycles {
        match self.depth {
            0 => self.total,
            _ => self.total + (now - self.since),
        }
    }
}

impl<A: Arch, O: Observer<A>> System<A, O> {
    /// Whether software keeps the page tables of user mode apart from the kernel's (x86): entering
    /// the kernel from user mode and returning there then changes tables, at the price of
    /// [`Operation::IsolationSwitch`]. The register writes themselves are the guest's.
    pub fn set_isolation(&mut self, isolates: bool) {
        self.shared.isolates = isolates;
    }

    /// Enters an exception handler from code that ran with privilege `from`.
    pub fn exception_entry(&mut self, core: CoreId, kind: ExceptionKind, from: Privilege) {
        let from_user = from == Privilege::User;
        let state = &mut self.cores[core.index()];
        state.interrupted.enter(kind, state.clock, from_user);
        let counts = &mut state.counters.exceptions;
        let (counter, operation) = match kind {
            ExceptionKind::Sync => (&mut counts.sync, Operation::ExceptionEntry),
            ExceptionKind::Interrupt => (&mut counts.interrupt, Operation::InterruptEntry),
            ExceptionKind::Syscall => (&mut counts.syscall, Operation::SyscallEntry),
        };
        *counter += 1;
        self.charge(core, Category::Exception, operation);
        self.switch_tables(core, from_user);
    }

    /// Returns from a handler that was entered for `kind`.
    pub fn exception_exit(&mut self, core: CoreId, kind: ExceptionKind) {
        let state = &mut self.cores[core.index()];
        state.counters.exceptions.returns += 1;
        let to_user = state.interrupted.leave();
        let operation = match kind {
            ExceptionKind::Sync => Operation::ExceptionExit,
            ExceptionKind::Interrupt => Operation::InterruptExit,
            ExceptionKind::Syscall => Operation::SyscallExit,
        };
        self.switch_tables(core, to_user);
        self.charge(core, Category::Exception, operation);
        let state = &mut self.cores[core.index()];
        state.interrupted.left(kind, state.clock);
    }

    fn switch_tables(&mut self, core: CoreId, crosses: bool) {
        if crosses && self.shared.isolates {
            self.charge(core, Category::Exception, Operation::IsolationSwitch);
        }
    }

    /// The time that interrupts have taken on a core: acknowledging them, entry, handler and exit.
    /// Whatever the handler does is in it, so that the categories of [`System::attribution`] hold
    /// the same time again.
    #[must_use]
    pub fn interrupted(&self, core: CoreId) -> Cycles {
        let state = &self.cores[core.index()];
        state.interrupted.until(state.clock)
    }
}
