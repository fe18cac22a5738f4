//! Rules that software must keep when it changes translation tables: break-before-make, and the
//! consistency of contiguous groups.
//!
//! [`BreakChecker`] is an observer of a [`crate::system::System`]: it sees every table store,
//! invalidation and barrier, keeps for each table entry the values that a TLB may still hold
//! ([`history`]), and reports each store after which an access could meet two translations that
//! the architecture does not allow to meet. It judges by what the rules permit any implementation
//! to have cached, not by what the modelled TLBs happen to hold: a violation counts although
//! nothing went wrong this time.
//!
//! What is judged (AArch64: Arm ARM D8.17.1 and D8.7.1):
//!
//! * an entry becomes valid although an earlier value of it, which could conflict with the new
//!   one, has not been invalidated to completion (store, DSB, TLBI, DSB, store);
//! * valid members of a contiguous group differ in the contiguous bit (below FEAT_BBM level 1);
//! * an invalidation reaches a group whose members, all contiguous, differ in address, permissions
//!   or attributes: what is cached afterwards may be any of them, for ever.
//!
//! Not judged: whether the *contents* of two pages are equal, which would allow a change of the
//! output address of a read-only entry without a break. Such a change is reported as
//! [`Reason::ReadOnlyAddress`], apart from the rest.

pub mod history;

mod groups;

use std::fmt;

use crate::access::{Access, AccessKind, Privilege};
use crate::addr::{Pa, Va};
use crate::arch::{Arch, Half, Leaf, Lookup};
use crate::interconnect::CoreId;
use crate::memory::TableMemory;
use crate::observer::{Observer, Removal, TableStore};
use crate::system::{Barrier, Domain, OrderedAccesses};
use crate::tables::{Change, EntryPlace};

use self::groups::Groups;
use self::history::{Cacheable, Histories, Past, Progress};

/// Which changes of the size of a translation the hardware takes without break-before-make
/// (ID_AA64MMFR2_EL1.BBM).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum BbmLevel {
    /// None.
    #[default]
    Level0,
    /// With the nT bit set in the block; the contiguous bit without.
    Level1,
    /// All.
    Level2,
}

/// Why one value of an entry must not follow another without a break.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// The output address changes, and the old or the new value is writable.
    Address,
    /// The output address changes, both values are read-only: allowed only if the contents of the
    /// two places are equal, which tables do not tell.
    ReadOnlyAddress,
    /// Memory type, cacheability or shareability changes.
    MemoryType,
    /// A table takes the place of a block, a block that of a table, or one table that of another.
    Structure,
    /// The contiguous bit changes.
    Contiguous,
    /// The entry becomes global, so that it could overlap entries of an address space.
    Global,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "its output address changes",
            Self::ReadOnlyAddress => {
                "its output address changes (read-only: allowed if the contents are equal)"
            }
            Self::MemoryType => "its memory type or shareability changes",
            Self::Structure => "a table and a block, or two tables, replace each other",
            Self::Contiguous => "its contiguous bit changes",
            Self::Global => "it becomes global",
        })
    }
}

/// What an architecture says about changes of table entries.
pub trait TableRules: Arch {
    /// What a TLB may keep of the entry `raw` at `place` for the address space `tag`: `None` for
    /// an entry that is invalid or may not be cached (its access flag is clear).
    fn cacheable(
        context: &Self::Context,
        place: &EntryPlace,
        raw: u64,
        tag: Self::Tag,
    ) -> Option<Cacheable<Self>>;

    /// Why `new` must not follow `old` at `place` without a break; both are valid.
    fn must_break(
        context: &Self::Context,
        place: &EntryPlace,
        old: u64,
        new: u64,
        bbm: BbmLevel,
    ) -> Option<Reason>;

    /// Members of the contiguous group that an entry at `place` may belong to: a power of two, or
    /// `None` where there are no groups.
    fn group_members(context: &Self::Context, place: &EntryPlace) -> Option<u32>;

    /// Whether both leaves, of one contiguous group, describe one mapping: addresses in sequence, same permissions and attributes, accessed and dirty state
    /// aside.
    fn in_sequence(first: &Leaf<Self>, other: &Leaf<Self>) -> bool;
}

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A value was made valid before the break of an earlier one was complete.
    NoBreak {
        /// The value that may still be cached.
        old: u64,
        /// How far its removal had come.
        progress: Progress,
        /// Why it must be gone.
        reason: Reason,
    },
    /// Valid members of a contiguous group differ in the contiguous bit.
    MixedGroup,
    /// A group was invalidated while its members differ.
    UnevenGroup,
}

