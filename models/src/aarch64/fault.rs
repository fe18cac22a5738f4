//! Faults of a stage 1 translation, and how ESR_EL1 reports them.

use std::fmt;

use crate::access::{Access, AccessKind};
use crate::addr::Level;

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

/// A fault: its kind and the level of the descriptor that gave it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Fault {
    /// What went wrong.
    pub kind: FaultKind,
    /// The level; level 0 where the architecture says so (faults before the first descriptor)
    /// and for kinds that report none.
    pub level: Level,
}

impl Fault {
    /// A fault of `kind` at `level`.
    #[must_use]
    pub const fn new(kind: FaultKind, level: Level) -> Self {
        Self { kind, level }
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

    /// ESR_EL1 for this fault of `access`, taken to EL1 from EL0 (`from_lower_el`) or from EL1:
    /// exception class, IL, WnR and the fault status code.
    #[must_use]
    pub const fn esr(&self, access: &Access, from_lower_el: bool) -> u64 {
        let class: u64 = match (access.kind, from_lower_el) {
            (AccessKind::Fetch, true) => 0x20,
            (AccessKind::Fetch, false) => 0x21,
            (_, true) => 0x24,
            (_, false) => 0x25,
        };
        let write_not_read = (access.kind.is_write() as u64) << 6;
        class << 26 | 1 << 25 | write_not_read | self.fsc() as u64
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
        }
    }
}

impl std::error::Error for Fault {}
