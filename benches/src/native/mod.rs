//! What the guests do, done by this host under its own kernel: the pointer chase and the moves of
//! a mapping (Linux only).
//!
//! ```text
//! area    anonymous memory at a place of one's own, in pages of one size
//! chase   the ring of dependent loads, linked as the guest links it
//! moves   mremap of a filled mapping
//! host    which profile describes this machine
//! ```

pub mod area;
pub mod chase;
pub mod host;
pub mod moves;

use std::fmt;

/// The pages that memory is to come in.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Pages {
    /// Of 4 KiB only.
    Small,
    /// Of 2 MiB, if the kernel gives them.
    Huge,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Small => "4K",
            Self::Huge => "2M",
        })
    }
}

/// Why this host could not do it. Each prints as one line.
#[derive(Debug, thiserror::Error)]
pub enum NativeError {
    /// The kernel refused a call.
    #[error("{call} of {bytes} bytes: {error}")]
    Call {
        /// The system call.
        call: &'static str,
        /// How much memory it was about.
        bytes: usize,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The memory did not come in huge pages.
    #[error("{got} of {bytes} bytes came in huge pages: expected all of them")]
    NotHuge {
        /// How much did.
        got: usize,
        /// How much was asked for.
        bytes: usize,
    },
    /// A file of the kernel's about this process cannot be read.
    #[error("`{path}`: {error}")]
    File {
        /// The file.
        path: &'static str,
        /// What the kernel said.
        error: std::io::Error,
    },
}

/// The least and the middle of several measurements.
#[derive(Copy, Clone, PartialEq, Debug)]
pub struct Spread {
    /// The least: what the work takes when nothing else comes between.
    pub least: f64,
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
}

impl Spread {
    /// The spread of `values`; zeros if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let Some(&least) = sorted.first() else {
            return Self {
                least: 0.0,
                median: 0.0,
            };
        };
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Self { least, median }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_the_least_and_the_middle() {
        let odd = Spread::of(&[5.0, 1.0, 3.0]);
        let even = Spread::of(&[4.0, 1.0, 2.0, 9.0]);
        assert_eq!((odd.least, odd.median), (1.0, 3.0));
        assert_eq!((even.least, even.median), (1.0, 3.0));
        assert_eq!(Spread::of(&[]).least, 0.0);
    }
}
