//! What happened, counted exactly.
//!
//! One [`Counters`] per core: plain sums, no maps, so that counting costs next to nothing and two
//! states can be subtracted ([`Counters::since`]) or added ([`Counters::merge`]). Arrays over
//! levels are indexed by [`Level::index`]. Serialised, every struct is a map with the names
//! below, and a per-level array is `[level -1, level 0, .., level 3]`:
//!
//! ```json
//! { "data": { "l1_hits": 90, "walks": 3, "walk_reads": [0, 1, 1, 3, 3] }, "stores": 12 }
//! ```

use serde::Serialize;

use crate::access::AccessKind;
use crate::addr::Level;
use crate::arch::Half;

/// Something that can be summed and subtracted field by field.
trait Tally {
    fn add(&mut self, other: &Self);
    fn subtract(&mut self, earlier: &Self);
}

impl Tally for u64 {
    fn add(&mut self, other: &Self) {
        *self += other;
    }
    fn subtract(&mut self, earlier: &Self) {
        *self = self.saturating_sub(*earlier);
    }
}

impl<T: Tally, const N: usize> Tally for [T; N] {
    fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.iter_mut().zip(other) {
            mine.add(theirs);
        }
    }
    fn subtract(&mut self, earlier: &Self) {
        for (mine, theirs) in self.iter_mut().zip(earlier) {
            mine.subtract(theirs);
        }
    }
}

macro_rules! tally {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $ty,)*
        }

        impl Tally for $name {
            fn add(&mut self, other: &Self) {
                $(self.$field.add(&other.$field);)*
            }
            fn subtract(&mut self, earlier: &Self) {
                $(self.$field.subtract(&earlier.$field);)*
            }
        }

        impl $name {
            /// Adds another core's or region's counts.
            pub fn merge(&mut self, other: &Self) {
                self.add(other);
            }

            /// What was counted since `earlier`, a previous state of the same counters.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                let mut difference = self.clone();
                difference.subtract(earlier);
                difference
            }
        }
    };
}

/// A sum per table level; see [`Level::index`].
pub type PerLevel = [u64; Level::COUNT];

tally! {
    /// Instructions by class. Each instruction is in one class.
    Instructions {
        /// Integer, address and other plain instructions.
        integer: u64,
        /// Loads.
        load: u64,
        /// Stores.
        store: u64,
        /// Atomic read-modify-writes and exclusives.
        atomic: u64,
        /// Branches.
        branch: u64,
        /// Barriers and fences.
        barrier: u64,
        /// System instructions.
        system: u64,
        /// The rest: floating point, vector.
        other: u64,
    }
}

impl Instructions {
    /// All classes together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.integer
            + self.load
            + self.store
            + self.atomic
            + self.branch
            + self.barrier
            + self.system
            + self.other
    }
}

tally! {
    /// Translations of one side of a core, instruction or data.
    Translations {
        /// Found in the first-level TLB.
        l1_hits: u64,
        /// Not found there.
        l1_misses: u64,
        /// First-level misses that the second level served.
        l2_hits: u64,
        /// First-level misses that it did not serve.
        l2_misses: u64,
        /// Table walks, including those that ended in a fault and those that only set accessed
        /// or dirty state.
        walks: u64,
        /// Descriptors that walks read, by level.
        walk_reads: PerLevel,
        /// Walks by the level of the first descriptor they read. A walk that starts below the
        /// root was started from a walk cache.
        walk_starts: PerLevel,
        /// Walks that a walk cache shortened, by the level of the table that the cached entry
        /// pointed to.
        walk_cache_hits: PerLevel,
        /// Walks that found no usable entry in any walk cache.
        walk_cache_misses: u64,
        /// Descriptors in which hardware set accessed or dirty state, by level.
        table_updates: PerLevel,
        /// Walks that were needed only because an invalidation had removed the translation:
        /// without it, the entry would still have been there.
        refills: u64,
        /// Translations that a walk brought in besides, for the page after its own, and that the
        /// second level did not have.
        prefetches: u64,
        /// Accesses that ended in an architectural fault.
        faults: u64,
    }
}

tally! {
    /// Stores to translation tables of one half of the address space, by level of the table and
    /// by what they did to the entry.
    TableStores {
        /// Made it a pointer to a table: from anything else, or to another table.
        install_table: PerLevel,
        /// Made it map memory: from anything else, or mapping other memory than before.
        install_leaf: PerLevel,
        /// Made a pointer to a table invalid.
        clear_table: PerLevel,
        /// Made an entry that mapped memory invalid.
        clear_leaf: PerLevel,
        /// Changed permissions or attributes and kept what the entry maps or points to.
        attr: PerLevel,
        /// Set the contiguous bit of a valid leaf; counted besides.
        cont_set: PerLevel,
        /// Cleared it, or the leaf that had it; counted besides.
        cont_clear: PerLevel,
        /// Changed an invalid entry into another invalid one (swap entries, markers).
        invalid: PerLevel,
    }
}

