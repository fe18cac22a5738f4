//! Several runs of one job that differ in the phases of the cores only.

use super::Finished;
use crate::report::{Spread, Verdict};

/// The run in the middle of several: the one whose compared region (`region`, or its first one)
/// took the median time, with the spread of all. A run that is no result comes before any that is.
pub(super) fn middle(runs: &[Finished], region: Option<&str>) -> Finished {
    let cycles = |it: &Finished| {
        let named = |name: &str| it.regions.iter().position(|own| own.name == name);
        let at = region.map_or(Some(0), named)?;
        Some((it.regions.get(at)?.cycles?, at))
    };
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|at| (cycles(&runs[*at]).map(|it| it.0), *at));
    let bad = runs.iter().find(|it| it.verdict != Verdict::Fine);
    let mut chosen = bad.unwrap_or(&runs[order[(order.len() - 1) / 2]]).clone();
    let all = order.iter().filter_map(|at| cycles(&runs[*at]));
    let all: Vec<_> = all.collect();
    if let ([first, .., last], Some((_, at))) = (all.as_slice(), cycles(&chosen)) {
        chosen.regions[at].spread = Some(Spread {
            runs: all.len(),
            low: first.0,
            median: all[(all.len() - 1) / 2].0,
            high: last.0,
        });
    }
    chosen
}
