//! Event streams from outside: recordings and traces, read into typed records.
//!
//! Each format is one module that implements the small trait [`Format`]; everything above it
//! (decompression, opening files, replay) is written once against that trait.
//!
//! ```text
//! format        the trait, and opening a file in a known format
//! compression   zstd or plain, told apart by the first bytes
//! error         what can be wrong with a file, and where
//! recording     MMTRC001: one system call of a real kernel, with its translation tables
//! ```
//!
//! ```no_run
//! use mmuscope_traces::recording::{Event, Recording};
//!
//! let reader = mmuscope_traces::open::<Recording>("mremap.trc.zst".as_ref())?;
//! let mut stores = 0;
//! for record in reader {
//!     if let Event::Store(_) = record?.event {
//!         stores += 1;
//!     }
//! }
//! # Ok::<(), mmuscope_traces::ReadError>(())
//! ```
//!
//! Readers stream: memory use does not grow with the length of the file. No input makes them
//! panic; a damaged file gives a [`ReadError`] that names the byte.

pub mod compression;
pub mod error;
pub mod format;
pub mod recording;

pub use error::ReadError;
pub use format::{Format, open, read};
