//! Counts under the names that other tools use.
//!
//! Only where the meaning is the same. What differs is said here:
//! - x86 splits data-side events into loads and stores, the model does not: `{load,store}` stands
//!   for both together. Walks that only set accessed or dirty state are among them.
//! - AMD and Intel name the same things differently; both names are given.
//! - `_SPEC` events count speculation, which the model does not have, and are left out.
//! - `nr_tlb_remote_flush` and `nr_tlb_remote_flush_received` are requests for interrupts, and
//!   interrupts received; the guest kernel sends them for flushes and for function calls.

use mmuscope_models::cost::Category;
use mmuscope_models::counters::{Counters, Lines, Translations};

use super::Region;

/// A family of names.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Names {
    /// Events of the processors' performance counters, as `perf` has them.
    Pmu,
    /// Lines of Linux' `/proc/vmstat`.
    Vmstat,
}

/// The counts of a region on an architecture under the names of a family.
pub(super) fn named(names: Names, arch: &str, region: &Region) -> Vec<(&'static str, u64)> {
    match (names, arch) {
        (Names::Pmu, "aarch64") => arm(region),
        (Names::Pmu, _) => x86(region),
        (Names::Vmstat, _) => vmstat(region),
    }
}

const fn looked_up(side: &Translations) -> u64 {
    side.l1_hits + side.l1_misses
}

const fn beyond_l1(lines: &Lines) -> u64 {
    lines.l2 + lines.l3 + lines.memory + lines.remote_memory + lines.core + lines.remote_core
}

/// Cycles in which cores were not idle.
fn busy(region: &Region) -> Option<u64> {
    let attribution = region.attribution.as_ref()?;
    let busy = attribution.total() - attribution.get(Category::Wait);
    Some(busy.millis() / 1000)
}

fn arm(region: &Region) -> Vec<(&'static str, u64)> {
    let it = &region.counters;
    let (data, fetch, taken) = (&it.data, &it.fetch, &it.exceptions);
    let mut named = vec![
        ("INST_RETIRED", it.instructions.total()),
        ("BR_RETIRED", it.instructions.branch),
        ("L1D_TLB", looked_up(data)),
        ("L1D_TLB_REFILL", data.l1_misses),
        ("L1I_TLB", looked_up(fetch)),
        ("L1I_TLB_REFILL", fetch.l1_misses),
        ("L2D_TLB", data.l1_misses + fetch.l1_misses),
        ("L2D_TLB_REFILL", data.l2_misses + fetch.l2_misses),
        ("DTLB_WALK", data.walks),
        ("ITLB_WALK", fetch.walks),
        ("EXC_TAKEN", taken.sync + taken.interrupt + taken.syscall),
        ("EXC_IRQ", taken.interrupt),
        ("EXC_SVC", taken.syscall),
        ("EXC_RETURN", taken.returns),
        (
            "TTBR_WRITE_RETIRED",
            it.context_writes.ttbr0 + it.context_writes.ttbr1,
        ),
    ];
    if let Some(cycles) = busy(region) {
        named.push(("CPU_CYCLES", cycles));
        named.push(("L1D_CACHE_REFILL", beyond_l1(&it.data_lines)));
        named.push((
            "REMOTE_ACCESS",
            it.data_lines.remote_memory + it.data_lines.remote_core,
        ));
    }
    named
}

