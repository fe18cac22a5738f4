//! The hooks: what happens at each soft-TLB miss, data access and block.
//!
//! The hooks run inside the engine. They may stop it and save its registers, but must not flush
//! its TLB from a memory hook (the engine keeps a pointer into it); flushing from the TLB hook is
//! safe. Everything else is left to the run loop.

use mmuscope_models::access::{Access, AccessKind};
use mmuscope_models::addr::{Pa, Va};
use unicorn_engine::{MemType, Prot, TlbEntry, Unicorn};

use super::lines::Line;
use super::shared::Shared;
use super::soft::{SoftTlb, crosses_page, next_page};
use super::strings::Strings;
use super::vcpu::{Counted, Exit, Vcpu};
use crate::arch::EmuArch;
use crate::decode::{BlockId, Mark};

/// How many loads of one round of a waiting loop are remembered; loops with more never sleep.
const ROUND: usize = 16;

/// The soft TLB misses: answer as the model would, without changing it.
pub fn on_miss<A: EmuArch, D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<A>,
    shared: &mut Shared<A>,
    page: Va,
    kind: AccessKind,
) -> Option<TlbEntry> {
    if vcpu.aborting {
        return None;
    }
    if kind == AccessKind::Fetch || vcpu.privilege_unknown {
        vcpu.privilege = A::privilege(uc);
        vcpu.privilege_unknown = false;
    }
    let access = Access::new(page, kind, vcpu.privilege);
    let repeated = vcpu.current.answered(page, kind);
    let (pa, rights) = match repeated {
        Some(pa) => (pa, None),
        None => match shared.system.peek(vcpu.core, &access, &shared.ram) {
            Ok(found) => (found.pa, Some(found.rights)),
            Err(_) => {
                vcpu.soft_fault = Some(access);
                return None;
            }
        },
    };
    let write = kind == AccessKind::Store || rights.is_some_and(|rights| rights.write);
    let perms = match kind {
        AccessKind::Fetch => Prot::EXEC,
        _ if write => Prot::READ | Prot::WRITE,
        _ => Prot::READ,
    };
    let Some(slot) = shared.ram.slot(pa) else {
        // A device of the user's: physical addresses outside RAM mean what they say.
        let paddr = pa.raw();
        let perms = if kind == AccessKind::Fetch {
            Prot::ALL
        } else {
            perms
        };
        return Some(TlbEntry { paddr, perms });
    };
    let paddr = if kind == AccessKind::Fetch {
        if !vcpu.soft.fill_code(page, slot) {
            flush(uc, vcpu);
        }
        SoftTlb::code_address(slot)
    } else if let Ok(paddr) = vcpu.soft.fill(page, slot) {
        paddr
    } else {
        flush(uc, vcpu);
        vcpu.soft.fill(page, slot).ok()?
    };
    Some(TlbEntry { paddr, perms })
}

/// Flushes the engine's TLB. Not from memory hooks.
pub fn flush<A: EmuArch, D>(uc: &mut Unicorn<'_, D>, vcpu: &mut Vcpu<A>) {
    match uc.ctl_flush_tlb() {
        Ok(()) => vcpu.soft.flushed(),
        Err(error) => vcpu.exit = Some(Exit::Engine(error)),
    }
}

/// Stops the engine in the middle of an instruction that must leave no trace.
pub fn abort<A: EmuArch, D>(uc: &mut Unicorn<'_, D>, vcpu: &mut Vcpu<A>, exit: Exit<A>) {
    let saved = match vcpu.saved.take() {
        Some(mut saved) => uc.context_save(&mut saved).map(|()| saved),
        None => uc.context_init(),
    };
    match saved {
        Ok(saved) => {
            vcpu.saved = Some(saved);
            vcpu.aborting = true;
            vcpu.exit = Some(exit);
        }
        Err(error) => vcpu.exit = Some(Exit::Engine(error)),
    }
    stop(uc, vcpu);
}

/// Stops the engine, keeping the reason already given.
pub fn stop<A: EmuArch, D>(uc: &mut Unicorn<'_, D>, vcpu: &mut Vcpu<A>) {
    if let Err(error) = uc.emu_stop() {
        vcpu.exit = Some(Exit::Engine(error));
    }
}

