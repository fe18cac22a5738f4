//! The pointer chase of the guest `chase` with `touch=page`, on this host: the same slots, linked
//! by the same shuffle.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::area::{Area, HUGE_PAGE, PAGE};
use super::{NativeError, Pages, Spread};

const LINE: usize = 64;
/// Links followed between two looks at the clock, at least.
const LOADS: usize = 1 << 18;
/// How often they are followed.
const ROUNDS: usize = 5;

/// The generator of the guest: every seed gives another sequence.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number below `bound`, which is not zero.
fn below(state: &mut u64, bound: usize) -> usize {
    // The remainder of a usize is one.
    usize::try_from(next_random(state) % bound as u64).unwrap_or(0)
}

/// Where slot `index` lies: a line of its page that differs from page to page.
fn offset(index: usize) -> usize {
    let mut state = index as u64;
    index * PAGE + below(&mut state, PAGE / LINE) * LINE
}

/// A ring in memory.
#[derive(Debug)]
pub struct Ring {
    area: Area,
    slots: usize,
    at: *const usize,
}

impl Ring {
    /// Links one line of each 4 KiB of `footprint` bytes, at least a page, into a ring.
    ///
    /// # Errors
    /// The kernel does not give the memory, or not in such pages.
    pub fn new(footprint: usize, pages: Pages, seed: u64) -> Result<Self, NativeError> {
        let slots = (footprint / PAGE).max(1);
        let unit = match pages {
            Pages::Small => PAGE,
            Pages::Huge => HUGE_PAGE,
        };
        let bytes = (slots * PAGE).next_multiple_of(unit);
        let mut area = Area::new(bytes, HUGE_PAGE, 0, pages)?;
        area.fill();
        if pages == Pages::Huge {
            let got = area.huge_bytes()?;
            if got < bytes {
                return Err(NativeError::NotHuge { got, bytes });
            }
        }
        let ring = Self {
            at: area.at(offset(0)).cast(),
            area,
            slots,
        };
        ring.link(seed);
        Ok(ring)
    }

    fn slot(&self, index: usize) -> *mut usize {
        self.area.at(offset(index)).cast()
    }

    /// Sattolo's shuffle: the permutation it gives is one cycle.
    fn link(&self, mut seed: u64) {
        for index in 0..self.slots {
            let slot = self.slot(index);
            // SAFETY: slots are aligned words inside the area, which only this value uses.
            unsafe { slot.write(slot.expose_provenance()) };
        }
        for index in (1..self.slots).rev() {
            let other = self.slot(below(&mut seed, index));
            // SAFETY: as above; the two are different slots.
            unsafe { self.slot(index).swap(other) };
        }
    }

    /// Follows `loads` links and gives the time they took.
    pub fn follow(&mut self, loads: usize) -> Duration {
        let start = Instant::now();
        let mut at = self.at;
        for _ in 0..loads {
            // SAFETY: every slot holds the address of a slot of the area, whose memory was exposed
            // when the addresses were written.
            at = std::ptr::with_exposed_provenance(unsafe { at.read_volatile() });
        }
        self.at = black_box(at);
        start.elapsed()
    }

    /// How many slots the ring has.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots
    }
}

/// Nanoseconds a load in a ring of `footprint` bytes.
///
/// # Errors
/// The kernel does not give the memory, or not in such pages.
pub fn measure(footprint: usize, pages: Pages, seed: u64) -> Result<Spread, NativeError> {
    let mut ring = Ring::new(footprint, pages, seed)?;
    let loads = ring.slots() * LOADS.div_ceil(ring.slots());
    ring.follow(loads);
    let rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| each(ring.follow(loads), loads))
        .collect();
    Ok(Spread::of(&rounds))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a number of loads, far below 2^53"
)]
fn each(time: Duration, loads: usize) -> f64 {
    time.as_secs_f64() * 1e9 / loads as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_visits_every_slot_once_a_lap() {
        let mut ring = Ring::new(100 * PAGE, Pages::Small, 7).unwrap();
        let start = ring.at;
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..100 {
            ring.follow(1);
            seen.insert(ring.at.addr());
        }
        assert_eq!((seen.len(), ring.at), (100, start));
    }

    #[test]
    fn slots_stay_in_their_pages() {
        for index in [0, 1, 63, 1000] {
            assert_eq!(offset(index) / PAGE, index);
            assert_eq!(offset(index) % LINE, 0);
        }
    }
}
