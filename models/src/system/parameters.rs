//! A profile in the form that the models compute with.

use std::collections::BTreeMap;

use super::data::DataTiming;
use crate::addr::Level;
use crate::cost::{Costs, Operation};
use crate::interconnect::DvmTiming;
use crate::profile::{ArrayName, ArraySpec, DvmDomain, Machine, Profile, TlbPolicy, WalkerPort};
use crate::tlb::{ArrayShape, LevelShape, Replacement};
use crate::walk_cache::WalkCacheShape;

#[derive(Clone, Debug)]
pub(super) struct Parameters {
    pub(super) l1i: LevelShape,
    pub(super) l1d: LevelShape,
    pub(super) l2: LevelShape,
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
        let TlbPolicy {
            l1_groups,
            l2_groups,
            l1_fractures,
            l2_fractures,
        } = &machine.tlb.policy;
        let l1 = |arrays| level(arrays, l1_groups.value, l1_fractures.value);
        Self {
            l1i: l1(&machine.tlb.l1i),
            l1d: l1(&machine.tlb.l1d),
            l2: level(&machine.tlb.l2, l2_groups.value, l2_fractures.value),
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

fn level(arrays: &BTreeMap<ArrayName, ArraySpec>, groups: bool, fractures: bool) -> LevelShape {
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
        groups,
        fractures,
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
