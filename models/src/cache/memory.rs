//! Memory nodes: which node an address belongs to, and what its bandwidth lets through.

use super::LINE_SHIFT;
use crate::cost::Cycles;

/// Which node a line belongs to: consecutive pieces of memory go round the nodes. Large pieces are
/// the address ranges of a machine that does not interleave.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct MemoryMap {
    nodes: u64,
    piece_lines: u64,
}

impl MemoryMap {
    /// Pieces of `piece_kib` KiB over `nodes` nodes; zero of either is taken as one.
    #[must_use]
    pub const fn new(nodes: usize, piece_kib: u64) -> Self {
        let piece_kib = if piece_kib == 0 { 1 } else { piece_kib };
        Self {
            nodes: if nodes == 0 { 1 } else { nodes as u64 },
            piece_lines: piece_kib << (10 - LINE_SHIFT),
        }
    }

    /// The node of a line.
    #[must_use]
    pub const fn node(&self, line: u64) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a node number is below the number of nodes, which was a usize"
        )]
        let node = (line / self.piece_lines % self.nodes) as usize;
        node
    }
}

/// How long a piece of time is in which a node's requests are counted.
const SLOT: u64 = 1024 * Cycles::UNITS;
/// How many of them are remembered. Cores are never further apart than a few hundred cycles while
/// they run, so that this covers any backlog that they can build up.
const SLOTS: usize = 64;

/// One node's memory: a server of so many lines a cycle.
///
/// Cores run a little ahead of each other, so that requests do not arrive in the order of their
/// times. Each is served in the piece of time it falls into, as long as that piece has capacity
/// left, and otherwise in the next that has: below saturation the order makes no difference.
#[derive(Clone, Debug)]
pub struct Node {
    /// What one line occupies the node for; zero: any number at a time.
    service: Cycles,
    slots: [Slot; SLOTS],
}

#[derive(Copy, Clone, Default, Debug)]
struct Slot {
    number: u64,
    used: Cycles,
}

impl Node {
    /// A node that each line occupies for `service`.
    #[must_use]
    pub const fn new(service: Cycles) -> Self {
        Self {
            service,
            slots: [Slot {
                number: 0,
                used: Cycles::ZERO,
            }; SLOTS],
        }
    }

    /// Serves one line asked for at `now`; how long it waits for its turn.
    pub fn serve(&mut self, now: Cycles) -> Cycles {
        let service = self.service.millis();
        if service == 0 {
            return Cycles::ZERO;
        }
        let first = now.millis() / SLOT;
        for number in first..first + SLOTS as u64 {
            #[expect(clippy::cast_possible_truncation, reason = "the remainder is small")]
            let slot = &mut self.slots[(number % SLOTS as u64) as usize];
            if slot.number < number {
                *slot = Slot {
                    number,
                    used: Cycles::ZERO,
                };
            }
            if slot.number > number {
                // Long past: what was served then is not known any more.
                return Cycles::ZERO;
            }
            if slot.used.millis() + service <= SLOT.max(service) {
                let start = number * SLOT + slot.used.millis();
                slot.used += self.service;
                // Within its own piece of time a request waits for nobody.
                return if number == first {
                    Cycles::ZERO
                } else {
                    Cycles::from_millis(start) - now
                };
            }
        }
        Cycles::from_millis(SLOT * SLOTS as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_go_round_the_nodes() {
        let map = MemoryMap::new(2, 4);
        let nodes: Vec<_> = [0, 63, 64, 128].map(|line| map.node(line)).into();
        assert_eq!(nodes, [0, 0, 1, 0]);
        assert_eq!(MemoryMap::new(0, 0).node(12345), 0);
    }

    #[test]
    fn a_node_lets_through_its_bandwidth_and_no_more() {
        let mut node = Node::new(Cycles::new(16));
        let mut clock = Cycles::ZERO;
        for _ in 0..1000 {
            clock += node.serve(clock) + Cycles::new(4);
        }
        // 16 cycles a line, however fast they are asked for.
        assert!(clock >= Cycles::new(15 * 1000), "{clock}");
        assert!(clock <= Cycles::new(17 * 1000), "{clock}");
        let mut idle = Node::new(Cycles::new(16));
        for n in 0..1000 {
            assert_eq!(idle.serve(Cycles::new(n * 20)), Cycles::ZERO);
        }
    }

    #[test]
    fn below_saturation_the_order_of_requests_makes_no_difference() {
        let waits = |times: &[u64]| {
            let mut node = Node::new(Cycles::new(16));
            times
                .iter()
                .map(|at| node.serve(Cycles::new(*at)))
                .sum::<Cycles>()
        };
        assert_eq!(waits(&[10, 500, 900, 2000]), Cycles::ZERO);
        assert_eq!(waits(&[2000, 900, 10, 500]), Cycles::ZERO);
    }
}
