//! The structure of a profile: what its TOML text must contain.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::{Feature, Quality};
use crate::addr::{Level, PageSize};
use crate::cost::Operation;
use crate::tlb::{Coalescing, Replacement};

/// A value with its source.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sourced<T> {
    /// The value, in the unit that its key or table names.
    pub value: T,
    /// The document, measurement or reasoning it comes from.
    pub source: String,
    /// How far it can be trusted.
    pub quality: Quality,
}

/// A whole profile.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The profile's name.
    pub name: String,
    /// One line about the machine.
    pub about: String,
    /// `aarch64` or `x86_64`.
    pub arch: String,
    /// The clock.
    pub clock: Clock,
    /// Cores and sockets.
    pub topology: Topology,
    /// Options; those not named are absent.
    #[serde(default)]
    pub features: BTreeMap<Feature, Sourced<bool>>,
    /// The TLBs.
    pub tlb: Tlb,
    /// The walk caches, by the level of the table pointed to: `l0` to `l3`.
    #[serde(default)]
    pub walk_cache: BTreeMap<TableLevel, WalkCacheSpec>,
    /// The data path.
    pub cache: Cache,
    /// Memory nodes.
    #[serde(default)]
    pub memory: Memory,
    /// What cores share beside memory.
    #[serde(default)]
    pub interconnect: Interconnect,
    /// Prices.
    pub cost: Cost,
}

/// The clock.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    /// Frequency of every core in GHz.
    pub ghz: Sourced<f64>,
}

/// Cores and sockets.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Cores (hardware threads) of the machine.
    pub cpus: Sourced<usize>,
    /// Sockets; cores are divided evenly, in order.
    pub sockets: Sourced<usize>,
}

/// The name of an array within its level; free, for paths and messages.
pub type ArrayName = String;

/// The TLBs of a core.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// How contiguous groups and large pages are held.
    pub policy: TlbPolicy,
    /// First level, instruction side.
    pub l1i: BTreeMap<ArrayName, ArraySpec>,
    /// First level, data side: loads, and stores unless they have arrays of their own.
    pub l1d: BTreeMap<ArrayName, ArraySpec>,
    /// First level, stores. Default: they share the arrays of loads.
    #[serde(default)]
    pub l1d_store: BTreeMap<ArrayName, ArraySpec>,
    /// Second level: the data side, and the instruction side unless it has arrays of its own.
    #[serde(default)]
    pub l2: BTreeMap<ArrayName, ArraySpec>,
    /// Second level, instruction side. Default: it shares the arrays of the data side.
    #[serde(default)]
    pub l2i: BTreeMap<ArrayName, ArraySpec>,
}

/// How contiguous groups and large pages are held.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlbPolicy {
    /// The first level holds a contiguous group as one entry.
    pub l1_groups: Sourced<bool>,
    /// The second level does.
    pub l2_groups: Sourced<bool>,
    /// The first level holds a page that is too large for its arrays in pieces.
    pub l1_fractures: Sourced<bool>,
    /// The second level does.
    pub l2_fractures: Sourced<bool>,
    /// Whether neighbouring pages share an entry of the first level. Default: none do.
    pub l1_coalesces: Option<Sourced<Coalescing>>,
    /// The same of the second level.
    pub l2_coalesces: Option<Sourced<Coalescing>>,
    /// A walk that finds a page also walks for the page after it, in the background, and puts it
    /// into the second level. Default: no.
    pub next_page_prefetch: Option<Sourced<bool>>,
}

/// One TLB array.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArraySpec {
    /// Entries in all.
    pub entries: Sourced<usize>,
    /// Entries per set; equal to `entries` for a fully associative array.
    pub ways: Sourced<usize>,
    /// The page sizes held: `4K`, `2M` and so on.
    #[serde(deserialize_with = "page_sizes")]
    pub sizes: Vec<PageSize>,
    /// Which entry of a full set makes room. Default: `lru`.
    pub replacement: Option<Sourced<Replacement>>,
    /// The seed of a `random` replacement. Default: [`Replacement::SEED`].
    pub seed: Option<Sourced<u64>>,
}

/// The level of the tables that a walk cache points to.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableLevel {
    /// Level 0 tables, below a level −1 root.
    L0,
    /// Level 1 tables.
    L1,
    /// Level 2 tables.
    L2,
    /// Level 3 tables, the last level.
    L3,
}

