//! The data path: what a memory access costs beyond the first-level cache.
//!
//! Every core has two levels of set-associative, least recently used caches of physical lines, and
//! every socket has a third. A line is allocated in every level it passes. Walk reads take the
//! same path as loads and stores; instruction fetches do not take it.
//!
//! - **Sharing.** A [`Directory`] knows which cores hold a line. A store needs the only copy: it
//!   takes the line away from whoever has it (read for ownership); a load of a line that another
//!   core has modified takes it from there. Both cost a transfer, by distance. Machines with one
//!   core have no directory and pay nothing for it.
//! - **Memory.** Physical addresses are dealt out to nodes, one a socket ([`MemoryMap`]). Each
//!   node serves so many lines a cycle; beyond that, requests queue ([`Node`]).
//! - **Not modelled.** Write-backs take neither time nor bandwidth, and there is no prefetcher.
//!
//! ```text
//! lines      one cache
//! directory  which cores hold a line
//! memory     nodes: distance and bandwidth
//! path       all of it together: where an access finds its line
//! ```

mod directory;
mod lines;
mod memory;
mod path;

use crate::addr::Pa;
use crate::cost::Cycles;

pub use directory::Directory;
pub use lines::{CacheShape, LineCache, LineState};
pub use memory::{MemoryMap, Node};
pub use path::{DataPath, Machine, Request, Served};

/// Where a line was found.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum LineSource {
    /// The core's first-level data cache.
    L1d,
    /// The core's second-level cache.
    L2,
    /// The socket's last-level cache.
    L3,
    /// Memory of the core's own node.
    Memory,
    /// Memory of another node.
    RemoteMemory,
    /// Another core of the socket: it had modified the line, or had a copy that a store had to
    /// remove.
    Core,
    /// The same, in another socket.
    RemoteCore,
    /// Nowhere: the whole line is written, so that nothing had to be read.
    Unread,
}

impl LineSource {
    /// Whether other cores had to give something up, or gave the line.
    #[must_use]
    pub const fn is_transfer(self) -> bool {
        matches!(self, Self::Core | Self::RemoteCore)
    }
}

/// Latencies of the data path, each from the request to the data.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Latencies {
    /// First-level hit.
    pub l1d: Cycles,
    /// Second-level hit.
    pub l2: Cycles,
    /// Third-level hit; equal to `memory` where there is no such cache.
    pub l3: Cycles,
    /// Memory of the same node.
    pub memory: Cycles,
    /// Memory of another node.
    pub remote_memory: Cycles,
    /// A line that another core of the socket held.
    pub core: Cycles,
    /// A line that a core of another socket held.
    pub remote_core: Cycles,
}

impl Latencies {
    /// The latency of a line from `source`.
    #[must_use]
    pub const fn of(&self, source: LineSource) -> Cycles {
        match source {
            LineSource::L1d | LineSource::Unread => self.l1d,
            LineSource::L2 => self.l2,
            LineSource::L3 => self.l3,
            LineSource::Memory => self.memory,
            LineSource::RemoteMemory => self.remote_memory,
            LineSource::Core => self.core,
            LineSource::RemoteCore => self.remote_core,
        }
    }

    /// What each latency has beyond a first-level hit.
    #[must_use]
    pub fn beyond_l1(&self) -> Self {
        let beyond = |latency: Cycles| latency - self.l1d;
        Self {
            l1d: Cycles::ZERO,
            l2: beyond(self.l2),
            l3: beyond(self.l3),
            memory: beyond(self.memory),
            remote_memory: beyond(self.remote_memory),
            core: beyond(self.core),
            remote_core: beyond(self.remote_core),
        }
    }

    /// Each latency divided by `factor`, as far as misses overlap: transfers between cores do
    /// not, for what cores contend for (locks, masks, flags) is what the next instruction needs.
    #[must_use]
    pub fn overlapped(&self, factor: f64) -> Self {
        let part = |latency: Cycles| Cycles::from_f64(latency.as_f64() / factor);
        Self {
            l1d: part(self.l1d),
            l2: part(self.l2),
            l3: part(self.l3),
            memory: part(self.memory),
            remote_memory: part(self.remote_memory),
            ..*self
        }
    }
}

/// log2 of the line size: 64 bytes on every modelled machine.
pub const LINE_SHIFT: u32 = 6;

/// The first and the last line that `size` bytes at `pa` lie in. `size` 0 is taken as 1.
#[must_use]
pub const fn lines(pa: Pa, size: u32) -> (u64, u64) {
    let first = pa.raw() >> LINE_SHIFT;
    let size = if size == 0 { 1 } else { size as u64 };
    let last = pa.raw().saturating_add(size - 1) >> LINE_SHIFT;
    (first, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_across_a_line_boundary_takes_two_lines() {
        assert_eq!(lines(Pa::new(0x1038), 8), (0x40, 0x40));
        assert_eq!(lines(Pa::new(0x103c), 8), (0x40, 0x41));
        assert_eq!(lines(Pa::new(0x103c), 0), (0x40, 0x40));
    }

    #[test]
    fn transfers_between_cores_do_not_overlap() {
        let latencies = Latencies {
            l1d: Cycles::new(4),
            memory: Cycles::new(204),
            core: Cycles::new(64),
            ..Latencies::default()
        };
        let stalls = latencies.beyond_l1().overlapped(2.0);
        assert_eq!(stalls.of(LineSource::L1d), Cycles::ZERO);
        assert_eq!(stalls.of(LineSource::Memory), Cycles::new(100));
        assert_eq!(stalls.of(LineSource::Core), Cycles::new(60));
    }
}
