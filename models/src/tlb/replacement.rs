//! Which entry of a full set makes room: least recently used, a tree of bits that approximates
//! it, or a seeded random choice.

use serde::Deserialize;

/// How an array chooses the entry that makes room.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Replacement {
    /// The least recently used.
    #[default]
    Lru,
    /// A binary tree of one bit a node, each pointing away from the half last used. The ways are
    /// a power of two, at most [`Replacement::MAX_TREE_WAYS`].
    TreePlru,
    /// Any way, from a generator whose seed is the array's ([`Replacement::SEED`] unless the
    /// array says otherwise): the same events evict the same entries.
    Random,
}

impl Replacement {
    /// The most ways of a [`Replacement::TreePlru`] set.
    pub const MAX_TREE_WAYS: usize = 64;
    /// The seed of an array that names none.
    pub const SEED: u64 = 1;
}

/// The state behind [`Replacement`] of an array of `sets`, whose slots are numbered set by set,
/// `stride` a set.
#[derive(Clone, Debug)]
pub(super) enum Order {
    Lru(Lists),
    Tree {
        ways: usize,
        /// A word a set; bit `n` belongs to node `n` of a heap whose root is node 1. A set bit
        /// sends the search for a victim to the right.
        bits: Vec<u64>,
    },
    Random {
        ways: u64,
        state: u64,
    },
}

impl Order {
    pub(super) fn new(
        replacement: Replacement,
        seed: u64,
        sets: usize,
        ways: usize,
        stride: usize,
    ) -> Self {
        match replacement {
            Replacement::Lru => Self::Lru(Lists::new(sets, ways, stride)),
            Replacement::TreePlru => Self::Tree {
                ways,
                bits: vec![0; sets],
            },
            Replacement::Random => Self::Random {
                ways: ways as u64,
                state: seed,
            },
        }
    }

    /// Way `slot - first` of `set` was used.
    #[inline]
    pub(super) fn touch(&mut self, set: usize, first: usize, slot: usize) {
        match self {
            Self::Lru(lists) => lists.touch(set, slot),
            Self::Tree { ways, bits } => {
                let mut node = slot - first + *ways;
                let word = &mut bits[set];
                while node > 1 {
                    let parent = node / 2;
                    // Away from the child that was used: right (1) after the left (even) one.
                    let away = u64::from(node.is_multiple_of(2));
                    *word = *word & !(1 << parent) | away << parent;
                    node = parent;
                }
            }
            Self::Random { .. } => {}
        }
    }

    /// The slot of a full set, whose first slot is `first`, that makes room.
    #[inline]
    pub(super) fn victim(&mut self, set: usize, first: usize) -> usize {
        match self {
            Self::Lru(lists) => lists.oldest(set),
            Self::Tree { ways, bits } => {
                let mut node = 1;
                while node < *ways {
                    node = 2 * node + usize::from(bits[set] >> node & 1 == 1);
                }
                first + node - *ways
            }
            Self::Random { ways, state } => {
                // SplitMix64 (Steele, Lea and Flood, 2014): any seed will do, 0 too.
                *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let mut mixed = *state;
                mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
                mixed ^= mixed >> 31;
                #[expect(clippy::cast_possible_truncation, reason = "below the ways")]
                let way = (mixed % *ways) as usize;
                first + way
            }
        }
    }
}

/// A ring of slots for each set, most recently used first: both operations take constant time.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    /// The most recently used slot of each set.
    newest: Vec<u32>,
    links: Vec<Links>,
}

#[derive(Copy, Clone, Debug, Default)]
struct Links {
    /// The slot used next before this one; after the oldest comes the newest.
    older: u32,
    newer: u32,
}

impl Lists {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "arrays are far smaller than 4 G entries"
    )]
    fn new(sets: usize, ways: usize, stride: usize) -> Self {
        let mut links = vec![Links::default(); sets * stride];
        for set in 0..sets {
            let first = set * stride;
            for way in 0..ways {
                links[first + way] = Links {
                    older: (first + (way + 1) % ways) as u32,
                    newer: (first + (way + ways - 1) % ways) as u32,
                };
            }
        }
        Self {
            newest: (0..sets).map(|set| (set * stride) as u32).collect(),
            links,
        }
    }

    fn oldest(&self, set: usize) -> usize {
        self.links[self.newest[set] as usize].newer as usize
    }

    #[inline]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "arrays are far smaller than 4 G entries"
    )]
    fn touch(&mut self, set: usize, slot: usize) {
        let newest = self.newest[set];
        let this = slot as u32;
        if newest == this {
            return;
        }
        self.newest[set] = this;
        let oldest = self.links[newest as usize].newer;
        if oldest == this {
            // The ring only turns.
            return;
        }
        let Links { older, newer } = self.links[slot];
        self.links[newer as usize].older = older;
        self.links[older as usize].newer = newer;
        self.links[slot] = Links {
            older: newest,
            newer: oldest,
        };
        self.links[newest as usize].newer = this;
        self.links[oldest as usize].older = this;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_points_away_from_what_was_used() {
        let mut order = Order::new(Replacement::TreePlru, 0, 1, 4, 4);
        for way in 0..4 {
            order.touch(0, 0, way);
        }
        assert_eq!(order.victim(0, 0), 0);
        order.touch(0, 0, 0);
        // True LRU would choose way 1; the tree remembers only that the right half is older.
        assert_eq!(order.victim(0, 0), 2);
        order.touch(0, 0, 2);
        assert_eq!(order.victim(0, 0), 1);
    }

    #[test]
    fn lists_agree_with_time_stamps() {
        let (ways, mut now) = (7, 0_u64);
        let mut order = Order::new(Replacement::Lru, 0, 1, ways, 8);
        let mut stamps = vec![0; ways];
        let mut random = Order::new(Replacement::Random, 5, 1, ways, 8);
        for (slot, stamp) in stamps.iter_mut().enumerate() {
            now += 1;
            *stamp = now;
            order.touch(0, 0, slot);
        }
        for _ in 0..1000 {
            let oldest = (0..ways).min_by_key(|&slot| stamps[slot]).unwrap();
            assert_eq!(order.victim(0, 0), oldest);
            let slot = random.victim(0, 0);
            now += 1;
            stamps[slot] = now;
            order.touch(0, 0, slot);
        }
    }

    #[test]
    fn one_seed_gives_one_sequence_and_every_way_has_its_turn() {
        let draw = |seed| {
            let mut order = Order::new(Replacement::Random, seed, 1, 5, 8);
            (0..200).map(|_| order.victim(0, 0)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!((0..5).all(|way| draw(1).contains(&way)));
    }
}
