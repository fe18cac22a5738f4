//! The break-before-make checker over hand-made sequences of stores, invalidations and barriers.
//!
//! Each sequence is judged by what Arm ARM D8.17.1 and D8.7.1 ask of software, written down here
//! step by step: the complete sequence is silent, and so loud is each one with a step left out.

mod world;

use mmuscope_models::aarch64::{Aarch64, Tlbi};
use mmuscope_models::addr::Pa;
use mmuscope_models::memory::{SparseMemory, TableMemory};
use mmuscope_models::profile::Profile;
use mmuscope_models::rules::history::Progress;
use mmuscope_models::rules::{BbmLevel, BreakChecker, Fault, Reason};
use mmuscope_models::system::{Barrier, Domain, OrderedAccesses, System};
use world::{CPU, DATA, OTHER, ROOT, TestArch, tlbi};

const VA: u64 = 0x4000_0000;
const L1: u64 = ROOT + 0x1000;
const L2: u64 = ROOT + 0x2000;
const L3: u64 = ROOT + 0x3000;
const SPARE: u64 = ROOT + 0x4000;

const READ_ONLY: u64 = 1 << 7;
const NOT_GLOBAL: u64 = 1 << 11;
const DIRTY_MANAGED: u64 = 1 << 51;
const CONTIGUOUS: u64 = 1 << 52;

struct Machine {
    system: System<Aarch64, BreakChecker<Aarch64>>,
    memory: SparseMemory,
}

impl Machine {
    /// Two cores in space 1; the tables for [`VA`] are there, its pages are not.
    fn new(bbm: BbmLevel) -> Self {
        let profile = Profile::builtin(Aarch64::PROFILE).unwrap();
        let mut memory = SparseMemory::new();
        for table in [ROOT, L1, L2, L3, SPARE] {
            memory.add_frame(Pa::new(table));
        }
        memory.write(Pa::new(ROOT), Aarch64::table(L1));
        memory.write(Pa::new(L1 + 8), Aarch64::table(L2));
        memory.write(Pa::new(L2), Aarch64::table(L3));
        let mut system = System::new(&profile, 2, BreakChecker::new(2, bbm)).unwrap();
        for core in [CPU, OTHER] {
            system.set_context(core, Aarch64::context(ROOT, 1), &memory);
        }
        Self { system, memory }
    }

    fn store(&mut self, at: u64, value: u64) -> &mut Self {
        let at = Pa::new(at);
        let old = self.memory.read_descriptor(at).unwrap();
        self.memory.write(at, value);
        self.system.table_store(CPU, at, old, value, &self.memory);
        self
    }

    /// The last-level entry of page `n`.
    fn pte(&mut self, n: u64, value: u64) -> &mut Self {
        self.store(L3 + 8 * n, value)
    }

    fn tlbi(&mut self, op: &Tlbi) -> &mut Self {
        self.system.invalidate(CPU, op);
        self
    }

    fn dsb(&mut self, domain: Domain) -> &mut Self {
        let kind = OrderedAccesses::All;
        self.system.barrier(CPU, Barrier::Dsb { domain, kind });
        self
    }

    fn dsb_st(&mut self) -> &mut Self {
        let (domain, kind) = (Domain::Inner, OrderedAccesses::Stores);
        self.system.barrier(CPU, Barrier::Dsb { domain, kind });
        self
    }

    fn faults(&self) -> Vec<Fault> {
        let all = self.system.observer().violations();
        all.iter().map(|one| one.fault.clone()).collect()
    }
}

/// VALE1IS for page `n` of space 1.
fn vale1is(n: u64) -> Tlbi {
    tlbi(3, 5, ((VA >> 12) + n) | 1 << 48)
}

fn page(n: u64) -> u64 {
    Aarch64::page(DATA + n * 0x1000, false)
}

fn no_break(old: u64, progress: Progress, reason: Reason) -> Vec<Fault> {
    vec![Fault::NoBreak {
        old,
        progress,
        reason,
    }]
}