/// A store or an invalidation that broke a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// Who did it.
    pub core: CoreId,
    /// The entry; of a group, its first member.
    pub place: EntryPlace,
    /// Where the entry is in memory.
    pub pa: Pa,
    /// What it holds now.
    pub new: u64,
    /// What is wrong.
    pub fault: Fault,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            core,
            place,
            pa,
            new,
            fault,
        } = self;
        let level = place.level.number();
        let at = format_args!(
            "{core}: level {level} entry for {:#x} (at {:#x})",
            place.va.raw(),
            pa.raw()
        );
        match fault {
            Fault::NoBreak {
                old,
                progress,
                reason,
            } => write!(
                f,
                "{at}: {new:#x} was stored while {old:#x} may be cached ({progress}), and {reason}"
            ),
            Fault::MixedGroup => write!(
                f,
                "{at}: valid members of the contiguous group differ in the contiguous bit"
            ),
            Fault::UnevenGroup => write!(
                f,
                "{at}: the contiguous group was invalidated while its members differ"
            ),
        }
    }
}

/// How many violations are kept whole; further ones are only counted.
const KEPT: usize = 64;

/// Watches a system for broken rules.
#[derive(Clone, Debug)]
pub struct BreakChecker<A: TableRules> {
    bbm: BbmLevel,
    /// The registers as each core has them.
    contexts: Vec<A::Context>,
    histories: Histories<A>,
    groups: Groups<A>,
    violations: Vec<Violation>,
    count: u64,
}

impl<A: TableRules> BreakChecker<A> {
    /// A checker of a system of `cores` cores that implement `bbm`.
    #[must_use]
    pub fn new(cores: usize, bbm: BbmLevel) -> Self {
        Self {
            bbm,
            contexts: vec![A::Context::default(); cores],
            histories: Histories::new(cores),
            groups: Groups::default(),
            violations: Vec::new(),
            count: 0,
        }
    }

    /// How often a rule was broken.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The first violations, in order.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// How many overwritten values a TLB may hold at present.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.histories.len()
    }

    fn report(&mut self, violation: Violation) {
        self.count += 1;
        if self.violations.len() < KEPT {
            self.violations.push(violation);
        }
    }

    /// Judges a store against what may be cached of the entry's earlier values.
    fn judge_break(&mut self, core: CoreId, store: &TableStore, place: &EntryPlace) {
        let context = &self.contexts[core.index()];
        let judged = |past: &Past<A>| {
            let reason = A::must_break(context, place, past.raw, store.new, self.bbm)?;
            Some((past.raw, past.progress, reason))
        };
        let first = self.histories.at(place).find_map(judged);
        if let Some((old, progress, reason)) = first {
            self.report(Violation {
                core,
                place: *place,
                pa: store.pa,
                new: store.new,
                fault: Fault::NoBreak {
                    old,
                    progress,
                    reason,
                },
            });
        }
    }
}

/// The tag under which `context` translates `half` now; `None` with translation off.
fn tag_of<A: Arch>(context: &A::Context, half: Half) -> Option<A::Tag> {
    let va = match half {
        Half::Lower => Va::new(0),
        Half::Upper => Va::new(!0xfff),
    };
    let access = Access::new(va, AccessKind::Load, Privilege::Supervisor);
    match A::before_lookup(context, &access) {
        Ok(Lookup::Tagged(tag)) => Some(tag),
        _ => None,
    }
}

impl<A: TableRules> Observer<A> for BreakChecker<A> {
    fn context(&mut self, core: CoreId, context: &A::Context) {
        context.clone_into(&mut self.contexts[core.index()]);
        for root in A::roots(context).into_iter().flatten() {
            if let Some(tag) = tag_of::<A>(context, root.half) {
                self.histories.serve(root.base, tag);
            }
        }
    }

    fn table_store<M: TableMemory>(
        &mut self,
        core: CoreId,
        store: &TableStore,
        change: &Change,
        memory: &M,
    ) {
        let place = &change.place;
        let context = &self.contexts[core.index()];
        self.histories.overwrite(context, core, store, place);
        self.judge_break(core, store, place);
        let context = &self.contexts[core.index()];
        let tag = self.histories.tag(place.root);
        let mixed = tag.and_then(|tag| self.groups.store(context, store, place, tag, memory));
        if let Some((pa, place)) = mixed
            && self.bbm == BbmLevel::Level0
        {
            self.report(Violation {
                core,
                place,
                pa,
                new: store.new,
                fault: Fault::MixedGroup,
            });
        }
    }

    fn invalidate(&mut self, issuer: CoreId, core: CoreId, op: &A::Invalidation, _: &Removal) {
        if issuer != core {
            return;
        }
        self.histories.invalidate(issuer, op);
        for (pa, place, new) in self.groups.invalidated(op) {
            self.report(Violation {
                core,
                place,
                pa,
                new,
                fault: Fault::UnevenGroup,
            });
        }
    }

    fn barrier(&mut self, core: CoreId, barrier: Barrier) {
        if let Barrier::Dsb { domain, kind } = barrier {
            self.histories.order_stores(core);
            if kind == OrderedAccesses::All {
                self.histories.complete(core, domain == Domain::Non);
            }
        }
    }
}
