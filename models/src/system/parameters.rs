//! A profile in the form that the models compute with.

use std::collections::BTreeMap;

use super::data::DataTiming;
use crate::addr::Level;
use crate::cost::{Costs, Operation};
use crate::interconnect::DvmTiming;
use crate::profile::{ArrayName, ArraySpec, DvmDomain, Machine, Profile, Sourced, WalkerPort};
use crate::tlb::{ArrayShape, Coalescing, LevelShape, Replacement};
use crate::walk_cache::WalkCacheShape;

#[derive(Clone, Debug)]
pub(super) struct Parameters {
    pub(super) l1i: LevelShape,
    pub(super) l1d: LevelShape,
    /// Stores', if they have arrays of their own.
    pub(super) l1d_store: Option<LevelShape>,
    pub(super) l2: LevelShape,
    /// The instruction side's, if it has arrays of its own.
    pub(super) l2i: Option<LevelShape>,
    pub(super) next_page_prefetch: bool,
    pub(super) walk_caches: WalkCacheShape,
    pub(super) data: DataTiming,
    pub(super) walker_reads: WalkerPort,
    pub(super) dvm: DvmTiming,
    pub(super) dvm_by_socket: bool,
    pub(super) ipi_multicast: bool,
    pub(super) costs: Costs,
}

impl Parameters {
    pub(super) fn of(profile: &Profile) -> Self {
        let machine = profile.machine();
        let costs = profile.costs().clone();
        let interconnect = &machine.interconnect;
        let policy = &machine.tlb.policy;
        let l1 = |arrays| {
            let coalesces = policy.l1_coalesces.as_ref();
            level(arrays, &policy.l1_groups, &policy.l1_fractures, coalesces)
        };
        let l2 = |arrays| {
            let coalesces = policy.l2_coalesces.as_ref();
            level(arrays, &policy.l2_groups, &policy.l2_fractures, coalesces)
        };
        let own = |arrays: &BTreeMap<ArrayName, ArraySpec>| !arrays.is_empty();
        let stores = &machine.tlb.l1d_store;
        let l2i = &machine.tlb.l2i;
        Self {
            l1i: l1(&machine.tlb.l1i),
            l1d: l1(&machine.tlb.l1d),
            l1d_store: own(stores).then(|| l1(stores)),
            l2: l2(&machine.tlb.l2),
            l2i: own(l2i).then(|| l2(l2i)),
            next_page_prefetch: policy
                .next_page_prefetch
                .as_ref()
                .is_some_and(|it| it.value),
            walk_caches: walk_caches(machine),
            data: DataTiming::of(profile),
            walker_reads: machine.cache.walker_reads,
            dvm: DvmTiming {
                latency: costs.of(Operation::DvmLatency),
                service: costs.of(Operation::DvmService),
                sync: costs.of(Operation::DvmSync),
                window: interconnect.dvm_window.as_ref().map_or(1, |w| w.value),
            },
            ipi_multicast: interconnect
                .ipi_multicast
                .as_ref()
                .is_none_or(|it| it.value),
            dvm_by_socket: interconnect.dvm_domain == Some(DvmDomain::Socket),
            costs,
        }
    }
}

fn level(
    arrays: &BTreeMap<ArrayName, ArraySpec>,
    groups: &Sourced<bool>,
    fractures: &Sourced<bool>,
    coalesces: Option<&Sourced<Coalescing>>,
) -> LevelShape {
    let arrays = arrays.values().map(|array| ArrayShape {
        sets: array.entries.value / array.ways.value,
        ways: array.ways.value,
        sizes: array.sizes.clone(),
        replacement: array
            .replacement
            .as_ref()
            .map_or_else(Replacement::default, |it| it.value),
        seed: array.seed.as_ref().map_or(Replacement::SEED, |it| it.value),
    });
    LevelShape {
        arrays: arrays.collect(),
        groups: groups.value,
        fractures: fractures.value,
        coalesces: coalesces.map_or_else(Coalescing::default, |it| it.value),
    }
}

fn walk_caches(machine: &Machine) -> WalkCacheShape {
    let mut shape = WalkCacheShape::default();
    for (level, spec) in &machine.walk_cache {
        let level = Level::from(*level).index();
        if let (Some(entries), Some(ways)) = (&spec.entries, &spec.ways) {
            shape.own[level] = Some((entries.value / ways.value, ways.value));
        }
        shape.in_l2_tlb[level] = spec.in_l2_tlb.as_ref().is_some_and(|there| there.value);
    }
    shape
}
