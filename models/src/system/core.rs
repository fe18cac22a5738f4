//! One core: its translation machinery, caches, counters and clock.

use super::data::Chase;
use super::exceptions::Interrupted;
use super::memo::Memo;
use super::parameters::Parameters;
use super::{Shared, Timing, TranslationMode};
use crate::access::{Access, AccessKind, FoundIn, Rights, Translation};
use crate::addr::{Pa, PageSize, Va};
use crate::arch::{Arch, Leaf, Lookup, Step, TablePointer, Verdict, WalkVisitor};
use crate::cost::{Attribution, Category, Cycles, Ledger, Operation};
use crate::counters::{Counters, PerLevel};
use crate::interconnect::{CoreId, Outstanding};
use crate::memory::{Peek, TableMemory};
use crate::observer::{Observer, Removal, Walk};
use crate::tlb::{Tlb, TlbEntry};
use crate::walk_cache::{Spans, WalkCaches};

#[derive(Clone, Debug)]
pub(super) struct Core<A: Arch> {
    pub(super) context: A::Context,
    spans: Spans,
    l1i: Tlb<A>,
    l1d: Tlb<A>,
    l2: Tlb<A>,
    fetch_memo: Memo,
    data_memo: Memo,
    walk_caches: WalkCaches<A>,
    pub(super) chase: Chase,
    pub(super) counters: Counters,
    pub(super) attribution: Attribution,
    pub(super) ledger: Ledger,
    pub(super) interrupted: Interrupted,
    pub(super) clock: Cycles,
    pub(super) outstanding: Outstanding,
    pub(super) socket: usize,
    /// The clock after the last IPI was sent: another one at the same time is a further target of
    /// the same request.
    pub(super) ipi_sent_at: Option<Cycles>,
}

impl<A: Arch> Core<A> {
    pub(super) fn new(parameters: &Parameters, socket: usize, mode: TranslationMode) -> Self {
        let context = A::Context::default();
        let mut core = Self {
            spans: Spans::of::<A>(&context),
            context,
            l1i: Tlb::new(&parameters.l1i),
            l1d: Tlb::new(&parameters.l1d),
            l2: Tlb::new(&parameters.l2),
            fetch_memo: Memo::new(),
            data_memo: Memo::new(),
            walk_caches: WalkCaches::new(&parameters.walk_caches),
            chase: Chase::default(),
            counters: Counters::default(),
            attribution: Attribution::default(),
            ledger: Ledger::default(),
            interrupted: Interrupted::default(),
            clock: Cycles::ZERO,
            outstanding: Outstanding::default(),
            socket,
            ipi_sent_at: None,
        };
        core.empty_tlbs(parameters, mode);
        core
    }

    pub(super) fn empty_tlbs(&mut self, parameters: &Parameters, mode: TranslationMode) {
        self.l1i = Tlb::new(&parameters.l1i);
        self.l1d = Tlb::new(&parameters.l1d);
        self.forget_answers();
        if mode == TranslationMode::Hoarder {
            self.l2 = Tlb::hoarding();
            self.walk_caches = WalkCaches::hoarding();
        } else {
            self.l2 = Tlb::new(&parameters.l2);
            self.walk_caches = WalkCaches::new(&parameters.walk_caches);
        }
    }

    pub(super) fn set_context(&mut self, context: A::Context) {
        self.spans = Spans::of::<A>(&context);
        self.context = context;
        self.forget_answers();
    }

    const fn forget_answers(&mut self) {
        self.fetch_memo.forget();
        self.data_memo.forget();
    }

    /// The only way time passes: the clock and the attribution move together.
    #[inline]
    pub(super) fn charge(&mut self, category: Category, cycles: Cycles) {
        self.clock += cycles;
        self.attribution.charge(category, cycles);
    }

    /// Charges one operation at its price.
    pub(super) fn pay(&mut self, shared: &Shared, category: Category, operation: Operation) {
        self.ledger.count(operation);
        self.charge(category, shared.price(operation));
    }

    #[inline]
    pub(super) fn count_access(&mut self, kind: AccessKind) {
        match kind {
            AccessKind::Load => self.counters.loads += 1,
            AccessKind::Store => self.counters.stores += 1,
            AccessKind::Fetch => self.counters.fetches += 1,
        }
    }

