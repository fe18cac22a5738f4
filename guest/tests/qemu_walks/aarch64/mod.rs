//! AArch64: address translation instructions at EL2, and accesses below it, against the walker.

mod case;
mod expect;
mod features;
mod mailbox;
mod question;
mod quirks;
mod registers;
mod tables;

use std::path::Path;

use fastrand::Rng;
use mmuscope_models::arch::Half;

use crate::emulator::Machine;
use crate::ram::Ram;
use crate::random::pick;
use crate::tally::Tally;
use case::Case;
pub use features::{Features, REQUIRED};
use mailbox::{Answers, Op, RAM_BASE, Registers, STREAM_END, Writer};
use question::Question;
use tables::{ARENA, Arena, fill_playground};

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
const REQUESTS: usize = 50;

/// Of the contexts over one arena, how many are asked about and how many are used for accesses.
const TRANSLATIONS: usize = 26;
const ACCESSES: usize = 14;

/// Stage 2 is off: both kinds of address translation instructions give the same.
const STAGE1: &[Op] = &[
    Op::S1E1R,
    Op::S1E1W,
    Op::S1E0R,
    Op::S1E0W,
    Op::S1E1RP,
    Op::S1E1WP,
    Op::S12E1R,
    Op::S12E1W,
    Op::S12E0R,
    Op::S12E0W,
];

/// Accesses at EL1 and EL0.
const BELOW: &[Op] = &[
    Op::El1Load,
    Op::El1Store,
    Op::El1Fetch,
    Op::El0Load,
    Op::El0Store,
    Op::El0Fetch,
    Op::Ldtr,
    Op::Sttr,
    Op::LdtrUao,
    Op::SttrUao,
];

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
    fill_playground(&mut ram);
    // All of memory is written before the first walk looks at it.
    let arenas: Vec<Arena> = (0..ARENAS)
        .map(|index| Arena::fill(rng, &mut ram, STREAM_END + index * ARENA))
        .collect();
    let mut asker = Asker {
        rng,
        writer: Writer::new(&mut ram),
        cases: Vec::new(),
        tally,
    };
    for arena in &arenas {
        asker.arena(features, arena);
    }
    let cases = asker.cases;
    let ended = MACHINE.run(Path::new(SERVER), &ram);
    let answers = Answers::new(&ram);
    if let Err(message) = ended.and_then(|()| answers.complete()) {
        let case = &cases[answers.count()];
        panic!("{message}\n{case:x?}");
    }
    for case in &cases {
        features::cover(&case.question, &case.expected, tally);
        case.judge(&answers, tally);
    }
    std::fs::remove_file(ram.path()).unwrap();
}

/// Makes up the requests of one boot.
struct Asker<'a> {
    rng: &'a mut Rng,
    writer: Writer<'a>,
    cases: Vec<Case>,
    tally: &'a mut Tally,
}

impl Asker<'_> {
    fn arena(&mut self, features: &Features, arena: &Arena) {
        const HALVES: &[Half] = &[Half::Lower, Half::Upper];
        for _ in 0..TRANSLATIONS {
            let registers = registers::stage1(self.rng, features, arena);
            self.context(&registers, STAGE1, HALVES);
        }
        for _ in 0..ACCESSES {
            let half = pick(self.rng, HALVES);
            let registers = registers::accesses(self.rng, features, arena, half);
            self.context(&registers, BELOW, &[half]);
        }
    }

    /// Asks for random operations out of `ops` in one of `halves`.
    fn context(&mut self, registers: &Registers, ops: &[Op], halves: &[Half]) {
        self.writer.context(registers);
        for _ in 0..REQUESTS {
            let half = pick(self.rng, halves);
            let op = pick(self.rng, ops);
            let va = registers::address(self.rng, registers, half);
            let question = Question {
                registers: *registers,
                op,
                // No access is unaligned.
                va: if op.is_access() { va & !7 } else { va },
                unseen: 0,
            };
            match Case::ask(&mut self.writer, question) {
                Ok(case) => self.cases.push(case),
                Err(reason) => self.tally.leave_out(reason),
            }
        }
    }
}
