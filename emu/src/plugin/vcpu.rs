//! What the plugin knows about one virtual CPU between two calls of its hooks.

use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::{Pa, Va};
use mmuscope_models::cost::Cycles;
use mmuscope_models::system::{CoreId, ExceptionKind, System, Timing};
use unicorn_engine::{Context, uc_error};

use super::hooks::Round;
use super::shared::Shared;
use super::soft::SoftTlb;
use super::strings::Strings;
use crate::arch::{EmuArch, Trap};
use crate::decode::{BlockId, Mark};
use crate::machine::phase::{JITTER, Phase};

/// Why the engine was told to stop.
#[derive(Debug)]
pub enum Exit<A: EmuArch> {
    /// The soft TLB disagreed with the model: flush it and do the instruction again.
    Retry,
    /// The model says that this access faults.
    Fault(Access, A::Fault),
    /// The slice is over, or another core must come first.
    Slice,
    /// An interrupt has arrived and is not masked.
    Interrupt,
    /// Instructions at these addresses need hooks before they are executed.
    PlaceHooks(Vec<u64>),
    /// Translated code has been overwritten.
    CodeChanged,
    /// The guest calls the host.
    Hypercall(u16),
    /// An exception that the instruction itself raises.
    Trap(Trap),
    /// The guest says that it is waiting in a loop.
    Spin,
    /// An exception of the engine's that has no place in the guest.
    Unexpected(u32),
    /// The engine refused a request.
    Engine(uc_error),
}

/// The block that is being executed: its instructions are counted when they are known to have
/// been completed.
#[derive(Copy, Clone, Debug)]
struct Pending {
    block: BlockId,
    va: u64,
    /// Instructions already counted.
    counted: usize,
}

/// One counted access of the current instruction.
#[derive(Copy, Clone, Debug)]
pub struct Counted {
    /// Its first byte.
    pub va: Va,
    /// Load or store.
    pub kind: AccessKind,
    /// The model's answer.
    pub pa: Pa,
}

/// The accesses that the current instruction has made, so that an instruction that is done again
/// is not counted again.
#[derive(Debug, Default)]
pub struct Current {
    /// The address of the instruction, if known.
    pub pc: Option<u64>,
    /// What it has counted.
    pub counted: Vec<Counted>,
    /// How many of them the present attempt has repeated.
    pub repeated: usize,
    /// Where the last piece of the present attempt ended.
    pub end: Va,
    /// The instruction is being done again.
    pub replaying: bool,
}

impl Current {
    /// Another instruction begins.
    pub fn begin(&mut self, pc: Option<u64>) {
        self.pc = pc;
        self.counted.clear();
        self.repeated = 0;
        self.replaying = false;
    }

    /// The same instruction will be attempted again.
    pub fn again(&mut self, pc: u64) {
        if self.pc != Some(pc) {
            self.begin(Some(pc));
        }
        self.repeated = 0;
        self.replaying = true;
    }

    /// The translation that was counted for the page of `va` in an earlier attempt.
    pub fn answered(&self, va: Va, kind: AccessKind) -> Option<Pa> {
        if !self.replaying {
            return None;
        }
        let page = va.raw() >> 12;
        let same = |c: &&Counted| c.va.raw() >> 12 == page && c.kind == kind;
        let counted = self.counted.iter().rfind(same)?;
        Some(Pa::new(counted.pa.raw() & !0xfff))
    }
}

/// Memory to put back.
#[derive(Copy, Clone, Debug)]
pub struct Undo {
    pa: Pa,
    len: usize,
    bytes: [u8; 16],
}

/// An interrupt on its way to, or waiting at, a core.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Interrupt {
    /// When it arrives, on the receiver's clock.
    pub arrival: Cycles,
    /// INTID or vector.
    pub number: u32,
}