    #[inline]
    pub(super) fn translate<O: Observer<A>>(
        &mut self,
        shared: &mut Shared,
        mode: TranslationMode,
        id: CoreId,
        access: &Access,
        memory: &mut impl TableMemory,
        observer: &mut O,
    ) -> Result<Translation, A::Fault> {
        let (memo, l1, counts) = match access.kind {
            AccessKind::Fetch => (&self.fetch_memo, &mut self.l1i, &mut self.counters.fetch),
            AccessKind::Load | AccessKind::Store => {
                (&self.data_memo, &mut self.l1d, &mut self.counters.data)
            }
        };
        if let Some((place, translation)) = memo.find(access) {
            l1.touch(place);
            counts.l1_hits += 1;
            return Ok(translation);
        }
        self.translate_anew(shared, mode, id, access, memory, observer)
    }

    /// Translates an access to which no answer is at hand.
    fn translate_anew<O: Observer<A>>(
        &mut self,
        shared: &mut Shared,
        mode: TranslationMode,
        id: CoreId,
        access: &Access,
        memory: &mut impl TableMemory,
        observer: &mut O,
    ) -> Result<Translation, A::Fault> {
        let tag = match A::before_lookup(&self.context, access) {
            Ok(Lookup::Off(pa)) => return Ok(untranslated(pa)),
            Ok(Lookup::Tagged(tag)) => tag,
            Err(fault) => return Err(self.fault(access, fault)),
        };
        if mode == TranslationMode::PassThrough {
            let leaf = A::walk(&self.context, access, None, memory, &mut ());
            return match leaf {
                Ok(leaf) => Ok(self.translation(&leaf, leaf.size, access, FoundIn::Walk)),
                Err(fault) => Err(self.fault(access, fault)),
            };
        }
        let va = A::canonical(&self.context, access.va);
        let (l1, counts) = match access.kind {
            AccessKind::Fetch => (&mut self.l1i, &mut self.counters.fetch),
            AccessKind::Load | AccessKind::Store => (&mut self.l1d, &mut self.counters.data),
        };
        let found = if let Some((place, entry)) = l1.find(va, tag) {
            let entry = *entry;
            l1.touch(place);
            counts.l1_hits += 1;
            Some((entry, Some(place)))
        } else {
            counts.l1_misses += 1;
            self.second_level(shared, access.kind, va, tag)
                .map(|entry| (entry, None))
        };
        if let Some((entry, in_l1)) = found {
            match A::check(&entry.leaf, &self.context, access) {
                Verdict::Allowed => {
                    let found_in = in_l1.map_or(FoundIn::L2Tlb, |_| FoundIn::L1Tlb);
                    let given = self.translation(&entry.leaf, entry.held, access, found_in);
                    if let Some(place) = in_l1 {
                        self.memo(access.kind).keep(access, place, &given);
                    }
                    return Ok(given);
                }
                Verdict::NeedsUpdate => {}
                Verdict::Fault(fault) => return Err(self.fault(access, fault)),
            }
        }
        let leaf = self.walk(shared, id, access, va, tag, memory, observer)?;
        Ok(self.translation(&leaf, leaf.size, access, FoundIn::Walk))
    }

    /// Looks in the second level and, on a hit, fills the first.
    fn second_level(
        &mut self,
        shared: &Shared,
        kind: AccessKind,
        va: Va,
        tag: A::Tag,
    ) -> Option<TlbEntry<A>> {
        let found = self.l2.find(va, tag).map(|(place, entry)| (place, *entry));
        let counts = self.counters.side_mut(kind);
        let Some((place, entry)) = found else {
            counts.l2_misses += 1;
            return None;
        };
        counts.l2_hits += 1;
        self.l2.touch(place);
        if shared.timing == Timing::Full {
            self.pay(shared, Category::L2Tlb, Operation::L2TlbHit);
        }
        let leaf = around(&entry.leaf, va);
        self.fill_l1(kind, va, &leaf);
        Some(TlbEntry { leaf, ..entry })
    }