#[test]
fn a_complete_break_is_silent_and_each_missing_step_is_named() {
    // Steps of the break: (clear, order, invalidate, complete).
    let run = |order: bool, invalidate: bool, complete: bool| {
        let mut machine = Machine::new(BbmLevel::Level0);
        machine.pte(0, page(0)).pte(0, 0);
        if order {
            machine.dsb_st();
        }
        if invalidate {
            machine.tlbi(&vale1is(0));
        }
        if complete {
            machine.dsb(Domain::Inner);
        }
        machine.pte(0, page(7));
        machine.faults()
    };
    let with = |progress| no_break(page(0), progress, Reason::Address);
    assert_eq!(run(true, true, true), []);
    assert_eq!(run(false, false, false), with(Progress::Overwritten));
    assert_eq!(run(true, false, false), with(Progress::Ordered));
    assert_eq!(run(true, true, false), with(Progress::Invalidated(CPU)));
    // A TLBI that is not ordered behind the store may come first: it counts for nothing, and the
    // DSB after it only orders the store.
    assert_eq!(run(false, true, true), with(Progress::Ordered));
}

#[test]
fn what_does_not_reach_the_value_does_not_remove_it() {
    let local = tlbi(7, 5, (VA >> 12) | 1 << 48);
    let neighbour = vale1is(1);
    let other_space = tlbi(3, 5, (VA >> 12) | 2 << 48);
    // A TTL that says level 2 (4K granule) for a level 3 page.
    let wrong_hint = tlbi(3, 5, (VA >> 12) | 0b0110 << 44 | 1 << 48);
    for op in [local, neighbour, other_space, wrong_hint] {
        let mut machine = Machine::new(BbmLevel::Level0);
        machine.pte(0, page(0)).pte(0, 0).dsb_st();
        machine.tlbi(&op).dsb(Domain::Inner).pte(0, page(7));
        let expected = no_break(page(0), Progress::Ordered, Reason::Address);
        assert_eq!(machine.faults(), expected, "{op}");
    }
    // A DSB that stays on the core completes no broadcast.
    let mut machine = Machine::new(BbmLevel::Level0);
    machine.pte(0, page(0)).pte(0, 0).dsb_st();
    machine.tlbi(&vale1is(0)).dsb(Domain::Non).pte(0, page(7));
    let expected = no_break(page(0), Progress::Invalidated(CPU), Reason::Address);
    assert_eq!(machine.faults(), expected);
}

#[test]
fn changes_are_judged_by_what_they_change() {
    let old = page(0);
    let read_only = old | READ_ONLY;
    let elsewhere = page(9) | READ_ONLY;
    for (from, to, reason) in [
        (old, old | READ_ONLY, None),
        (read_only, old, None),
        (old, old & !(1 << 10), None),
        (old, page(9), Some(Reason::Address)),
        (read_only, page(9), Some(Reason::Address)),
        (read_only, elsewhere, Some(Reason::ReadOnlyAddress)),
        (old, old | 3 << 8, Some(Reason::MemoryType)),
        (old, old & !NOT_GLOBAL, Some(Reason::Global)),
        (old & !NOT_GLOBAL, old, None),
        (old, old | DIRTY_MANAGED, None),
    ] {
        let mut machine = Machine::new(BbmLevel::Level0);
        machine.pte(3, from).pte(3, to);
        let expected = reason.map(|reason| no_break(from, Progress::Overwritten, reason));
        assert_eq!(
            machine.faults(),
            expected.unwrap_or_default(),
            "{from:#x} to {to:#x}"
        );
    }
}

#[test]
fn an_entry_without_access_flag_was_never_cached() {
    let mut machine = Machine::new(BbmLevel::Level0);
    machine.pte(0, page(0) & !(1 << 10)).pte(0, page(5));
    assert_eq!(machine.faults(), []);
}

#[test]
fn a_table_and_a_block_replace_each_other_only_with_a_break_or_level_2() {
    let block = DATA | 1 << 10 | NOT_GLOBAL | 1;
    let nt = 1 << 16;
    for (bbm, block, allowed) in [
        (BbmLevel::Level0, block, false),
        (BbmLevel::Level1, block, false),
        (BbmLevel::Level1, block | nt, true),
        (BbmLevel::Level2, block, true),
    ] {
        let mut machine = Machine::new(bbm);
        machine.store(L2 + 8, Aarch64::table(SPARE));
        machine.store(L2 + 8, block);
        let expected = no_break(
            Aarch64::table(SPARE),
            Progress::Overwritten,
            Reason::Structure,
        );
        let expected = if allowed { vec![] } else { expected };
        assert_eq!(machine.faults(), expected, "{bbm:?} {block:#x}");
    }
    // A last-level TLBI leaves the pointer, one for every level removes it.
    for (op2, silent) in [(5, false), (1, true)] {
        let mut machine = Machine::new(BbmLevel::Level0);
        machine
            .store(L2 + 8, Aarch64::table(SPARE))
            .store(L2 + 8, 0);
        let va = VA + 0x20_0000 + 0x5000;
        machine.dsb_st().tlbi(&tlbi(3, op2, va >> 12 | 1 << 48));
        machine.dsb(Domain::Inner).store(L2 + 8, block);
        assert_eq!(machine.faults().is_empty(), silent, "op2 {op2}");
    }
}

