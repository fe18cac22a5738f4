//! Random register values and addresses.

use fastrand::Rng;
use mmuscope_models::aarch64::{Context, Geometry, Sctlr, Tcr};
use mmuscope_models::arch::Half;

use super::features::Features;
use super::mailbox::{Registers, below, root_below, tcr_below};
use super::tables::{Arena, NOT_RAM};
use crate::random::{chance, pick, sprinkle};

/// HCR_EL2.RW: EL1 is AArch64.
const HCR_RW: u64 = 1 << 31;

/// TCR_EL1: EPD0, EPD1.
const EPD: u64 = 1 << 7 | 1 << 23;
/// TCR_EL1: cacheability and shareability of walks, A1, AS, HWU, TCMA: nothing that AT shows.
const INERT: u64 = 0xf << 8 | 0xf << 24 | 1 << 22 | 1 << 36 | 0xff << 43 | 0b11 << 57;
/// TCR_EL1: TBI, HPD, TBID.
const TBI: u64 = 0b11 << 37;
const HPD: u64 = 0b11 << 41;
const TBID: u64 = 0b11 << 51;
const E0PD: u64 = 0b11 << 55;
const DS: u64 = 1 << 59;
const HA: u64 = 1 << 39;
const HD: u64 = 1 << 40;

/// TTBR_EL1.ASID.
const ASID: u64 = 0xffff << 48;

/// SCTLR_EL1 bits.
const SCTLR_M: u64 = 1;
const SCTLR_WXN: u64 = 1 << 19;
const SCTLR_EPAN: u64 = 1 << 57;
const SCTLR_EE: u64 = 1 << 25;

/// Registers for stage 1 of EL1&0 over tables of `arena`.
pub fn stage1(rng: &mut Rng, features: &Features, arena: &Arena) -> Registers {
    let mut sctlr = sprinkle(rng, SCTLR_WXN, 20);
    // Not together with WXN: QEMU 10 lets PAN take the write permission away before it looks
    // whether the page is writable, and so executes what WXN forbids.
    if features.epan && sctlr & SCTLR_WXN == 0 {
        sctlr |= sprinkle(rng, SCTLR_EPAN, 30);
    }
    sctlr |= if chance(rng, 99) { SCTLR_M } else { 0 };
    if arena.big_endian != chance(rng, 2) {
        sctlr |= SCTLR_EE;
    }
    let mut registers = Registers {
        hcr: HCR_RW,
        sctlr,
        tcr: tcr(rng, features),
        mair: mair(rng),
        pan: rng.bool(),
        ..Registers::default()
    };
    registers.ttbr0 = ttbr(rng, arena, root_size(&registers, Half::Lower));
    registers.ttbr1 = ttbr(rng, arena, root_size(&registers, Half::Upper));
    registers
}

/// Registers for accesses through the `half` of `arena`'s tables: the other half maps the server's
/// page for them.
pub fn accesses(rng: &mut Rng, features: &Features, arena: &Arena, half: Half) -> Registers {
    let mut registers = stage1(rng, features, arena);
    registers.sctlr |= SCTLR_M;
    registers.mair |= 0xff;
    let root = root_below(Sctlr::new(registers.sctlr).big_endian());
    match half {
        Half::Lower => {
            registers.tcr = tcr_below(registers.tcr, Half::Upper);
            registers.ttbr1 = registers.ttbr1 & ASID | root;
            registers.below = below(Half::Upper);
        }
        Half::Upper => {
            registers.tcr = tcr_below(registers.tcr, Half::Lower);
            registers.ttbr0 = registers.ttbr0 & ASID | root;
            registers.below = below(Half::Lower);
        }
    }
    registers
}

fn tcr(rng: &mut Rng, features: &Features) -> u64 {
    let size = |rng: &mut Rng| {
        if chance(rng, 3) {
            rng.u64(..64)
        } else {
            rng.u64(12..49)
        }
    };
    let ips = pick(rng, &[0, 1, 2, 3, 4, 5, 5, 5, 6, 6, 6, 7]);
    let mut tcr = size(rng) | size(rng) << 16 | ips << 32;
    tcr |= pick(rng, &[0b00, 0b01, 0b10]) << 14 | pick(rng, &[0b01, 0b10, 0b11]) << 30;
    tcr |= pick(rng, &[0b00, 0b10, 0b11]) << 12 | pick(rng, &[0b00, 0b10, 0b11]) << 28;
    tcr |= sprinkle(rng, EPD, 2) | sprinkle(rng, INERT, 50) | sprinkle(rng, TBI, 50);
    tcr |= sprinkle(rng, HPD, 25) | sprinkle(rng, TBID, 30);
    if features.e0pd {
        tcr |= sprinkle(rng, E0PD, 10);
    }
    if features.access_flag {
        tcr |= sprinkle(rng, HA, 40);
    }
    if features.dirty {
        tcr |= sprinkle(rng, HD, 60);
    }
    if features.lpa2 {
        tcr |= sprinkle(rng, DS, 40);
    }
    tcr
}

/// The size of the root table in bytes, if there is one.
fn root_size(registers: &Registers, half: Half) -> u64 {
    let context = Context {
        tcr: registers.tcr,
        ..Context::default()
    };
    Geometry::new(&context, half).map_or(0, |geometry| geometry.root_entries() * 8)
}

/// A table of the arena, an ASID, and sometimes an address where there is no RAM. Tables of 64
/// bytes and more have an alignment of their own, and may have bits below it.
fn ttbr(rng: &mut Rng, arena: &Arena, size: u64) -> u64 {
    let base = if chance(rng, 98) {
        arena.table(rng)
    } else {
        NOT_RAM | rng.u64(..) & 0xffff_ffff_0000
    };
    let low = if size >= 64 && chance(rng, 10) {
        rng.u64(..4096)
    } else {
        0
    };
    base | low | rng.u64(..) << 48
}

/// Memory types; SH is reported differently for some.
fn mair(rng: &mut Rng) -> u64 {
    let mut bytes = [0; 8];
    for byte in &mut bytes {
        *byte = match rng.u8(..8) {
            0 => pick(rng, &[0x00, 0x04, 0x08, 0x0c, 0x44]),
            _ => pick(rng, &[0xff, 0xbb, 0x4f, 0xf4, 0x77, 0x88, 0xee]),
        };
    }
    u64::from_le_bytes(bytes)
}

/// An address of `half` for `registers`: mostly in range, with and without a tag.
pub fn address(rng: &mut Rng, registers: &Registers, half: Half) -> u64 {
    let bits = (64 - Tcr::new(registers.tcr).size_offset(half)).clamp(16, 52);
    let mut va = rng.u64(..) & ((1 << bits) - 1);
    if half == Half::Upper {
        va |= !0 << bits;
    }
    if chance(rng, 3) {
        va ^= 1 << rng.u32(bits.min(54)..55);
    }
    if chance(rng, 20) {
        va ^= rng.u64(..) << 56;
    }
    va
}
