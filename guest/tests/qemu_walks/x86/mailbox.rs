//! The layout of requests and answers in the shared RAM: `walkserver/x86/server.h`.

use crate::ram::Ram;

/// The header; the server's image lies below.
const HEADER: u64 = 0x40_0000;
/// The tables that map the server: five pages.
const SERVER_TABLES: u64 = 0x41_0000;
/// The first context.
const STREAM: u64 = 0x50_0000;
/// Where the stream of requests must end; what the test maps may start here.
pub const STREAM_END: u64 = 0x600_0000;
/// The page of the server that runs at CPL 3.
const USER_PAGE: u64 = 0x30_0000;

const STATE_DONE: u64 = 2;

/// The value that a store stores.
pub const STORED: u64 = 0x5354_524f_4544_3a29_u64;

/// The vector of an access that caused no exception: INT 0x80 follows it.
pub const DONE: u64 = 0x80;

/// Registers for the requests that follow.
#[derive(Copy, Clone, Debug, Default)]
pub struct Registers {
    /// CR0.WP.
    pub cr0: u64,
    pub cr3: u64,
    /// CR4 without PAE, PGE and LA57.
    pub cr4: u64,
    /// EFER.NXE.
    pub efer: u64,
    pub pkru: u32,
    pub pkrs: u32,
}

/// What one access gave.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The exception, or [`DONE`].
    pub vector: u64,
    /// Its error code.
    pub error: u64,
    /// CR2 after a page fault, else 0.
    pub cr2: u64,
    /// RAX: what a load loaded, or what the instruction fetched put there; else 0.
    pub value: u64,
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
    /// Nothing asked yet; four or five levels.
    pub fn new(ram: &'a mut Ram, la57: bool) -> Self {
        for word in 0..10 {
            ram.set_word(HEADER + word * 8, 0);
        }
        ram.set_word(HEADER + 0x10, STREAM);
        ram.set_word(HEADER + 0x20, u64::from(la57));
        ram.set_word(HEADER + 0x28, SERVER_TABLES);
        let mut writer = Self {
            ram,
            at: STREAM,
            context: 0,
        };
        writer.map_server(la57);
        writer
    }

    /// Builds the tables that map the server: at its physical address for the way into 64-bit
    /// mode, and in the last entry of every root.
    fn map_server(&mut self, la57: bool) {
        const TABLE: u64 = 0x67;
        const GIGABYTE: u64 = 0xe3;
        const USER: u64 = 0x65;
        let [root, pml4, pdpt, pd, pt] = [0, 1, 2, 3, 4].map(|page| SERVER_TABLES + page * 4096);
        let key = u64::from(SERVER_KEY) << 59;
        let below = if la57 { pml4 } else { pdpt };
        for (table, index, entry) in [
            (root, 0, below | TABLE),
            (root, 511, below | TABLE),
            (pml4, 0, pdpt | TABLE),
            (pml4, 511, pdpt | TABLE),
            (pdpt, 0, GIGABYTE | key),
            (pdpt, 510, GIGABYTE | key),
            (pdpt, 511, pd | TABLE),
            (pd, 0, pt | TABLE),
            (pt, 0, USER_PAGE | USER | key),
        ] {
            self.ram.set_word(table + index * 8, entry);
        }
    }

    /// What the last entry of every root must be.
    pub fn server_entry(&self) -> u64 {
        server_entry(self.ram)
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
        let (pkru, pkrs) = (u64::from(r.pkru), u64::from(r.pkrs));
        for word in [0, r.cr0, r.cr3, r.cr4, r.efer, pkru, pkrs] {
            self.push(word);
        }
        self.increment(HEADER + 8);
    }

    /// Asks for the access `op` at `va`, and for the words at `watches` after it.
    pub fn request(&mut self, op: u64, va: u64, watches: &[u64]) -> Slot {
        let slot = Slot(self.at);
        self.increment(self.context);
        for word in [op, va, watches.len() as u64, 0, 0, 0, 0] {
            self.push(word);
        }
        for address in watches {
            self.push(*address);
            self.push(0);
        }
        slot
    }
}

/// What the last entry of every root is: it leads to the server.
pub fn server_entry(ram: &Ram) -> u64 {
    ram.word(SERVER_TABLES + 511 * 8).unwrap_or_default()
}

/// The protection key of the server's own pages, which no request restricts.
pub const SERVER_KEY: u32 = 15;

/// What CPUID says, as far as it matters here.
#[derive(Copy, Clone, Debug)]
pub struct Identity {
    /// Leaf 7, EBX.
    pub leaf7_ebx: u64,
    /// Leaf 7, ECX.
    pub leaf7_ecx: u64,
    /// MAXPHYADDR.
    pub physical_bits: u8,
}

/// Reads the answers.
pub struct Answers<'a>(&'a Ram);

impl<'a> Answers<'a> {
    /// The answers of a boot that has ended.
    pub fn new(ram: &'a Ram) -> Self {
        Self(ram)
    }

    /// The word at `at`, zero outside RAM.
    pub fn word(&self, at: u64) -> u64 {
        self.0.word(at).unwrap_or_default()
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
        let [vector, error, rip, cr2] = [0x30, 0x38, 0x40, 0x48].map(|at| self.word(HEADER + at));
        Err(format!(
            "the server stopped: vector {vector}, error {error:#x}, RIP {rip:#x}, CR2 {cr2:#x}"
        ))
    }

    /// What the processor has.
    pub fn identity(&self) -> Identity {
        let cpuid = |index: u64| self.word(HEADER + 0x50 + index * 8);
        let [physical_bits, ..] = cpuid(5).to_le_bytes();
        Identity {
            leaf7_ebx: cpuid(0),
            leaf7_ecx: cpuid(1),
            physical_bits,
        }
    }

    /// What the request at `slot` gave. CR2 is only told after a page fault.
    pub fn outcome(&self, slot: Slot) -> Outcome {
        let [vector, error, cr2, value] = [24, 32, 40, 48].map(|at| self.word(slot.0 + at));
        let fault = vector == 14;
        Outcome {
            vector,
            error,
            cr2: if fault { cr2 } else { 0 },
            value,
        }
    }

    /// The watched words after the request: address and value.
    pub fn watched(&self, slot: Slot) -> impl Iterator<Item = (u64, u64)> + '_ {
        let count = self.word(slot.0 + 16);
        (0..count).map(move |index| {
            let at = slot.0 + 56 + index * 16;
            (self.word(at), self.word(at + 8))
        })
    }
}
