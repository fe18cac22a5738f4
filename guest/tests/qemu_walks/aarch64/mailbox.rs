//! The layout of requests and answers in the shared RAM: `walkserver/aarch64/server.h`.

use mmuscope_models::arch::Half;

use crate::ram::Ram;

/// Where QEMU's `virt` machine has its RAM.
pub const RAM_BASE: u64 = 0x4000_0000;

/// The header. The emulator's device tree and the server's image lie below.
const HEADER: u64 = 0x4030_0000;
/// The first context.
const STREAM: u64 = 0x4040_0000;
/// Where the stream of requests must end; translation tables may start here.
pub const STREAM_END: u64 = 0x4800_0000;

const STATE_DONE: u64 = 2;

/// What a store stores.
pub const STORED: u64 = 0x5354_524f_4544_3a29;

/// An operation of the server, in the order of its enumeration.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Op {
    S1E1R,
    S1E1W,
    S1E0R,
    S1E0W,
    S1E1RP,
    S1E1WP,
    S12E1R,
    S12E1W,
    S12E0R,
    S12E0W,
    El1Load = 12,
    El1Store,
    El1Fetch,
    El0Load,
    El0Store,
    El0Fetch,
    Ldtr,
    Sttr,
    LdtrUao,
    SttrUao,
}

impl Op {
    /// Whether it is an access, not an address translation instruction.
    pub const fn is_access(self) -> bool {
        self as u64 >= Self::El1Load as u64
    }
}

/// Registers for the requests that follow, as the server installs them.
#[derive(Copy, Clone, Debug, Default)]
pub struct Registers {
    pub hcr: u64,
    pub vtcr: u64,
    pub vttbr: u64,
    pub sctlr: u64,
    pub tcr: u64,
    pub ttbr0: u64,
    pub ttbr1: u64,
    pub mair: u64,
    pub tcr_el2: u64,
    pub ttbr0_el2: u64,
    pub mair_el2: u64,
    pub pan: bool,
    /// Where the server's page for accesses below EL2 is mapped: [`below`].
    pub below: u64,
}

/// Where a request lies.
#[derive(Copy, Clone, Debug)]
pub struct Slot(u64);

/// Writes the stream of requests.
pub struct Writer<'a> {
    ram: &'a mut Ram,
    at: u64,
    context: u64,
}

impl<'a> Writer<'a> {
    /// Nothing asked yet.
    pub fn new(ram: &'a mut Ram) -> Self {
        for word in 0..7 {
            ram.set_word(HEADER + word * 8, 0);
        }
        ram.set_word(HEADER + 16, STREAM);
        for big_endian in [false, true] {
            map_below(ram, big_endian);
        }
        Self {
            ram,
            at: STREAM,
            context: 0,
        }
    }

    /// The RAM, to read.
    pub fn ram(&self) -> &Ram {
        self.ram
    }

    fn push(&mut self, word: u64) {
        assert!(self.at < STREAM_END, "too many requests for one boot");
        self.ram.set_word(self.at, word);
        self.at += 8;
    }

    fn increment(&mut self, at: u64) {
        let count = self.ram.word(at).unwrap_or_default();
        self.ram.set_word(at, count + 1);
    }

    /// Starts a context.
    pub fn context(&mut self, registers: &Registers) {
        self.context = self.at;
        let r = registers;
        for word in [
            0,
            r.hcr,
            r.vtcr,
            r.vttbr,
            r.sctlr,
            r.tcr,
            r.ttbr0,
            r.ttbr1,
            r.mair,
            r.tcr_el2,
            r.ttbr0_el2,
            r.mair_el2,
            u64::from(r.pan),
            r.below,
        ] {
            self.push(word);
        }
        self.increment(HEADER + 8);
    }

    /// Asks for `va`, and for the words at `watches` after the access.
    pub fn request(&mut self, op: Op, va: u64, watches: &[u64]) -> Slot {
        let slot = Slot(self.at);
        self.increment(self.context);
        for word in [op as u64, va, watches.len() as u64, 0, 0, 0, 0, 0, 0, 0] {
            self.push(word);
        }
        for address in watches {
            self.push(*address);
            self.push(0);
        }
        slot
    }
}

/// What an address translation instruction or an access gives.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The value of PAR_EL1.
    Par(u64),
    /// An exception, with this fault status code: the walk met an external abort.
    Taken(u64),
    /// The access was made, and this was read or fetched; 0 for a store.
    Done(u64),
    /// The access was aborted.
    Aborted {
        /// ESR_EL1.
        esr: u64,
        /// FAR_EL1.
        far: u64,
    },
    /// Something else came to EL2, with this syndrome.
    Unexpected(u64),
}

