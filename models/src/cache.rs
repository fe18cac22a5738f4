//! The data path: what a memory access costs beyond the first-level cache.
//!
//! Three levels of set-associative, least recently used caches of physical lines. The first two
//! belong to a core, the third to a socket. A line is allocated in every level it passes; levels
//! do not enforce inclusion, and write-backs take no time. Instruction fetches do not take this
//! path.

use crate::addr::Pa;
use crate::cost::Cycles;

/// Where a line was found.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum LineSource {
    /// The core's first-level data cache.
    L1d,
    /// The core's second-level cache.
    L2,
    /// The socket's last-level cache.
    L3,
    /// Memory.
    Memory,
}

/// The geometry of one cache.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct CacheShape {
    /// Number of sets.
    pub sets: usize,
    /// Lines per set.
    pub ways: usize,
}

/// A set-associative cache of lines; only presence is modelled, not contents.
#[derive(Clone, Debug)]
pub struct LineCache {
    sets: u64,
    /// `sets - 1` if that is a mask.
    mask: Option<u64>,
    ways: usize,
    /// Line number + 1, or 0 for an empty way; each set ordered from the most to the least
    /// recently used.
    lines: Vec<u64>,
}

impl LineCache {
    /// An empty cache.
    #[must_use]
    pub fn new(shape: CacheShape) -> Self {
        let (sets, ways) = (shape.sets.max(1), shape.ways.max(1));
        Self {
            sets: sets as u64,
            mask: sets.is_power_of_two().then(|| sets as u64 - 1),
            ways,
            lines: vec![0; sets * ways],
        }
    }

    /// Looks a line up and makes it the most recently used of its set, allocating it if it was
    /// not there. Whether it was.
    #[inline]
    pub fn access(&mut self, line: u64) -> bool {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a set number is below the number of sets, which is a usize"
        )]
        let set = match self.mask {
            Some(mask) => line & mask,
            None => line % self.sets,
        } as usize;
        let row = &mut self.lines[set * self.ways..][..self.ways];
        let key = line + 1;
        if row[0] == key {
            return true;
        }
        match row.iter().position(|&held| held == key) {
            Some(way) => {
                row[..=way].rotate_right(1);
                true
            }
            None => {
                row.rotate_right(1);
                row[0] = key;
                false
            }
        }
    }

    /// Forgets every line.
    pub fn clear(&mut self) {
        self.lines.fill(0);
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
}

impl Latencies {
    /// The latency of a line from `source`.
    #[must_use]
    pub const fn of(&self, source: LineSource) -> Cycles {
        match source {
            LineSource::L1d => self.l1d,
            LineSource::L2 => self.l2,
            LineSource::L3 => self.l3,
            LineSource::Memory => self.memory,
        }
    }
}

/// The caches of one core.
#[derive(Clone, Debug)]
pub struct CoreCaches {
    l1d: LineCache,
    l2: LineCache,
}

impl CoreCaches {
    /// Empty caches.
    #[must_use]
    pub fn new(l1d: CacheShape, l2: CacheShape) -> Self {
        Self {
            l1d: LineCache::new(l1d),
            l2: LineCache::new(l2),
        }
    }

    /// A data access to a line; `l3` is the socket's cache.
    #[inline]
    pub fn access(&mut self, line: u64, l3: Option<&mut LineCache>) -> LineSource {
        if self.l1d.access(line) {
            return LineSource::L1d;
        }
        self.access_below_l1(line, l3)
    }

    /// An access that bypasses the first level, as table walkers make on some machines.
    pub fn access_below_l1(&mut self, line: u64, l3: Option<&mut LineCache>) -> LineSource {
        if self.l2.access(line) {
            return LineSource::L2;
        }
        if l3.is_some_and(|l3| l3.access(line)) {
            LineSource::L3
        } else {
            LineSource::Memory
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
    fn lru_keeps_what_fits_and_thrashes_beyond() {
        let mut cache = LineCache::new(CacheShape { sets: 64, ways: 8 });
        for round in 0..3 {
            let hits = (0..512).filter(|&line| cache.access(line)).count();
            assert_eq!(hits, if round == 0 { 0 } else { 512 });
        }
        let mut cache = LineCache::new(CacheShape { sets: 64, ways: 8 });
        let conflict = || (0..9).map(|i| i * 64);
        for _ in 0..3 {
            assert_eq!(conflict().filter(|&line| cache.access(line)).count(), 0);
        }
    }

    #[test]
    fn a_line_is_found_in_the_nearest_level_that_kept_it() {
        let tiny = CacheShape { sets: 1, ways: 1 };
        let mut l3 = LineCache::new(CacheShape { sets: 1, ways: 4 });
        let mut core = CoreCaches::new(tiny, CacheShape { sets: 1, ways: 2 });
        let mut access = |line| core.access(line, Some(&mut l3));
        assert_eq!(access(1), LineSource::Memory);
        assert_eq!(access(1), LineSource::L1d);
        assert_eq!(access(2), LineSource::Memory);
        assert_eq!(access(1), LineSource::L2);
        assert_eq!(access(3), LineSource::Memory);
        assert_eq!(access(2), LineSource::L3);
    }

    #[test]
    fn an_access_across_a_line_boundary_takes_two_lines() {
        assert_eq!(lines(Pa::new(0x1038), 8), (0x40, 0x40));
        assert_eq!(lines(Pa::new(0x103c), 8), (0x40, 0x41));
        assert_eq!(lines(Pa::new(0x103c), 0), (0x40, 0x40));
    }
}
