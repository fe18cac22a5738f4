//! One set-associative cache of lines.

/// The geometry of one cache.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct CacheShape {
    /// Number of sets.
    pub sets: usize,
    /// Lines per set.
    pub ways: usize,
}

impl CacheShape {
    /// Lines in all.
    #[must_use]
    pub const fn lines(&self) -> usize {
        self.sets * self.ways
    }
}

/// What a cache may do with a line it holds (MESI without invalid, which is absence).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum LineState {
    /// Others may hold it too.
    Shared,
    /// Nobody else holds it.
    Exclusive,
    /// Nobody else holds it, and memory is older.
    Modified,
}

const SHARED: u64 = 0;
const EXCLUSIVE: u64 = 1;
const MODIFIED: u64 = 3;
const STATE: u64 = 3;

impl LineState {
    const fn bits(self) -> u64 {
        match self {
            Self::Shared => SHARED,
            Self::Exclusive => EXCLUSIVE,
            Self::Modified => MODIFIED,
        }
    }

    const fn of(word: u64) -> Self {
        match word & STATE {
            SHARED => Self::Shared,
            EXCLUSIVE => Self::Exclusive,
            _ => Self::Modified,
        }
    }
}

/// A set-associative, least recently used cache of lines; presence and state, not contents.
#[derive(Clone, Debug)]
pub struct LineCache {
    sets: u64,
    /// `sets - 1` if that is a mask.
    mask: Option<u64>,
    ways: usize,
    /// `(line number + 1) << 2 | state`, or 0 for an empty way; each set ordered from the most to
    /// the least recently used.
    words: Vec<u64>,
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
            words: vec![0; sets * ways],
        }
    }

    #[inline]
    fn set_of(&self, line: u64) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a set number is below the number of sets, which is a usize"
        )]
        let set = match self.mask {
            Some(mask) => line & mask,
            None => line % self.sets,
        } as usize;
        set * self.ways
    }

    #[inline]
    fn row(&mut self, line: u64) -> &mut [u64] {
        let first = self.set_of(line);
        &mut self.words[first..][..self.ways]
    }

    /// Looks a line up and makes it the most recently used of its set.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<LineState> {
        let row = self.row(line);
        let way = position(row, line)?;
        row[..=way].rotate_right(1);
        Some(LineState::of(row[0]))
    }

    /// A hit that needs nothing from anybody: a load of a line that is there, or a store to one
    /// that nobody else holds, which becomes modified. False if it is not that simple; the line
    /// is then still where it was.
    #[inline]
    pub fn hit(&mut self, line: u64, store: bool) -> bool {
        let row = self.row(line);
        let way = if row[0] >> 2 == line + 1 {
            0
        } else {
            match position(row, line) {
                Some(way) => way,
                None => return false,
            }
        };
        if store {
            if row[way] & STATE == SHARED {
                return false;
            }
            row[way] |= MODIFIED;
        }
        if way != 0 {
            row[..=way].rotate_right(1);
        }
        true
    }

    /// Puts a line that is not there at the head of its set; what it displaces is returned.
    pub fn insert(&mut self, line: u64, state: LineState) -> Option<(u64, LineState)> {
        let row = self.row(line);
        row.rotate_right(1);
        let old = row[0];
        row[0] = (line + 1) << 2 | state.bits();
        (old != 0).then(|| ((old >> 2) - 1, LineState::of(old)))
    }

    /// Looks a line up without touching it.
    #[must_use]
    pub fn peek(&self, line: u64) -> Option<LineState> {
        let first = self.set_of(line);
        let row = &self.words[first..][..self.ways];
        position(row, line).map(|way| LineState::of(row[way]))
    }

    /// Changes the state of a line if it is there. Whether it was.
    pub fn set_state(&mut self, line: u64, state: LineState) -> bool {
        let row = self.row(line);
        let Some(way) = position(row, line) else {
            return false;
        };
        row[way] = row[way] & !STATE | state.bits();
        true
    }

    /// Drops a line. What it was.
    pub fn remove(&mut self, line: u64) -> Option<LineState> {
        let row = self.row(line);
        let way = position(row, line)?;
        let state = LineState::of(row[way]);
        row[way] = 0;
        row[way..].rotate_left(1);
        Some(state)
    }

    /// Looks a line up and makes it the most recently used of its set, allocating it as shared if
    /// it was not there. Whether it was.
    pub fn access(&mut self, line: u64) -> bool {
        let there = self.touch(line).is_some();
        if !there {
            self.insert(line, LineState::Shared);
        }
        there
    }

    /// Forgets every line.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }
}

#[inline]
fn position(row: &[u64], line: u64) -> Option<usize> {
    row.iter().position(|&word| word >> 2 == line + 1)
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
    fn a_store_hits_only_what_nobody_else_holds() {
        let mut cache = LineCache::new(CacheShape { sets: 1, ways: 2 });
        assert!(!cache.hit(7, false));
        cache.insert(7, LineState::Shared);
        assert!(cache.hit(7, false));
        assert!(!cache.hit(7, true));
        assert!(cache.set_state(7, LineState::Exclusive));
        assert!(cache.hit(7, true));
        assert_eq!(cache.peek(7), Some(LineState::Modified));
        cache.insert(8, LineState::Shared);
        assert_eq!(
            cache.insert(9, LineState::Shared),
            Some((7, LineState::Modified))
        );
        assert_eq!(cache.remove(9), Some(LineState::Shared));
        assert_eq!(cache.peek(8), Some(LineState::Shared));
        assert_eq!(cache.remove(9), None);
    }
}