impl Outcome {
    /// What happened, without the address.
    pub fn kind(&self) -> String {
        match self {
            Self::Par(par) if par & 1 == 0 => "a translation".to_owned(),
            Self::Par(par) => format!("fault {:#04x}", par >> 1 & 0x3f),
            Self::Taken(code) => format!("exception {code:#04x}"),
            Self::Done(_) => "an access".to_owned(),
            Self::Aborted { esr, .. } => format!("abort {esr:#x}"),
            Self::Unexpected(esr) => format!("at EL2 {esr:#x}"),
        }
    }
}

/// What the server says about itself and the processor.
#[derive(Copy, Clone, Debug)]
pub struct Identity {
    pub mmfr0: u64,
    pub mmfr1: u64,
    pub mmfr2: u64,
}

/// Reads the answers.
pub struct Answers<'a>(&'a Ram);

impl<'a> Answers<'a> {
    /// The answers of a boot that has ended.
    pub fn new(ram: &'a Ram) -> Self {
        Self(ram)
    }

    /// How many requests were answered.
    pub fn count(&self) -> usize {
        usize::try_from(self.word(HEADER + 24)).unwrap()
    }

    /// Whether the server came to its end.
    ///
    /// # Errors
    /// The exception that stopped it.
    pub fn complete(&self) -> Result<(), String> {
        if self.word(HEADER) == STATE_DONE {
            return Ok(());
        }
        let [esr, elr, far] = [4, 5, 6].map(|index| self.word(HEADER + index * 8));
        Err(format!(
            "the server stopped: ESR_EL2 {esr:#x}, ELR_EL2 {elr:#x}, FAR_EL2 {far:#x}"
        ))
    }

    /// The word at `at`, zero outside RAM.
    pub fn word(&self, at: u64) -> u64 {
        self.0.word(at).unwrap_or_default()
    }

    /// The identification registers.
    pub fn identity(&self) -> Identity {
        let id = |index: u64| self.word(HEADER + 56 + index * 8);
        Identity {
            mmfr0: id(0),
            mmfr1: id(1),
            mmfr2: id(2),
        }
    }

    /// What the request `op` at `slot` gave.
    pub fn outcome(&self, op: Op, slot: Slot) -> Outcome {
        const CLASS: u32 = 26;
        const CLASS_SVC: u64 = 0x15;
        const CLASS_HVC: u64 = 0x16;
        let [par, esr_el2, esr_el1, far_el1] = [24, 32, 40, 48].map(|at| self.word(slot.0 + at));
        if !op.is_access() {
            return match esr_el2 {
                0 => Outcome::Par(par),
                esr => Outcome::Taken(esr & 0x3f),
            };
        }
        match (esr_el2 >> CLASS, esr_el1 >> CLASS) {
            // SVC follows a load or store; it is what a fetch fetches.
            (CLASS_HVC, CLASS_SVC) => Outcome::Done(match op {
                Op::El1Fetch | Op::El0Fetch => esr_el1 & 0xffff,
                _ => self.word(slot.0 + 72),
            }),
            (CLASS_HVC, _) => Outcome::Aborted {
                esr: esr_el1,
                far: far_el1,
            },
            _ => Outcome::Unexpected(esr_el2),
        }
    }

    /// The watched words after the request: address and value.
    pub fn watched(&self, slot: Slot) -> impl Iterator<Item = (u64, u64)> + '_ {
        let count = self.word(slot.0 + 16);
        (0..count).map(move |index| {
            let at = slot.0 + 80 + index * 16;
            (self.word(at), self.word(at + 8))
        })
    }
}

/// The server's page that makes accesses below EL2.
const BELOW: u64 = 0x4028_0000;
/// Tables that map it: three pages in either order of bytes.
const BELOW_TABLES: u64 = 0x4031_0000;

/// TCR_EL1 for the half that maps the page, the other half's fields cleared from it: 39 bits, 4K.
pub const fn tcr_below(tcr: u64, half: Half) -> u64 {
    match half {
        Half::Lower => tcr & !(0xffff | 1 << 55) | 25,
        Half::Upper => tcr & !(0xffbf << 16 | 1 << 56) | 25 << 16 | 0b10 << 30,
    }
}

/// The root table that maps the page.
pub const fn root_below(big_endian: bool) -> u64 {
    BELOW_TABLES + if big_endian { 0x3000 } else { 0 }
}

/// The virtual address of the page in `half`.
pub const fn below(half: Half) -> u64 {
    match half {
        Half::Lower => 0,
        Half::Upper => 0xffff_ff80_0000_0000,
    }
}

/// Maps the page read-only and executable at both exception levels, with attribute 0.
fn map_below(ram: &mut Ram, big_endian: bool) {
    let root = root_below(big_endian);
    let page = BELOW | 0b11 | 0b11 << 6 | 1 << 10;
    for (table, entry) in [(0, root + 0x1003), (0x1000, root + 0x2003), (0x2000, page)] {
        let entry = if big_endian {
            entry.swap_bytes()
        } else {
            entry
        };
        ram.set_word(root + table, entry);
    }
}
