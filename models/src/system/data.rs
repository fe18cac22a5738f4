//! What data accesses and walk reads cost: the data path of a profile, and its use by a core.
//!
//! A miss beyond the first level stalls for its latency. Misses that do not depend on each other
//! overlap, and are charged their latency divided by the profile's overlap factor. A load whose
//! address came out of an earlier miss cannot overlap with it and is charged in full; so are the
//! reads of a walk, each of which needs the one before, and transfers between cores.
//!
//! That an address came out of an earlier miss is recognised by value ([`Chase`]): the load goes
//! to the page that the word read by that miss points to, as a virtual or as a physical address.

use super::core::Core;
use super::{CoreId, Shared, Timing};
use crate::access::{Access, AccessKind};
use crate::addr::{Pa, Va};
use crate::arch::Arch;
use crate::cache::{
    CacheShape, LINE_SHIFT, Latencies, LineSource, Machine, MemoryMap, Request, Served, lines,
};
use crate::cost::{Category, Cycles, Operation};
use crate::counters::Lines;
use crate::memory::TableMemory;
use crate::profile::{CacheSpec, Profile, WalkerPort};

/// The piece of memory that goes to one node where a profile does not say: 64 GiB.
const INTERLEAVE_KIB: u64 = 64 << 20;

/// The latencies of the data path, in the forms that charging needs.
#[derive(Clone, Debug)]
pub(super) struct DataTiming {
    /// From the request to the data.
    pub(super) latencies: Latencies,
    /// The stall of a miss that depends on another one, beyond a first-level hit.
    dependent: Latencies,
    /// The stall of one that does not.
    overlapped: Latencies,
}

impl DataTiming {
    pub(super) fn of(profile: &Profile) -> Self {
        let latencies = latencies(profile);
        let dependent = latencies.beyond_l1();
        let overlap = profile.machine().cache.overlap_factor.value;
        Self {
            latencies,
            dependent,
            overlapped: dependent.overlapped(overlap),
        }
    }
}

/// The data path of the first `cores` cores of a profile's machine.
pub(super) fn machine(profile: &Profile, cores: usize) -> Machine {
    let spec = &profile.machine().cache;
    let memory = &profile.machine().memory;
    let inclusive = |level: &CacheSpec| level.inclusive.as_ref().is_some_and(|it| it.value);
    let interleave = memory.interleave_kib.as_ref();
    // A line of 64 bytes at so many GB a second takes 64 / rate nanoseconds.
    let service = |rate: f64| profile.cycles(64.0 / rate);
    Machine {
        cores,
        cores_per_socket: profile.cpus() / profile.sockets(),
        sockets: profile.sockets(),
        l1d: shape(&spec.l1d),
        l2: shape(&spec.l2),
        l3: spec.l3.as_ref().map(shape),
        l2_inclusive: inclusive(&spec.l2),
        l3_inclusive: spec.l3.as_ref().is_some_and(inclusive),
        map: MemoryMap::new(
            profile.sockets(),
            interleave.map_or(INTERLEAVE_KIB, |it| it.value),
        ),
        line_service: memory
            .node_gb_per_s
            .as_ref()
            .map_or(Cycles::ZERO, |it| service(it.value)),
    }
}

fn shape(spec: &CacheSpec) -> CacheShape {
    let lines = spec.size_kib.value * 1024 / 64;
    CacheShape {
        sets: lines / spec.ways.value,
        ways: spec.ways.value,
    }
}

fn latencies(profile: &Profile) -> Latencies {
    let spec = &profile.machine().cache;
    let of = |level: &CacheSpec| Cycles::from_f64(level.latency_cycles.value);
    let ns = |value: &crate::profile::Sourced<f64>| profile.cycles(value.value);
    let memory = ns(&spec.dram_ns);
    let remote_memory = profile.machine().memory.remote_ns.as_ref();
    let remote_memory = remote_memory.map_or(memory, ns);
    let l3 = spec.l3.as_ref().map_or(memory, of);
    let core = spec.transfer_ns.as_ref().map_or(l3, ns);
    let remote_core = spec.transfer_remote_ns.as_ref();
    Latencies {
        l1d: of(&spec.l1d),
        l2: of(&spec.l2),
        l3,
        memory,
        remote_memory,
        core,
        remote_core: remote_core.map_or(remote_memory.max(core), ns),
    }
}

/// How many loads that missed are remembered: about as many as are in flight at once.
const REMEMBERED: usize = 4;

/// What the latest missing loads of a core have read: a later load to where one of these words
/// points had to wait for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Chase {
    words: [u64; REMEMBERED],
    next: usize,
}

/// The address bits of a word that points somewhere, flags and tags left out.
const POINTER: u64 = 0x0000_ffff_ffff_f000;

