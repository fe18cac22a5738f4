//! What this project's walker says an address translation instruction or an access gives.

use mmuscope_models::aarch64::{Aarch64, Fault, FaultKind, MemoryType, Shareability};
use mmuscope_models::access::AccessKind;
use mmuscope_models::addr::{Level, Pa};
use mmuscope_models::arch::{Arch, Leaf, Step, WalkVisitor};
use mmuscope_models::memory::TableMemory;

use super::mailbox::{Outcome, STORED};
use super::question::Question;
use super::tables::playground_number;
use crate::ram::{Overlay, Ram};

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
    /// The physical address, if there is a translation.
    pub pa: Option<u64>,
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

/// Walks for `question` and makes the access, if it is one; changes nothing in `ram`.
pub fn expect(ram: &Ram, question: &Question) -> Expected {
    let mut memory = Blinkered {
        memory: Overlay::new(ram),
        unseen: question.in_memory_order(question.unseen),
    };
    let mut trail = Trail {
        question,
        read: Vec::new(),
    };
    let (context, access) = (question.context(), question.access());
    let result = Aarch64::walk(&context, &access, None, &mut memory, &mut trail);
    let mut memory = memory.memory;
    let leaf = result.ok();
    let pa = leaf.map(|leaf| leaf.pa.raw() | question.va & (leaf.size.bytes() - 1));
    let outcome = match (result, pa) {
        (Err(fault), _) => question.faulted(fault),
        (Ok(_), Some(pa)) if question.op.is_access() => made(question, pa, &mut memory),
        (Ok(leaf), _) => Outcome::Par(translated(&leaf, question.va)),
    };
    Expected {
        outcome,
        leaf,
        pa,
        fault: result.err(),
        read: trail.read,
        writes: memory.into_writes(),
    }
}

/// Makes a permitted access at `pa`. Outside RAM nothing answers.
fn made(question: &Question, pa: u64, memory: &mut Overlay) -> Outcome {
    let Some(word) = memory.read_descriptor(Pa::new(pa)) else {
        return question.faulted(Fault::new(FaultKind::External, Level::L0));
    };
    Outcome::Done(match question.access().kind {
        AccessKind::Load => question.data_order(word),
        AccessKind::Store => {
            let stored = question.data_order(STORED);
            memory.exchange_descriptor(Pa::new(pa), word, stored);
            0
        }
        AccessKind::Fetch => playground_number(word),
    })
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
