//! Random paging structures, and pages that say where they are.
//!
//! An arena is sixteen pages full of random entries. Each page is meant for a level, and most of
//! its entries lead to pages of the next: reserved bits would stop walks through just any page. The
//! pages that are mapped are part of the playground: every word of it is an instruction sequence
//! that loads the word's own number, so that loads and fetches tell which physical address they
//! reached.

use fastrand::Rng;

use super::mailbox::Writer;
use crate::ram::Ram;
use crate::random::{chance, pick, sprinkle};

/// The size of an arena in bytes: sixteen tables.
pub const ARENA: u64 = 64 << 10;

/// The pages of an arena by the height of their level: from the first to before the last.
const PAGES: [(u64, u64); 5] = [(11, 16), (8, 11), (5, 8), (2, 5), (0, 2)];

/// Where the playground lies: eight pages of 2 MiB, well below what firmware uses at the end of RAM.
pub const PLAYGROUND: u64 = 0xa00_0000;
/// Its size in bytes.
pub const PLAYGROUND_SIZE: u64 = 16 << 20;

/// Set in every address that leads elsewhere: there is neither RAM nor a device up to 1 TiB.
const NOT_RAM: u64 = 1 << 38;

/// Entry bits.
const P: u64 = 1 << 0;
const PS: u64 = 1 << 7;
const XD: u64 = 1 << 63;

/// The word of the playground at `address`: MOV EAX, number; INT 0x80; NOP.
pub const fn playground_word(address: u64) -> u64 {
    0x9080_cd00_0000_00b8 | (address >> 3 & 0xffff_ffff) << 8
}

/// What the instructions of a playground word leave in RAX.
pub const fn playground_number(word: u64) -> u64 {
    word >> 8 & 0xffff_ffff
}

/// Whether `address` is in the playground.
pub fn in_playground(address: u64) -> bool {
    (PLAYGROUND..PLAYGROUND + PLAYGROUND_SIZE).contains(&address)
}

/// Writes the playground.
pub fn fill_playground(ram: &mut Ram) {
    for address in (PLAYGROUND..PLAYGROUND + PLAYGROUND_SIZE).step_by(8) {
        ram.set_word(address, playground_word(address));
    }
}

/// What the entries of an arena have in common.
pub struct Arena {
    base: u64,
    /// The height of the root level: 3 or 4.
    height: usize,
    /// Percentages: not present; large-page bit; bits that may be reserved.
    absent: u8,
    large: u8,
    reserved: u8,
    /// Percentages of R/W and U/S, and of XD.
    allow: u8,
    forbid: u8,
}

impl Arena {
    /// Fills [`ARENA`] bytes at `base` with tables of `levels` levels.
    pub fn fill(rng: &mut Rng, writer: &mut Writer, base: u64, levels: usize) -> Self {
        let arena = Self {
            base,
            height: levels - 1,
            absent: pick(rng, &[1, 3, 10]),
            large: pick(rng, &[5, 15, 40]),
            reserved: pick(rng, &[0, 1, 3]),
            allow: pick(rng, &[60, 85, 97]),
            forbid: pick(rng, &[0, 5, 20]),
        };
        let server = writer.server_entry();
        for (height, (first, end)) in PAGES.into_iter().enumerate() {
            for at in (base + first * 4096..base + end * 4096).step_by(8) {
                let root = height == arena.height;
                let word = if root && at & 0xff8 == 0xff8 {
                    server
                } else {
                    arena.entry(rng, height)
                };
                writer.ram_mut().set_word(at, word);
            }
        }
        arena
    }

    /// A random root.
    pub fn root(&self, rng: &mut Rng) -> u64 {
        self.table(rng, self.height)
    }

    /// A page of the level `height` above the last.
    fn table(&self, rng: &mut Rng, height: usize) -> u64 {
        let (first, end) = PAGES[height];
        self.base + rng.u64(first..end) * 4096
    }

    fn entry(&self, rng: &mut Rng, height: usize) -> u64 {
        if chance(rng, self.absent) {
            return rng.u64(..) & !P;
        }
        let mut entry = P | sprinkle(rng, 0b11 << 1, self.allow) | sprinkle(rng, XD, self.forbid);
        // PWT, PCD, A, D, G, ignored bits, key.
        entry |=
            rng.u64(..) & (0b11 << 3 | 0b11 << 5 | 1 << 8 | 0b111 << 9 | 0x7f << 52 | 0xf << 59);
        let large = match height {
            0 => 50,
            1 | 2 => self.large,
            _ => self.reserved,
        };
        let large = chance(rng, large);
        if large {
            entry |= PS;
        }
        entry |= match height {
            1 | 2 if large => {
                let misaligned = self.rarely(rng, 13..30);
                pick(rng, &[0, 1 << 12]) | Self::large_page(rng) | misaligned
            }
            0 => self.page(rng),
            _ if chance(rng, 3) => self.page(rng),
            _ => self.table(rng, height - 1),
        };
        entry | self.rarely(rng, 40..52)
    }

    /// One of the bits in `range`, if reserved bits are to be set.
    fn rarely(&self, rng: &mut Rng, range: std::ops::Range<u32>) -> u64 {
        if chance(rng, self.reserved) {
            1 << rng.u32(range)
        } else {
            0
        }
    }

    /// A page: mostly of the playground, sometimes a table.
    fn page(&self, rng: &mut Rng) -> u64 {
        match rng.u8(..20) {
            0 => NOT_RAM | rng.u64(..NOT_RAM) & !0xfff,
            1..3 => self.base + (rng.u64(..ARENA) & !0xfff),
            _ => PLAYGROUND + (rng.u64(..PLAYGROUND_SIZE) & !0xfff),
        }
    }

    /// A large page: of 2 MiB in the playground, or of any size elsewhere.
    fn large_page(rng: &mut Rng) -> u64 {
        if rng.bool() {
            PLAYGROUND + (rng.u64(..PLAYGROUND_SIZE) & !0x1f_ffff)
        } else {
            NOT_RAM | rng.u64(..NOT_RAM) & !0x3fff_ffff
        }
    }
}
