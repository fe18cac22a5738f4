//! A hook for everything that happens in a system, for recorders, timelines and checkers.
//!
//! The observer is a type parameter of [`crate::system::System`]; the unit type observes nothing
//! and costs nothing.

use crate::access::{Access, Translation};
use crate::addr::{Level, Pa};
use crate::arch::{Arch, TablePointer};
use crate::interconnect::CoreId;
use crate::memory::TableMemory;
use crate::system::Barrier;
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

/// A store that changed a table entry.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct TableStore {
    /// The aligned 8-byte word.
    pub pa: Pa,
    /// What it held.
    pub old: u64,
    /// What it holds now.
    pub new: u64,
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

    /// `core` executed a barrier.
    fn barrier(&mut self, core: CoreId, barrier: Barrier) {
        let _ = (core, barrier);
    }

    /// The registers that a core's translation depends on have changed to `context`.
    fn context(&mut self, core: CoreId, context: &A::Context) {
        let _ = (core, context);
    }

    /// A store changed a table entry; `memory` holds the new value.
    fn table_store<M: TableMemory>(
        &mut self,
        core: CoreId,
        store: &TableStore,
        change: &Change,
        memory: &M,
    ) {
        let _ = (core, store, change, memory);
    }
}

impl<A: Arch> Observer<A> for () {}
