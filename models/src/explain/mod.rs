//! What registers, instructions and table walks say, in words.
//!
//! ```text
//! field       named bit fields with their meaning: what every explanation is made of
//! syndrome    ESR_ELx: exception class and instruction specific syndrome
//! error_code  the error code of an x86 page fault
//! tlbi        TLBI instructions and their operands
//! ```
//!
//! Everything here is text about values that other modules decode; nothing else depends on it.

mod error_code;
mod field;
mod syndrome;
pub mod tlbi;

pub use error_code::page_fault;
pub use field::{Explanation, Field};
pub use syndrome::esr;
