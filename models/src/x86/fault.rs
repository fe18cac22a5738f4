//! Exceptions of a translation.

use std::fmt;

use bitflags::bitflags;

use super::nested::VmExit;

bitflags! {
    /// The error code of a page fault (Intel SDM vol. 3A 4.7).
    #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
    pub struct ErrorCode: u32 {
        /// P: a protection violation; clear if an entry was not present.
        const PRESENT = 1 << 0;
        /// W/R: the access was a write.
        const WRITE = 1 << 1;
        /// U/S: the access was made at CPL 3.
        const USER = 1 << 2;
        /// RSVD: a reserved bit was set in an entry.
        const RESERVED = 1 << 3;
        /// I/D: the access was an instruction fetch (with NXE or SMEP on).
        const FETCH = 1 << 4;
        /// PK: a protection key forbade it.
        const KEY = 1 << 5;
        /// SS: it was a shadow-stack access.
        const SHADOW_STACK = 1 << 6;
        /// SGX: the violation was one of SGX's own rules.
        const SGX = 1 << 15;
        /// RMP: the violation was one of the reverse map's (AMD SNP).
        const RMP = 1 << 31;
    }
}

/// An exception that a translation raises.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// #PF. CR2 is the access's address.
    PageFault {
        /// The error code.
        code: ErrorCode,
    },
    /// #GP(0): the address is not canonical.
    GeneralProtection,
    /// #SS(0): the address of a stack access is not canonical.
    StackSegment,
    /// #MC: nothing answered at the address of a paging-structure entry. The architecture leaves
    /// this to the platform.
    MachineCheck,
    /// The host's tables end the translation: a VM exit, which the guest does not see.
    Exit(VmExit),
}

impl Fault {
    /// The exception vector. A VM exit has none; 0 stands for it.
    #[must_use]
    pub const fn vector(&self) -> u8 {
        match self {
            Self::StackSegment => 12,
            Self::GeneralProtection => 13,
            Self::PageFault { .. } => 14,
            Self::MachineCheck => 18,
            Self::Exit(_) => 0,
        }
    }

    /// The error code that delivery pushes. A machine check and a VM exit push none; 0 stands for
    /// it.
    #[must_use]
    pub const fn error_code(&self) -> u32 {
        match self {
            Self::PageFault { code } => code.bits(),
            Self::GeneralProtection | Self::StackSegment | Self::MachineCheck | Self::Exit(_) => 0,
        }
    }

    /// The same fault of an access through the stack segment: #SS instead of #GP. [`Access`]
    /// does not say through which segment it is made; who decodes the instruction knows.
    ///
    /// [`Access`]: crate::access::Access
    #[must_use]
    pub const fn of_stack_access(self) -> Self {
        match self {
            Self::GeneralProtection => Self::StackSegment,
            other => other,
        }
    }
}

impl fmt::Display for ErrorCode {
    /// The reason in words: `write by user to a present page`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.contains(Self::FETCH) {
            "instruction fetch"
        } else if self.contains(Self::WRITE) {
            "write"
        } else {
            "read"
        };
        let who = if self.contains(Self::USER) {
            "user"
        } else {
            "supervisor"
        };
        let why = if self.contains(Self::RESERVED) {
            "reserved bit set"
        } else if self.contains(Self::KEY) {
            "protection key"
        } else if self.contains(Self::PRESENT) {
            "protection violation"
        } else {
            "not present"
        };
        write!(f, "{who} {what}, {why}")?;
        for (flag, name) in [
            (Self::SHADOW_STACK, "shadow stack"),
            (Self::SGX, "SGX"),
            (Self::RMP, "RMP"),
        ] {
            if self.contains(flag) {
                write!(f, ", {name}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PageFault { code } => write!(f, "#PF({:#x}): {code}", code.bits()),
            Self::GeneralProtection => f.write_str("#GP(0): address not canonical"),
            Self::StackSegment => f.write_str("#SS(0): stack address not canonical"),
            Self::MachineCheck => f.write_str("#MC: a paging-structure entry cannot be read"),
            Self::Exit(exit) => exit.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}
