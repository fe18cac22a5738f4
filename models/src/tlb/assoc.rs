//! The associative array under every TLB and walk cache: sets x ways, entries of several sizes
//! side by side.
//!
//! An entry belongs to a [`Class`]: a page size, or the span of a table pointer. The set is chosen
//! by the address bits above the class's shift, so a lookup probes one set per class that has
//! entries at all; an array that holds one size is probed once.
//!
//! Each slot has a 32-bit fingerprint of class and address, so that a row of ways is compared
//! without touching the entries. Rows are padded to whole groups of fingerprints, which are
//! compared at once; a padding slot has fingerprint 0, which no entry has. A fingerprint without its top bit is a *ghost*: an entry that an
//! invalidation removed and whose slot nothing has reused. Ghosts never answer a lookup; they only
//! tell that a later miss is the invalidation's doing.

use super::replacement::{Order, Replacement};
use crate::addr::PageSize;

/// What kind of entry an array slot holds: a translation of a page size, or a table pointer that
/// serves a span.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Class(u8);

const POINTER: u8 = 64;
const SHIFTS: usize = 64;
/// Fingerprints compared at once.
const GROUP: usize = 4;
const VALID: u32 = 1 << 31;
const POINTER_PRINT: u32 = (POINTER as u32) << 24;

impl Class {
    /// Translations held for pages of `size`.
    #[must_use]
    pub const fn page(size: PageSize) -> Self {
        Self(size as u8)
    }

    /// Pointers to tables that serve `1 << span_shift` bytes; the shift is below 64.
    #[must_use]
    pub const fn pointer(span_shift: u8) -> Self {
        Self(POINTER | (span_shift & (POINTER - 1)))
    }

    /// log2 of the bytes that an entry of the class serves.
    const fn shift(self) -> u32 {
        (self.0 & (POINTER - 1)) as u32
    }

    const fn index(self) -> usize {
        self.shift() as usize
    }

    const fn is_pointer(self) -> bool {
        self.0 & POINTER != 0
    }

    /// The class that a fingerprint was made of.
    const fn of_print(print: u32) -> Self {
        Self((print >> 24) as u8 & 0x7f)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a fingerprint is lossy")]
    const fn print(self, va: u64) -> u32 {
        VALID | ((self.0 as u32) << 24) | (((va >> self.shift()) as u32) & 0x00ff_ffff)
    }
}

/// An entry that an [`Assoc`] can hold.
pub trait Slot {
    /// Its class.
    fn class(&self) -> Class;
    /// The first address it serves; aligned to the class's size.
    fn base(&self) -> u64;
    /// Whether `self` and `other`, of one class and base, answer the same lookups, so that one
    /// replaces the other instead of standing beside it.
    fn same_key(&self, other: &Self) -> bool;
    /// Whether an invalidation of an address that the entry does not serve may concern it: it is
    /// one piece of a larger page.
    fn is_piece(&self) -> bool;
}

/// Which translations [`Assoc::remove_pages`] looks at.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Extent {
    /// Every entry.
    All,
    /// Entries that serve an address from the first to the last, both included.
    Addresses(u64, u64),
}

/// Where an array holds an entry.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct At {
    set: u32,
    slot: u32,
}

impl At {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "arrays are far smaller than 4 G entries"
    )]
    const fn new(set: usize, slot: usize) -> Self {
        Self {
            set: set as u32,
            slot: slot as u32,
        }
    }

    const fn set(self) -> usize {
        self.set as usize
    }

    const fn slot(self) -> usize {
        self.slot as usize
    }
}

/// A set-associative array.
#[derive(Clone, Debug)]
pub struct Assoc<T> {
    sets: usize,
    ways: usize,
    /// Slots a set: the ways and padding.
    stride: usize,
    /// `sets - 1` if that is a mask.
    mask: Option<usize>,
    prints: Vec<u32>,
    items: Vec<Option<T>>,
    /// Valid entries of each set.
    held: Vec<u32>,
    order: Order,
    live: [u32; SHIFTS],
    pages: u64,
    pointers: Vec<At>,
    pieces: u32,
    evicts: bool,
}

impl<T: Slot> Assoc<T> {
    /// An empty array that replaces the least recently used entry. Both numbers are at least 1 (0
    /// is taken as 1).
    #[must_use]
    pub fn new(sets: usize, ways: usize) -> Self {
        Self::replacing(sets, ways, Replacement::Lru, Replacement::SEED)
    }

