//! Instructions that repeat themselves (x86 REP): their elements are accesses by lines.
//!
//! The engine reports every element. A processor that moves or stores a string does not make an
//! access for each: it goes line by line. So the model sees the first element of each line, as an
//! access of the whole line if the string covers it, and the other elements follow it.

use mmuscope_models::access::{Access, AccessKind};
use mmuscope_models::addr::{Pa, Va};

/// Bytes of a line.
const LINE: u32 = 64;

/// Where the string instruction that is being executed has got to.
#[derive(Debug, Default)]
pub struct Strings {
    pc: u64,
    load: Option<Place>,
    store: Option<Place>,
}

#[derive(Copy, Clone, Debug)]
struct Place {
    /// The next element's address, if it follows upwards.
    next: Va,
    pa: Pa,
}

impl Strings {
    const fn place(&mut self, kind: AccessKind) -> &mut Option<Place> {
        match kind {
            AccessKind::Store => &mut self.store,
            AccessKind::Load | AccessKind::Fetch => &mut self.load,
        }
    }

    /// The physical address of an element that belongs to the line of the one before.
    pub fn follows(&mut self, pc: u64, access: &Access) -> Option<Pa> {
        if self.pc != pc {
            *self = Self {
                pc,
                ..Self::default()
            };
        }
        let place = (*self.place(access.kind))?;
        let within = !access.va.raw().is_multiple_of(u64::from(LINE));
        (within && place.next == access.va).then_some(place.pa)
    }

    /// An element of `size` bytes at `pa` was accessed.
    pub fn done(&mut self, access: &Access, size: u32, pa: Pa) {
        *self.place(access.kind) = Some(Place {
            next: access.va.wrapping_add(u64::from(size)),
            pa: pa.wrapping_add(u64::from(size)),
        });
    }

    /// How many bytes the model sees accessed at the first element of a line: the line, if
    /// `elements` of `size` bytes cover it.
    pub fn extent(access: &Access, size: u32, elements: u64) -> u32 {
        let covered = elements.saturating_mul(u64::from(size));
        let line = u64::from(LINE);
        let whole = access.va.raw().is_multiple_of(line) && covered >= line;
        if whole { LINE } else { size }
    }
}

#[cfg(test)]
mod tests {
    use mmuscope_models::access::Privilege;

    use super::*;

    fn store(va: u64) -> Access {
        Access::new(Va::new(va), AccessKind::Store, Privilege::Supervisor)
    }

    #[test]
    fn elements_follow_within_a_line_and_not_across() {
        let mut strings = Strings::default();
        let pa = |va: u64| Pa::new(va + 0x10_0000);
        let mut seen = Vec::new();
        for va in (0x1030..0x10a0).step_by(8) {
            let access = store(va);
            match strings.follows(7, &access) {
                Some(found) => assert_eq!(found, pa(va)),
                None => seen.push((va, Strings::extent(&access, 8, (0x10a0 - va) / 8))),
            }
            strings.done(&access, 8, pa(va));
        }
        assert_eq!(seen, [(0x1030, 8), (0x1040, 64), (0x1080, 8)]);
        assert_eq!(
            strings.follows(8, &store(0x10a0)),
            None,
            "another instruction"
        );
    }
}
