//! The layout of requests and answers in the shared RAM: `walkserver/aarch64/server.h`.

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

    /// The RAM, to write tables.
    pub fn ram_mut(&mut self) -> &mut Ram {
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
        ] {
            self.push(word);
        }
        self.increment(HEADER + 8);
    }

    /// Asks for `va`, and for the words at `watches` after the access.
    pub fn request(
        &mut self,
        op: Op,
        va: u64,
        watches: impl ExactSizeIterator<Item = u64>,
    ) -> Slot {
        let slot = Slot(self.at);
        self.increment(self.context);
        for word in [op as u64, va, watches.len() as u64, 0, 0] {
            self.push(word);
        }
        for address in watches {
            self.push(address);
            self.push(0);
        }
        slot
    }
}

/// What an address translation instruction gives.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The value of PAR_EL1.
    Par(u64),
    /// An exception, with this fault status code: the walk met an external abort.
    Taken(u64),
}

impl Outcome {
    /// What happened, without the address.
    pub fn kind(&self) -> String {
        match self {
            Self::Par(par) if par & 1 == 0 => "a translation".to_owned(),
            Self::Par(par) => format!("fault {:#04x}", par >> 1 & 0x3f),
            Self::Taken(code) => format!("exception {code:#04x}"),
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

    /// What the request at `slot` gave: PAR_EL1, or an exception.
    pub fn outcome(&self, slot: Slot) -> Outcome {
        match self.word(slot.0 + 32) {
            0 => Outcome::Par(self.word(slot.0 + 24)),
            esr => Outcome::Taken(esr & 0x3f),
        }
    }

    /// The watched words after the request: address and value.
    pub fn watched(&self, slot: Slot) -> impl Iterator<Item = (u64, u64)> + '_ {
        let count = self.word(slot.0 + 16);
        (0..count).map(move |index| {
            let at = slot.0 + 40 + index * 16;
            (self.word(at), self.word(at + 8))
        })
    }
}