/// One data access, as the engine reports it.
#[derive(Copy, Clone)]
pub struct DataAccess {
    va: Va,
    pa: Pa,
    kind: AccessKind,
    size: u32,
    value: u64,
}

/// A data access is about to happen.
#[inline]
pub fn on_access<A: EmuArch, D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<A>,
    shared: &mut Shared<A>,
    (mem_type, address, size, value): (MemType, u64, usize, i64),
) {
    let Some((va, slot)) = vcpu.soft.resolve(address) else {
        return;
    };
    let access = DataAccess {
        va,
        pa: shared.ram.pa(slot),
        kind: if mem_type == MemType::WRITE {
            AccessKind::Store
        } else {
            AccessKind::Load
        },
        size: u32::try_from(size).unwrap_or(u32::MAX),
        value: value.cast_unsigned(),
    };
    let crosses = crosses_page(va, access.size);
    if vcpu.stopping() {
        if vcpu.aborting && access.kind.is_write() {
            note_undo(vcpu, shared, &access, crosses);
        }
        return;
    }
    if vcpu.careful || crosses {
        on_careful_access(uc, vcpu, shared, &access);
        return;
    }
    let asked = Access::new(va, access.kind, vcpu.privilege);
    match shared
        .system
        .access(vcpu.core, &asked, access.size, &mut shared.ram)
    {
        Ok(found) if found.pa == access.pa => {
            if access.kind.is_write() {
                shared.stored(vcpu.core, access.pa, access.size, access.value);
            }
        }
        Ok(found) => {
            vcpu.current.begin(pc::<A, D>(uc));
            vcpu.current.counted.push(Counted {
                va,
                kind: access.kind,
                pa: found.pa,
            });
            refuse(uc, vcpu, shared, &access, Exit::Retry);
        }
        Err(fault) => refuse(uc, vcpu, shared, &access, Exit::Fault(asked, fault)),
    }
}

fn pc<A: EmuArch, D>(uc: &Unicorn<'_, D>) -> Option<u64> {
    uc.reg_read(A::PC).ok()
}

#[cold]
fn refuse<A: EmuArch, D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<A>,
    shared: &Shared<A>,
    access: &DataAccess,
    exit: Exit<A>,
) {
    abort(uc, vcpu, exit);
    if access.kind.is_write() {
        note_undo(vcpu, shared, access, crosses_page(access.va, access.size));
    }
}

/// Remembers what a store that cannot be prevented any more will overwrite, in both pages.
fn note_undo<A: EmuArch>(
    vcpu: &mut Vcpu<A>,
    shared: &Shared<A>,
    access: &DataAccess,
    crosses: bool,
) {
    let size = access.size as usize;
    if !crosses {
        vcpu.note_undo(shared, access.pa, size);
        return;
    }
    let second = next_page(access.va);
    let first_size = usize::try_from(second.raw().wrapping_sub(access.va.raw())).unwrap_or(size);
    vcpu.note_undo(shared, access.pa, first_size);
    // If the soft TLB does not hold the second page, the store will miss there and not happen.
    if let Some(slot) = vcpu.soft.given(second) {
        vcpu.note_undo(shared, shared.ram.pa(slot), size - first_size);
    }
}