    fn memo(&mut self, kind: AccessKind) -> &mut Memo {
        match kind {
            AccessKind::Fetch => &mut self.fetch_memo,
            AccessKind::Load | AccessKind::Store => &mut self.data_memo,
        }
    }

    fn fill_l1(&mut self, kind: AccessKind, va: Va, leaf: &Leaf<A>) {
        self.memo(kind).forget();
        let l1 = match kind {
            AccessKind::Fetch => &mut self.l1i,
            AccessKind::Load | AccessKind::Store => &mut self.l1d,
        };
        l1.fill(va, leaf);
    }

    #[expect(clippy::too_many_arguments, reason = "one walk has one caller")]
    fn walk<O: Observer<A>>(
        &mut self,
        shared: &mut Shared,
        id: CoreId,
        access: &Access,
        va: Va,
        tag: A::Tag,
        memory: &mut impl TableMemory,
        observer: &mut O,
    ) -> Result<Leaf<A>, A::Fault> {
        let start = self.walk_caches.lookup(&mut self.l2, va, tag, &self.spans);
        let mut seen = Recorder::new();
        let outcome = A::walk(&self.context, access, start, memory, &mut seen);
        self.count_walk(access.kind, start, &seen);
        let refills = matches!(&outcome, Ok(leaf) if self.l2.was_removed(va, leaf));
        if refills {
            self.counters.side_mut(access.kind).refills += 1;
        }
        if shared.timing == Timing::Full {
            let category = if refills {
                Category::Refill
            } else {
                Category::Walk
            };
            self.charge_walk(shared, id, category, seen.steps().map(|step| step.at));
        }
        for step in seen.steps() {
            if let Some(pointer) = step.next {
                self.walk_caches
                    .fill(&mut self.l2, va, tag, pointer, &self.spans);
            }
        }
        if let Some(first) = seen.steps().next() {
            let walk = Walk {
                start,
                first_level: first.level,
                reads: seen.len,
            };
            observer.walk(id, access, &walk);
        }
        let leaf = match outcome {
            Ok(leaf) => leaf,
            Err(fault) => return Err(self.fault(access, fault)),
        };
        self.l2.fill(va, &leaf);
        self.fill_l1(access.kind, va, &leaf);
        Ok(leaf)
    }

    fn count_walk(&mut self, kind: AccessKind, start: Option<TablePointer<A>>, seen: &Recorder<A>) {
        let counts = self.counters.side_mut(kind);
        counts.walks += 1;
        match start {
            Some(pointer) => counts.walk_cache_hits[pointer.level.index()] += 1,
            None => counts.walk_cache_misses += 1,
        }
        if let Some(first) = seen.steps().next() {
            counts.walk_starts[first.level.index()] += 1;
        }
        for step in seen.steps() {
            counts.walk_reads[step.level.index()] += 1;
        }
        for (total, new) in counts.table_updates.iter_mut().zip(seen.updates) {
            *total += new;
        }
    }

    /// Counts a fault and removes what its delivery removes.
    #[cold]
    fn fault(&mut self, access: &Access, fault: A::Fault) -> A::Fault {
        self.counters.side_mut(access.kind).faults += 1;
        if let Some(op) = A::invalidated_by_fault(&fault, &self.context, access) {
            // Not an invalidation that software asked for: what went is not counted.
            self.remove(&op);
        }
        fault
    }

    /// Removes from this core what `op` must remove.
    pub(super) fn remove(&mut self, op: &A::Invalidation) -> Removal {
        self.forget_answers();
        let (l1i, _) = self.l1i.invalidate(op);
        let (l1d, _) = self.l1d.invalidate(op);
        let (l2_entries, in_l2_tlb) = self.l2.invalidate(op);
        Removal {
            l1_entries: l1i + l1d,
            l2_entries,
            table_pointers: in_l2_tlb + self.walk_caches.invalidate(op),
        }
    }

    /// Counts what an invalidation that software issued removed here.
    pub(super) fn count_removal(&mut self, removal: &Removal, from_another_core: bool) {
        let removed = &mut self.counters.removed;
        removed.l1_entries += removal.l1_entries;
        removed.l2_entries += removal.l2_entries;
        removed.table_pointers += removal.table_pointers;
        removed.received += u64::from(from_another_core);
    }