/// One virtual CPU.
#[derive(Debug)]
pub struct Vcpu<A: EmuArch> {
    /// Its number in the system.
    pub core: CoreId,
    /// Registers that the emulator keeps itself.
    pub cpu: A::Cpu,
    /// What the engine's soft TLB holds.
    pub soft: SoftTlb,
    /// The privilege of accesses.
    pub privilege: Privilege,
    /// Privilege may have changed since it was read.
    pub privilege_unknown: bool,
    /// Why the engine stops.
    pub exit: Option<Exit<A>>,
    /// The engine is stopping in the middle of an instruction that must leave no trace.
    pub aborting: bool,
    /// Registers at the start of that instruction.
    pub saved: Option<Context>,
    /// Memory that it wrote.
    undo: Vec<Undo>,
    /// Accesses of the current instruction.
    pub current: Current,
    /// Accesses must be attributed to instructions: one can make several, or they are shared.
    pub careful: bool,
    /// An instruction of the present block repeats itself.
    pub repeats: bool,
    /// Where such an instruction is in its lines.
    pub strings: Strings,
    /// An instruction of the present block accesses memory with user privilege.
    pub unprivileged: bool,
    /// The access that the TLB hook found to fault.
    pub soft_fault: Option<Access>,
    /// The fetch of the block at this address is already counted.
    pub fetched: Option<u64>,
    /// Instructions left in the slice.
    pub budget: u64,
    /// Other cores have come this far: what they can observe must not be done later than this.
    pub horizon: Cycles,
    /// How far the core may go ahead of the others at all.
    pub limit: Cycles,
    /// A waiting hint was executed.
    pub spun: bool,
    /// Sorted by arrival.
    pub interrupts: Vec<Interrupt>,
    /// Exceptions that have not returned.
    pub exceptions: Vec<ExceptionKind>,
    /// What the present round of a waiting loop has read.
    pub round: Round,
    /// What disturbs the core, if anything does.
    pub phase: Option<Phase>,
    /// Addresses with hooks.
    pub hooked: rustc_hash::FxHashSet<u64>,
    /// The state of [`Shared::code_epoch`] that the engine's translations are of.
    pub code_epoch: u64,
    pending: Option<Pending>,
}

impl<A: EmuArch> Vcpu<A> {
    /// A core that has done nothing yet, for RAM of `ram_size` bytes.
    pub fn new(core: CoreId, ram_size: u64) -> Self {
        Self {
            core,
            cpu: A::Cpu::default(),
            soft: SoftTlb::new(ram_size),
            privilege: Privilege::Supervisor,
            privilege_unknown: false,
            exit: None,
            aborting: false,
            saved: None,
            undo: Vec::new(),
            current: Current::default(),
            careful: false,
            repeats: false,
            strings: Strings::default(),
            unprivileged: false,
            soft_fault: None,
            fetched: None,
            budget: u64::MAX,
            horizon: Cycles::from_millis(u64::MAX),
            limit: Cycles::from_millis(u64::MAX),
            spun: false,
            interrupts: Vec::new(),
            exceptions: Vec::new(),
            round: Round::default(),
            phase: None,
            hooked: rustc_hash::FxHashSet::default(),
            code_epoch: 0,
            pending: None,
        }
    }

    /// Whether the engine is already stopping, so that hooks have nothing to do.
    #[inline]
    pub const fn stopping(&self) -> bool {
        self.aborting || self.exit.is_some()
    }

    /// Remembers `len` bytes at `pa` that are about to be overwritten.
    pub fn note_undo(&mut self, shared: &Shared<A>, pa: Pa, len: usize) {
        let mut bytes = [0; 16];
        let len = len.min(bytes.len());
        if shared.ram.read(pa, &mut bytes[..len]).is_some() {
            self.undo.push(Undo { pa, len, bytes });
        }
    }

    /// Puts back what the aborted instruction wrote.
    pub fn undo(&mut self, shared: &Shared<A>) {
        for undo in self.undo.drain(..).rev() {
            // It was readable when it was noted, so it is writable now.
            let _ = shared.ram.write(undo.pa, &undo.bytes[..undo.len]);
        }
    }

    /// A block begins: count what came before, and it from now on.
    pub fn begin_block(&mut self, block: BlockId, va: u64) {
        self.pending = Some(Pending {
            block,
            va,
            counted: 0,
        });
    }

    /// The present block was completed.
    #[inline]
    pub fn retire_all(&mut self, shared: &mut Shared<A>) {
        if let Some(pending) = self.pending.take() {
            let end = shared.blocks.get(pending.block).insns.len();
            self.retire(shared, pending, end);
        }
    }

