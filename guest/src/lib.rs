//! Guest programs of mmuscope, built to ELF, and the descriptions of the
//! experiments they offer.
//!
//! A guest is one ELF image an architecture: a small C kernel (`kernel/`) and
//! one program of `kernel/programs`. The machine loads it, hands it parameters
//! in the boot-information page and collects what it reports; see
//! `docs/guest-abi.md`. Nothing here runs a guest.
//!
//! - [`scenario`]: experiments and their axes.
//! - [`mod@chase`]: what one access takes.
//! - [`mod@fork`]: what copying an address space costs.
//! - [`mod@memmap`]: what page descriptors cost at boot.
//! - [`mod@mprotect`]: what changing access costs.
//! - [`mod@mremap`]: moving a mapping.
//! - [`tests`]: small guests that exercise one property of a machine.
//! - [`image`]: the ELF files.

pub mod chase;
pub mod fork;
pub mod image;
pub mod memmap;
pub mod mprotect;
pub mod mremap;
pub mod munmap;
pub mod scenario;
pub mod tests;

pub use image::{ArchName, Image};
pub use scenario::{Axis, AxisKind, Scenario};
