//! Unicorn's soft TLB, seen from outside: which virtual page each of its entries names.
//!
//! Memory hooks report the *physical* address that the soft TLB gave. To know the virtual page
//! again, RAM is mapped at several *alias windows* of the engine's physical space; an entry that
//! is filled gets a window in which no other virtual page uses its frame, so that window and
//! frame name the page. When a frame runs out of windows, the soft TLB is flushed and all windows
//! are free again. Fetches have a window of their own: their virtual address is known anyway.
//!
//! ```text
//! engine physical address   window << 40 | slot
//! window 0                  what the user mapped (devices), address unchanged
//! windows 1 ..= WINDOWS     RAM, readable and writable
//! window WINDOWS + 1        RAM, readable and executable
//! ```

use mmuscope_models::addr::Va;
use rustc_hash::FxHashMap;

/// Alias windows for data: how many virtual pages of one frame the soft TLB can hold at once.
pub const WINDOWS: u64 = 8;
/// The window of instruction fetches.
pub const FETCH_WINDOW: u64 = WINDOWS + 1;
/// log2 of the size of a window.
pub const WINDOW_SHIFT: u32 = 40;

const PAGE_SHIFT: u32 = 12;
const PAGE_MASK: u64 = 0xfff;
/// Generations share a word with the page number, in its low 12 bits. Generation 0 is never
/// current, so that zeroed words belong to no page.
const LAST_GENERATION: u64 = PAGE_MASK;

/// What the soft TLB of one virtual CPU may hold since it was last flushed.
#[derive(Debug)]
pub struct SoftTlb {
    /// `page | generation` for each window and frame, window-major.
    pages: Vec<u64>,
    frames: u64,
    generation: u64,
    /// The frame last given for each data page of this generation.
    given: FxHashMap<u64, u64>,
    /// The frame last given for each page of code, ever.
    code: FxHashMap<u64, u64>,
    /// Part of `code`, by the low bits of the page: page and frame.
    code_front: [(u64, u64); CODE_FRONT],
}

const CODE_FRONT: usize = 16;

fn code_front_index(page: u64) -> usize {
    usize::try_from(page % CODE_FRONT as u64).unwrap_or(0)
}

/// A frame whose windows are all taken.
#[derive(Debug, PartialEq, Eq)]
pub struct WindowsFull;

impl SoftTlb {
    /// For RAM of `size` bytes.
    pub fn new(size: u64) -> Self {
        let frames = size >> PAGE_SHIFT;
        Self {
            pages: Self::empty(frames),
            frames,
            generation: 1,
            given: FxHashMap::default(),
            code: FxHashMap::default(),
            code_front: [(u64::MAX, 0); CODE_FRONT],
        }
    }

    fn empty(frames: u64) -> Vec<u64> {
        vec![0; usize::try_from(frames * WINDOWS).unwrap_or(usize::MAX)]
    }

    fn index(&self, window: u64, frame: u64) -> usize {
        usize::try_from((window - 1) * self.frames + frame).unwrap_or(usize::MAX)
    }

    /// The virtual address and slot that an engine address names; `None` if it is not one of the
    /// data windows.
    #[inline]
    pub fn resolve(&self, address: u64) -> Option<(Va, u64)> {
        let window = address >> WINDOW_SHIFT;
        let slot = address & ((1 << WINDOW_SHIFT) - 1);
        if window == 0 || window > WINDOWS || slot >> PAGE_SHIFT >= self.frames {
            return None;
        }
        let page = self.pages[self.index(window, slot >> PAGE_SHIFT)] & !PAGE_MASK;
        Some((Va::new(page | (address & PAGE_MASK)), slot))
    }

    /// Records that the data page at `va` is filled with the frame at `slot`, and gives the
    /// engine address for it.
    ///
    /// # Errors
    /// When the frame already has another page in every window.
    pub fn fill(&mut self, va: Va, slot: u64) -> Result<u64, WindowsFull> {
        let frame = slot >> PAGE_SHIFT;
        let tag = (va.raw() & !PAGE_MASK) | self.generation;
        for window in 1..=WINDOWS {
            let index = self.index(window, frame);
            let held = self.pages[index];
            if held == tag || held & PAGE_MASK != self.generation {
                self.pages[index] = tag;
                self.given.insert(va.raw() >> PAGE_SHIFT, frame);
                return Ok(window << WINDOW_SHIFT | frame << PAGE_SHIFT);
            }
        }
        Err(WindowsFull)
    }

    /// The slot that the soft TLB gives for the data address `va`, if it can hold its page.
    pub fn given(&self, va: Va) -> Option<u64> {
        let frame = self.given.get(&(va.raw() >> PAGE_SHIFT))?;
        Some(frame << PAGE_SHIFT | (va.raw() & PAGE_MASK))
    }

