//! TLBI instructions: the encodings of every form, and their mnemonics.
//!
//! A form's name is composed as the Arm ARM (D8.17.5) composes it: `R` for a range, what is
//! named, the exception level of the regime, the shareability domain, and `nXS`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::arch::Reach;

/// What a TLBI names.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// `VMALL`: all stage 1 entries of the current VMID.
    Vmall,
    /// `VMALLS12`: all stage 1 and 2 entries of the current VMID.
    VmallS12,
    /// `ALL`: everything of the regime, any VMID.
    All,
    /// `ASID`: one address space.
    Asid,
    /// `VA`: an address in one address space, any level.
    Va,
    /// `VAL`: the same, leaf entries only.
    VaLast,
    /// `VAA`: an address in every address space, any level.
    VaAll,
    /// `VAAL`: the same, leaf entries only.
    VaAllLast,
    /// `IPAS2`: an intermediate physical address, stage 2 entries.
    Ipa,
    /// `IPAS2L`: the same, leaf entries only.
    IpaLast,
    /// `PAALL`: all granule protection information.
    PaAll,
    /// `RPA`: granule protection information of a physical range.
    Pa,
    /// `RPAL`: the same, leaf entries only.
    PaLast,
}

/// The exception level in a form's name.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum RegimeLevel {
    /// EL1&0.
    El1,
    /// EL2, or EL2&0.
    El2,
    /// EL3.
    El3,
}

/// The `op1, CRn, CRm, op2` fields of a SYS or SYSP instruction.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct SysEncoding {
    /// op1, 3 bits.
    pub op1: u8,
    /// CRn, 4 bits: 8 for TLBI, 9 for its nXS variants.
    pub crn: u8,
    /// CRm, 4 bits.
    pub crm: u8,
    /// op2, 3 bits.
    pub op2: u8,
}

impl fmt::Display for SysEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { op1, crn, crm, op2 } = self;
        write!(f, "#{op1}, C{crn}, C{crm}, #{op2}")
    }
}

/// One TLBI or TLBIP form: everything but its operand.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct TlbiForm {
    /// What it names.
    pub operation: Operation,
    /// The regime it concerns.
    pub regime: RegimeLevel,
    /// Which cores it reaches.
    pub reach: Reach,
    /// Whether the operand is a range.
    pub range: bool,
    /// Whether it need not wait for accesses with the XS attribute.
    pub nxs: bool,
    /// Whether it is the 128-bit form TLBIP, with a register pair.
    pub pair: bool,
}

/// The instruction word is no TLBI of a known form.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
#[error("{0} is no allocated TLBI encoding")]
pub struct Unallocated(pub SysEncoding);

/// The text names no TLBI form.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("`{0}` names no TLBI form")]
pub struct UnknownMnemonic(pub String);

impl TlbiForm {
    /// The form with this encoding; `pair` for SYSP (TLBIP).
    ///
    /// # Errors
    /// [`Unallocated`] if no form has it.
    pub fn decode(encoding: SysEncoding, pair: bool) -> Result<Self, Unallocated> {
        let unallocated = Unallocated(encoding);
        let nxs = match encoding.crn {
            8 => false,
            9 => true,
            _ => return Err(unallocated),
        };
        let (operation, regime, reach, range) = match encoding.op1 {
            0 => el1(encoding.crm, encoding.op2),
            4 => stage2(encoding.crm, encoding.op2).or_else(|| el2(encoding.crm, encoding.op2)),
            6 => physical(encoding.crm, encoding.op2).or_else(|| el3(encoding.crm, encoding.op2)),
            _ => None,
        }
        .ok_or(unallocated)?;
        let form = Self {
            operation,
            regime,
            reach,
            range,
            nxs,
            pair,
        };
        if form.exists() {
            Ok(form)
        } else {
            Err(unallocated)
        }
    }

