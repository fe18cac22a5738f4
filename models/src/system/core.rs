//! One core: its translation machinery, caches, counters and clock.

use super::data::Chase;
use super::exceptions::Interrupted;
use super::levels::Levels;
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
use crate::tlb::{Quad, TlbEntry};
use crate::walk_cache::{Spans, WalkCaches};

#[derive(Clone, Debug)]
pub(super) struct Core<A: Arch> {
    pub(super) context: A::Context,
    spans: Spans,
    levels: Levels<A>,
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
            levels: Levels::new(parameters, mode),
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
        self.levels = Levels::new(parameters, mode);
        self.walk_caches = if mode == TranslationMode::Hoarder {
            WalkCaches::hoarding()
        } else {
            WalkCaches::new(&parameters.walk_caches)
        };
    }

    pub(super) fn set_context(&mut self, context: A::Context) {
        self.spans = Spans::of::<A>(&context);
        self.context = context;
        self.levels.forget_answers();
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
        let l1 = self.levels.first_mut(access.kind);
        if let Some((place, translation)) = l1.memo.find(access) {
            l1.tlb.touch(place);
            self.counters.side_mut(access.kind).l1_hits += 1;
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
        let l1 = &mut self.levels.first_mut(access.kind).tlb;
        let counts = self.counters.side_mut(access.kind);
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
                    let given = self.translation(&entry.leaf, entry.unit(), access, found_in);
                    if let Some(place) = in_l1 {
                        self.levels
                            .first_mut(access.kind)
                            .memo
                            .keep(access, place, &given);
                    }
                    return Ok(given);
                }
                Verdict::NeedsUpdate => {}
                Verdict::Fault(fault) => return Err(self.fault(access, fault)),
            }
        }
        let leaf = self.walk(shared, mode, id, access, va, tag, memory, observer)?;
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
        let l2 = self.levels.second_mut(kind);
        let found = l2.find(va, tag).map(|(place, entry)| (place, *entry));
        let counts = self.counters.side_mut(kind);
        let Some((place, entry)) = found else {
            counts.l2_misses += 1;
            return None;
        };
        counts.l2_hits += 1;
        l2.touch(place);
        if shared.timing == Timing::Full {
            self.pay(shared, Category::L2Tlb, Operation::L2TlbHit);
        }
        let leaf = around(&entry.leaf, va);
        self.levels.fill_first(kind, va, &leaf, entry.quad());
        Some(TlbEntry { leaf, ..entry })
    }

    #[expect(clippy::too_many_arguments, reason = "one walk has one caller")]
    fn walk<O: Observer<A>>(
        &mut self,
        shared: &mut Shared,
        mode: TranslationMode,
        id: CoreId,
        access: &Access,
        va: Va,
        tag: A::Tag,
        memory: &mut impl TableMemory,
        observer: &mut O,
    ) -> Result<Leaf<A>, A::Fault> {
        let start = self
            .walk_caches
            .lookup(&mut self.levels.l2, va, tag, &self.spans);
        let mut seen = Recorder::new();
        let outcome = A::walk(&self.context, access, start, memory, &mut seen);
        self.count_walk(access.kind, start, &seen);
        let refills = matches!(&outcome, Ok(leaf)
            if self.levels.second(access.kind).was_removed(va, leaf));
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
                    .fill(&mut self.levels.l2, va, tag, pointer, &self.spans);
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
        let quad = self.quad(&leaf, &seen, memory);
        self.levels.second_mut(access.kind).fill(va, &leaf, quad);
        self.levels.fill_first(access.kind, va, &leaf, quad);
        if shared.parameters.next_page_prefetch && mode == TranslationMode::Modelled {
            self.prefetch_after(shared, id, access, &leaf, tag, memory);
        }
        Ok(leaf)
    }

    /// The pages around a leaf that a walk has found, if any array would join them.
    fn quad(&self, leaf: &Leaf<A>, seen: &Recorder<A>, memory: &impl TableMemory) -> Quad {
        match seen.steps().last() {
            // With a second stage, neighbours of the first need not be neighbours in memory.
            Some(last) if self.levels.coalesces() && !seen.nested => {
                Quad::around(&self.context, leaf, last.at, memory)
            }
            _ => Quad::ALONE,
        }
    }

    /// Walks for the page after `leaf` in the background: the second level and the data caches
    /// get what it reads, and no time passes. A walk that would fault, or would have to change a
    /// descriptor, leaves nothing.
    fn prefetch_after(
        &mut self,
        shared: &mut Shared,
        id: CoreId,
        access: &Access,
        leaf: &Leaf<A>,
        tag: A::Tag,
        memory: &impl TableMemory,
    ) {
        let va = leaf.va.wrapping_add(leaf.size.bytes());
        let next = Access { va, ..*access };
        let same_space = A::before_lookup(&self.context, &next) == Ok(Lookup::Tagged(tag));
        let held = self.levels.second(access.kind).find(va, tag).is_some();
        if held || !same_space || A::canonical(&self.context, va) != va {
            return;
        }
        let caches = &self.walk_caches;
        let start = caches.peek(&self.levels.l2, va, tag, &self.spans);
        let mut seen = Recorder::new();
        let outcome = A::walk(&self.context, &next, start, &mut Peek(memory), &mut seen);
        let Ok(found) = outcome else { return };
        if seen.updates != [0; 5] {
            return;
        }
        if shared.timing == Timing::Full {
            self.touch_walk(shared, id, seen.steps().map(|step| step.at));
        }
        let quad = self.quad(&found, &seen, memory);
        self.levels.second_mut(access.kind).fill(va, &found, quad);
        self.counters.side_mut(access.kind).prefetches += 1;
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
        let mut removal = self.levels.invalidate(op);
        removal.table_pointers += self.walk_caches.invalidate(op);
        removal
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
            let l1 = &self.levels.first(access.kind).tlb;
            let in_l1 = l1.find(va, tag).map(|(_, e)| (e, FoundIn::L1Tlb));
            let found = in_l1.or_else(|| {
                let in_l2 = self.levels.second(access.kind).find(va, tag);
                in_l2.map(|(_, e)| (e, FoundIn::L2Tlb))
            });
            if let Some((entry, found_in)) = found {
                match A::check(&entry.leaf, &self.context, access) {
                    Verdict::Allowed => {
                        return Ok(self.translation(&entry.leaf, entry.unit(), access, found_in));
                    }
                    Verdict::NeedsUpdate => {}
                    Verdict::Fault(fault) => return Err(fault),
                }
            }
            start = self.walk_caches.peek(&self.levels.l2, va, tag, &self.spans);
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
    /// A second stage was read.
    nested: bool,
}

impl<A: Arch> Recorder<A> {
    const fn new() -> Self {
        Self {
            steps: [None; MAX_STEPS],
            len: 0,
            updates: [0; 5],
            nested: false,
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

    fn second_stage_step(&mut self, _step: &Step<A>) {
        self.nested = true;
    }

    fn update(&mut self, level: crate::addr::Level, _at: Pa, _old: u64, _new: u64) {
        self.updates[level.index()] += 1;
    }
}
