//! Emulation of guest code under the MMU models, and the command line.
//!
//! ```text
//! ram          guest RAM, one host mapping
//! loader       ELF images and the boot information
//! experiment   the grammar of experiments
//! ```

pub mod experiment;
pub mod loader;
pub mod ram;