impl TableStores {
    /// Stores of every kind at `level`; the contiguous-bit counts are not added again.
    #[must_use]
    pub fn at(&self, level: Level) -> u64 {
        let i = level.index();
        self.install_table[i]
            + self.install_leaf[i]
            + self.clear_table[i]
            + self.clear_leaf[i]
            + self.attr[i]
            + self.invalid[i]
    }
}

tally! {
    /// AArch64 TLBI instructions of one reach, by form.
    Tlbis {
        /// Everything (VMALLE1).
        all: u64,
        /// One address space (ASIDE1).
        asid: u64,
        /// One address in one address space (VAE1, VALE1).
        va: u64,
        /// One address in all of them (VAAE1, VAALE1).
        vaa: u64,
        /// A range of addresses (RVAE1 and kin).
        range: u64,
        /// Pages that the range forms covered.
        range_pages: u64,
    }
}

tally! {
    /// x86 invalidations.
    Flushes {
        /// INVLPG.
        invlpg: u64,
        /// INVPCID of one address.
        invpcid_address: u64,
        /// INVPCID of one PCID.
        invpcid_context: u64,
        /// INVPCID of everything, global entries included.
        invpcid_all: u64,
        /// INVPCID of everything but global entries.
        invpcid_all_non_global: u64,
        /// MOV CR3 that removed translations.
        cr3: u64,
        /// MOV CR4, or CR0, that removed translations.
        cr4: u64,
        /// Anything else that removed translations.
        other: u64,
    }
}

tally! {
    /// Barriers.
    Barriers {
        /// DSB ISH, which completes broadcast invalidations.
        dsb_ish: u64,
        /// DSB ISHST.
        dsb_ishst: u64,
        /// DSB NSH and NSHST.
        dsb_nsh: u64,
        /// Any other DSB (SY, OSH, and those for loads).
        dsb_other: u64,
        /// DMB.
        dmb: u64,
        /// ISB.
        isb: u64,
        /// MFENCE, LFENCE, SFENCE.
        fence: u64,
    }
}

tally! {
    /// Writes of registers that translation depends on.
    ContextWrites {
        /// TTBR0_EL1.
        ttbr0: u64,
        /// TTBR1_EL1.
        ttbr1: u64,
        /// TCR_EL1.
        tcr: u64,
        /// MAIR_EL1.
        mair: u64,
        /// SCTLR_EL1.
        sctlr: u64,
        /// CR0.
        cr0: u64,
        /// CR3.
        cr3: u64,
        /// CR4.
        cr4: u64,
        /// IA32_EFER.
        efer: u64,
    }
}

tally! {
    /// Exceptions taken.
    Exceptions {
        /// Faults and other synchronous exceptions.
        sync: u64,
        /// Interrupts.
        interrupt: u64,
        /// System calls.
        syscall: u64,
        /// Returns from any of them.
        returns: u64,
    }
}

tally! {
    /// What invalidations removed from this core, whoever issued them.
    Removed {
        /// First-level TLB entries.
        l1_entries: u64,
        /// Second-level TLB entries.
        l2_entries: u64,
        /// Walk-cache entries.
        table_pointers: u64,
        /// Broadcast invalidations that arrived from other cores.
        received: u64,
    }
}

tally! {
    /// Lines looked up in the data path, by who asked and where they were found.
    Lines {
        /// Found in the first-level data cache.
        l1d: u64,
        /// Found in the second level.
        l2: u64,
        /// Found in the third level.
        l3: u64,
        /// Read from memory of the core's own node.
        memory: u64,
        /// Read from memory of another node.
        remote_memory: u64,
        /// Taken from another core of the socket, or taken away from it by a store.
        core: u64,
        /// The same, in another socket.
        remote_core: u64,
        /// Written as a whole, so that nothing had to be read.
        unread: u64,
        /// Of those beyond the first level: loads whose address an earlier one of them gave, so
        /// that they could not overlap with it; counted besides.
        dependent: u64,
    }
}

tally! {
    /// Everything that is counted about one core.
    Counters {
        /// Retired instructions.
        instructions: Instructions,
        /// Data reads.
        loads: u64,
        /// Data writes.
        stores: u64,
        /// Instruction fetches that asked for a translation.
        fetches: u64,
        /// Translations of fetches.
        fetch: Translations,
        /// Translations of data accesses.
        data: Translations,
        /// Stores to tables of the user half.
        lower_tables: TableStores,
        /// Stores to tables of the kernel half.
        upper_tables: TableStores,
        /// TLBIs that stayed on this core.
        tlbi_local: Tlbis,
        /// TLBIs that this core broadcast.
        tlbi_broadcast: Tlbis,
        /// x86 invalidations.
        flushes: Flushes,
        /// Barriers.
        barriers: Barriers,
        /// Register writes.
        context_writes: ContextWrites,
        /// Exceptions.
        exceptions: Exceptions,
        /// Inter-processor interrupts sent, one per target.
        ipis_sent: u64,
        /// Inter-processor interrupts received.
        ipis_received: u64,
        /// What invalidations removed.
        removed: Removed,
        /// Lines of data accesses.
        data_lines: Lines,
        /// Lines of walk reads.
        walk_lines: Lines,
    }
}

