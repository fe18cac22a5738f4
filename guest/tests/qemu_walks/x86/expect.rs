//! What this project's walker says an access gives.

use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::{Level, Pa, Va};
use mmuscope_models::arch::{Arch, Leaf, Step, WalkVisitor};
use mmuscope_models::memory::TableMemory;
use mmuscope_models::x86::{Context, Fault, PhysicalBits, X86_64};

use super::mailbox::{DONE, Outcome, Registers, STORED, server_entry};
use super::tables::{in_playground, playground_number};
use crate::ram::{Overlay, Ram};

/// CR4.PAE and CR4.PGE, which the server always sets.
const CR4_BASE: u64 = 0xa0;
/// CR4.LA57.
const CR4_LA57: u64 = 1 << 12;
/// CR0.PG.
const CR0_PG: u64 = 1 << 31;

/// One request.
#[derive(Copy, Clone, Debug)]
pub struct Question {
    pub registers: Registers,
    pub la57: bool,
    pub physical_bits: PhysicalBits,
    pub access: Access,
    /// RFLAGS.AC.
    pub ac: bool,
}

impl Question {
    /// The operation of the server.
    pub fn op(&self) -> u64 {
        let kind = match self.access.kind {
            AccessKind::Load => 0,
            AccessKind::Store => 1,
            AccessKind::Fetch => 2,
        };
        let user = self.access.privilege == Privilege::User;
        kind | u64::from(user) << 2 | u64::from(self.ac) << 3
    }

    /// The walker's registers.
    pub fn context(&self) -> Context {
        let registers = &self.registers;
        let la57 = if self.la57 { CR4_LA57 } else { 0 };
        Context {
            cr0: CR0_PG | registers.cr0,
            cr3: registers.cr3,
            cr4: CR4_BASE | la57 | registers.cr4,
            efer: registers.efer,
            ac: self.ac,
            pkru: registers.pkru,
            pkrs: registers.pkrs,
            physical_bits: self.physical_bits,
            ..Context::default()
        }
    }
}

/// An entry that a walk read.
#[derive(Copy, Clone, Debug)]
pub struct Read {
    pub at: u64,
    pub raw: u64,
    pub level: Level,
}

/// The outcome of one request.
#[derive(Clone, Debug)]
pub struct Expected {
    pub outcome: Outcome,
    /// The translation, if there is one.
    pub leaf: Option<Leaf<X86_64>>,
    /// The physical address of the access, if there is a translation.
    pub pa: Option<u64>,
    /// The entries that the walk read, in order.
    pub read: Vec<Read>,
    /// What the walk and the access write: address and value.
    pub writes: Vec<(u64, u64)>,
}

/// Memory that answers everywhere: zero where there is no RAM.
struct OpenBus<'a>(Overlay<'a>);

impl TableMemory for OpenBus<'_> {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        Some(self.0.read_descriptor(pa).unwrap_or(NO_RAM))
    }

    fn exchange_descriptor(&mut self, pa: Pa, current: u64, new: u64) -> Option<u64> {
        Some(
            self.0
                .exchange_descriptor(pa, current, new)
                .unwrap_or(current),
        )
    }
}

/// What reads give where there is no RAM.
const NO_RAM: u64 = 0;

#[derive(Default)]
struct Trail(Vec<Read>);

impl WalkVisitor<X86_64> for Trail {
    fn step(&mut self, step: &Step<X86_64>) {
        self.0.push(Read {
            at: step.at.raw(),
            raw: step.raw,
            level: step.level,
        });
    }
}

/// Makes the access of `question`; changes nothing in `ram`. `None` if it cannot be made for the
/// sake of the test: a fetch from where no instructions are, a store that hits the server.
pub fn expect(ram: &Ram, question: &Question) -> Option<Expected> {
    let context = question.context();
    let access = &question.access;
    let mut memory = OpenBus(Overlay::new(ram));
    let mut trail = Trail::default();
    let result = X86_64::walk(&context, access, None, &mut memory, &mut trail);
    let leaf = result.ok();
    let pa = leaf.map(|leaf| leaf.pa.raw() | access.va.offset_in(leaf.size));
    let outcome = match (result, pa) {
        (Err(fault), _) => faulted(fault, access.va),
        (Ok(_), Some(pa)) => done(access.kind, pa, server_entry(ram), &mut memory)?,
        (Ok(_), None) => return None,
    };
    Some(Expected {
        outcome,
        leaf,
        pa,
        read: trail.0,
        writes: memory.0.into_writes(),
    })
}

fn faulted(fault: Fault, va: Va) -> Outcome {
    Outcome {
        vector: u64::from(fault.vector()),
        error: u64::from(fault.error_code()),
        cr2: match fault {
            Fault::PageFault { .. } => va.raw(),
            _ => 0,
        },
        value: 0,
    }
}

/// Makes a permitted access at `pa`, but no store over the entry that leads to the server.
fn done(kind: AccessKind, pa: u64, server: u64, memory: &mut OpenBus) -> Option<Outcome> {
    let word = memory.read_descriptor(Pa::new(pa))?;
    let value = match kind {
        AccessKind::Load => word,
        AccessKind::Store if word == server => return None,
        AccessKind::Store => {
            memory.exchange_descriptor(Pa::new(pa), word, STORED)?;
            0
        }
        AccessKind::Fetch if in_playground(pa) => playground_number(word),
        AccessKind::Fetch => return None,
    };
    Some(Outcome {
        vector: DONE,
        error: 0,
        cr2: 0,
        value,
    })
}
