//! Simulated time: cycles, the categories they are charged to, and the operations that have a
//! price.
//!
//! A core's clock only moves by charging cycles to exactly one [`Category`]; [`Attribution`]
//! keeps the sums, so the categories always add up to the clock. A [`Ledger`] keeps how often each
//! priced thing happened, so that a run can be priced again under other constants
//! ([`crate::sensitivity`]) without being run again.
//!
//! ```text
//! attribution   categories and their sums
//! operations    what has a price, the prices, how often each was paid
//! ```

mod attribution;
mod operations;

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Serialize, Serializer};

pub use attribution::{Attribution, Category};
pub use operations::{Applies, Costs, Ledger, Operation};

/// A number of core cycles in fixed point: multiples of 1/1000 cycle.
///
/// Sums are exact and do not depend on their order, so a run gives the same clock on every host.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cycles(u64);

impl Cycles {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// How many units make a cycle.
    pub const UNITS: u64 = 1000;

    /// A whole number of cycles.
    #[must_use]
    pub const fn new(cycles: u64) -> Self {
        Self(cycles * Self::UNITS)
    }

    /// A number of thousandths of a cycle.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// `cycles` rounded to the nearest thousandth; negative and non-finite values become zero.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "`as` saturates, and the value was made non-negative"
    )]
    pub fn from_f64(cycles: f64) -> Self {
        if cycles.is_finite() && cycles > 0.0 {
            Self((cycles * 1000.0).round() as u64)
        } else {
            Self::ZERO
        }
    }

    /// The time in thousandths of a cycle.
    #[must_use]
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The time in cycles.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "for reports; exact below 2^53 thousandths"
    )]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// The time in nanoseconds at a clock of `ghz`.
    #[must_use]
    pub fn nanoseconds(self, ghz: f64) -> f64 {
        self.as_f64() / ghz
    }

    /// `self - other`, or no time if `other` is later.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The time of `count` operations of this price.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count))
    }
}

impl Add for Cycles {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Cycles {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Cycles {
    type Output = Self;
    /// The difference; no time if `other` is later.
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl Sum for Cycles {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / Self::UNITS, self.0 % Self::UNITS)
    }
}

impl fmt::Debug for Cycles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cycles({self})")
    }
}

impl Serialize for Cycles {
    /// A number of cycles with up to three decimals.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_round_to_thousandths_and_never_go_negative() {
        assert_eq!(Cycles::from_f64(0.25), Cycles::from_millis(250));
        assert_eq!(Cycles::from_f64(-3.0), Cycles::ZERO);
        assert_eq!(Cycles::from_f64(f64::NAN), Cycles::ZERO);
        assert_eq!(Cycles::new(1) - Cycles::new(2), Cycles::ZERO);
        assert_eq!(Cycles::from_millis(1_250).to_string(), "1.250");
    }
}
