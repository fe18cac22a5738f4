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
//! ```

pub mod aarch64;
pub mod access;
pub mod addr;
pub mod arch;
pub mod memory;
pub mod x86;
