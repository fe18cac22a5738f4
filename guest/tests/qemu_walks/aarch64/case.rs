//! One request with what is expected of it, and the judgement of its answer.

use mmuscope_models::aarch64::{FaultKind, LeafBits, Tcr};
use mmuscope_models::access::AccessKind;
use mmuscope_models::addr::Level;

use super::expect::{Expected, expect};
use super::mailbox::{Answers, Outcome, RAM_BASE, STREAM_END, Slot, Writer};
use super::question::Question;
use super::quirks::{ANSWER_QUIRKS, BLOCK_WHERE_NONE, DIRTY_BY_AT, QUIRKS, accepts_block};
use super::tables::in_playground;
use crate::ram::Ram;
use crate::tally::{Tally, Verdict};

/// Why some requests are not asked.
const LEVEL_MINUS1: &str =
    "a fault at level -1: QEMU 7.2 aborts itself, for it has no code 0x29, 0x2b or 0x13";
const OUT_OF_BOUNDS: &str = "an access that QEMU would make to the server's own memory or a device";
const NO_CODE: &str = "a fetch of what is no instruction of this test";

/// One request and what is expected of it.
#[derive(Debug)]
pub struct Case {
    pub question: Question,
    pub expected: Expected,
    /// What QEMU answers, by its known deviations.
    deviant: Deviant,
    slot: Slot,
}

/// What QEMU is known to make of a question.
#[derive(Debug)]
struct Deviant {
    /// The deviations that concern the question; a later version may have some of them no more.
    rules: Vec<&'static str>,
    /// The answer after each deviation in what is answered, the first one without any.
    answers: Vec<Outcome>,
    /// The question that it answers.
    seen: Question,
    /// The answer with all of them.
    expected: Expected,
}

impl Deviant {
    /// What QEMU makes of `question`, to which the architecture's answer is `expected`.
    fn new(ram: &Ram, question: &Question, expected: &Expected) -> Self {
        let mut deviant = Self {
            rules: Vec::new(),
            answers: Vec::new(),
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
        deviant.answers.push(deviant.expected.outcome);
        for quirk in ANSWER_QUIRKS {
            let instead = (quirk.instead)(&deviant.seen, &deviant.expected);
            if let Some(instead) = instead
                && instead != deviant.expected.outcome
            {
                deviant.expected.refuse_or(instead);
                deviant.answers.push(instead);
                deviant.rules.push(quirk.rule);
            }
        }
        deviant
    }

    /// Why the question cannot be put to QEMU, if it cannot.
    fn unaskable(&self) -> Option<&'static str> {
        let expected = &self.expected;
        if expected
            .fault
            .is_some_and(|fault| fault.level == Level::Minus1)
        {
            return Some(LEVEL_MINUS1);
        }
        if !self.seen.op.is_access() {
            return None;
        }
        if expected.is_refused_block() {
            return Some(OUT_OF_BOUNDS);
        }
        let pa = expected.pa?;
        let fetch = self.seen.access().kind == AccessKind::Fetch;
        match pa {
            ..STREAM_END => Some(OUT_OF_BOUNDS),
            STREAM_END..RAM_END if fetch && !in_playground(pa) => Some(NO_CODE),
            _ => None,
        }
    }
}

/// The end of RAM.
const RAM_END: u64 = RAM_BASE + super::RAM_SIZE;