fn x86(region: &Region) -> Vec<(&'static str, u64)> {
    let it = &region.counters;
    let (data, fetch) = (&it.data, &it.fetch);
    let mut named = vec![
        ("inst_retired.any, ex_ret_instr", it.instructions.total()),
        (
            "br_inst_retired.all_branches, ex_ret_brn",
            it.instructions.branch,
        ),
        (
            "dtlb_{load,store}_misses.walk_completed, ls_l1_d_tlb_miss.all_l2_miss",
            data.walks,
        ),
        ("dtlb_{load,store}_misses.stlb_hit", data.l2_hits),
        ("ls_l1_d_tlb_miss.all", data.l1_misses),
        (
            "itlb_misses.walk_completed, bp_l1_tlb_miss_l2_tlb_miss",
            fetch.walks,
        ),
        (
            "itlb_misses.stlb_hit, bp_l1_tlb_miss_l2_tlb_hit",
            fetch.l2_hits,
        ),
        (
            "hw_interrupts.received, ls_int_taken",
            it.exceptions.interrupt,
        ),
    ];
    if let Some(cycles) = busy(region) {
        named.push(("cpu_clk_unhalted.thread, ls_not_halted_cyc", cycles));
    }
    named
}

fn vmstat(region: &Region) -> Vec<(&'static str, u64)> {
    let Counters {
        data,
        fetch,
        flushes,
        tlbi_local,
        tlbi_broadcast,
        ipis_received,
        ..
    } = &region.counters;
    let all = flushes.cr3
        + flushes.cr4
        + flushes.invpcid_context
        + flushes.invpcid_all
        + flushes.invpcid_all_non_global;
    let mut named = vec![("pgfault", data.faults + fetch.faults)];
    // Linux counts flushes on x86 only.
    let arm = tlbi_local.all
        + tlbi_local.asid
        + tlbi_local.va
        + tlbi_local.vaa
        + tlbi_broadcast.all
        + tlbi_broadcast.asid
        + tlbi_broadcast.va
        + tlbi_broadcast.vaa
        + tlbi_local.range
        + tlbi_broadcast.range;
    if arm == 0 {
        named.extend(region.ipi_requests.map(|it| ("nr_tlb_remote_flush", it)));
        named.push(("nr_tlb_remote_flush_received", *ipis_received));
        named.push(("nr_tlb_local_flush_all", all));
        named.push((
            "nr_tlb_local_flush_one",
            flushes.invlpg + flushes.invpcid_address,
        ));
    }
    named
}

#[cfg(test)]
mod tests {
    use mmuscope_models::cost::{Attribution, Cycles};

    use super::*;

    fn value(named: &[(&str, u64)], name: &str) -> Option<u64> {
        let mut found = named.iter().filter(|it| it.0.contains(name));
        found.next().map(|it| it.1)
    }

    #[test]
    fn the_same_counts_have_the_names_of_each_family() {
        let mut region = Region::default();
        region.counters.data.walks = 7;
        region.counters.data.l1_misses = 9;
        region.counters.data.faults = 2;
        region.counters.flushes.invlpg = 33;
        region.ipi_requests = Some(4);
        let arm = named(Names::Pmu, "aarch64", &region);
        assert_eq!(value(&arm, "DTLB_WALK"), Some(7));
        assert_eq!(value(&arm, "L1D_TLB_REFILL"), Some(9));
        let x86 = named(Names::Pmu, "x86_64", &region);
        assert_eq!(value(&x86, "misses.walk_completed"), Some(7));
        let vmstat = named(Names::Vmstat, "x86_64", &region);
        assert_eq!(value(&vmstat, "pgfault"), Some(2));
        assert_eq!(value(&vmstat, "nr_tlb_local_flush_one"), Some(33));
        assert_eq!(value(&vmstat, "nr_tlb_remote_flush"), Some(4));
    }

    #[test]
    fn cycles_have_a_name_only_where_time_passed() {
        let mut region = Region::default();
        assert_eq!(value(&arm(&region), "CPU_CYCLES"), None);
        let mut attribution = Attribution::default();
        attribution.charge(Category::Execute, Cycles::new(10));
        attribution.charge(Category::Wait, Cycles::new(90));
        region.attribution = Some(attribution);
        assert_eq!(value(&arm(&region), "CPU_CYCLES"), Some(10));
        assert_eq!(value(&x86(&region), "cpu_clk_unhalted"), Some(10));
    }
}
