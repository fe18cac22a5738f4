//! Random choices that both architectures make.

use fastrand::Rng;

/// True in `percent` of 100 cases.
pub fn chance(rng: &mut Rng, percent: u8) -> bool {
    rng.u8(..100) < percent
}

/// Each bit of `mask` set in `percent` of 100 cases.
pub fn sprinkle(rng: &mut Rng, mask: u64, percent: u8) -> u64 {
    let mut left = mask;
    let mut value = 0;
    while left != 0 {
        let bit = left & left.wrapping_neg();
        if chance(rng, percent) {
            value |= bit;
        }
        left ^= bit;
    }
    value
}

/// One of `choices`.
pub fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())]
}
