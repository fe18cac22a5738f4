//! Which cache lines several cores use.
//!
//! An access to a line that one core writes and another uses can be observed: it must happen in
//! the order of the cores' clocks. A line becomes *shared*, and stays so, when a core writes it
//! after another core has used it. Machines with one core have no such directory and pay nothing.

use mmuscope_models::addr::Pa;
use mmuscope_models::system::CoreId;
use rustc_hash::FxHashMap;

const LINE_SHIFT: u32 = 6;
/// Low bits: the first core that used the line, plus one. Zero: nobody has.
const OWNER: u16 = 0x3fff;
/// Several cores have used it.
const SEVERAL: u16 = 0x4000;
/// Several cores use it and one of them wrote it after another had used it.
const SHARED: u16 = 0x8000;

/// A 64-byte line of physical memory.
#[derive(Copy, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Line(u64);

/// The directory.
#[derive(Debug)]
pub struct Lines {
    base: u64,
    states: Vec<u16>,
    /// Stores to shared lines so far.
    stores: u64,
    /// The number of the last store to each shared line.
    last_store: FxHashMap<Line, u64>,
    /// Cores that sleep until a line is written.
    sleepers: Vec<(Line, CoreId)>,
    /// Cores whose line has been written.
    woken: Vec<CoreId>,
}

impl Lines {
    /// For RAM of `size` bytes at `base`.
    pub fn new(base: Pa, size: u64) -> Self {
        Self {
            base: base.raw(),
            states: vec![0; usize::try_from(size >> LINE_SHIFT).unwrap_or(usize::MAX)],
            stores: 0,
            last_store: FxHashMap::default(),
            sleepers: Vec::new(),
            woken: Vec::new(),
        }
    }

    /// The line of `pa`.
    pub fn line(&self, pa: Pa) -> Line {
        Line(pa.raw().wrapping_sub(self.base) >> LINE_SHIFT)
    }

    fn state(&mut self, line: Line) -> Option<&mut u16> {
        self.states.get_mut(usize::try_from(line.0).ok()?)
    }

    /// Whether an access to the line by `core` is one that others can observe. Changes nothing.
    #[inline]
    pub fn observable(&mut self, line: Line, core: CoreId, write: bool) -> bool {
        let me = owner(core);
        self.state(line).is_some_and(|state| {
            let foreign = *state & OWNER != 0 && *state & OWNER != me;
            *state & SHARED != 0 || (write && (foreign || *state & SEVERAL != 0))
        })
    }

    /// Records that `core` uses the line.
    #[inline]
    pub fn touch(&mut self, line: Line, core: CoreId, write: bool) {
        let me = owner(core);
        let Some(state) = self.state(line) else {
            return;
        };
        if *state & OWNER == 0 {
            *state |= me;
        } else if *state & OWNER != me {
            *state |= SEVERAL;
        }
        if write && *state & SEVERAL != 0 {
            *state |= SHARED;
        }
        if write && *state & SHARED != 0 {
            self.shared_store(line, core);
        }
    }

    fn shared_store(&mut self, line: Line, core: CoreId) {
        self.stores += 1;
        self.last_store.insert(line, self.stores);
        let woken = &mut self.woken;
        self.sleepers.retain(|(watched, sleeper)| {
            let wakes = *watched == line && *sleeper != core;
            if wakes && !woken.contains(sleeper) {
                woken.push(*sleeper);
            }
            !wakes
        });
    }

    /// How many stores to shared lines there have been: a point in time for [`Lines::sleep`].
    pub const fn now(&self) -> u64 {
        self.stores
    }

    /// Puts `core` to sleep until one of the lines, each read at the given point in time, is
    /// written; without any line, for good. False if that has already happened.
    pub fn sleep(&mut self, core: CoreId, read: &[(Line, u64)]) -> bool {
        let written =
            |(line, when): &(Line, u64)| self.last_store.get(line).is_some_and(|last| last > when);
        if read.iter().any(written) {
            return false;
        }
        for (line, _) in read {
            // A line that only the sleeper has used so far must count as shared from now on.
            if let Some(state) = self.state(*line) {
                *state |= SEVERAL;
            }
            self.sleepers.push((*line, core));
        }
        true
    }

    /// `core` is awake.
    pub fn wake(&mut self, core: CoreId) {
        self.sleepers.retain(|(_, sleeper)| *sleeper != core);
    }

    /// The cores whose lines have been written since this was last asked.
    pub fn take_woken(&mut self) -> Vec<CoreId> {
        let woken = std::mem::take(&mut self.woken);
        for core in &woken {
            self.wake(*core);
        }
        woken
    }

    /// Whether [`Lines::take_woken`] has something to say.
    pub const fn any_woken(&self) -> bool {
        !self.woken.is_empty()
    }
}

fn owner(core: CoreId) -> u16 {
    (u16::try_from(core.index()).unwrap_or(OWNER - 1) & OWNER) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn becomes_shared_when_written_after_foreign_use() {
        let (a, b) = (CoreId::new(0), CoreId::new(1));
        let mut lines = Lines::new(Pa::new(0x4000_0000), 0x1000);
        let line = lines.line(Pa::new(0x4000_0047));
        lines.touch(line, a, true);
        assert!(!lines.observable(line, b, false));
        lines.touch(line, b, false);
        assert!(
            !lines.observable(line, b, false),
            "read by several, written by none since"
        );
        assert!(lines.observable(line, a, true));
        lines.touch(line, a, true);
        assert!(lines.observable(line, b, false));
        assert!(lines.observable(line, a, false));
        let other = lines.line(Pa::new(0x4000_0080));
        assert!(!lines.observable(other, a, true));
    }

    #[test]
    fn a_store_wakes_only_who_watches_the_line() {
        let (a, b) = (CoreId::new(0), CoreId::new(1));
        let mut lines = Lines::new(Pa::new(0), 0x1000);
        let (watched, other) = (lines.line(Pa::new(0x40)), lines.line(Pa::new(0x80)));
        lines.touch(watched, b, false);
        assert!(lines.sleep(b, &[(watched, lines.now())]));
        lines.touch(other, a, true);
        assert!(!lines.any_woken());
        lines.touch(watched, a, true);
        assert_eq!(lines.take_woken(), [b]);
        assert!(!lines.any_woken());
    }

    #[test]
    fn does_not_sleep_past_a_store() {
        let (a, b) = (CoreId::new(0), CoreId::new(1));
        let mut lines = Lines::new(Pa::new(0), 0x1000);
        let line = lines.line(Pa::new(0x40));
        lines.touch(line, b, false);
        let read_at = lines.now();
        lines.touch(line, a, true);
        assert!(!lines.sleep(b, &[(line, read_at)]));
        assert!(lines.sleep(b, &[(line, lines.now())]));
    }
}
