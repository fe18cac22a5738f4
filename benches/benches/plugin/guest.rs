//! The guest code that is timed: a loop that loads and stores, walking through 64 KiB line by
//! line, and the tables that map it.

use unicorn_engine::{Arch, Mode, RegisterARM64, RegisterX86, Unicorn};

/// Bytes of RAM.
pub const RAM_SIZE: u64 = 4 << 20;
/// Data accesses of one round of the loop.
pub const ACCESSES: u64 = 2;

const TABLES: u64 = 0x10_0000;
const CODE: u64 = 0x20_0000;
const DATA: u64 = 0x30_0000;

/// The loop on one architecture.
#[derive(Copy, Clone, Debug)]
pub struct Guest {
    /// The architecture's name.
    pub name: &'static str,
    /// For `Unicorn::new`.
    pub arch: Arch,
    /// For `Unicorn::new`.
    pub mode: Mode,
    /// Where RAM begins.
    pub base: u64,
    code: &'static [u8],
    /// Leaf and table bits of a translation descriptor that grants everything to the kernel.
    bits: (u64, u64),
}

/// ```text
/// loop: ldr  x2, [x0, x3]
///       str  x2, [x0, x3]
///       add  x3, x3, #64
///       and  x3, x3, #0xffff
///       subs x1, x1, #1
///       b.ne loop
/// ```
pub const AARCH64: Guest = Guest {
    name: "aarch64",
    arch: Arch::ARM64,
    mode: Mode::LITTLE_ENDIAN,
    base: 0x4000_0000,
    code: &[
        0x02, 0x68, 0x63, 0xf8, 0x02, 0x68, 0x23, 0xf8, 0x63, 0x00, 0x01, 0x91, 0x63, 0x3c, 0x40,
        0x92, 0x21, 0x04, 0x00, 0xf1, 0x61, 0xff, 0xff, 0x54,
    ],
    // Page: AF, inner shareable, AttrIndx 0. Table.
    bits: (0x703, 0x3),
};

/// ```text
/// loop: mov (%rdi,%rcx), %rax
///       mov %rax, (%rdi,%rcx)
///       add $64, %ecx
///       and $0xffff, %ecx
///       dec %rsi
///       jne loop
/// ```
pub const X86_64: Guest = Guest {
    name: "x86_64",
    arch: Arch::X86,
    mode: Mode::MODE_64,
    base: 0,
    code: &[
        0x48, 0x8b, 0x04, 0x0f, 0x48, 0x89, 0x04, 0x0f, 0x83, 0xc1, 0x40, 0x81, 0xe1, 0xff, 0xff,
        0x00, 0x00, 0x48, 0xff, 0xce, 0x75, 0xea,
    ],
    // Page: present, writable, accessed, dirty. Table: present, writable, accessed.
    bits: (0x63, 0x23),
};

impl Guest {
    /// The loop's first instruction.
    pub const fn start(&self) -> u64 {
        self.base + CODE
    }

    /// The address after its last instruction.
    pub const fn end(&self) -> u64 {
        self.start() + self.code.len() as u64
    }

    /// The root table.
    pub const fn root(&self) -> u64 {
        self.base + TABLES
    }

    /// What RAM holds: `(address, bytes)` pieces. The tables map RAM onto itself with 4 KiB
    /// pages.
    pub fn image(&self) -> Vec<(u64, Vec<u8>)> {
        let (leaf, table) = self.bits;
        let mut tables = vec![0_u64; 5 * 512];
        let at = |index: u64| self.root() + index * 4096;
        let root_entry = index(self.base, 39);
        let upper = index(self.base, 30);
        let middle = index(self.base, 21);
        tables[root_entry] = at(1) | table;
        tables[512 + upper] = at(2) | table;
        for half in 0..2_u64 {
            tables[1024 + middle + usize::from(half == 1)] = at(3 + half) | table;
        }
        for (page, entry) in tables[1536..].iter_mut().enumerate() {
            *entry = (self.base + page as u64 * 4096) | leaf;
        }
        let bytes = tables.iter().flat_map(|entry| entry.to_le_bytes());
        vec![
            (self.root(), bytes.collect()),
            (self.start(), self.code.to_vec()),
        ]
    }

    /// Sets the registers for `rounds` rounds of the loop.
    pub fn prepare<D>(&self, engine: &mut Unicorn<'_, D>, rounds: u64) {
        let data = self.base + DATA;
        if self.arch == Arch::ARM64 {
            engine.reg_write(RegisterARM64::X0, data).unwrap();
            engine.reg_write(RegisterARM64::X1, rounds).unwrap();
            engine.reg_write(RegisterARM64::X3, 0).unwrap();
        } else {
            engine.reg_write(RegisterX86::RDI, data).unwrap();
            engine.reg_write(RegisterX86::RSI, rounds).unwrap();
            engine.reg_write(RegisterX86::RCX, 0).unwrap();
        }
    }
}

fn index(va: u64, shift: u32) -> usize {
    usize::try_from(va >> shift & 511).unwrap()
}
