//! One request: registers, an operation and an address, and what they mean to the walker.

use mmuscope_models::aarch64::{Context, Fault, FaultKind, Sctlr, Tcr};
use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::Va;
use mmuscope_models::arch::Half;

use super::mailbox::{Op, Outcome, Registers};

/// One request, and what of memory the answer goes by.
#[derive(Copy, Clone, Debug)]
pub struct Question {
    pub registers: Registers,
    pub op: Op,
    pub va: u64,
    /// Descriptor bits that read as zero: none, but for a deviation.
    pub unseen: u64,
}

/// Kind and privilege of the access that `op` makes or asks about, and whether PSTATE.PAN counts.
const fn access_of(op: Op) -> (AccessKind, Privilege, bool) {
    use AccessKind::{Fetch, Load, Store};
    use Privilege::{Supervisor, User};
    match op {
        Op::S1E1R | Op::S12E1R => (Load, Supervisor, false),
        Op::S1E1W | Op::S12E1W => (Store, Supervisor, false),
        Op::S1E0R | Op::S12E0R | Op::El0Load | Op::Ldtr => (Load, User, false),
        Op::S1E0W | Op::S12E0W | Op::El0Store | Op::Sttr => (Store, User, false),
        Op::S1E1RP | Op::El1Load | Op::LdtrUao => (Load, Supervisor, true),
        Op::S1E1WP | Op::El1Store | Op::SttrUao => (Store, Supervisor, true),
        Op::El1Fetch => (Fetch, Supervisor, true),
        Op::El0Fetch => (Fetch, User, false),
    }
}

/// The half of the address space that `va` belongs to.
pub const fn half_of(va: u64) -> Half {
    if va >> 55 & 1 == 0 {
        Half::Lower
    } else {
        Half::Upper
    }
}

impl Question {
    /// The half of the address space.
    pub const fn half(&self) -> Half {
        half_of(self.va)
    }

    /// The access.
    pub const fn access(&self) -> Access {
        let (kind, privilege, _) = access_of(self.op);
        Access::new(Va::new(self.va), kind, privilege)
    }

    /// Whether it is about an access with the privilege of EL0.
    pub fn el0(&self) -> bool {
        self.access().privilege == Privilege::User
    }

    /// Whether an instruction at EL0 makes the access.
    const fn is_from_el0(&self) -> bool {
        matches!(self.op, Op::El0Load | Op::El0Store | Op::El0Fetch)
    }

    /// `raw` between its value and its bytes in memory, as table walks have it.
    pub const fn in_memory_order(&self, raw: u64) -> u64 {
        if Sctlr::new(self.registers.sctlr).big_endian() {
            raw.swap_bytes()
        } else {
            raw
        }
    }

    /// `value` between a register and its bytes in memory: SCTLR_EL1.E0E is always clear.
    pub const fn data_order(&self, value: u64) -> u64 {
        if self.is_from_el0() {
            value
        } else {
            self.in_memory_order(value)
        }
    }

    /// The walker's registers. The processor has 52 physical address bits, as by default.
    pub fn context(&self) -> Context {
        let registers = &self.registers;
        let (.., pan) = access_of(self.op);
        Context {
            sctlr: registers.sctlr,
            tcr: registers.tcr,
            ttbr0: registers.ttbr0,
            ttbr1: registers.ttbr1,
            mair: registers.mair,
            pan: pan && registers.pan,
            ..Context::default()
        }
    }

    /// How `fault` shows: in ESR_EL1 and FAR_EL1 after an access; in PAR_EL1 after an address
    /// translation instruction, but for external aborts on the walk, which are taken.
    pub fn faulted(&self, fault: Fault) -> Outcome {
        let code = u64::from(fault.fsc());
        if self.op.is_access() {
            Outcome::Aborted {
                esr: fault.esr(&self.access(), self.is_from_el0()),
                far: self.far(),
            }
        } else if fault.kind == FaultKind::ExternalOnWalk {
            Outcome::Taken(code)
        } else {
            Outcome::Par(1 << 11 | code << 1 | 1)
        }
    }

    /// The address that FAR_EL1 gives: a tag is dropped on the way into the program counter.
    fn far(&self) -> u64 {
        let fetch = self.access().kind == AccessKind::Fetch;
        let tcr = Tcr::new(self.registers.tcr);
        if fetch && tcr.top_byte_ignored(self.half(), true) {
            ((self.va << 8).cast_signed() >> 8).cast_unsigned()
        } else {
            self.va
        }
    }
}
