//! One memory access as the MMU sees it, and what translating it gives.

use crate::addr::{Pa, PageSize, Va};

/// What an access does to memory.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum AccessKind {
    /// A data read.
    Load,
    /// A data write.
    Store,
    /// An instruction fetch.
    Fetch,
}

impl AccessKind {
    /// Whether memory is written.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Store)
    }
}

/// The privilege with which an access is made: EL0 or CPL 3 against EL1 or CPL 0..2.
/// AArch64's unprivileged loads and stores (LDTR, STTR) at EL1 are [`Privilege::User`].
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Privilege {
    /// EL0; CPL 3.
    User,
    /// EL1 and above; CPL 0 to 2, and implicit system accesses at any CPL.
    Supervisor,
}

/// One access.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The first byte.
    pub va: Va,
    /// Load, store or fetch.
    pub kind: AccessKind,
    /// The privilege it is made with.
    pub privilege: Privilege,
}

impl Access {
    /// An access of `kind` at `va` with `privilege`.
    #[must_use]
    pub const fn new(va: Va, kind: AccessKind, privilege: Privilege) -> Self {
        Self {
            va,
            kind,
            privilege,
        }
    }
}

/// Where a translation was found.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum FoundIn {
    /// No translation was needed: the MMU is off and addresses are physical.
    MmuOff,
    /// In the first-level TLB of the access's side (instruction or data).
    L1Tlb,
    /// In the second-level TLB.
    L2Tlb,
    /// By walking the tables.
    Walk,
}

/// What the current privilege may do through a translation *without asking the MMU model again*.
/// `write` is false for a page that is writable but whose dirty state must first be set by a
/// walk (x86 `D`, AArch64 hardware dirty): the first write has to be seen.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Rights {
    /// Loads are allowed.
    pub read: bool,
    /// Stores are allowed and change no table entry.
    pub write: bool,
    /// Fetches are allowed.
    pub execute: bool,
}

/// A successful translation.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Translation {
    /// The physical address of the access's first byte.
    pub pa: Pa,
    /// The size of the entry that gave it; the whole page around the address is translated
    /// alike. With the MMU off, 4 KiB.
    pub size: PageSize,
    /// What the same privilege may do in this page.
    pub rights: Rights,
    /// Where it was found.
    pub found_in: FoundIn,
}
