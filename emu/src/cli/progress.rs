//! The progress bar: on the standard error only, and only if that is a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `runs` runs.
pub fn bar(runs: usize) -> ProgressBar {
    let runs = u64::try_from(runs).unwrap_or(u64::MAX);
    // indicatif hides this target where it is not a terminal.
    let bar = ProgressBar::with_draw_target(Some(runs), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{elapsed:>4} {bar:30} {pos}/{len} {wide_msg}")
    {
        bar.set_style(style);
    }
    bar
}
