//! x86-64: accesses at CPL 0 and CPL 3 against the walker.

mod expect;
mod features;
mod mailbox;
mod quirks;
mod registers;
mod tables;

use std::path::Path;

use fastrand::Rng;
use mmuscope_models::access::AccessKind;
use mmuscope_models::x86::EntryBits;

use crate::emulator::Machine;
use crate::ram::Ram;
use crate::tally::{Tally, Verdict};
use expect::{Expected, Question, expect};
pub use features::{Features, REQUIRED};
use mailbox::{Answers, Outcome, STREAM_END, Slot, Writer};
use quirks::QUIRKS;
use tables::{ARENA, Arena, fill_playground};

/// QEMU's `microvm` with everything that TCG can emulate. It keeps its timers: the firmware of later
/// versions does not start without them.
pub const MACHINE: Machine = Machine {
    program: "qemu-system-x86_64",
    machine: "microvm",
    cpu: "max",
    options: &[],
};

/// The server's image.
const SERVER: &str = concat!(env!("OUT_DIR"), "/x86/walkserver.elf");

const RAM_SIZE: u64 = 256 << 20;
const ARENAS: u64 = 200;
const CONTEXTS: usize = 10;
const REQUESTS: usize = 50;

/// One request and what is expected of it.
#[derive(Debug)]
struct Case {
    question: Question,
    expected: Expected,
    slot: Slot,
}

/// The processor's features, out of a boot without requests.
pub fn features(dir: &Path) -> Features {
    let mut ram = Ram::create(dir, "x86.ram", 0, RAM_SIZE);
    Writer::new(&mut ram, false);
    let ended = MACHINE.run(Path::new(SERVER), &ram);
    let answers = Answers::new(&ram);
    if let Err(message) = ended.and_then(|()| answers.complete()) {
        panic!("{message}");
    }
    std::fs::remove_file(ram.path()).unwrap();
    Features::new(&answers.identity())
}

/// Makes one boot's worth of accesses and compares what they give.
pub fn round(rng: &mut Rng, features: &Features, dir: &Path, tally: &mut Tally) {
    let la57 = features.la57 && rng.bool();
    let mut ram = Ram::create(dir, "x86.ram", 0, RAM_SIZE);
    fill_playground(&mut ram);
    let mut cases = Vec::new();
    let mut writer = Writer::new(&mut ram, la57);
    let levels = if la57 { 5 } else { 4 };
    // All of memory is written before the first walk looks at it.
    let arenas: Vec<Arena> = (0..ARENAS)
        .map(|index| Arena::fill(rng, &mut writer, STREAM_END + index * ARENA, levels))
        .collect();
    for arena in &arenas {
        for _ in 0..CONTEXTS {
            let registers = registers::registers(rng, features, arena);
            writer.context(&registers);
            for _ in 0..REQUESTS {
                let question = registers::question(rng, features, la57, &registers);
                cases.extend(ask(&mut writer, question));
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
        tally.judge(judge(case, &answers), || {
            format!("QEMU says {:x?}\n{case:x?}", answers.outcome(case.slot))
        });
    }
    std::fs::remove_file(ram.path()).unwrap();
}

/// Asks `question`, or the same of a load if its own access cannot be made.
fn ask(writer: &mut Writer, mut question: Question) -> Option<Case> {
    let expected = expect(writer.ram(), &question).or_else(|| {
        question.access.kind = AccessKind::Load;
        expect(writer.ram(), &question)
    })?;
    let ram = writer.ram();
    let watches: Vec<u64> = expected
        .read
        .iter()
        .map(|read| read.at)
        .chain(expected.pa)
        .filter(|at| ram.word(*at).is_some())
        .collect();
    let slot = writer.request(question.op(), question.access.va.raw(), &watches);
    Some(Case {
        question,
        expected,
        slot,
    })
}

/// What QEMU answers by its known deviations: the first that concerns it, and the answer.
fn deviant(case: &Case) -> Option<(&'static str, Outcome)> {
    let mut outcome = case.expected.outcome;
    let mut first = None;
    for quirk in QUIRKS {
        if let Some(instead) = (quirk.instead)(&case.question, &case.expected, outcome) {
            outcome = instead;
            first = first.or(Some(quirk.rule));
        }
    }
    Some((first?, outcome))
}

/// Whether the word at `at` may become `after`. A walk that ends in a fault may or may not have
/// set the accessed flag of entries that it used (SDM 4.8); all else is as expected.
fn may_become(case: &Case, at: u64, before: u64, after: u64) -> bool {
    let expected = &case.expected;
    let written = expected.writes.iter().find(|(to, _)| *to == at);
    let used = expected.leaf.is_none() && expected.read.iter().any(|read| read.at == at);
    let accessed = EntryBits::ACCESSED.bits();
    let present = before & EntryBits::PRESENT.bits() != 0;
    match written {
        Some((_, value)) => after == *value,
        None => after == before || used && present && after == before | accessed,
    }
}

fn judge(case: &Case, answers: &Answers) -> Verdict {
    let outcome = answers.outcome(case.slot);
    let expected = &case.expected;
    let changed = answers
        .watched(case.slot)
        .any(|(at, after)| !may_become(case, at, answers.word(at), after));
    if changed {
        return Verdict::Differs("memory becomes another".to_owned());
    }
    if outcome == expected.outcome {
        return Verdict::Agrees;
    }
    match deviant(case) {
        Some((rule, instead)) if outcome == instead => Verdict::Deviates(rule),
        _ => Verdict::Differs(format!(
            "vector {} {:#x} instead of {} {:#x}",
            outcome.vector, outcome.error, expected.outcome.vector, expected.outcome.error
        )),
    }
}