    /// The present block was completed, and one at `pc` follows. An instruction that repeats
    /// itself counts once, when it is left.
    #[inline]
    pub fn retire_before(&mut self, shared: &mut Shared<A>, pc: u64) {
        let repeats = self.pending.is_some_and(|pending| {
            let block = shared.blocks.get(pending.block);
            block.marked
                && block.insns.last().is_some_and(|last| {
                    last.mark == Mark::Repeat
                        && pending.va.wrapping_add(u64::from(last.offset)) == pc
                })
        });
        if repeats {
            self.abandon_at(shared, pc);
        } else {
            self.retire_all(shared);
        }
    }

    /// The instructions of the present block before `pc` were completed.
    pub fn retire_to(&mut self, shared: &mut Shared<A>, pc: u64) {
        let Some(mut pending) = self.pending else {
            return;
        };
        let block = shared.blocks.get(pending.block);
        let end = block
            .count_before(pc.wrapping_sub(pending.va))
            .max(pending.counted);
        self.retire(shared, pending, end);
        pending.counted = end;
        self.pending = Some(pending);
    }

    /// The instructions of the present block before `pc` were completed, and no others will be.
    pub fn abandon_at(&mut self, shared: &mut Shared<A>, pc: u64) {
        self.retire_to(shared, pc);
        self.pending = None;
    }

    /// The mark of the instruction at `pc` of the present block.
    pub fn mark_at(&self, shared: &Shared<A>, pc: u64) -> Mark {
        let Some(pending) = self.pending else {
            return Mark::Plain;
        };
        let block = shared.blocks.get(pending.block);
        block
            .at(pc.wrapping_sub(pending.va))
            .map_or(Mark::Plain, |insn| insn.mark)
    }

    #[inline]
    fn retire(&mut self, shared: &mut Shared<A>, pending: Pending, end: usize) {
        let block = shared.blocks.get(pending.block);
        let whole = pending.counted == 0 && end == block.insns.len();
        self.budget = self.budget.saturating_sub((end - pending.counted) as u64);
        if whole && !block.marked {
            shared.system.retire(self.core, &block.mix);
        } else {
            self.retire_marked(shared, pending, end);
        }
    }

    /// Counts instructions in order, with the barriers and returns among them.
    fn retire_marked(&mut self, shared: &mut Shared<A>, pending: Pending, end: usize) {
        let mut from = pending.counted;
        let blocks = &shared.blocks;
        let block = blocks.get(pending.block);
        for at in pending.counted..end {
            let mark = block.insns[at].mark;
            if mark == Mark::Plain {
                continue;
            }
            shared.system.retire(self.core, &block.mix_of(from, at + 1));
            from = at + 1;
            match mark {
                Mark::Barrier(barrier) => shared.system.barrier(self.core, barrier),
                Mark::Return => {
                    let kind = self.exceptions.pop().unwrap_or(ExceptionKind::Sync);
                    shared.system.exception_exit(self.core, kind);
                    self.privilege_unknown = true;
                    disturb(&mut self.phase, self.core, &mut shared.system);
                }
                Mark::Spin => self.spun = true,
                Mark::Plain | Mark::Idle | Mark::Unprivileged | Mark::Repeat => {}
            }
        }
        if from < end {
            shared.system.retire(self.core, &block.mix_of(from, end));
        }
    }

    /// Lets the core's phase slip, if it has one.
    pub fn disturb(&mut self, shared: &mut Shared<A>) {
        disturb(&mut self.phase, self.core, &mut shared.system);
    }

    /// Adds an interrupt that arrives at `arrival`.
    pub fn interrupt(&mut self, interrupt: Interrupt) {
        let at = self.interrupts.partition_point(|other| *other <= interrupt);
        self.interrupts.insert(at, interrupt);
    }
}

fn disturb<A: EmuArch>(phase: &mut Option<Phase>, core: CoreId, system: &mut System<A>) {
    if let Some(phase) = phase
        && system.timing() == Timing::Full
    {
        let until = system.clock(core) + phase.below(JITTER);
        system.wait_until(core, until);
    }
}
