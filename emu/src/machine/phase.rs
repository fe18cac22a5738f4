//! The phases of a machine's cores: when each begins, and what disturbs it.
//!
//! Cores of real machines are never in step. Guests that do the same on every core would be, and
//! would meet at every lock and every queue, or never. With a seed, every core but the first
//! starts late by up to [`START`] cycles, and each return from an exception and each wake-up takes
//! up to [`JITTER`] cycles more; the core waits for that time. Equal seeds give equal runs; the
//! spread over several seeds says how much a result owes to the phases.

use mmuscope_models::cost::Cycles;
use mmuscope_models::system::CoreId;

/// The latest start after the core is told to start.
pub const START: Cycles = Cycles::new(20_000);

/// The most that one iteration is disturbed by.
pub const JITTER: Cycles = Cycles::new(200);

/// The phase of one core: a stream of evenly distributed times (SplitMix64).
#[derive(Clone, Debug)]
pub struct Phase {
    state: u64,
}

impl Phase {
    /// The phase of `core` in runs with `seed`.
    #[must_use]
    pub const fn new(seed: u64, core: CoreId) -> Self {
        let core = core.index() as u64 + 1;
        Self {
            state: seed.wrapping_mul(0xd134_2543_de82_ef95)
                ^ core.wrapping_mul(0xaf25_1af3_b0f0_25b5),
        }
    }

    /// A time below `limit`.
    pub const fn below(&mut self, limit: Cycles) -> Cycles {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        if limit.millis() == 0 {
            return Cycles::ZERO;
        }
        Cycles::from_millis(z % limit.millis())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_and_seeds_have_phases_of_their_own() {
        let first = |seed, core| Phase::new(seed, CoreId::new(core)).below(START);
        assert_eq!(first(1, 0), first(1, 0));
        assert_ne!(first(1, 0), first(1, 1));
        assert_ne!(first(1, 0), first(2, 0));
        let mut phase = Phase::new(7, CoreId::new(3));
        assert!((0..1000).all(|_| phase.below(JITTER) < JITTER));
        assert_eq!(phase.below(Cycles::ZERO), Cycles::ZERO);
    }
}