    /// The form and the (first) operand register of an instruction word, or `None` if the word
    /// is no SYS or SYSP instruction in TLBI's space.
    #[must_use]
    pub fn from_instruction(word: u32) -> Option<(Result<Self, Unallocated>, u8)> {
        let pair = match word >> 19 {
            0b1_1010_1010_0001 => false,
            0b1_1010_1010_1001 => true,
            _ => return None,
        };
        let [low, high, ..] = word.to_le_bytes();
        let encoding = SysEncoding {
            op1: (word >> 16 & 7).to_le_bytes()[0],
            crn: high >> 4,
            crm: high & 15,
            op2: low >> 5,
        };
        if !matches!(encoding.crn, 8 | 9) {
            return None;
        }
        Some((Self::decode(encoding, pair), low & 31))
    }

    /// The encoding of this form, or `None` if the fields combine to no existing form.
    #[must_use]
    pub fn encoding(&self) -> Option<SysEncoding> {
        Self::all()
            .find(|(form, _)| form == self)
            .map(|(_, encoding)| encoding)
    }

    /// Every existing form with its encoding.
    pub fn all() -> impl Iterator<Item = (Self, SysEncoding)> {
        [false, true].into_iter().flat_map(|pair| {
            (0..1_u16 << 12).filter_map(move |packed| {
                let [low, high] = packed.to_le_bytes();
                let encoding = SysEncoding {
                    op1: low >> 4 & 7,
                    crn: 8 + (low >> 7),
                    crm: low & 15,
                    op2: high & 7,
                };
                // Bit 11 of the packing is unused: skip its second copy.
                if high & 8 != 0 {
                    return None;
                }
                Self::decode(encoding, pair)
                    .ok()
                    .map(|form| (form, encoding))
            })
        })
    }

    /// Whether the instruction takes a register operand.
    #[must_use]
    pub const fn takes_operand(&self) -> bool {
        !matches!(
            self.operation,
            Operation::Vmall | Operation::VmallS12 | Operation::All | Operation::PaAll
        )
    }

    /// Forms without an address have no 128-bit variant, and granule protection forms have
    /// neither that nor nXS.
    const fn exists(&self) -> bool {
        match self.operation {
            Operation::Pa | Operation::PaLast | Operation::PaAll => !self.pair && !self.nxs,
            Operation::Asid => !self.pair,
            _ => !self.pair || self.takes_operand(),
        }
    }
}

type Row = Option<(Operation, RegimeLevel, Reach, bool)>;

/// CRm of the stage 1 spaces: reach, and whether it holds the range forms.
const fn reach_of(crm: u8) -> Option<(Reach, bool)> {
    match crm {
        1 => Some((Reach::OuterShareable, false)),
        2 => Some((Reach::InnerShareable, true)),
        3 => Some((Reach::InnerShareable, false)),
        5 => Some((Reach::OuterShareable, true)),
        6 => Some((Reach::Local, true)),
        7 => Some((Reach::Local, false)),
        _ => None,
    }
}

fn el1(crm: u8, op2: u8) -> Row {
    let (reach, range) = reach_of(crm)?;
    let operation = match (op2, range) {
        (0, false) => Operation::Vmall,
        (1, _) => Operation::Va,
        (2, false) => Operation::Asid,
        (3, _) => Operation::VaAll,
        (5, _) => Operation::VaLast,
        (7, _) => Operation::VaAllLast,
        _ => return None,
    };
    Some((operation, RegimeLevel::El1, reach, range))
}

fn el2(crm: u8, op2: u8) -> Row {
    let (reach, range) = reach_of(crm)?;
    let (operation, regime) = match (op2, range) {
        (0, false) => (Operation::All, RegimeLevel::El2),
        (1, _) => (Operation::Va, RegimeLevel::El2),
        (4, false) => (Operation::All, RegimeLevel::El1),
        (5, _) => (Operation::VaLast, RegimeLevel::El2),
        (6, false) => (Operation::VmallS12, RegimeLevel::El1),
        _ => return None,
    };
    Some((operation, regime, reach, range))
}

