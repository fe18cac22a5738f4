//! Faults of a translation, and how ESR_EL1, or ESR_EL2 and HPFAR_EL2, report them.

use std::fmt;

use crate::access::{Access, AccessKind};
use crate::addr::{Level, Pa};

use super::stage2::{TableUse, Use};

/// What went wrong.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum FaultKind {
    /// An address is wider than the output address size.
    AddressSize,
    /// No translation: an invalid descriptor, or an address outside the range.
    Translation,
    /// The access flag is clear and hardware does not manage it.
    AccessFlag,
    /// The access is not permitted.
    Permission,
    /// Nothing answered at the access's own address.
    External,
    /// Nothing answered at the address of a descriptor.
    ExternalOnWalk,
    /// An unaligned access to Device memory, or with SCTLR_EL1.A set.
    Alignment,
    /// The TLB held entries that contradict one another.
    TlbConflict,
    /// The memory at hand does not let hardware update the descriptor.
    UnsupportedUpdate,
}

/// The stage that a fault comes from.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum FaultStage {
    /// Stage 1: taken to EL1.
    One,
    /// Stage 2: taken to EL2.
    Two {
        /// The address that stage 2 could not translate.
        ipa: Pa,
        /// If it is that of a stage 1 descriptor (S1PTW), what the walker did to it.
        table: Option<TableUse>,
    },
}

/// A fault: its kind, its stage and the level of the descriptor that gave it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Fault {
    /// What went wrong.
    pub kind: FaultKind,
    /// The level; level 0 where the architecture says so (faults before the first descriptor)
    /// and for kinds that report none.
    pub level: Level,
    /// Whose tables gave it.
    pub stage: FaultStage,
}

impl Fault {
    /// A fault of `kind` at `level` of stage 1.
    #[must_use]
    pub const fn new(kind: FaultKind, level: Level) -> Self {
        let stage = FaultStage::One;
        Self { kind, level, stage }
    }

    /// The same fault, of stage 2 when it translated `ipa`.
    pub(super) const fn in_stage2(self, ipa: Pa, why: Use) -> Self {
        let table = match why {
            Use::Table(how) => Some(how),
            Use::Final => None,
        };
        let stage = FaultStage::Two { ipa, table };
        Self { stage, ..self }
    }

    /// HPFAR_EL2 for a stage 2 fault: bits 51:12 of the IPA in bits 43:4. `None` where the
    /// register is not written: for stage 1, and for a permission fault of the access itself,
    /// which a TLB entry of both stages gives without knowing the IPA.
    #[must_use]
    pub const fn hpfar(&self) -> Option<u64> {
        let FaultStage::Two { ipa, table } = self.stage else {
            return None;
        };
        let known = match self.kind {
            FaultKind::Translation | FaultKind::AddressSize | FaultKind::AccessFlag => true,
            FaultKind::Permission => table.is_some(),
            _ => false,
        };
        if known {
            Some(ipa.raw() >> 12 << 4 & 0xfff_ffff_fff0)
        } else {
            None
        }
    }

    /// The fault status code: ESR_EL1 ISS bits 5:0 (DFSC, IFSC).
    #[must_use]
    pub const fn fsc(&self) -> u8 {
        // (code of level -1, code of level 0)
        let (minus1, base) = match self.kind {
            FaultKind::AddressSize => (0x29, 0x00),
            FaultKind::Translation => (0x2b, 0x04),
            // A leaf is never at level -1, so these two have no code for it.
            FaultKind::AccessFlag => (0x08, 0x08),
            FaultKind::Permission => (0x0c, 0x0c),
            FaultKind::ExternalOnWalk => (0x13, 0x14),
            FaultKind::External => return 0x10,
            FaultKind::Alignment => return 0x21,
            FaultKind::TlbConflict => return 0x30,
            FaultKind::UnsupportedUpdate => return 0x31,
        };
        match self.level {
            Level::Minus1 => minus1,
            Level::L0 => base,
            Level::L1 => base + 1,
            Level::L2 => base + 2,
            Level::L3 => base + 3,
        }
    }

    /// The syndrome for this fault of `access`: exception class, IL, S1PTW, WnR and the fault
    /// status code. One of stage 1 is taken to EL1 from EL0 (`from_lower_el`) or from EL1 and
    /// this is ESR_EL1; one of stage 2 is taken to EL2 and this is ESR_EL2. FnV and EA are zero:
    /// the address is always known, and external aborts are of the first kind.
    #[must_use]
    pub const fn esr(&self, access: &Access, from_lower_el: bool) -> u64 {
        let (lower, table) = match self.stage {
            FaultStage::One => (from_lower_el, None),
            FaultStage::Two { table, .. } => (true, table),
        };
        let class: u64 = match (access.kind, lower) {
            (AccessKind::Fetch, true) => 0x20,
            (AccessKind::Fetch, false) => 0x21,
            (_, true) => 0x24,
            (_, false) => 0x25,
        };
        let writes = match (access.kind, table) {
            (AccessKind::Fetch, _) => false,
            (_, Some(how)) => matches!(how, TableUse::Update),
            (kind, None) => kind.is_write(),
        };
        let table_walk = (table.is_some() as u64) << 7;
        class << 26 | 1 << 25 | table_walk | (writes as u64) << 6 | self.fsc() as u64
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = self.level.number();
        match self.kind {
            FaultKind::AddressSize => write!(f, "address size fault, level {level}"),
            FaultKind::Translation => write!(f, "translation fault, level {level}"),
            FaultKind::AccessFlag => write!(f, "access flag fault, level {level}"),
            FaultKind::Permission => write!(f, "permission fault, level {level}"),
            FaultKind::External => f.write_str("synchronous external abort"),
            FaultKind::ExternalOnWalk => {
                write!(f, "synchronous external abort on table walk, level {level}")
            }
            FaultKind::Alignment => f.write_str("alignment fault"),
            FaultKind::TlbConflict => f.write_str("TLB conflict abort"),
            FaultKind::UnsupportedUpdate => {
                f.write_str("unsupported atomic hardware update of a descriptor")
            }
        }?;
        match self.stage {
            FaultStage::One => Ok(()),
            FaultStage::Two { ipa, table: None } => write!(f, ", stage 2 at IPA {ipa}"),
            FaultStage::Two { ipa, .. } => {
                write!(f, ", stage 2 at IPA {ipa} of a stage 1 descriptor")
            }
        }
    }
}

impl std::error::Error for Fault {}