/// An access that may be one of several of its instruction, cross a page, or be observed by
/// another core.
fn on_careful_access<A: EmuArch, D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<A>,
    shared: &mut Shared<A>,
    access: &DataAccess,
) {
    let Some(pc) = pc::<A, D>(uc) else {
        return;
    };
    if vcpu.current.pc != Some(pc) {
        vcpu.current.begin(Some(pc));
    }
    let mut privilege = vcpu.privilege;
    if vcpu.unprivileged && vcpu.mark_at(shared, pc) == Mark::Unprivileged {
        privilege = mmuscope_models::access::Privilege::User;
    }
    let second = next_page(access.va);
    let crosses = crosses_page(access.va, access.size);
    let first_size = if crosses {
        u32::try_from(second.raw().wrapping_sub(access.va.raw())).unwrap_or(access.size)
    } else {
        access.size
    };
    let first = Access::new(access.va, access.kind, privilege);
    let soft = Some(access.pa);
    if vcpu.repeats && !crosses && vcpu.mark_at(shared, pc) == Mark::Repeat {
        on_element(uc, vcpu, shared, (pc, &first), access);
        return;
    }
    if let Some(exit) = piece(vcpu, shared, &first, first_size, soft) {
        refuse(uc, vcpu, shared, access, exit);
        return;
    }
    if crosses {
        let soft = vcpu.soft.given(second).map(|slot| shared.ram.pa(slot));
        let rest = Access::new(second, access.kind, privilege);
        if let Some(exit) = piece(vcpu, shared, &rest, access.size - first_size, soft) {
            refuse(uc, vcpu, shared, access, exit);
            return;
        }
    }
    if access.kind.is_write() {
        store_pieces(vcpu, shared, access, first_size);
    }
}

/// An element of an instruction that repeats itself.
fn on_element<A: EmuArch, D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<A>,
    shared: &mut Shared<A>,
    (pc, asked): (u64, &Access),
    access: &DataAccess,
) {
    let follows = vcpu.strings.follows(pc, asked);
    // An element that follows another, but that the engine would access elsewhere, is asked again.
    if follows != Some(access.pa) {
        let extent = Strings::extent(asked, access.size, A::elements_left(uc));
        if let Some(exit) = piece(vcpu, shared, asked, extent, Some(access.pa)) {
            refuse(uc, vcpu, shared, access, exit);
            return;
        }
    }
    vcpu.strings.done(asked, access.size, access.pa);
    if access.kind.is_write() {
        shared.stored(vcpu.core, access.pa, access.size, access.value);
    }
}

fn store_pieces<A: EmuArch>(
    vcpu: &Vcpu<A>,
    shared: &mut Shared<A>,
    access: &DataAccess,
    first_size: u32,
) {
    shared.stored(vcpu.core, access.pa, first_size, access.value);
    if first_size < access.size
        && let Some(last) = vcpu.current.counted.last()
    {
        let rest = access.value.checked_shr(first_size * 8).unwrap_or(0);
        shared.stored(vcpu.core, last.pa, access.size - first_size, rest);
    }
}

/// Counts one piece of an access, unless it continues the previous piece of its instruction or
/// was counted in an earlier attempt; says why the engine must stop, if it must.
pub fn piece<A: EmuArch>(
    vcpu: &mut Vcpu<A>,
    shared: &mut Shared<A>,
    access: &Access,
    size: u32,
    soft: Option<Pa>,
) -> Option<Exit<A>> {
    let current = &vcpu.current;
    let last = current
        .repeated
        .checked_sub(1)
        .and_then(|at| current.counted.get(at))
        .copied();
    let continues = last.filter(|last| {
        access.va == current.end
            && last.kind == access.kind
            && last.va.raw() >> 12 == access.va.raw() >> 12
    });
    let answer = if let Some(last) = continues {
        last.pa.wrapping_add(access.va.raw() - last.va.raw())
    } else if let Some(counted) = current.counted.get(current.repeated) {
        let pa = counted.pa;
        vcpu.current.repeated += 1;
        pa
    } else {
        if let Some(exit) = wait_for_turn(vcpu, shared, access, soft) {
            return Some(exit);
        }
        let found = match shared
            .system
            .access(vcpu.core, access, size, &mut shared.ram)
        {
            Ok(found) => found,
            Err(fault) => return Some(Exit::Fault(*access, fault)),
        };
        vcpu.current.counted.push(Counted {
            va: access.va,
            kind: access.kind,
            pa: found.pa,
        });
        vcpu.current.repeated += 1;
        found.pa
    };
    vcpu.current.end = access.va.wrapping_add(u64::from(size));
    if soft.is_some_and(|soft| soft != answer) {
        return Some(Exit::Retry);
    }
    touch_line(vcpu, shared, answer, access.kind);
    None
}

