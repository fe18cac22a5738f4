//! AArch64: address translation instructions at EL2 against the walker.

mod expect;
mod features;
mod mailbox;
mod quirks;
mod registers;
mod tables;

use std::path::Path;

use fastrand::Rng;
use mmuscope_models::aarch64::{FaultKind, LeafBits, Tcr};
use mmuscope_models::addr::Level;

use crate::emulator::Machine;
use crate::ram::Ram;
use crate::random::pick;
use crate::tally::Tally;
use expect::{Expected, Question, expect};
pub use features::{Features, REQUIRED};
use mailbox::{Answers, Op, RAM_BASE, Registers, STREAM_END, Slot, Writer};
use quirks::{ANSWER_QUIRKS, BLOCK_WHERE_NONE, DIRTY_BY_AT, QUIRKS, accepts_block};
use tables::{ARENA, Arena};

/// QEMU's `virt` with EL2 and without EL3: the server starts at EL2.
pub const MACHINE: Machine = Machine {
    program: "qemu-system-aarch64",
    machine: "virt,virtualization=on,secure=off,highmem=off,gic-version=3",
    cpu: "max",
    options: &[],
};

/// The server's image.
const SERVER: &str = concat!(env!("OUT_DIR"), "/aarch64/walkserver.elf");

const RAM_SIZE: u64 = 256 << 20;
const ARENAS: u64 = 48;
const CONTEXTS: usize = 40;
const REQUESTS: usize = 50;

/// Why some requests are not asked.
const LEVEL_MINUS1: &str =
    "a fault at level -1: QEMU 7.2 aborts itself, for it has no code 0x29, 0x2b or 0x13";

/// One request and what is expected of it.
#[derive(Debug)]
struct Case {
    question: Question,
    expected: Expected,
    /// What QEMU answers instead, by its known deviations.
    deviant: Deviant,
    slot: Slot,
}

/// What QEMU is known to make of a question.
#[derive(Debug)]
struct Deviant {
    /// The deviations that concern it.
    rules: Vec<&'static str>,
    /// The question that it answers.
    seen: Question,
    /// The answer.
    expected: Expected,
}

/// The processor's features, out of a boot without requests.
pub fn features(dir: &Path) -> Features {
    let mut ram = Ram::create(dir, "aarch64.ram", RAM_BASE, RAM_SIZE);
    Writer::new(&mut ram);
    let ended = MACHINE.run(Path::new(SERVER), &ram);
    let answers = Answers::new(&ram);
    if let Err(message) = ended.and_then(|()| answers.complete()) {
        panic!("{message}");
    }
    std::fs::remove_file(ram.path()).unwrap();
    Features::new(&answers.identity())
}

/// Asks one boot's worth of requests and compares the answers.
pub fn round(rng: &mut Rng, features: &Features, dir: &Path, tally: &mut Tally) {
    let mut ram = Ram::create(dir, "aarch64.ram", RAM_BASE, RAM_SIZE);
    let mut cases = Vec::new();
    let mut writer = Writer::new(&mut ram);
    for index in 0..ARENAS {
        let arena = Arena::fill(rng, writer.ram_mut(), STREAM_END + index * ARENA);
        for _ in 0..CONTEXTS {
            let registers = registers::stage1(rng, features, &arena);
            writer.context(&registers);
            for _ in 0..REQUESTS {
                match ask(rng, &mut writer, &registers) {
                    Some(case) => cases.push(case),
                    None => tally.leave_out(LEVEL_MINUS1),
                }
            }
        }
    }
    let ended = MACHINE.run(Path::new(SERVER), &ram);
    let answers = Answers::new(&ram);
    if let Err(message) = ended.and_then(|()| answers.complete()) {
        let case = &cases[answers.count()];
        panic!("{message}\n{case:x?}");
    }
    for case in &cases {
        features::cover(&case.question, &case.expected, tally);
        compare(case, &answers, tally);
    }
    std::fs::remove_file(ram.path()).unwrap();
}

