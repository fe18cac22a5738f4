//! The whole data path: where an access of a core finds its line, and what that changes.

use super::{CacheShape, Directory, LineCache, LineSource, LineState, MemoryMap, Node};
use crate::cost::Cycles;

/// What a data path is made of.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    /// Cores that are modelled.
    pub cores: usize,
    /// Cores of a full socket; core numbers run through the sockets in order.
    pub cores_per_socket: usize,
    /// Sockets; each is a memory node.
    pub sockets: usize,
    /// Every core's first-level data cache.
    pub l1d: CacheShape,
    /// Every core's second level.
    pub l2: CacheShape,
    /// Every socket's third level, if there is one.
    pub l3: Option<CacheShape>,
    /// What leaves the second level leaves the first.
    pub l2_inclusive: bool,
    /// What leaves the third level leaves the caches of the socket's cores.
    pub l3_inclusive: bool,
    /// Which node an address belongs to.
    pub map: MemoryMap,
    /// What a line occupies its node for.
    pub line_service: Cycles,
}

/// What a core wants with a line.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// To read it.
    Load,
    /// To write part of it.
    Store,
    /// To write all of it, so that its contents need not be read.
    WholeLine,
    /// To read a table entry, from the second level on.
    WalkBelowL1,
}

impl Request {
    const fn writes(self) -> bool {
        matches!(self, Self::Store | Self::WholeLine)
    }
}

/// How a request was served.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Served {
    /// Where the line was.
    pub source: LineSource,
    /// How long the request waited for the bandwidth of memory.
    pub queued: Cycles,
}

impl Served {
    const fn by(source: LineSource) -> Self {
        Self {
            source,
            queued: Cycles::ZERO,
        }
    }
}

#[derive(Clone, Debug)]
struct Private {
    l1d: LineCache,
    l2: LineCache,
}

impl Private {
    /// The strongest state of the core's copies.
    fn state(&self, line: u64) -> Option<LineState> {
        match (self.l1d.peek(line), self.l2.peek(line)) {
            (Some(LineState::Modified), _) | (_, Some(LineState::Modified)) => {
                Some(LineState::Modified)
            }
            (first, second) => first.or(second),
        }
    }

    fn remove(&mut self, line: u64) -> bool {
        let first = self.l1d.remove(line).is_some();
        self.l2.remove(line).is_some() || first
    }

    fn set_state(&mut self, line: u64, state: LineState) {
        self.l1d.set_state(line, state);
        self.l2.set_state(line, state);
    }

    fn fill_l1(&mut self, line: u64, state: LineState, inclusive: bool) {
        if let Some((victim, LineState::Modified)) = self.l1d.insert(line, state)
            && !self.l2.set_state(victim, LineState::Modified)
        {
            self.fill_l2(victim, LineState::Modified, inclusive);
        }
    }

    fn fill_l2(&mut self, line: u64, state: LineState, inclusive: bool) {
        if let Some((victim, _)) = self.l2.insert(line, state)
            && inclusive
        {
            self.l1d.remove(victim);
        }
    }
}

/// The caches and memory of a machine.
#[derive(Clone, Debug)]
pub struct DataPath {
    machine: Machine,
    cores: Vec<Private>,
    /// One a socket; none if the machine has no third level.
    l3: Vec<LineCache>,
    /// None with one core: nobody else can hold a line.
    directory: Option<Directory>,
    nodes: Vec<Node>,
}

impl DataPath {
    /// Empty caches, idle memory.
    #[must_use]
    pub fn new(machine: Machine) -> Self {
        let private = Private {
            l1d: LineCache::new(machine.l1d),
            l2: LineCache::new(machine.l2),
        };
        let lines = machine.cores * (machine.l1d.lines() + machine.l2.lines());
        let l3 = machine.l3.iter().cycle().take(machine.sockets);
        Self {
            cores: vec![private; machine.cores],
            l3: l3.map(|shape| LineCache::new(*shape)).collect(),
            directory: (machine.cores > 1).then(|| Directory::new(lines)),
            nodes: vec![Node::new(machine.line_service); machine.sockets.max(1)],
            machine,
        }
    }

    /// The socket of a core, which is also its node.
    #[must_use]
    pub const fn socket(&self, core: usize) -> usize {
        let per_socket = self.machine.cores_per_socket;
        core / if per_socket == 0 { 1 } else { per_socket }
    }

    /// Core number `core` asks for `line` at `now`.
    #[inline]
    pub fn access(&mut self, core: usize, line: u64, request: Request, now: Cycles) -> Served {
        let first = &mut self.cores[core].l1d;
        if request != Request::WalkBelowL1 && first.hit(line, request.writes()) {
            return Served::by(LineSource::L1d);
        }
        self.beyond_l1(core, line, request, now)
    }

