//! A hook for everything that happens in a system, for recorders, timelines and checkers.
//!
//! The observer is a type parameter of [`crate::system::System`]; the unit type observes nothing
//! and costs nothing.

use crate::access::{Access, Translation};
use crate::addr::{Level, Pa};
use crate::arch::{Arch, TablePointer};
use crate::interconnect::CoreId;
use crate::tables::Change;

/// A finished table walk.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Walk<A: Arch> {
    /// The cached table pointer that it started from; `None`: from the root.
    pub start: Option<TablePointer<A>>,
    /// The level of the first descriptor read.
    pub first_level: Level,
    /// How many descriptors were read.
    pub reads: usize,
}

/// What an invalidation removed from one core.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Removal {
    /// First-level TLB entries.
    pub l1_entries: u64,
    /// Second-level TLB entries.
    pub l2_entries: u64,
    /// Walk-cache entries.
    pub table_pointers: u64,
}

/// Sees every event of a system. Every method does nothing unless implemented.
pub trait Observer<A: Arch> {
    /// An access was translated, or faulted.
    fn access(&mut self, core: CoreId, access: &Access, outcome: &Result<Translation, A::Fault>) {
        let _ = (core, access, outcome);
    }

    /// A walk for `access` was made; the result follows as [`Observer::access`].
    fn walk(&mut self, core: CoreId, access: &Access, walk: &Walk<A>) {
        let _ = (core, access, walk);
    }

    /// `issuer` executed `op`, and `core` dropped what `removal` says. Called once per core that
    /// the operation reached.
    fn invalidate(
        &mut self,
        issuer: CoreId,
        core: CoreId,
        op: &A::Invalidation,
        removal: &Removal,
    ) {
        let _ = (issuer, core, op, removal);
    }

    /// A table entry at `pa` was changed by a store.
    fn table_store(&mut self, core: CoreId, pa: Pa, old: u64, new: u64, change: &Change) {
        let _ = (core, pa, old, new, change);
    }
}

impl<A: Arch> Observer<A> for () {}