fn ask(rng: &mut Rng, writer: &mut Writer, registers: &Registers) -> Option<Case> {
    let op = pick(
        rng,
        &[
            Op::S1E1R,
            Op::S1E1W,
            Op::S1E0R,
            Op::S1E0W,
            Op::S1E1RP,
            Op::S1E1WP,
        ],
    );
    let va = registers::address(rng, registers);
    let question = Question {
        registers: *registers,
        op,
        va,
        unseen: 0,
    };
    let expected = expect(writer.ram(), &question);
    let deviant = deviant(writer.ram(), &question, &expected);
    let by_qemu = &deviant.expected;
    if by_qemu
        .fault
        .is_some_and(|fault| fault.level == Level::Minus1)
    {
        return None;
    }
    let slot = writer.request(op, va, by_qemu.read.iter().map(|read| read.at));
    Some(Case {
        question,
        expected,
        deviant,
        slot,
    })
}

/// What QEMU answers to `question`, to which the architecture's answer is `expected`.
fn deviant(ram: &Ram, question: &Question, expected: &Expected) -> Deviant {
    let mut deviant = Deviant {
        rules: Vec::new(),
        seen: *question,
        expected: expected.clone(),
    };
    for quirk in QUIRKS {
        if let Some(instead) = (quirk.instead)(&deviant.seen) {
            deviant.seen = instead;
            deviant.rules.push(quirk.rule);
        }
    }
    if !deviant.rules.is_empty() {
        deviant.expected = expect(ram, &deviant.seen);
    }
    for quirk in ANSWER_QUIRKS {
        let instead = (quirk.instead)(&deviant.seen, &deviant.expected);
        if let Some(instead) = instead
            && instead != deviant.expected.outcome
        {
            deviant.expected.outcome = instead;
            deviant.rules.push(quirk.rule);
        }
    }
    deviant
}

/// How an answer relates to what was expected.
enum Verdict {
    Agrees,
    Deviates(&'static str),
    Differs(String),
}

impl Case {
    fn outcome(&self, answers: &Answers) -> Verdict {
        let outcome = answers.outcome(self.slot);
        let Deviant {
            rules,
            seen,
            expected,
        } = &self.deviant;
        match rules.first() {
            _ if outcome == self.expected.outcome => Verdict::Agrees,
            Some(rule) if outcome == expected.outcome => Verdict::Deviates(rule),
            _ if accepts_block(seen, expected, outcome) => Verdict::Deviates(BLOCK_WHERE_NONE),
            _ => Verdict::Differs(format!(
                "{} instead of {}",
                outcome.kind(),
                self.expected.outcome.kind()
            )),
        }
    }

    /// Judges what became of the descriptors. Address translation instructions may set the access
    /// flag of the leaf where hardware manages it, also if the access would not be permitted, but
    /// do not record dirty state.
    fn changes(&self, answers: &Answers) -> Verdict {
        let expected = &self.deviant.expected;
        let managed = Tcr::new(self.question.registers.tcr).hardware_access();
        let reached = match expected.fault {
            None => true,
            Some(fault) => fault.kind == FaultKind::Permission,
        };
        let as_block = accepts_block(&self.deviant.seen, expected, answers.outcome(self.slot));
        let mut verdict = Verdict::Agrees;
        for (at, after) in answers.watched(self.slot) {
            let before = answers.word(at);
            let leaf = expected.read.last().is_some_and(|last| last.at == at);
            let flagged = before | self.question.in_memory_order(LeafBits::AF.bits());
            let hardware = LeafBits::AF | LeafBits::AP2_READ_ONLY;
            let other = (before ^ after) & !self.question.in_memory_order(hardware.bits());
            let of_block = as_block && other == 0;
            if after == before || leaf && managed && (reached && after == flagged || of_block) {
                continue;
            }
            if !expected.writes.contains(&(at, after)) {
                return Verdict::Differs(format!("the word at {at:#x} became {after:#x}"));
            }
            verdict = Verdict::Deviates(DIRTY_BY_AT);
        }
        verdict
    }
}

fn compare(case: &Case, answers: &Answers, tally: &mut Tally) {
    match (case.outcome(answers), case.changes(answers)) {
        (Verdict::Agrees, Verdict::Agrees) => tally.agree(),
        (Verdict::Differs(how), _) | (_, Verdict::Differs(how)) => tally.differ(how, || {
            format!("QEMU says {:x?}\n{case:x?}", answers.outcome(case.slot))
        }),
        (Verdict::Deviates(rule), _) | (_, Verdict::Deviates(rule)) => tally.deviate(rule),
    }
}