    fn beyond_l1(&mut self, core: usize, line: u64, request: Request, now: Cycles) -> Served {
        let in_l1 = self.cores[core].l1d.touch(line);
        let in_l2 = self.cores[core].l2.touch(line);
        let below_l1 = request == Request::WalkBelowL1;
        let inclusive = self.machine.l2_inclusive;
        match in_l1.or(in_l2) {
            Some(LineState::Shared) if request.writes() => {
                let (_, transfer) = self.claim(core, line, true);
                let own = &mut self.cores[core];
                own.set_state(line, LineState::Modified);
                if in_l1.is_none() {
                    own.fill_l1(line, LineState::Modified, inclusive);
                }
                Served::by(match (transfer, in_l1) {
                    (Some(source), _) => source,
                    (None, Some(_)) => LineSource::L1d,
                    (None, None) => LineSource::L2,
                })
            }
            Some(state) => {
                let state = if request.writes() {
                    LineState::Modified
                } else {
                    state
                };
                let own = &mut self.cores[core];
                if in_l1.is_none() && !below_l1 {
                    own.fill_l1(line, state, inclusive);
                } else if in_l2.is_none() {
                    own.fill_l2(line, state, inclusive);
                }
                Served::by(LineSource::L2)
            }
            None => {
                let (state, transfer) = self.claim(core, line, request.writes());
                let served = match transfer {
                    Some(source) => {
                        self.in_l3(core, line);
                        Served::by(source)
                    }
                    None => self.beyond_l2(core, line, request, now),
                };
                let own = &mut self.cores[core];
                own.fill_l2(line, state, inclusive);
                if !below_l1 {
                    own.fill_l1(line, state, inclusive);
                }
                served
            }
        }
    }

    fn beyond_l2(&mut self, core: usize, line: u64, request: Request, now: Cycles) -> Served {
        if self.in_l3(core, line) {
            return Served::by(LineSource::L3);
        }
        let node = self.machine.map.node(line).min(self.nodes.len() - 1);
        let queued = self.nodes[node].serve(now);
        let source = match request {
            Request::WholeLine => LineSource::Unread,
            _ if node == self.socket(core) => LineSource::Memory,
            _ => LineSource::RemoteMemory,
        };
        Served { source, queued }
    }

    /// Whether the socket's third level has the line; it has it from now on.
    fn in_l3(&mut self, core: usize, line: u64) -> bool {
        let socket = self.socket(core);
        let Some(l3) = self.l3.get_mut(socket) else {
            return false;
        };
        if l3.touch(line).is_some() {
            return true;
        }
        if let Some((victim, _)) = l3.insert(line, LineState::Shared)
            && self.machine.l3_inclusive
        {
            let holders = self.directory.as_ref().map_or(1, |it| it.peek(victim));
            for holder in Directory::numbers(holders, self.cores.len()) {
                if self.socket(holder) == socket {
                    self.cores[holder].remove(victim);
                }
            }
        }
        false
    }

