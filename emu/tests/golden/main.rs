//! Fidelity: the guest kernel's `mremap` against what Linux kernels did for the same call.
//!
//! Each call of the golden file (`guest/tests/data/linux-mremap.csv`) is expressed by the scenario's axes, run on
//! the machine that corresponds to the recorded one, and compared column by column: table
//! stores by level, invalidations by kind, the barriers that complete them, IPIs and handlers.
//! What is known to differ stands in [`exceptions`], with the reason.

#![allow(clippy::print_stdout, reason = "the test reports what it compared")]

mod case;
mod columns;
mod exceptions;
mod guest;

use case::{Case, Key, Run};
use columns::COLUMNS;
use rayon::prelude::*;

/// What came of one case.
struct Verdict {
    key: Key,
    rows: usize,
    /// Differences that no exception explains.
    unexplained: Vec<String>,
    /// Differences that one explains, by its name.
    explained: Vec<&'static str>,
}

fn judge(case: &Case) -> Verdict {
    let mut verdict = Verdict {
        key: case.key.clone(),
        rows: case.rows.len(),
        unexplained: Vec::new(),
        explained: Vec::new(),
    };
    let measured = match guest::run(&case.key) {
        Ok(measured) => measured,
        Err(problem) => {
            verdict.unexplained.push(problem);
            return verdict;
        }
    };
    for column in COLUMNS {
        let Some(difference) = column.differs(case, &measured) else {
            continue;
        };
        match exceptions::explains(case, column, &measured) {
            Some(name) => verdict.explained.push(name),
            None => verdict.unexplained.push(difference),
        }
    }
    verdict
}

#[test]
fn mremap_counts_equal_those_of_linux() {
    let mut cases = case::cases();
    // The long ones first, so that the short ones fill the gaps.
    cases.sort_by_key(|case| std::cmp::Reverse(case.key.size));
    let verdicts: Vec<Verdict> = cases.par_iter().map(judge).collect();

    for run in [Run::Arm64N1, Run::Arm64Max, Run::Amd64, Run::Amd64Two] {
        let of_run = || verdicts.iter().filter(|verdict| verdict.key.run == run);
        let rows: usize = of_run().map(|verdict| verdict.rows).sum();
        let equal = of_run().filter(|v| v.unexplained.is_empty() && v.explained.is_empty());
        let explained = of_run().filter(|v| v.unexplained.is_empty() && !v.explained.is_empty());
        println!(
            "{run:?}: {} calls ({rows} rows): {} equal in all {} columns, {} with a stated difference",
            of_run().count(),
            equal.count(),
            COLUMNS.len(),
            explained.count(),
        );
    }
    let mut failed = 0;
    for verdict in &verdicts {
        if !verdict.unexplained.is_empty() {
            failed += 1;
            println!("{}:", verdict.key);
            for difference in &verdict.unexplained {
                println!("    {difference}");
            }
        }
    }
    assert_eq!(failed, 0, "of {} calls differ from Linux", verdicts.len());
    let used: Vec<_> = verdicts
        .iter()
        .flat_map(|v| &v.explained)
        .copied()
        .collect();
    for name in exceptions::NAMES {
        assert!(used.contains(&name), "the exception {name:?} is not needed");
    }
}