    /// An empty array with this replacement; `seed` is that of a random one.
    #[must_use]
    pub fn replacing(sets: usize, ways: usize, replacement: Replacement, seed: u64) -> Self {
        let (sets, ways) = (sets.max(1), ways.max(1));
        let stride = ways.next_multiple_of(GROUP);
        let slots = sets * stride;
        Self {
            sets,
            ways,
            stride,
            mask: sets.is_power_of_two().then(|| sets - 1),
            prints: vec![0; slots],
            items: std::iter::repeat_with(|| None).take(slots).collect(),
            held: vec![0; sets],
            order: Order::new(replacement, seed, sets, ways, stride),
            live: [0; SHIFTS],
            pages: 0,
            pointers: Vec::new(),
            pieces: 0,
            evicts: true,
        }
    }

    /// An array that never evicts: a full set makes all sets grow.
    #[must_use]
    pub fn hoarding(sets: usize) -> Self {
        Self {
            evicts: false,
            ..Self::new(sets, 4)
        }
    }

    /// How many entries are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live.iter().map(|&n| n as usize).sum::<usize>() + self.pointers.len()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pages == 0 && self.pointers.is_empty()
    }

    /// The page sizes of which entries are held: bit `n` stands for pages of `1 << n` bytes.
    #[must_use]
    pub const fn page_shifts(&self) -> u64 {
        self.pages
    }

    /// Where an entry of `class` that serves `va` and that `admits` accepts is.
    #[inline]
    pub fn find(&self, class: Class, va: u64, admits: impl Fn(&T) -> bool) -> Option<At> {
        self.find_print(class, va, class.print(va), admits)
    }

    /// The same among translations of every size; of several, the smallest is found.
    #[inline]
    pub fn find_page(&self, va: u64, admits: impl Fn(&T) -> bool) -> Option<At> {
        let mut shifts = self.pages;
        while shifts != 0 {
            #[expect(clippy::cast_possible_truncation, reason = "below 64")]
            let class = Class(shifts.trailing_zeros() as u8);
            shifts &= shifts - 1;
            if let Some(at) = self.find(class, va, &admits) {
                return Some(at);
            }
        }
        None
    }

    /// The same as [`Assoc::find`] among entries that an invalidation removed.
    pub fn find_ghost(&self, class: Class, va: u64, admits: impl Fn(&T) -> bool) -> Option<At> {
        self.find_print(class, va, class.print(va) & !VALID, admits)
    }

    #[inline]
    fn find_print(
        &self,
        class: Class,
        va: u64,
        print: u32,
        admits: impl Fn(&T) -> bool,
    ) -> Option<At> {
        let set = self.set_of(class, va);
        let mut group = set * self.stride;
        let row = &self.prints[group..group + self.stride];
        for prints in row.chunks_exact(GROUP) {
            // Without an early exit, so that it becomes vector code.
            let mut hits = 0_u32;
            for (i, found) in prints.iter().enumerate() {
                hits |= u32::from(*found == print) << i;
            }
            while hits != 0 {
                let slot = group + hits.trailing_zeros() as usize;
                hits &= hits - 1;
                if let Some(item) = &self.items[slot]
                    && (item.base() ^ va) >> class.shift() == 0
                    && admits(item)
                {
                    return Some(At::new(set, slot));
                }
            }
            group += GROUP;
        }
        None
    }

    /// The entry there.
    #[inline]
    #[must_use]
    pub fn get(&self, at: At) -> Option<&T> {
        self.items.get(at.slot()).and_then(Option::as_ref)
    }

    /// Makes the entry there the most recently used one.
    #[inline]
    pub fn touch(&mut self, at: At) {
        let set = at.set();
        self.order.touch(set, set * self.stride, at.slot());
    }

    /// Adds an entry as the most recently used one. It replaces the entry with the same key, or
    /// takes a free slot, or the place of the entry that the replacement chooses.
    pub fn insert(&mut self, item: T) {
        let (class, base) = (item.class(), item.base());
        let at = match self.find(class, base, |held| held.same_key(&item)) {
            Some(at) => at,
            None => self.room(class, base),
        };
        self.vacate(at, 0);
        self.occupy(at, class, item);
    }

    /// Makes room for what is about to be inserted: the entries of `class` that serve `va` and
    /// for which `displaced` says so leave without a trace.
    pub fn displace(&mut self, class: Class, va: u64, displaced: impl Fn(&T) -> bool) {
        while let Some(at) = self.find(class, va, &displaced) {
            self.vacate(at, 0);
        }
    }

    /// Removes the translations within `extent` for which `condemned` says so, and returns how
    /// many. A few addresses are probed; many are scanned.
    pub fn remove_pages(&mut self, extent: Extent, condemned: impl Fn(&T) -> bool) -> u64 {
        let (first, last) = match extent {
            Extent::Addresses(first, last) if self.pieces == 0 => (first, last),
            _ => return self.scan(&condemned),
        };
        let mut removed = 0;
        let mut shifts = self.pages;
        while shifts != 0 {
            #[expect(clippy::cast_possible_truncation, reason = "below 64")]
            let class = Class(shifts.trailing_zeros() as u8);
            shifts &= shifts - 1;
            let (from, to) = (first >> class.shift(), last >> class.shift());
            if to.saturating_sub(from) >= self.sets as u64 {
                // Every set is concerned: one scan settles all classes.
                return removed + self.scan(&condemned);
            }
            for block in from..=to {
                removed += self.remove_row(class, block << class.shift(), &condemned);
            }
        }
        removed
    }

    /// Removes the table pointers for which `condemned` says so, and returns how many. Every
    /// pointer is asked; there are few.
    pub fn remove_pointers(&mut self, condemned: impl Fn(&T) -> bool) -> u64 {
        let mut removed = 0;
        // From the end: what a removal shifts has been asked already.
        for index in (0..self.pointers.len()).rev() {
            let at = self.pointers[index];
            if self.get(at).is_some_and(&condemned) {
                self.leave_ghost(at);
                removed += 1;
            }
        }
        removed
    }

    fn remove_row(&mut self, class: Class, va: u64, condemned: &impl Fn(&T) -> bool) -> u64 {
        let print = class.print(va);
        let set = self.set_of(class, va);
        let first = set * self.stride;
        let mut removed = 0;
        for slot in first..first + self.ways {
            if self.prints[slot] == print && self.items[slot].as_ref().is_some_and(condemned) {
                self.leave_ghost(At::new(set, slot));
                removed += 1;
            }
        }
        removed
    }

    fn scan(&mut self, condemned: &impl Fn(&T) -> bool) -> u64 {
        if self.pages == 0 {
            return 0;
        }
        let mut removed = 0;
        for set in 0..self.sets {
            if self.held[set] == 0 {
                continue;
            }
            let first = set * self.stride;
            for slot in first..first + self.ways {
                let is_page = self.prints[slot] & (VALID | POINTER_PRINT) == VALID;
                if is_page && self.items[slot].as_ref().is_some_and(condemned) {
                    self.leave_ghost(At::new(set, slot));
                    removed += 1;
                }
            }
        }
        removed
    }

    /// Every entry, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.prints
            .iter()
            .zip(&self.items)
            .filter(|(print, _)| **print & VALID != 0)
            .filter_map(|(_, item)| item.as_ref())
    }

    #[inline]
    fn set_of(&self, class: Class, va: u64) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "only the low bits choose the set"
        )]
        let block = (va >> class.shift()) as usize;
        match self.mask {
            Some(mask) => block & mask,
            None => block % self.sets,
        }
    }

    /// Where a new entry goes: the first free slot, else that of the entry to be replaced.
    fn room(&mut self, class: Class, va: u64) -> At {
        let set = self.set_of(class, va);
        let first = set * self.stride;
        if (self.held[set] as usize) < self.ways {
            let mut row = first..first + self.ways;
            let free = row.find(|&slot| self.prints[slot] & VALID == 0);
            return At::new(set, free.unwrap_or(first));
        }
        if !self.evicts {
            self.grow();
            return self.room(class, va);
        }
        At::new(set, self.order.victim(set, first))
    }

    /// Doubles the ways of every set.
    fn grow(&mut self) {
        let mut larger = Self {
            evicts: false,
            ..Self::new(self.sets, self.ways * 2)
        };
        for slot in 0..self.prints.len() {
            if self.prints[slot] & VALID != 0
                && let Some(item) = self.items[slot].take()
            {
                larger.insert(item);
            }
        }
        *self = larger;
    }

    fn leave_ghost(&mut self, at: At) {
        let ghost = self.prints[at.slot()] & !VALID;
        self.vacate(at, ghost);
    }

    /// Makes the slot free and leaves `print` there. The entry stays behind, for a ghost.
    fn vacate(&mut self, at: At, print: u32) {
        let old = std::mem::replace(&mut self.prints[at.slot()], print);
        if old & VALID == 0 {
            return;
        }
        self.held[at.set()] -= 1;
        let class = Class::of_print(old);
        if class.is_pointer() {
            self.pointers.retain(|&other| other != at);
            return;
        }
        let live = &mut self.live[class.index()];
        *live -= 1;
        if *live == 0 {
            self.pages &= !(1 << class.shift());
        }
        if self.pieces != 0 {
            let is_piece = self.get(at).is_some_and(Slot::is_piece);
            self.pieces -= u32::from(is_piece);
        }
    }

    fn occupy(&mut self, at: At, class: Class, item: T) {
        if class.is_pointer() {
            self.pointers.push(at);
        } else {
            self.live[class.index()] += 1;
            self.pages |= 1 << class.shift();
            self.pieces += u32::from(item.is_piece());
        }
        self.held[at.set()] += 1;
        self.prints[at.slot()] = class.print(item.base());
        self.items[at.slot()] = Some(item);
        self.touch(at);
    }
}

#[cfg(test)]
mod tests;