    /// Enters `core` as a holder of `line`, the only one if it is going to write. Says in which
    /// state it may hold the line, and who had to give it up or had modified it, if anybody.
    fn claim(&mut self, core: usize, line: u64, write: bool) -> (LineState, Option<LineSource>) {
        let alone = if write {
            LineState::Modified
        } else {
            LineState::Exclusive
        };
        let Some(directory) = &mut self.directory else {
            return (alone, None);
        };
        let me = Directory::bit(core);
        let (holders, displaced) = directory.entry(line);
        let before = *holders;
        *holders = if write { me } else { before | me };
        if let Some((victim, holders)) = displaced {
            for holder in Directory::numbers(holders, self.cores.len()) {
                self.cores[holder].remove(victim);
            }
        }
        let (mut held, mut transfer) = (false, None);
        for other in Directory::numbers(before, self.cores.len()) {
            if other == core {
                continue;
            }
            let gives = if write {
                self.cores[other].remove(line)
            } else {
                let state = self.cores[other].state(line);
                held |= state.is_some();
                if state == Some(LineState::Shared) {
                    // Then nobody has more than that.
                    break;
                }
                self.cores[other].set_state(line, LineState::Shared);
                state == Some(LineState::Modified)
            };
            if gives {
                let far = self.socket(other) != self.socket(core);
                transfer = match transfer {
                    Some(LineSource::RemoteCore) => transfer,
                    _ if far => Some(LineSource::RemoteCore),
                    _ => Some(LineSource::Core),
                };
            }
        }
        (if held { LineState::Shared } else { alone }, transfer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TINY: CacheShape = CacheShape { sets: 1, ways: 1 };

    fn shape(sets: usize, ways: usize) -> CacheShape {
        CacheShape { sets, ways }
    }

    fn machine(cores: usize) -> Machine {
        Machine {
            cores,
            cores_per_socket: 2,
            sockets: 2,
            l1d: shape(8, 4),
            l2: shape(32, 4),
            l3: Some(shape(256, 4)),
            l2_inclusive: false,
            l3_inclusive: false,
            map: MemoryMap::new(2, 4),
            line_service: Cycles::ZERO,
        }
    }

    fn find(path: &mut DataPath, core: usize, line: u64, request: Request) -> LineSource {
        path.access(core, line, request, Cycles::ZERO).source
    }

    #[test]
    fn a_line_is_found_in_the_nearest_level_that_kept_it() {
        let mut path = DataPath::new(Machine {
            l1d: TINY,
            l2: shape(1, 2),
            l3: Some(shape(1, 4)),
            ..machine(1)
        });
        let mut load = |line| find(&mut path, 0, line, Request::Load);
        assert_eq!(load(1), LineSource::Memory);
        assert_eq!(load(1), LineSource::L1d);
        assert_eq!(load(2), LineSource::Memory);
        assert_eq!(load(1), LineSource::L2);
        assert_eq!(load(3), LineSource::Memory);
        assert_eq!(load(2), LineSource::L3);
    }

    #[test]
    fn a_written_line_moves_between_cores_and_costs_by_distance() {
        let mut path = DataPath::new(machine(4));
        assert_eq!(find(&mut path, 0, 7, Request::Store), LineSource::Memory);
        assert_eq!(find(&mut path, 0, 7, Request::Store), LineSource::L1d);
        assert_eq!(find(&mut path, 1, 7, Request::Store), LineSource::Core);
        assert_eq!(find(&mut path, 3, 7, Request::Load), LineSource::RemoteCore);
        assert_eq!(find(&mut path, 3, 7, Request::Load), LineSource::L1d);
        assert_eq!(find(&mut path, 1, 7, Request::Load), LineSource::L1d);
        assert_eq!(
            find(&mut path, 1, 7, Request::Store),
            LineSource::RemoteCore,
            "it must become the only copy"
        );
        assert_eq!(find(&mut path, 1, 7, Request::Store), LineSource::L1d);
    }

    #[test]
    fn a_store_to_an_own_clean_line_asks_nobody() {
        let mut path = DataPath::new(machine(2));
        assert_eq!(find(&mut path, 0, 9, Request::Load), LineSource::Memory);
        assert_eq!(find(&mut path, 0, 9, Request::Store), LineSource::L1d);
        // Read by both: the second copy is clean, so that it comes from the third level.
        assert_eq!(find(&mut path, 0, 10, Request::Load), LineSource::Memory);
        assert_eq!(find(&mut path, 1, 10, Request::Load), LineSource::L3);
        assert_eq!(find(&mut path, 0, 10, Request::Store), LineSource::Core);
        assert_eq!(find(&mut path, 1, 10, Request::Load), LineSource::Core);
    }

    #[test]
    fn a_modified_line_is_still_modified_after_it_left_the_first_level() {
        let mut path = DataPath::new(Machine {
            l1d: TINY,
            ..machine(2)
        });
        find(&mut path, 0, 7, Request::Store);
        find(&mut path, 0, 8, Request::Load);
        assert_eq!(find(&mut path, 1, 7, Request::Load), LineSource::Core);
    }

    #[test]
    fn the_other_nodes_memory_is_remote() {
        let mut path = DataPath::new(machine(3));
        assert_eq!(find(&mut path, 0, 0, Request::Load), LineSource::Memory);
        assert_eq!(
            find(&mut path, 0, 64, Request::Load),
            LineSource::RemoteMemory
        );
        assert_eq!(find(&mut path, 2, 65, Request::Load), LineSource::Memory);
    }

    #[test]
    fn a_whole_line_is_not_read_but_taken_from_others() {
        let mut path = DataPath::new(machine(2));
        assert_eq!(
            find(&mut path, 0, 5, Request::WholeLine),
            LineSource::Unread
        );
        assert_eq!(find(&mut path, 1, 5, Request::WholeLine), LineSource::Core);
        assert_eq!(find(&mut path, 1, 5, Request::Load), LineSource::L1d);
    }

    #[test]
    fn what_leaves_an_inclusive_level_leaves_those_above() {
        let mut path = DataPath::new(Machine {
            l3: Some(shape(1, 2)),
            l3_inclusive: true,
            ..machine(2)
        });
        for line in 1..=3 {
            find(&mut path, 0, line, Request::Load);
        }
        assert_eq!(find(&mut path, 0, 1, Request::Load), LineSource::Memory);
        let mut path = DataPath::new(Machine {
            l2: TINY,
            l2_inclusive: true,
            ..machine(1)
        });
        find(&mut path, 0, 1, Request::Load);
        find(&mut path, 0, 2, Request::Load);
        assert_eq!(find(&mut path, 0, 1, Request::Load), LineSource::L3);
    }

    #[test]
    fn walks_that_begin_at_the_second_level_leave_the_first_alone() {
        let mut path = DataPath::new(machine(1));
        let walk = Request::WalkBelowL1;
        assert_eq!(find(&mut path, 0, 1, walk), LineSource::Memory);
        assert_eq!(find(&mut path, 0, 1, walk), LineSource::L2);
        assert_eq!(find(&mut path, 0, 1, Request::Load), LineSource::L2);
    }
}
