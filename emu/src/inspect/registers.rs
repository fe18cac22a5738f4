//! The registers that a walk needs: given as options, found in the image, or assumed.

use mmuscope_models::addr::Va;
use mmuscope_models::{aarch64 as arm, x86};
use thiserror::Error;

/// The two architectures.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum ArchName {
    /// AArch64.
    Aarch64,
    /// x86-64.
    X86_64,
}

impl ArchName {
    /// Its name in options and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64",
            Self::X86_64 => "x86_64",
        }
    }
}

/// Registers as one source gives them.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "each field is the register of its name")]
pub struct Given {
    pub arch: Option<ArchName>,
    pub sctlr: Option<u64>,
    pub tcr: Option<u64>,
    pub ttbr0: Option<u64>,
    pub ttbr1: Option<u64>,
    pub mair: Option<u64>,
    pub pan: Option<bool>,
    pub cr0: Option<u64>,
    pub cr3: Option<u64>,
    pub cr4: Option<u64>,
    pub efer: Option<u64>,
    pub pkru: Option<u64>,
    pub ac: Option<bool>,
}

impl Given {
    pub(super) fn of_aarch64(it: &arm::Context) -> Self {
        let known = |value: u64| Some(value).filter(|it| *it != 0);
        Self {
            arch: Some(ArchName::Aarch64),
            tcr: known(it.tcr),
            ttbr0: known(it.ttbr0),
            ttbr1: known(it.ttbr1),
            ..Self::default()
        }
    }

    pub(super) fn of_x86_64(it: &x86::Context) -> Self {
        Self {
            arch: Some(ArchName::X86_64),
            cr3: Some(it.cr3).filter(|it| *it != 0),
            ..Self::default()
        }
    }

    /// These, and where there is none, those of `other`.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            arch: self.arch.or(other.arch),
            sctlr: self.sctlr.or(other.sctlr),
            tcr: self.tcr.or(other.tcr),
            ttbr0: self.ttbr0.or(other.ttbr0),
            ttbr1: self.ttbr1.or(other.ttbr1),
            mair: self.mair.or(other.mair),
            pan: self.pan.or(other.pan),
            cr0: self.cr0.or(other.cr0),
            cr3: self.cr3.or(other.cr3),
            cr4: self.cr4.or(other.cr4),
            efer: self.efer.or(other.efer),
            pkru: self.pkru.or(other.pkru),
            ac: self.ac.or(other.ac),
        }
    }
}

/// A register that nobody gave and that cannot be assumed.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
#[error("{register} is neither in the image nor given: expected --{option} VALUE")]
pub struct MissingRegister {
    register: &'static str,
    option: &'static str,
}

/// A complete set of registers, and the names of those that were assumed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Known<C> {
    /// The registers.
    pub context: C,
    /// Those that were assumed, as `NAME = value`.
    pub assumed: Vec<String>,
}

fn or_assume(assumed: &mut Vec<String>, name: &str, given: Option<u64>, value: u64) -> u64 {
    given.unwrap_or_else(|| {
        assumed.push(format!("{name} = {value:#x}"));
        value
    })
}

/// AArch64's registers for a walk of `va`, or of every half that has a root if `va` is `None`.
///
/// # Errors
/// TCR_EL1, or the TTBR of the half, is missing.
pub fn aarch64(given: &Given, va: Option<Va>) -> Result<Known<arm::Context>, MissingRegister> {
    let missing = |register, option| MissingRegister { register, option };
    let mut tcr = given.tcr.ok_or(missing("TCR_EL1", "tcr"))?;
    let upper = va.map(|it| it.raw() >> 55 & 1 == 1);
    match upper {
        Some(false) if given.ttbr0.is_none() => return Err(missing("TTBR0_EL1", "ttbr0")),
        Some(true) if given.ttbr1.is_none() => return Err(missing("TTBR1_EL1", "ttbr1")),
        None if given.ttbr0.or(given.ttbr1).is_none() => return Err(missing("TTBR0_EL1", "ttbr0")),
        _ => {}
    }
    // A half whose root is unknown is not walked (EPD0, EPD1).
    if given.ttbr0.is_none() {
        tcr |= 1 << 7;
    }
    if given.ttbr1.is_none() {
        tcr |= 1 << 23;
    }
    let mut assumed = Vec::new();
    let context = arm::Context {
        // Linux's value with the MMU on.
        sctlr: or_assume(&mut assumed, "SCTLR_EL1", given.sctlr, 1),
        tcr,
        ttbr0: given.ttbr0.unwrap_or(0),
        ttbr1: given.ttbr1.unwrap_or(0),
        // What Linux 6.12 writes: Normal, Normal tagged as Normal, NC, Device-nGnRnE, -nGnRE.
        mair: or_assume(&mut assumed, "MAIR_EL1", given.mair, 0x0004_0044_ffff),
        pan: given.pan.unwrap_or(false),
        ..arm::Context::default()
    };
    Ok(Known { context, assumed })
}

/// x86-64's registers.
///
/// # Errors
/// CR3 is missing.
pub fn x86_64(given: &Given) -> Result<Known<x86::Context>, MissingRegister> {
    let cr3 = given.cr3.ok_or(MissingRegister {
        register: "CR3",
        option: "cr3",
    })?;
    let mut assumed = Vec::new();
    let pkru = given.pkru.unwrap_or(0).to_le_bytes();
    let context = x86::Context {
        // PG, WP, PE; PGE, PAE; NXE, LMA, LME, SCE: any 64-bit kernel that runs.
        cr0: or_assume(&mut assumed, "CR0", given.cr0, 0x8001_0001),
        cr3,
        cr4: or_assume(&mut assumed, "CR4", given.cr4, 0xa0),
        efer: or_assume(&mut assumed, "EFER", given.efer, 0xd01),
        ac: given.ac.unwrap_or(false),
        pkru: u32::from_le_bytes([pkru[0], pkru[1], pkru[2], pkru[3]]),
        ..x86::Context::default()
    };
    Ok(Known { context, assumed })
}
