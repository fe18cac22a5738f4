//! Small guests that exercise one property of a machine each. They report what
//! they saw as results; the test that runs them judges. What each reports is
//! described at the top of its source in `kernel/programs`.

use crate::image::{Image, image};

/// Translation on, one message, exit 0. Result `cpus`.
pub const HELLO: Image = image!("hello");

/// A changed entry without invalidation: results `before`, `after_change`,
/// `after_flush`, `again_before`, `after_eviction`; the frames hold 0x100 and
/// 0x200. Parameter `evict_pages` (8192).
pub const STALE: Image = image!("stale");

/// A moved table and cached table entries: results `none_old`, `none_full`,
/// `none_new` and, on aarch64, `leaf_*`; a fault reads as 0, page 64 as 0x140.
pub const TABLEMOVE: Image = image!("tablemove");

/// Memory work without exceptions on one CPU. Results `sorted`, `copied`,
/// `chased`. Parameter `seed`.
pub const TRANSPARENCY: Image = image!("transparency");

/// Demand faults, write-protect faults and system calls from user mode. Results
/// `demand_faults`, `protect_faults`, `calls`, `first_sum`, `second_sum`.
/// Parameters `pages` (64), `calls` (10).
pub const FAULTS: Image = image!("faults");

/// A counter under a lock and calls by interrupt on all CPUs. Results `counter`,
/// `handled`. Parameters `rounds` (1000), `calls` (20).
pub const SMP: Image = image!("smp");

/// A load and a store a turn. Parameters `pages` (16), `count` (0: for ever).
pub const LOOP: Image = image!("loop");

/// Every test guest.
pub const ALL: &[&Image] = &[
    &HELLO,
    &STALE,
    &TABLEMOVE,
    &TRANSPARENCY,
    &FAULTS,
    &SMP,
    &LOOP,
];