    /// Records a fetch fill. False if blocks of another frame may still be reachable under this
    /// page, so that the soft TLB must be flushed.
    pub fn fill_code(&mut self, va: Va, slot: u64) -> bool {
        let (page, frame) = (va.raw() >> PAGE_SHIFT, slot >> PAGE_SHIFT);
        self.code_front[code_front_index(page)] = (page, frame);
        let before = self.code.insert(page, frame);
        before.is_none_or(|before| before == frame)
    }

    /// The engine address of code at `slot`.
    pub const fn code_address(slot: u64) -> u64 {
        FETCH_WINDOW << WINDOW_SHIFT | (slot & !PAGE_MASK)
    }

    /// The slot from which the engine executes `va`.
    #[inline]
    pub fn code_slot(&self, va: Va) -> Option<u64> {
        let page = va.raw() >> PAGE_SHIFT;
        let (held, frame) = self.code_front[code_front_index(page)];
        let frame = if held == page {
            frame
        } else {
            *self.code.get(&page)?
        };
        Some(frame << PAGE_SHIFT | (va.raw() & PAGE_MASK))
    }

    /// The soft TLB was flushed.
    pub fn flushed(&mut self) {
        // What is known of code stays: blocks that are linked to each other go on without asking
        // the soft TLB.
        self.given.clear();
        if self.generation == LAST_GENERATION {
            self.pages = Self::empty(self.frames);
            self.generation = 1;
        } else {
            self.generation += 1;
        }
    }
}

/// Whether an access of `size` bytes at `va` reaches into the next 4 KiB page.
#[inline]
pub const fn crosses_page(va: Va, size: u32) -> bool {
    (va.raw() & PAGE_MASK) + size as u64 > PAGE_MASK + 1
}

/// The first address of the next 4 KiB page.
pub const fn next_page(va: Va) -> Va {
    Va::new((va.raw() | PAGE_MASK).wrapping_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: u64 = 0xffff_8000_0012_3000;

    #[test]
    fn window_and_frame_name_the_page() {
        let mut soft = SoftTlb::new(0x10_0000);
        let first = soft.fill(Va::new(TOP), 0x5000).unwrap();
        let second = soft.fill(Va::new(0x7000), 0x5000).unwrap();
        assert_ne!(first, second);
        assert_eq!(
            soft.resolve(first | 0x18),
            Some((Va::new(TOP | 0x18), 0x5018))
        );
        assert_eq!(soft.resolve(second), Some((Va::new(0x7000), 0x5000)));
        assert_eq!(soft.fill(Va::new(TOP), 0x5000), Ok(first));
        assert_eq!(soft.resolve(0x5000), None);
        assert_eq!(soft.resolve(SoftTlb::code_address(0x5000)), None);
    }

    #[test]
    fn a_frame_has_so_many_windows_and_a_flush_frees_them() {
        let mut soft = SoftTlb::new(0x10_0000);
        for page in 0..WINDOWS {
            soft.fill(Va::new(page << 12), 0x5000).unwrap();
        }
        assert_eq!(soft.fill(Va::new(TOP), 0x5000), Err(WindowsFull));
        assert_eq!(soft.given(Va::new(0x3008)), Some(0x5008));
        soft.flushed();
        assert_eq!(soft.given(Va::new(0x3008)), None);
        assert!(soft.fill(Va::new(TOP), 0x5000).is_ok());
    }

    #[test]
    fn generations_wrap() {
        let mut soft = SoftTlb::new(0x10_0000);
        for round in 0..2 * LAST_GENERATION {
            let address = soft.fill(Va::new(round << 12), 0x5000).unwrap();
            assert_eq!(address >> WINDOW_SHIFT, 1, "round {round}");
            soft.flushed();
        }
    }

    #[test]
    fn code_of_two_frames_under_one_page_is_noticed() {
        let mut soft = SoftTlb::new(0x10_0000);
        assert!(soft.fill_code(Va::new(TOP), 0x5000));
        assert!(soft.fill_code(Va::new(TOP + 4), 0x5004));
        assert_eq!(soft.code_slot(Va::new(TOP + 8)), Some(0x5008));
        assert!(!soft.fill_code(Va::new(TOP), 0x6000));
        assert_eq!(soft.code_slot(Va::new(TOP)), Some(0x6000));
    }

    #[test]
    fn crossing() {
        assert!(!crosses_page(Va::new(0x1ff8), 8));
        assert!(crosses_page(Va::new(0x1ff9), 8));
        assert_eq!(next_page(Va::new(0x1ff9)), Va::new(0x2000));
    }
}