impl Chase {
    /// Whether the load at `va` and `pa` depends on a remembered one, which is then forgotten: the
    /// next load of the page can overlap again.
    fn follows(&mut self, va: Va, pa: Pa) -> bool {
        let leads = |word: u64| {
            let page = word & POINTER;
            page != 0 && (page == va.raw() & POINTER || page == pa.raw() & POINTER)
        };
        let found = self.words.iter().position(|word| leads(*word));
        if let Some(at) = found {
            self.words[at] = 0;
        }
        found.is_some()
    }

    const fn remember(&mut self, word: u64) {
        self.words[self.next] = word;
        self.next = (self.next + 1) % REMEMBERED;
    }
}

impl<A: Arch> Core<A> {
    /// Charges a walk that read descriptors at these addresses.
    pub(super) fn charge_walk(
        &mut self,
        shared: &mut Shared,
        id: CoreId,
        category: Category,
        reads: impl Iterator<Item = Pa>,
    ) {
        let request = walk_request(shared);
        let mut time = shared.price(Operation::Walk);
        for at in reads {
            let line = at.raw() >> LINE_SHIFT;
            let served = shared
                .data
                .access(id.index(), line, request, self.clock + time);
            count_line(&mut self.counters.walk_lines, served.source);
            // Each read needs the one before: no overlap.
            time += shared.parameters.data.latencies.of(served.source) + served.queued;
        }
        self.ledger.count(Operation::Walk);
        self.charge(category, time);
    }

    /// Makes the reads of a walk that nobody waits for.
    pub(super) fn touch_walk(
        &self,
        shared: &mut Shared,
        id: CoreId,
        reads: impl Iterator<Item = Pa>,
    ) {
        let request = walk_request(shared);
        for at in reads {
            let line = at.raw() >> LINE_SHIFT;
            shared.data.access(id.index(), line, request, self.clock);
        }
    }

    /// Charges the stall of a data access beyond a first-level hit.
    #[inline]
    pub(super) fn charge_data(
        &mut self,
        shared: &mut Shared,
        id: CoreId,
        access: &Access,
        pa: Pa,
        size: u32,
        memory: &impl TableMemory,
    ) {
        if shared.timing == Timing::Off || access.kind == AccessKind::Fetch {
            return;
        }
        let request = match access.kind {
            AccessKind::Load | AccessKind::Fetch => Request::Load,
            AccessKind::Store if is_line(pa, size) => Request::WholeLine,
            AccessKind::Store => Request::Store,
        };
        if is_line(pa, size) {
            self.pay(shared, Category::Execute, Operation::BlockLine);
        }
        let (first, last) = lines(pa, size);
        for line in first..=last {
            let served = shared.data.access(id.index(), line, request, self.clock);
            if served.source == LineSource::L1d {
                self.counters.data_lines.l1d += 1;
            } else {
                self.charge_miss(shared, access, pa, served, memory);
            }
        }
    }

    fn charge_miss(
        &mut self,
        shared: &Shared,
        access: &Access,
        pa: Pa,
        served: Served,
        memory: &impl TableMemory,
    ) {
        let timing = &shared.parameters.data;
        count_line(&mut self.counters.data_lines, served.source);
        let mut stalls = &timing.overlapped;
        if access.kind == AccessKind::Load {
            if self.chase.follows(access.va, pa) {
                self.counters.data_lines.dependent += 1;
                stalls = &timing.dependent;
            }
            let word = Pa::new(pa.raw() & !7);
            self.chase
                .remember(memory.read_descriptor(word).unwrap_or(0));
        }
        let category = if served.source.is_transfer() {
            Category::Sharing
        } else {
            Category::Data
        };
        self.charge(category, stalls.of(served.source) + served.queued);
    }
}

const fn walk_request(shared: &Shared) -> Request {
    match shared.parameters.walker_reads {
        WalkerPort::L1d => Request::Load,
        WalkerPort::L2 => Request::WalkBelowL1,
    }
}

/// Whether an access is one line as a whole: what block operations do.
const fn is_line(pa: Pa, size: u32) -> bool {
    size == 1 << LINE_SHIFT && pa.raw() & ((1 << LINE_SHIFT) - 1) == 0
}

fn count_line(lines: &mut Lines, source: LineSource) {
    *match source {
        LineSource::L1d => &mut lines.l1d,
        LineSource::L2 => &mut lines.l2,
        LineSource::L3 => &mut lines.l3,
        LineSource::Memory => &mut lines.memory,
        LineSource::RemoteMemory => &mut lines.remote_memory,
        LineSource::Core => &mut lines.core,
        LineSource::RemoteCore => &mut lines.remote_core,
        LineSource::Unread => &mut lines.unread,
    } += 1;
}
