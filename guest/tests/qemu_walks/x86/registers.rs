//! Random register values and accesses.

use fastrand::Rng;
use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::Va;

use super::expect::Question;
use super::features::Features;
use super::mailbox::{Registers, SERVER_KEY};
use super::tables::Arena;
use crate::random::{chance, pick, sprinkle};

const CR0_WP: u64 = 1 << 16;
const EFER_NXE: u64 = 1 << 11;

/// Registers for accesses through tables of `arena`.
pub fn registers(rng: &mut Rng, features: &Features, arena: &Arena) -> Registers {
    let own_key = !(0b11 << (2 * SERVER_KEY));
    Registers {
        cr0: sprinkle(rng, CR0_WP, 60),
        cr3: arena.root(rng) | rng.u64(..) & (0b11 << 3),
        cr4: sprinkle(rng, features.cr4, 40),
        efer: sprinkle(rng, EFER_NXE, 80),
        pkru: rng.u32(..) & rng.u32(..) & own_key,
        pkrs: rng.u32(..) & rng.u32(..) & own_key,
    }
}

/// An access with `registers`, anywhere but in the last entry of a table: there the server may be.
pub fn question(rng: &mut Rng, features: &Features, la57: bool, registers: &Registers) -> Question {
    let levels = if la57 { 5 } else { 4 };
    let mut va = rng.u64(..512) << 3;
    for level in 0..levels {
        va |= rng.u64(..511) << (12 + 9 * level);
    }
    let bits = 12 + 9 * levels;
    if va >> (bits - 1) != 0 {
        va |= !0 << bits;
    }
    if chance(rng, 2) {
        va ^= 1 << rng.u32(bits..64);
    }
    let kind = pick(
        rng,
        &[AccessKind::Load, AccessKind::Store, AccessKind::Fetch],
    );
    let privilege = pick(rng, &[Privilege::User, Privilege::Supervisor]);
    Question {
        registers: *registers,
        la57,
        physical_bits: features.physical_bits,
        access: Access::new(Va::new(va), kind, privilege),
        ac: privilege == Privilege::Supervisor && kind != AccessKind::Fetch && chance(rng, 30),
    }
}
