//! Differences from Linux that are known, each with its reason. `docs/fidelity.md` says the same.

use super::case::{Case, Threads};
use super::columns::{Column, Measured};

/// A CPU that idles with the process's tables loaded. Linux sends it the flushes of freed
/// tables only, and how many of them still find it in the process's CPU mask depends on when
/// the idle task lets go of the process: single rows of the same call show 0 to 2.
const LAZY: &str = "IPIs to a lazy CPU depend on when it lets go of the process";

/// Every exception; the test fails if one is not needed.
pub const NAMES: [&str; 1] = [LAZY];

/// The name of the exception that explains a difference in `column`.
pub fn explains(case: &Case, column: &Column, _ours: &Measured) -> Option<&'static str> {
    let to_lazy = ["ipi_fb", "flush_tlb_func_others", "cr3_others"];
    let lazy = case.key.threads == Threads::Lazy && to_lazy.contains(&column.golden[0]);
    lazy.then_some(LAZY)
}