fn el3(crm: u8, op2: u8) -> Row {
    let (reach, range) = reach_of(crm)?;
    let operation = match (op2, range) {
        (0, false) => Operation::All,
        (1, _) => Operation::Va,
        (5, _) => Operation::VaLast,
        _ => return None,
    };
    Some((operation, RegimeLevel::El3, reach, range))
}

/// Stage 2 forms: CRm 0 and 4 of op1 4, where CRm and op2 mix reach and operation.
const fn stage2(crm: u8, op2: u8) -> Row {
    let (operation, reach, range) = match (crm, op2) {
        (0, 1) => (Operation::Ipa, Reach::InnerShareable, false),
        (0, 2) => (Operation::Ipa, Reach::InnerShareable, true),
        (0, 5) => (Operation::IpaLast, Reach::InnerShareable, false),
        (0, 6) => (Operation::IpaLast, Reach::InnerShareable, true),
        (4, 0) => (Operation::Ipa, Reach::OuterShareable, false),
        (4, 1) => (Operation::Ipa, Reach::Local, false),
        (4, 2) => (Operation::Ipa, Reach::Local, true),
        (4, 3) => (Operation::Ipa, Reach::OuterShareable, true),
        (4, 4) => (Operation::IpaLast, Reach::OuterShareable, false),
        (4, 5) => (Operation::IpaLast, Reach::Local, false),
        (4, 6) => (Operation::IpaLast, Reach::Local, true),
        (4, 7) => (Operation::IpaLast, Reach::OuterShareable, true),
        _ => return None,
    };
    Some((operation, RegimeLevel::El1, reach, range))
}

/// Granule protection forms (op1 6).
const fn physical(crm: u8, op2: u8) -> Row {
    let (operation, reach, range) = match (crm, op2) {
        (1, 4) => (Operation::PaAll, Reach::OuterShareable, false),
        (7, 4) => (Operation::PaAll, Reach::Local, false),
        (4, 3) => (Operation::Pa, Reach::OuterShareable, true),
        (4, 7) => (Operation::PaLast, Reach::OuterShareable, true),
        _ => return None,
    };
    Some((operation, RegimeLevel::El3, reach, range))
}

impl fmt::Display for TlbiForm {
    /// The mnemonic: `tlbi vale1is`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let regime = match self.regime {
            RegimeLevel::El1 => "e1",
            RegimeLevel::El2 => "e2",
            RegimeLevel::El3 => "e3",
        };
        let (what, regime) = match self.operation {
            Operation::Vmall => ("vmall", regime),
            Operation::VmallS12 => ("vmalls12", regime),
            Operation::All => ("all", regime),
            Operation::Asid => ("asid", regime),
            Operation::Va => ("va", regime),
            Operation::VaLast => ("val", regime),
            Operation::VaAll => ("vaa", regime),
            Operation::VaAllLast => ("vaal", regime),
            Operation::Ipa => ("ipas2", regime),
            Operation::IpaLast => ("ipas2l", regime),
            Operation::PaAll => ("paall", ""),
            Operation::Pa => ("pa", ""),
            Operation::PaLast => ("pal", ""),
        };
        let reach = match self.reach {
            Reach::Local => "",
            Reach::InnerShareable => "is",
            Reach::OuterShareable => "os",
        };
        write!(
            f,
            "tlbi{} {}{what}{regime}{reach}{}",
            if self.pair { "p" } else { "" },
            if self.range { "r" } else { "" },
            if self.nxs { "nxs" } else { "" },
        )
    }
}

impl FromStr for TlbiForm {
    type Err = UnknownMnemonic;

    /// Parses a mnemonic, with or without the leading `tlbi`, in either case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let lower = text.trim().to_ascii_lowercase();
        let full = if lower.starts_with("tlbi") {
            lower
        } else {
            format!("tlbi {lower}")
        };
        Self::all()
            .find(|(form, _)| form.to_string() == full)
            .map(|(form, _)| form)
            .ok_or_else(|| UnknownMnemonic(text.to_owned()))
    }
}