    pub(super) fn peek(
        &self,
        mode: TranslationMode,
        access: &Access,
        memory: &impl TableMemory,
    ) -> Result<Translation, A::Fault> {
        let tag = match A::before_lookup(&self.context, access)? {
            Lookup::Off(pa) => return Ok(untranslated(pa)),
            Lookup::Tagged(tag) => tag,
        };
        let va = A::canonical(&self.context, access.va);
        let mut start = None;
        if mode != TranslationMode::PassThrough {
            let l1 = match access.kind {
                AccessKind::Fetch => &self.l1i,
                AccessKind::Load | AccessKind::Store => &self.l1d,
            };
            let in_l1 = l1.find(va, tag).map(|(_, e)| (e, FoundIn::L1Tlb));
            let found = in_l1.or_else(|| {
                let in_l2 = self.l2.find(va, tag);
                in_l2.map(|(_, e)| (e, FoundIn::L2Tlb))
            });
            if let Some((entry, found_in)) = found {
                match A::check(&entry.leaf, &self.context, access) {
                    Verdict::Allowed => {
                        return Ok(self.translation(&entry.leaf, entry.held, access, found_in));
                    }
                    Verdict::NeedsUpdate => {}
                    Verdict::Fault(fault) => return Err(fault),
                }
            }
            start = self.walk_caches.peek(&self.l2, va, tag, &self.spans);
        }
        let leaf = A::walk(&self.context, access, start, &mut Peek(memory), &mut ())?;
        Ok(self.translation(&leaf, leaf.size, access, FoundIn::Walk))
    }

    #[inline]
    fn translation(
        &self,
        leaf: &Leaf<A>,
        size: PageSize,
        access: &Access,
        found_in: FoundIn,
    ) -> Translation {
        let va = A::canonical(&self.context, access.va);
        Translation {
            pa: translate_by(leaf, va),
            size,
            rights: A::rights(leaf, &self.context, access.privilege),
            found_in,
        }
    }
}

/// Where `leaf` puts `va`. The address may lie outside the leaf's own page: in another page of its
/// contiguous group, if the group is held as one.
#[inline]
fn translate_by<A: Arch>(leaf: &Leaf<A>, va: Va) -> Pa {
    let distance = va.raw().wrapping_sub(leaf.va.raw());
    leaf.pa.wrapping_add(distance)
}

/// The leaf of the page around `va`, from a leaf that may be another member of its group.
fn around<A: Arch>(leaf: &Leaf<A>, va: Va) -> Leaf<A> {
    let base = va.page_base(leaf.size);
    Leaf {
        va: base,
        pa: translate_by(leaf, base),
        ..*leaf
    }
}

/// The translation of an address with the MMU off.
const fn untranslated(pa: Pa) -> Translation {
    Translation {
        pa,
        size: PageSize::Size4K,
        rights: Rights {
            read: true,
            write: true,
            execute: true,
        },
        found_in: FoundIn::MmuOff,
    }
}

/// More descriptor reads than any walk makes: five levels, and the last one again when a
/// concurrent change makes an update fail.
const MAX_STEPS: usize = 16;

/// Keeps the steps of one walk.
struct Recorder<A: Arch> {
    steps: [Option<Step<A>>; MAX_STEPS],
    len: usize,
    updates: PerLevel,
}

impl<A: Arch> Recorder<A> {
    const fn new() -> Self {
        Self {
            steps: [None; MAX_STEPS],
            len: 0,
            updates: [0; 5],
        }
    }

    fn steps(&self) -> impl Iterator<Item = &Step<A>> {
        self.steps[..self.len].iter().flatten()
    }
}

impl<A: Arch> WalkVisitor<A> for Recorder<A> {
    fn step(&mut self, step: &Step<A>) {
        if let Some(free) = self.steps.get_mut(self.len) {
            *free = Some(*step);
            self.len += 1;
        }
    }

    fn update(&mut self, level: crate::addr::Level, _at: Pa, _old: u64, _new: u64) {
        self.updates[level.index()] += 1;
    }
}
