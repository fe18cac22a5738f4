//! What this project's walker says an address translation instruction gives.

use mmuscope_models::aarch64::{
    Aarch64, Context, Fault, FaultKind, Implementation, MemoryType, PaRange, Sctlr, Shareability,
};
use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::{Level, Pa, Va};
use mmuscope_models::arch::{Arch, Half, Leaf, Step, WalkVisitor};

use mmuscope_models::memory::TableMemory;

use super::mailbox::{Op, Outcome, Registers};
use crate::ram::{Overlay, Ram};

/// One request, and what of memory the answer goes by.
#[derive(Copy, Clone, Debug)]
pub struct Question {
    pub registers: Registers,
    pub op: Op,
    pub va: u64,
    /// Descriptor bits that read as zero: none, but for a deviation.
    pub unseen: u64,
}

impl Question {
    /// The half of the address space.
    pub fn half(&self) -> Half {
        if self.va >> 55 & 1 == 0 {
            Half::Lower
        } else {
            Half::Upper
        }
    }

    /// Whether it is about an access of EL0.
    pub fn el0(&self) -> bool {
        matches!(access_of(self.op), (_, Privilege::User, _))
    }

    /// `raw` between its value and its bytes in memory.
    pub const fn in_memory_order(&self, raw: u64) -> u64 {
        if Sctlr::new(self.registers.sctlr).big_endian() {
            raw.swap_bytes()
        } else {
            raw
        }
    }

    /// The walker's registers.
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
            implementation: Implementation {
                pa_range: PaRange::Bits52,
            },
        }
    }
}

/// Memory in which some bits of every descriptor read as zero.
struct Blinkered<'a> {
    memory: Overlay<'a>,
    unseen: u64,
}

impl TableMemory for Blinkered<'_> {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        Some(self.memory.read_descriptor(pa)? & !self.unseen)
    }

    fn exchange_descriptor(&mut self, pa: Pa, current: u64, new: u64) -> Option<u64> {
        let whole = self.memory.read_descriptor(pa)?;
        let held = whole & !self.unseen;
        if held == current {
            let kept = whole & self.unseen;
            self.memory.exchange_descriptor(pa, whole, new | kept)?;
        }
        Some(held)
    }
}

/// The outcome of one request.
#[derive(Clone, Debug)]
pub struct Expected {
    /// What the instruction gives.
    pub outcome: Outcome,
    /// The translation, if there is one.
    pub leaf: Option<Leaf<Aarch64>>,
    /// The fault, if the walk ends in one.
    pub fault: Option<Fault>,
    /// The descriptors that the walk read, in order, in the order of bytes of the regime.
    pub read: Vec<Read>,
    /// What the walk would write: address and value.
    pub writes: Vec<(u64, u64)>,
}

/// A descriptor that a walk read.
#[derive(Copy, Clone, Debug)]
pub struct Read {
    pub at: u64,
    pub raw: u64,
    pub level: Level,
}

/// Notes the descriptors.
struct Trail<'a> {
    question: &'a Question,
    read: Vec<Read>,
}

impl WalkVisitor<Aarch64> for Trail<'_> {
    fn step(&mut self, step: &Step<Aarch64>) {
        self.read.push(Read {
            at: step.at.raw(),
            raw: self.question.in_memory_order(step.raw),
            level: step.level,
        });
    }
}

/// Kind and privilege of the access that `op` asks about, and whether PSTATE.PAN counts.
const fn access_of(op: Op) -> (AccessKind, Privilege, bool) {
    match op {
        Op::S1E1R => (AccessKind::Load, Privilege::Supervisor, false),
        Op::S1E1W => (AccessKind::Store, Privilege::Supervisor, false),
        Op::S1E0R => (AccessKind::Load, Privilege::User, false),
        Op::S1E0W => (AccessKind::Store, Privilege::User, false),
        Op::S1E1RP => (AccessKind::Load, Privilege::Supervisor, true),
        Op::S1E1WP => (AccessKind::Store, Privilege::Supervisor, true),
    }
}

/// Walks for `question`; changes nothing in `ram`.
pub fn expect(ram: &Ram, question: &Question) -> Expected {
    let (kind, privilege, _) = access_of(question.op);
    let context = question.context();
    let access = Access::new(Va::new(question.va), kind, privilege);
    let mut memory = Blinkered {
        memory: Overlay::new(ram),
        unseen: question.in_memory_order(question.unseen),
    };
    let mut trail = Trail {
        question,
        read: Vec::new(),
    };
    let result = Aarch64::walk(&context, &access, None, &mut memory, &mut trail);
    Expected {
        fault: result.as_ref().err().copied(),
        leaf: result.as_ref().ok().copied(),
        outcome: match result {
            Ok(leaf) => Outcome::Par(translated(&leaf, question.va)),
            Err(fault) => faulted(fault),
        },
        read: trail.read,
        writes: memory.memory.into_writes(),
    }
}

/// PAR_EL1 of a translation: address, memory attributes, shareability, NS.
fn translated(leaf: &Leaf<Aarch64>, va: u64) -> u64 {
    let pa = leaf.pa.raw() | va & (leaf.size.bytes() - 1);
    let memory = leaf.attrs.memory;
    // Device and fully non-cacheable memory is reported as outer shareable.
    let shareability = if memory.is_device() || memory == MemoryType::new(0x44) {
        Shareability::Outer
    } else {
        leaf.attrs.shareability
    };
    let attributes = u64::from(memory.raw()) << 56 | shareability_field(shareability) << 7;
    pa & !0xfff | attributes | 1 << 11 | 1 << 9
}

/// The encoding of a shareability field.
pub const fn shareability_field(shareability: Shareability) -> u64 {
    match shareability {
        Shareability::Non => 0b00,
        Shareability::Outer => 0b10,
        Shareability::Inner => 0b11,
    }
}

/// The outcome of a fault: F and the fault status code in PAR_EL1. External aborts on walks are not
/// reported there but taken.
pub fn faulted(fault: Fault) -> Outcome {
    let code = u64::from(fault.fsc());
    match fault.kind {
        FaultKind::ExternalOnWalk => Outcome::Taken(code),
        _ => Outcome::Par(1 << 11 | code << 1 | 1),
    }
}
