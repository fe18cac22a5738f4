//! Pure models of memory-management hardware.
//!
//! Everything here is a function of its inputs: no emulator, no I/O, no clock, no threads, no
//! printing. An emulator, a trace reader or a what-if explorer feeds events into a
//! [`system::System`]; the system answers with translations or architectural faults, counts
//! exactly what happened, and charges cycles under a machine profile.
//!
//! ```text
//! addr, access, memory        the vocabulary
//! arch                        what an architecture must define (one trait, no `if arch ==`)
//! aarch64, x86                the two architectures: registers, descriptors, walkers, maintenance
//! tlb, walk_cache, cache      what a core caches: translations, table pointers, memory lines
//! interconnect                what cores share: the broadcast server and the interrupt fabric
//! profile, cost               what a machine looks like, and what its operations cost
//! sensitivity                 the interval that uncertain constants span
//! tables                      which frames hold translation tables, and what stores to them mean
//! counters, observer          what comes out: exact counts, and a hook for every event
//! rules                       break-before-make and contiguous groups: what software must keep
//! explain                     registers, instructions and walks in words
//! system                      cores and interconnect under one profile
//! ```

pub mod aarch64;
pub mod access;
pub mod addr;
pub mod arch;
pub mod cache;
pub mod cost;
pub mod counters;
pub mod explain;
pub mod interconnect;
pub mod memory;
pub mod observer;
pub mod profile;
pub mod rules;
pub mod sensitivity;
pub mod system;
pub mod tables;
pub mod tlb;
pub mod walk_cache;
pub mod x86;
