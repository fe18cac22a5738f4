//! Random translation tables.
//!
//! Tables are not built one by one. An arena is a piece of memory full of random descriptors whose
//! table addresses lead back into the arena, so any aligned address in it is a table of any
//! granule and level, and every index finds something. Pages are of the arena too, or outside RAM,
//! or of the playground, whose every word is an instruction that tells its page.

use fastrand::Rng;

use crate::ram::Ram;
use crate::random::{chance, pick, sprinkle};

/// The size of an arena in bytes: four tables of the 64K granule.
pub const ARENA: u64 = 256 << 10;

/// Where the playground lies.
const PLAYGROUND: u64 = 0x4e00_0000;
/// Its size in bytes.
const PLAYGROUND_SIZE: u64 = 32 << 20;

/// Whether `address` is in the playground.
pub fn in_playground(address: u64) -> bool {
    (PLAYGROUND..PLAYGROUND + PLAYGROUND_SIZE).contains(&address)
}

/// Writes the playground: SVC with the number of the page.
pub fn fill_playground(ram: &mut Ram) {
    for address in (PLAYGROUND..PLAYGROUND + PLAYGROUND_SIZE).step_by(8) {
        let instruction = 0xd400_0001 | (address >> 12 & 0xffff) << 5;
        ram.set_word(address, instruction << 32 | instruction);
    }
}

/// The number in an instruction of the playground.
pub const fn playground_number(word: u64) -> u64 {
    word >> 5 & 0xffff
}

/// Set in every address that leads elsewhere: there is neither RAM nor a device.
pub const NOT_RAM: u64 = 1 << 31;

/// What the descriptors of an arena have in common.
pub struct Arena {
    base: u64,
    /// Descriptors are in big-endian order.
    pub big_endian: bool,
    /// Percentages: not valid; bits 1:0 = 11 (table or page) among the valid ones; of those, the
    /// ones that lead into the arena.
    invalid: u8,
    table: u8,
    inward: u8,
    /// Percentage of descriptors that have bits where some formats keep address bits 51:48.
    high_bits: u8,
    /// Percentage of each attribute bit that takes something away.
    attributes: u8,
}

impl Arena {
    /// Fills [`ARENA`] bytes at `base`, which must be aligned to 64 KiB.
    pub fn fill(rng: &mut Rng, ram: &mut Ram, base: u64) -> Self {
        let arena = Self {
            base,
            big_endian: chance(rng, 15),
            invalid: pick(rng, &[1, 3, 10]),
            table: pick(rng, &[50, 75, 90, 97]),
            inward: pick(rng, &[60, 80, 95]),
            high_bits: pick(rng, &[0, 5, 60]),
            attributes: pick(rng, &[5, 20, 50]),
        };
        for at in (base..base + ARENA).step_by(8) {
            let raw = arena.descriptor(rng);
            let word = if arena.big_endian {
                raw.swap_bytes()
            } else {
                raw
            };
            ram.set_word(at, word);
        }
        arena
    }

    /// The address of a random table: mostly aligned for every granule.
    pub fn table(&self, rng: &mut Rng) -> u64 {
        let align = pick(rng, &[16, 16, 14, 12]);
        self.base + (rng.u64(..ARENA) >> align << align)
    }

    fn descriptor(&self, rng: &mut Rng) -> u64 {
        if chance(rng, self.invalid) {
            return rng.u64(..) & !1;
        }
        if chance(rng, 1) {
            return rng.u64(..) | 1;
        }
        let table_or_page = chance(rng, self.table);
        let mut raw = 1 | u64::from(table_or_page) << 1;
        raw |= if table_or_page && chance(rng, self.inward) {
            self.table(rng)
        } else if rng.bool() {
            PLAYGROUND + (rng.u64(..PLAYGROUND_SIZE) & !0xffff)
        } else {
            let width = pick(rng, &[32, 32, 36, 40, 42, 44, 48]);
            NOT_RAM
                | rng.u64(..) & ((1 << width) - 1) & !0xffff
                | sprinkle(rng, 0xf000, self.high_bits)
        };
        if chance(rng, self.high_bits) {
            raw |= rng.u64(..) & (0b11 << 48 | 0b11 << 8);
        }
        raw |= u64::from(chance(rng, 80)) << 10;
        // AttrIndx, NS, nG and the bits that hardware ignores.
        raw |= rng.u64(..) & (0b1111 << 2 | 1 << 11 | 0b1111 << 55);
        raw | sprinkle(rng, 0b11 << 6 | 0x1f << 50 | 0x1f << 59, self.attributes)
    }
}
