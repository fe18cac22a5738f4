//! Benches, and the published measurements that the models are compared with.
//!
//! ```text
//! published    the published tables as typed figures
//! ```
//!
//! The criterion benches are in `benches/`: `models` times the TLB and the walker by themselves,
//! `plugin` times guest accesses under the MMU plugin beside Unicorn's bare memory hook.

pub mod published;