impl Case {
    /// Puts `question` to the server.
    ///
    /// # Errors
    /// Why it cannot be put.
    pub fn ask(writer: &mut Writer, question: Question) -> Result<Self, &'static str> {
        let expected = expect(writer.ram(), &question);
        let deviant = Deviant::new(writer.ram(), &question, &expected);
        if let Some(reason) = deviant.unaskable() {
            return Err(reason);
        }
        let by_qemu = &deviant.expected;
        let ram = writer.ram();
        let watches: Vec<u64> = by_qemu
            .read
            .iter()
            .map(|read| read.at)
            .chain(by_qemu.pa.filter(|_| question.op.is_access()))
            .map(|at| at & !7)
            .filter(|at| ram.word(*at).is_some())
            .collect();
        let slot = writer.request(question.op, question.va, &watches);
        Ok(Self {
            question,
            expected,
            deviant,
            slot,
        })
    }

    /// Judges the answer.
    pub fn judge(&self, answers: &Answers, tally: &mut Tally) {
        let outcome = answers.outcome(self.question.op, self.slot);
        let verdict = self.outcome(outcome).and(self.changes(outcome, answers));
        tally.judge(verdict, || format!("QEMU says {outcome:x?}\n{self:x?}"));
    }

    fn outcome(&self, outcome: Outcome) -> Verdict {
        let Deviant {
            rules,
            answers,
            seen,
            expected,
        } = &self.deviant;
        match rules.first() {
            _ if outcome == self.expected.outcome => Verdict::Agrees,
            Some(rule) if answers.contains(&outcome) => Verdict::Deviates(rule),
            _ if accepts_block(seen, expected, outcome) => Verdict::Deviates(BLOCK_WHERE_NONE),
            _ => Verdict::Differs(format!(
                "{} instead of {}",
                outcome.kind(),
                self.expected.outcome.kind()
            )),
        }
    }

    /// Judges what became of the words that the walk and the access touch.
    fn changes(&self, outcome: Outcome, answers: &Answers) -> Verdict {
        let mut verdict = Verdict::Agrees;
        for (at, after) in answers.watched(self.slot) {
            let before = answers.word(at);
            let one = if self.question.op.is_access() {
                self.change_by_access(at, before, after)
            } else {
                self.change_by_translation(outcome, at, before, after)
            };
            verdict = verdict.and(one);
        }
        verdict
    }

    /// Whether `at` is the leaf descriptor, its access flag managed by hardware.
    fn is_managed_leaf(&self, at: u64) -> bool {
        let managed = Tcr::new(self.question.registers.tcr).hardware_access();
        let last = self.deviant.expected.read.last();
        managed && last.is_some_and(|last| last.at == at)
    }

    /// An access writes what the walker and it would write. If it is not permitted, hardware may
    /// still set the access flag.
    fn change_by_access(&self, at: u64, before: u64, after: u64) -> Verdict {
        let expected = &self.deviant.expected;
        let written = expected.writes.iter().find(|(to, _)| *to == at);
        let flagged = before | self.question.in_memory_order(LeafBits::AF.bits());
        let refused = self.is_managed_leaf(at) && expected.is_not_permitted();
        match written {
            Some((_, value)) if after == *value => Verdict::Agrees,
            None if after == before || refused && after == flagged => Verdict::Agrees,
            _ => Verdict::Differs("memory becomes another".to_owned()),
        }
    }

    /// Address translation instructions may set the access flag of the leaf where hardware manages
    /// it, also if the access would not be permitted, but do not record dirty state.
    fn change_by_translation(&self, outcome: Outcome, at: u64, before: u64, after: u64) -> Verdict {
        let expected = &self.deviant.expected;
        let in_order = |bits: LeafBits| self.question.in_memory_order(bits.bits());
        let leaf = self.is_managed_leaf(at);
        let reached = expected.fault.is_none() || expected.is_not_permitted();
        if after == before || leaf && reached && after == before | in_order(LeafBits::AF) {
            return Verdict::Agrees;
        }
        let hardware = in_order(LeafBits::AF | LeafBits::AP2_READ_ONLY);
        if leaf
            && (before ^ after) & !hardware == 0
            && accepts_block(&self.deviant.seen, expected, outcome)
        {
            Verdict::Deviates(BLOCK_WHERE_NONE)
        } else if expected.writes.contains(&(at, after)) {
            Verdict::Deviates(DIRTY_BY_AT)
        } else {
            Verdict::Differs("a descriptor becomes another".to_owned())
        }
    }
}

impl Expected {
    /// Whether the walk ended in a Permission fault.
    fn is_not_permitted(&self) -> bool {
        self.fault
            .is_some_and(|fault| fault.kind == FaultKind::Permission)
    }

    /// Whether the walk ended in a Translation fault at a block.
    fn is_refused_block(&self) -> bool {
        let block = self
            .read
            .last()
            .is_some_and(|last| last.raw & 0b11 == 0b01 && last.level != Level::L3);
        block
            && self
                .fault
                .is_some_and(|fault| fault.kind == FaultKind::Translation)
    }

    /// Takes another outcome; an abort writes nothing.
    fn refuse_or(&mut self, outcome: Outcome) {
        if matches!(outcome, Outcome::Aborted { .. }) {
            self.writes.clear();
            self.pa = None;
        }
        self.outcome = outcome;
    }
}