impl From<TableLevel> for Level {
    fn from(level: TableLevel) -> Self {
        match level {
            TableLevel::L0 => Self::L0,
            TableLevel::L1 => Self::L1,
            TableLevel::L2 => Self::L2,
            TableLevel::L3 => Self::L3,
        }
    }
}

/// Where the pointers to one level of tables are kept: `in_l2_tlb` alone, or `entries` and `ways`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WalkCacheSpec {
    /// In the first array of the second-level TLB, among the translations.
    pub in_l2_tlb: Option<Sourced<bool>>,
    /// Entries of an array of its own.
    pub entries: Option<Sourced<usize>>,
    /// Entries per set.
    pub ways: Option<Sourced<usize>>,
}

/// The data path.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// The core's first-level data cache.
    pub l1d: CacheSpec,
    /// The core's second-level cache.
    pub l2: CacheSpec,
    /// The socket's last-level cache, if there is one.
    pub l3: Option<CacheSpec>,
    /// From a request that misses all caches to the data, in nanoseconds.
    pub dram_ns: Sourced<f64>,
    /// From a request to the data, of a line that another core of the socket has modified, or
    /// must give up to a store, in nanoseconds. Default: as a hit in the third level.
    pub transfer_ns: Option<Sourced<f64>>,
    /// The same, of a core in another socket. Default: as memory of another node.
    pub transfer_remote_ns: Option<Sourced<f64>>,
    /// How many independent data misses overlap on average; stalls are divided by it. Walk reads,
    /// and loads whose address another load gives, depend on each other and are not; transfers
    /// between cores are not either.
    pub overlap_factor: Sourced<f64>,
    /// The level that table walkers read from.
    pub walker_reads: WalkerPort,
}

/// The level that table walkers read from.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WalkerPort {
    /// The first-level data cache.
    L1d,
    /// The second level.
    L2,
}

/// One cache of 64-byte lines.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    /// Size in KiB.
    pub size_kib: Sourced<usize>,
    /// Lines per set.
    pub ways: Sourced<usize>,
    /// From a request to the data, in core cycles.
    pub latency_cycles: Sourced<f64>,
    /// Whether a line that leaves it leaves the nearer levels too. Default: no. Means nothing for
    /// the first level.
    pub inclusive: Option<Sourced<bool>>,
}

/// Memory nodes, one a socket.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Memory goes round the nodes in pieces of this size, in KiB. Default: 64 GiB, which puts
    /// what a guest has into the first node.
    pub interleave_kib: Option<Sourced<u64>>,
    /// From a request that misses all caches to data of another node, in nanoseconds. Default: as
    /// of the own node.
    pub remote_ns: Option<Sourced<f64>>,
    /// What a node delivers at most, in GB (10^9 bytes) a second. Default: anything.
    pub node_gb_per_s: Option<Sourced<f64>>,
}

/// What cores share beside memory. The first two belong to AArch64, which must have them.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interconnect {
    /// Which cores share a server of broadcast maintenance.
    pub dvm_domain: Option<DvmDomain>,
    /// Broadcast messages that one core can have outstanding.
    pub dvm_window: Option<Sourced<usize>>,
    /// Whether one request can send an interrupt to several cores, so that further targets cost
    /// `ipi_send_next`. Default: yes; otherwise each costs `ipi_send_first`.
    pub ipi_multicast: Option<Sourced<bool>>,
}

/// Which cores share a server of broadcast maintenance.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DvmDomain {
    /// All of them.
    Machine,
    /// Those of a socket.
    Socket,
}

/// Prices, each in exactly one of the two units.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// In core cycles.
    #[serde(default)]
    pub cycles: BTreeMap<Operation, Sourced<f64>>,
    /// In nanoseconds.
    #[serde(default)]
    pub ns: BTreeMap<Operation, Sourced<f64>>,
}

fn page_sizes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PageSize>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    names
        .iter()
        .map(|name| {
            let size = PageSize::ALL.into_iter().find(|s| s.to_string() == *name);
            size.ok_or_else(|| {
                let known = PageSize::ALL.map(|s| s.to_string()).join(", ");
                serde::de::Error::custom(format!("unknown page size `{name}`, expected {known}"))
            })
        })
        .collect()
}
