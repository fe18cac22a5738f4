//! Which cores hold a line.
//!
//! A set-associative table over the lines that any private cache may hold, as large as all of them
//! together, so that it is bounded by the machine and not by what runs on it. An entry that has to
//! go takes the line out of every cache, as the snoop filters of real machines do. It is
//! conservative: a core that has silently dropped a line still stands in it, and cores whose
//! numbers are equal modulo 128 share a bit; who asks the caches themselves learns the truth.

/// Lines per set.
const WAYS: usize = 8;
/// Cores that have a bit of their own.
const BITS: u32 = 128;

/// The directory of one machine.
#[derive(Clone, Debug)]
pub struct Directory {
    mask: u64,
    /// Line number + 1, or 0 for none; each set ordered from the most to the least recently used.
    /// Apart from the cores, so that neither table is written before it is used.
    keys: Vec<u64>,
    cores: Vec<u128>,
}

impl Directory {
    /// For private caches that hold `lines` lines together.
    #[must_use]
    pub fn new(lines: usize) -> Self {
        let sets = lines.div_ceil(WAYS).max(1).next_power_of_two();
        Self {
            mask: sets as u64 - 1,
            keys: vec![0; sets * WAYS],
            cores: vec![0; sets * WAYS],
        }
    }

    /// The cores that may hold `line`, as a set of numbers modulo 128, to be changed. A new entry
    /// may displace one: its line and cores come second.
    pub fn entry(&mut self, line: u64) -> (&mut u128, Option<(u64, u128)>) {
        let set = self.set(line);
        let keys = &mut self.keys[set..][..WAYS];
        let cores = &mut self.cores[set..][..WAYS];
        let known = keys.iter().position(|key| *key == line + 1);
        let last = known.unwrap_or(WAYS - 1);
        keys[..=last].rotate_right(1);
        cores[..=last].rotate_right(1);
        let mut displaced = None;
        if known.is_none() {
            if keys[0] != 0 && cores[0] != 0 {
                displaced = Some((keys[0] - 1, cores[0]));
            }
            (keys[0], cores[0]) = (line + 1, 0);
        }
        (&mut cores[0], displaced)
    }

    /// The cores that may hold `line`, without a new entry.
    #[must_use]
    pub fn peek(&self, line: u64) -> u128 {
        let set = self.set(line);
        let mut row = self.keys[set..][..WAYS].iter();
        let way = row.position(|key| *key == line + 1);
        way.map_or(0, |way| self.cores[set + way])
    }

    const fn set(&self, line: u64) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a set number is below the number of sets, which is a usize"
        )]
        let set = (line & self.mask) as usize;
        set * WAYS
    }

    /// The bit of core number `core`.
    #[must_use]
    pub const fn bit(core: usize) -> u128 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the remainder is below 128"
        )]
        let bit = (core % BITS as usize) as u32;
        1 << bit
    }

    /// The numbers below `cores` that stand for a set.
    pub fn numbers(set: u128, cores: usize) -> impl Iterator<Item = usize> {
        let bits = (0..BITS as usize).filter(move |bit| set >> bit & 1 != 0);
        bits.flat_map(move |bit| (bit..cores).step_by(BITS as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_has_to_go_says_who_held_its_line() {
        let mut directory = Directory::new(8);
        for line in 0..8 {
            let (cores, displaced) = directory.entry(line);
            *cores |= Directory::bit(3);
            assert_eq!(displaced, None);
        }
        *directory.entry(0).0 |= Directory::bit(130);
        assert_eq!(directory.entry(8).1, Some((1, 1 << 3)));
        assert_eq!(*directory.entry(0).0, 1 << 3 | 1 << 2);
        assert_eq!(*directory.entry(1).0, 0, "forgotten");
    }

    #[test]
    fn a_bit_stands_for_every_core_with_its_number() {
        let numbers = |set, cores| Directory::numbers(set, cores).collect::<Vec<_>>();
        assert_eq!(numbers(0b101, 100), [0, 2]);
        assert_eq!(numbers(0b101, 131), [0, 128, 2, 130]);
    }
}