/// With several cores: an access to a shared line happens only when no other core is behind.
fn wait_for_turn<A: EmuArch>(
    vcpu: &Vcpu<A>,
    shared: &mut Shared<A>,
    access: &Access,
    soft: Option<Pa>,
) -> Option<Exit<A>> {
    if shared.lines.is_none() || shared.now(vcpu.core) <= vcpu.horizon {
        return None;
    }
    let lines = shared.lines.as_mut()?;
    let line = lines.line(soft?);
    lines
        .observable(line, vcpu.core, access.kind.is_write())
        .then_some(Exit::Slice)
}

fn touch_line<A: EmuArch>(vcpu: &mut Vcpu<A>, shared: &mut Shared<A>, pa: Pa, kind: AccessKind) {
    let Some(lines) = shared.lines.as_mut() else {
        return;
    };
    let line = lines.line(pa);
    let write = kind.is_write();
    if write {
        if lines.observable(line, vcpu.core, true) {
            vcpu.round.disturb();
        }
    } else {
        vcpu.round.read(line, lines.now());
    }
    lines.touch(line, vcpu.core, write);
    if lines.any_woken() {
        vcpu.budget = 0;
    }
}

/// What a waiting loop has read since its last waiting hint.
#[derive(Debug, Default)]
pub struct Round {
    /// Lines, each with the point in time of its last reading.
    pub lines: Vec<(Line, u64)>,
    /// The lines of the round before.
    pub before: Vec<Line>,
    /// It did more than read.
    pub disturbed: bool,
}

impl Round {
    fn read(&mut self, line: Line, now: u64) {
        if let Some(known) = self.lines.iter_mut().find(|(known, _)| *known == line) {
            known.1 = now;
        } else if self.lines.len() < ROUND {
            self.lines.push((line, now));
        } else {
            self.disturbed = true;
        }
    }

    fn disturb(&mut self) {
        self.disturbed = true;
    }

    /// A waiting hint ends the round. If it read the same lines as the round before and wrote
    /// none that others use, the lines to watch.
    pub fn end(&mut self) -> Option<Vec<(Line, u64)>> {
        let lines = std::mem::take(&mut self.lines);
        let mut names: Vec<Line> = lines.iter().map(|(line, _)| *line).collect();
        names.sort_unstable();
        let unchanged = !self.disturbed && names == self.before;
        self.before = names;
        self.disturbed = false;
        unchanged.then_some(lines)
    }
}

/// A block is about to be executed.
pub fn on_block<A: EmuArch, D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<A>,
    shared: &mut Shared<A>,
    pc: u64,
    size: u32,
) {
    if vcpu.stopping() {
        return;
    }
    vcpu.retire_before(shared, pc);
    if let Some(exit) = before_block(uc, vcpu, shared, pc, size) {
        vcpu.exit = Some(exit);
        stop(uc, vcpu);
    }
}

fn before_block<A: EmuArch, D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<A>,
    shared: &mut Shared<A>,
    pc: u64,
    size: u32,
) -> Option<Exit<A>> {
    if vcpu.privilege_unknown {
        vcpu.privilege = A::privilege(uc);
        vcpu.privilege_unknown = false;
    }
    if vcpu.spun {
        vcpu.spun = false;
        if shared.lines.is_some() {
            return Some(Exit::Spin);
        }
    }
    if vcpu.code_epoch != shared.code_epoch {
        return Some(Exit::CodeChanged);
    }
    if vcpu.budget == 0 || (shared.lines.is_some() && shared.now(vcpu.core) > vcpu.limit) {
        return Some(Exit::Slice);
    }
    if vcpu
        .interrupts
        .first()
        .is_some_and(|first| first.arrival <= shared.now(vcpu.core))
        && A::interruptible(uc)
    {
        return Some(Exit::Interrupt);
    }
    let va = Va::new(pc);
    let Some(slot) = vcpu.soft.code_slot(va) else {
        // Translated before the plugin was attached.
        return Some(Exit::CodeChanged);
    };
    let block = match shared.blocks.find(slot, size) {
        Some(block) => block,
        None => decode(vcpu, shared, va, slot, size),
    };
    let facts = shared.blocks.get(block);
    if facts.ordered && shared.now(vcpu.core) > vcpu.horizon {
        return Some(Exit::Slice);
    }
    if facts.hooked {
        let missing = missing_hooks(vcpu, shared, block, pc);
        if !missing.is_empty() {
            return Some(Exit::PlaceHooks(missing));
        }
    }
    let multiple = facts.multiple || facts.unprivileged || facts.repeats;
    let repeats = facts.repeats;
    if vcpu.repeats && !repeats {
        // What follows may change translations.
        vcpu.strings = Strings::default();
    }
    vcpu.repeats = repeats;
    vcpu.unprivileged = facts.unprivileged;
    if vcpu.fetched.take() != Some(pc) {
        vcpu.current.begin(None);
        if let Some(exit) = fetch(vcpu, shared, va, slot, size) {
            return Some(exit);
        }
    }
    vcpu.careful = multiple || vcpu.current.replaying || shared.lines.is_some();
    vcpu.begin_block(block, pc);
    None
}

