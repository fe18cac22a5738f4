//! What the fuzz targets share: memory made of the fuzzer's bytes, and accesses.

use std::cell::Cell;

use arbitrary::Arbitrary;
use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::{Pa, Va};
use mmuscope_models::memory::TableMemory;

/// Memory without end: every word is one of a few, chosen by its address, so that the fuzzer
/// controls each descriptor that a walk reads. Counts reads and writes.
#[derive(Debug)]
pub struct Words {
    words: Vec<u64>,
    /// How exchanges end.
    behaviour: Behaviour,
    /// Descriptors read.
    pub reads: Cell<usize>,
    /// Descriptors that a walk tried to change.
    pub exchanges: usize,
}

/// What happens to memory besides the walk.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Arbitrary)]
pub enum Behaviour {
    /// Nothing.
    Calm,
    /// Another processor changes every descriptor before it can be updated.
    Restless,
    /// No descriptor can be written.
    ReadOnly,
    /// Nothing answers at addresses with bit 12 set.
    Holes,
}

impl Words {
    /// Memory of `words`; of zeros if there are none.
    #[must_use]
    pub fn new(words: Vec<u64>, behaviour: Behaviour) -> Self {
        Self {
            words,
            behaviour,
            reads: Cell::new(0),
            exchanges: 0,
        }
    }

    fn word(&self, pa: Pa) -> Option<u64> {
        if self.behaviour == Behaviour::Holes && pa.raw() >> 12 & 1 != 0 {
            return None;
        }
        let mixed = pa.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let index = usize::try_from(mixed).unwrap() % self.words.len().max(1);
        Some(self.words.get(index).copied().unwrap_or(0))
    }
}

impl TableMemory for Words {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        assert_eq!(pa.raw() % 8, 0, "descriptors are aligned");
        self.reads.set(self.reads.get() + 1);
        self.word(pa)
    }

    fn exchange_descriptor(&mut self, pa: Pa, current: u64, _new: u64) -> Option<u64> {
        self.exchanges += 1;
        match self.behaviour {
            Behaviour::Restless => Some(!current),
            Behaviour::ReadOnly => None,
            Behaviour::Calm | Behaviour::Holes => self.word(pa),
        }
    }
}

/// An access in the fuzzer's terms.
#[derive(Copy, Clone, Debug, Arbitrary)]
pub struct AnyAccess {
    va: u64,
    /// The address is sign-extended from this bit, modulo 64.
    top: u8,
    kind: u8,
    user: bool,
}

impl AnyAccess {
    /// The access.
    #[must_use]
    pub fn access(self) -> Access {
        let cut = self.top % 64;
        let va = ((self.va << cut).cast_signed() >> cut).cast_unsigned();
        let kind = match self.kind % 3 {
            0 => AccessKind::Load,
            1 => AccessKind::Store,
            _ => AccessKind::Fetch,
        };
        let privilege = if self.user {
            Privilege::User
        } else {
            Privilege::Supervisor
        };
        Access::new(Va::new(va), kind, privilege)
    }
}