/// Sixteen contiguous pages.
fn group(machine: &mut Machine, attributes: u64) {
    for n in 0..16 {
        machine.pte(n, page(n) | CONTIGUOUS | attributes);
    }
}

#[test]
fn folding_is_silent_with_a_break_and_loud_without() {
    let fold = |with_break: bool, bbm| {
        let mut machine = Machine::new(bbm);
        for n in 0..16 {
            machine.pte(n, page(n));
        }
        if with_break {
            for n in 0..16 {
                machine.pte(n, 0);
            }
            machine.dsb_st();
            for n in 0..16 {
                machine.tlbi(&vale1is(n));
            }
            machine.dsb(Domain::Inner);
        }
        group(&mut machine, 0);
        machine.faults()
    };
    assert_eq!(fold(true, BbmLevel::Level0), []);
    assert_eq!(fold(false, BbmLevel::Level1), []);
    let loud = fold(false, BbmLevel::Level0);
    assert_eq!(loud.iter().filter(|f| **f == Fault::MixedGroup).count(), 1);
    let reasons = loud.iter().filter(|fault| {
        matches!(
            fault,
            Fault::NoBreak {
                reason: Reason::Contiguous,
                ..
            }
        )
    });
    assert_eq!(reasons.count(), 16);
}

#[test]
fn a_whole_group_may_be_write_protected_and_a_part_may_not_stay_so() {
    let protect = |members: u64| {
        let mut machine = Machine::new(BbmLevel::Level0);
        group(&mut machine, 0);
        for n in 0..members {
            machine.pte(n, page(n) | CONTIGUOUS | READ_ONLY);
        }
        machine.dsb_st().tlbi(&tlbi(3, 2, 1 << 48));
        machine.dsb(Domain::Inner);
        machine.faults()
    };
    assert_eq!(protect(16), []);
    assert_eq!(protect(0), []);
    assert_eq!(protect(5), [Fault::UnevenGroup]);
}

#[test]
fn dirty_and_accessed_state_may_differ_within_a_group() {
    let mut machine = Machine::new(BbmLevel::Level0);
    let hardware = 0b11 << 39;
    let mut context = Aarch64::context(ROOT, 1);
    context.tcr |= hardware;
    machine.system.set_context(CPU, context, &machine.memory);
    group(&mut machine, DIRTY_MANAGED | READ_ONLY);
    machine.pte(4, page(4) | CONTIGUOUS | DIRTY_MANAGED);
    machine.dsb_st().tlbi(&vale1is(4)).dsb(Domain::Inner);
    assert_eq!(machine.faults(), []);
}

#[test]
fn zapping_a_part_is_no_misprogramming_and_a_displaced_member_is() {
    let mut machine = Machine::new(BbmLevel::Level0);
    group(&mut machine, 0);
    machine.pte(2, 0).dsb_st().tlbi(&vale1is(2));
    machine.dsb(Domain::Inner);
    assert_eq!(machine.faults(), []);
    machine.pte(2, page(3) | CONTIGUOUS).dsb_st();
    machine.tlbi(&vale1is(9)).dsb(Domain::Inner);
    assert_eq!(machine.faults(), [Fault::UnevenGroup]);
}

#[test]
fn a_violation_tells_its_history_on_one_line() {
    let mut machine = Machine::new(BbmLevel::Level0);
    machine.pte(0, page(0)).pte(0, 0).dsb_st().pte(0, page(7));
    let text = machine.system.observer().violations()[0].to_string();
    assert_eq!(
        text,
        "cpu0: level 3 entry for 0x40000000 (at 0x103000): 0x40007c03 was stored while 0x40000c03 \
         may be cached (no invalidation yet), and its output address changes"
    );
}
