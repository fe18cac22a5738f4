//! Memory images from outside, and the translation registers that they hold.
//!
//! ```text
//! image       physical memory: raw files, ELF cores, recordings; one [`TableMemory`] for all
//! core_file   ELF cores: segments by physical address, registers from the notes
//! registers   what a walk needs, from options, notes and recordings
//! ```
//!
//! [`TableMemory`]: mmuscope_models::memory::TableMemory

mod core_file;
mod image;
mod registers;

pub use image::{Image, ImageError};
pub use registers::{ArchName, Given, Known, MissingRegister, aarch64, x86_64};
