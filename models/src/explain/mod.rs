//! What registers, instructions and table walks say, in words.
//!
//! ```text
//! dump        a whole address space, and what is wrong with it
//! field       named bit fields with their meaning: what every explanation is made of
//! syndrome    ESR_ELx: exception class and instruction specific syndrome
//! error_code  the error code of an x86 page fault
//! tlbi        TLBI instructions and their operands
//! walk        a table walk step by step: a visitor of the walker
//! ```
//!
//! Everything here is text about values that other modules decode; nothing else depends on it.

mod dump;
mod error_code;
mod field;
mod syndrome;
pub mod tlbi;
mod walk;

pub use dump::{Dump, Finding, Limits, Range, dump};
pub use error_code::page_fault;
pub use field::{Explanation, Field};
pub use syndrome::esr;
pub use walk::{Explain, Outcome, Register, WalkStep, Walked, walk};
