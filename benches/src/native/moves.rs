//! mremap of a filled private mapping on this host, at the offsets that make the kernel move
//! entries of one table level.

use std::time::Instant;

use super::area::{Area, HUGE_PAGE, PAGE};
use super::{NativeError, Pages, Spread};

/// Alignment of the entries of the level below the root's.
const GIB: usize = 1 << 30;

/// Where a mapping lies and where it goes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Move {
    /// Its name in tables.
    pub name: &'static str,
    /// Bytes behind a multiple of 1 GiB that it lies at.
    pub from: usize,
    /// Bytes behind a multiple of 1 GiB that it goes to.
    pub to: usize,
    /// The same move as words of the scenario `mremap`.
    pub words: [&'static str; 2],
}

/// Whole tables of 2 MiB entries, whole tables of pages, and single pages.
pub const MOVES: [Move; 3] = [
    Move {
        name: "pud",
        from: 0,
        to: 0,
        words: ["src=pud", "dst=pud"],
    },
    Move {
        name: "pmd",
        from: HUGE_PAGE,
        to: HUGE_PAGE,
        words: ["src=pmd", "dst=pmd"],
    },
    Move {
        name: "unaligned",
        from: PAGE,
        to: 2 * PAGE,
        words: ["src=pte", "dst=pte+1"],
    },
];

/// Nanoseconds that the kernel takes to move `bytes` of present 4 KiB pages, `rounds` times, each
/// time to an address that was never used.
///
/// # Errors
/// The kernel does not give the memory or does not move it.
pub fn measure(it: &Move, bytes: usize, rounds: usize) -> Result<Spread, NativeError> {
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let mut source = Area::new(bytes, GIB, it.from, Pages::Small)?;
        let mut target = Area::new(bytes, GIB, it.to, Pages::Small)?;
        source.fill();
        let start = Instant::now();
        source.move_to(&mut target)?;
        times.push(start.elapsed().as_secs_f64() * 1e9);
    }
    Ok(Spread::of(&times))
}