fn missing_hooks<A: EmuArch>(
    vcpu: &Vcpu<A>,
    shared: &Shared<A>,
    block: BlockId,
    pc: u64,
) -> Vec<u64> {
    let insns = shared.blocks.get(block).insns.iter();
    let hooked = insns.filter(|insn| insn.hooked);
    hooked
        .map(|insn| pc.wrapping_add(u64::from(insn.offset)))
        .filter(|va| !vcpu.hooked.contains(va))
        .collect()
}

/// The code of a block: where each part lies.
fn parts<A: EmuArch>(vcpu: &Vcpu<A>, va: Va, slot: u64, size: u32) -> ([(u64, u64); 2], usize) {
    let size = u64::from(size);
    let second = next_page(va);
    let first_len = second.raw().wrapping_sub(va.raw()).min(size);
    if first_len < size
        && let Some(rest) = vcpu.soft.code_slot(second)
    {
        ([(slot, first_len), (rest, size - first_len)], 2)
    } else {
        ([(slot, first_len), (0, 0)], 1)
    }
}

fn decode<A: EmuArch>(
    vcpu: &mut Vcpu<A>,
    shared: &mut Shared<A>,
    va: Va,
    slot: u64,
    size: u32,
) -> BlockId {
    let (parts, count) = parts(vcpu, va, slot, size);
    let mut code = Vec::with_capacity(size as usize);
    for (slot, len) in &parts[..count] {
        let from = code.len();
        code.resize(from + usize::try_from(*len).unwrap_or(0), 0);
        // The engine has just translated these bytes, so they are in RAM.
        let _ = shared.ram.read(shared.ram.pa(*slot), &mut code[from..]);
    }
    let block = A::decode(&mut vcpu.cpu, &code);
    shared.blocks.insert(slot, size, block, &parts[..count])
}

/// Counts the fetches of a block and checks that the engine executes what the model would.
#[inline]
fn fetch<A: EmuArch>(
    vcpu: &mut Vcpu<A>,
    shared: &mut Shared<A>,
    va: Va,
    slot: u64,
    size: u32,
) -> Option<Exit<A>> {
    if let Some(exit) = fetch_part(vcpu, shared, va, va, slot) {
        return Some(exit);
    }
    if !crosses_page(va, size) {
        return None;
    }
    let second = next_page(va);
    let slot = vcpu.soft.code_slot(second)?;
    fetch_part(vcpu, shared, va, second, slot)
}

/// The fetch of the part at `va` of the block that starts at `start`.
#[inline]
fn fetch_part<A: EmuArch>(
    vcpu: &mut Vcpu<A>,
    shared: &mut Shared<A>,
    start: Va,
    va: Va,
    slot: u64,
) -> Option<Exit<A>> {
    let access = Access::new(va, AccessKind::Fetch, vcpu.privilege);
    let answer = shared.system.access(vcpu.core, &access, 4, &mut shared.ram);
    match answer {
        Ok(found) if found.pa == shared.ram.pa(slot) => None,
        Ok(_) => {
            vcpu.fetched = Some(start.raw());
            Some(Exit::Retry)
        }
        Err(fault) => Some(Exit::Fault(access, fault)),
    }
}
