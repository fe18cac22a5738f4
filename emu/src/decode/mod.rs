//! Guest instructions, decoded once per translated block.
//!
//! The engine announces blocks, not instructions. A [`Block`] says how many instructions of each
//! class the block has and where, so that any executed prefix can be counted exactly, and names
//! the instructions that the emulator must treat specially ([`Mark`]).

mod aarch64;
mod cache;
mod x86;

use mmuscope_models::system::{Barrier, InstructionMix};

pub use aarch64::decode as decode_aarch64;
pub use cache::{BlockCache, BlockId};
pub use x86::{Gpr, MemoryOperand, X86Decoder, X86Insn, X86Site, needs_hook};

/// The class an instruction is counted and priced in.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Class {
    /// Integer and everything without a class of its own.
    Integer,
    /// Reads memory.
    Load,
    /// Writes memory, possibly after reading it, without being atomic.
    Store,
    /// Atomic read-modify-write, exclusive load or store.
    Atomic,
    /// Branches, calls, returns.
    Branch,
    /// Barriers and fences.
    Barrier,
    /// System registers, maintenance, exception generation and return.
    System,
    /// Floating point and vector.
    Other,
}

/// What an instruction means to the emulator beside being counted.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Mark {
    /// Nothing.
    #[default]
    Plain,
    /// A barrier: the model completes what it orders.
    Barrier(Barrier),
    /// Returns from an exception; privilege may change.
    Return,
    /// Says that a loop is waiting: YIELD, WFE, PAUSE.
    Spin,
    /// Sleeps until an interrupt: WFI, HLT.
    Idle,
    /// Accesses memory with user privilege from the kernel (LDTR, STTR).
    Unprivileged,
    /// Repeats itself: the engine begins a block for every element (x86 REP).
    Repeat,
}

/// One instruction of a block.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Insn {
    /// Its distance from the start of the block, in bytes.
    pub offset: u16,
    /// Its class.
    pub class: Class,
    /// What else is to be known.
    pub mark: Mark,
    /// It has an effect that only a hook on its address can intercept (x86).
    pub hooked: bool,
}

/// A decoded block.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Every instruction, in order.
    pub insns: Vec<Insn>,
    /// All of them by class.
    pub mix: InstructionMix,
    /// Any instruction has a mark other than [`Mark::Plain`].
    pub marked: bool,
    /// Any instruction can make more than one access.
    pub multiple: bool,
    /// Any instruction can be observed by another core, or observes one, in an order that is no
    /// data race: barriers, atomics, maintenance, waiting, interrupts sent, hypercalls.
    pub ordered: bool,
    /// Any instruction accesses memory with user privilege.
    pub unprivileged: bool,
    /// Any instruction needs a hook on its address.
    pub hooked: bool,
    /// Any instruction repeats itself.
    pub repeats: bool,
}

/// What decoding one instruction gives.
#[derive(Copy, Clone, Debug)]
pub struct Decoded {
    /// Its class.
    pub class: Class,
    /// Its mark.
    pub mark: Mark,
    /// It can make more than one access.
    pub multiple: bool,
    /// It makes its block [`Block::ordered`].
    pub ordered: bool,
    /// It needs a hook on its address.
    pub hooked: bool,
}

impl Decoded {
    const fn plain(class: Class) -> Self {
        Self::marked(class, Mark::Plain, false)
    }

    const fn marked(class: Class, mark: Mark, ordered: bool) -> Self {
        Self {
            class,
            mark,
            multiple: false,
            ordered,
            hooked: false,
        }
    }
}

impl Block {
    /// Appends an instruction.
    pub fn push(&mut self, offset: u16, decoded: Decoded) {
        let Decoded {
            class,
            mark,
            multiple,
            ordered,
            hooked,
        } = decoded;
        self.insns.push(Insn {
            offset,
            class,
            mark,
            hooked,
        });
        count(&mut self.mix, class);
        self.marked |= mark != Mark::Plain;
        self.multiple |= multiple;
        self.ordered |= ordered;
        self.unprivileged |= mark == Mark::Unprivileged;
        self.hooked |= hooked;
        self.repeats |= mark == Mark::Repeat;
    }

    /// How many instructions start before `offset`.
    #[must_use]
    pub fn count_before(&self, offset: u64) -> usize {
        self.insns
            .partition_point(|insn| u64::from(insn.offset) < offset)
    }

    /// The instruction at exactly `offset`.
    #[must_use]
    pub fn at(&self, offset: u64) -> Option<&Insn> {
        let insn = self.insns.get(self.count_before(offset))?;
        (u64::from(insn.offset) == offset).then_some(insn)
    }

    /// The classes of the instructions `from..to` (indices).
    #[must_use]
    pub fn mix_of(&self, from: usize, to: usize) -> InstructionMix {
        let mut mix = InstructionMix::default();
        for insn in self.insns.get(from..to).unwrap_or_default() {
            count(&mut mix, insn.class);
        }
        mix
    }
}

fn count(mix: &mut InstructionMix, class: Class) {
    *match class {
        Class::Integer => &mut mix.integer,
        Class::Load => &mut mix.load,
        Class::Store => &mut mix.store,
        Class::Atomic => &mut mix.atomic,
        Class::Branch => &mut mix.branch,
        Class::Barrier => &mut mix.barrier,
        Class::System => &mut mix.system,
        Class::Other => &mut mix.other,
    } += 1;
}
