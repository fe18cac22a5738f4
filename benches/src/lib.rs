//! Benches, and the published measurements that the models are compared with.
//!
//! ```text
//! published    the published tables as typed figures
//! native       the guests' workloads on this host, under its own kernel
//! validate     the two beside each other
//! ```
//!
//! The criterion benches are in `benches/`: `models` times the TLB and the walker by themselves,
//! `plugin` times guest accesses under the MMU plugin beside Unicorn's bare memory hook, `native`
//! times the pointer chase on this host. The binary `validate` (`make validate`) is a reality check.

pub mod native;
pub mod published;
pub mod validate;