impl Counters {
    /// Stores to tables of `half`.
    #[must_use]
    pub const fn tables(&self, half: Half) -> &TableStores {
        match half {
            Half::Lower => &self.lower_tables,
            Half::Upper => &self.upper_tables,
        }
    }

    pub(crate) fn tables_mut(&mut self, half: Half) -> &mut TableStores {
        match half {
            Half::Lower => &mut self.lower_tables,
            Half::Upper => &mut self.upper_tables,
        }
    }

    pub(crate) fn side_mut(&mut self, kind: AccessKind) -> &mut Translations {
        match kind {
            AccessKind::Fetch => &mut self.fetch,
            AccessKind::Load | AccessKind::Store => &mut self.data,
        }
    }
}

/// The kind of a TLB maintenance operation, as counters and prices distinguish it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum MaintenanceKind {
    /// TLBI of everything.
    TlbiAll,
    /// TLBI of one address space.
    TlbiAsid,
    /// TLBI of one address in one address space.
    TlbiVa,
    /// TLBI of one address in all address spaces.
    TlbiVaa,
    /// TLBI of a range.
    TlbiRange,
    /// INVLPG.
    Invlpg,
    /// INVPCID type 0.
    InvpcidAddress,
    /// INVPCID type 1.
    InvpcidContext,
    /// INVPCID type 2.
    InvpcidAll,
    /// INVPCID type 3.
    InvpcidAllNonGlobal,
    /// MOV CR3.
    Cr3,
    /// MOV CR4, or MOV CR0 that switches paging off.
    Cr4,
    /// Anything else.
    #[default]
    Other,
}

/// How one maintenance operation is counted.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct MaintenanceClass {
    /// What it is.
    pub kind: MaintenanceKind,
    /// Pages of its granule that a range form covers; 0 for other operations.
    pub pages: u64,
}

impl Counters {
    /// Counts one operation that this core issued.
    pub(crate) fn count_maintenance(&mut self, class: MaintenanceClass, broadcast: bool) {
        use MaintenanceKind as Kind;
        let tlbi = if broadcast {
            &mut self.tlbi_broadcast
        } else {
            &mut self.tlbi_local
        };
        let flush = &mut self.flushes;
        *match class.kind {
            Kind::TlbiAll => &mut tlbi.all,
            Kind::TlbiAsid => &mut tlbi.asid,
            Kind::TlbiVa => &mut tlbi.va,
            Kind::TlbiVaa => &mut tlbi.vaa,
            Kind::TlbiRange => {
                tlbi.range_pages += class.pages;
                &mut tlbi.range
            }
            Kind::Invlpg => &mut flush.invlpg,
            Kind::InvpcidAddress => &mut flush.invpcid_address,
            Kind::InvpcidContext => &mut flush.invpcid_context,
            Kind::InvpcidAll => &mut flush.invpcid_all,
            Kind::InvpcidAllNonGlobal => &mut flush.invpcid_all_non_global,
            Kind::Cr3 => &mut flush.cr3,
            Kind::Cr4 => &mut flush.cr4,
            Kind::Other => &mut flush.other,
        } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_and_merge_are_inverse() {
        let mut early = Counters {
            loads: 7,
            ..Counters::default()
        };
        early.data.walk_reads[Level::L3.index()] = 3;
        let mut late = early.clone();
        late.loads = 9;
        late.data.walk_reads[Level::L3.index()] = 8;
        late.upper_tables.clear_leaf[Level::L2.index()] = 1;
        let difference = late.since(&early);
        assert_eq!(difference.loads, 2);
        assert_eq!(difference.data.walk_reads, [0, 0, 0, 0, 5]);
        early.merge(&difference);
        assert_eq!(early, late);
    }

    #[test]
    fn maintenance_is_counted_by_kind_and_reach() {
        let mut counters = Counters::default();
        let range = MaintenanceClass {
            kind: MaintenanceKind::TlbiRange,
            pages: 32,
        };
        counters.count_maintenance(range, true);
        counters.count_maintenance(range, true);
        let va = MaintenanceClass {
            kind: MaintenanceKind::TlbiVa,
            pages: 0,
        };
        counters.count_maintenance(va, false);
        assert_eq!(counters.tlbi_broadcast.range, 2);
        assert_eq!(counters.tlbi_broadcast.range_pages, 64);
        assert_eq!(counters.tlbi_local.va, 1);
        assert_eq!(counters.tlbi_local.range, 0);
    }
}
