//! The second dimension of a guest's translation: Intel's extended page tables (SDM vol. 3C 29.3)
//! and AMD's nested paging (APM vol. 2 15.25).
//!
//! Every guest-physical address of a walk, those of the guest's tables and the one it ends with,
//! is translated by tables of the host. The walker descends through both kinds of tables with
//! the same code; here is what the host's entries mean and how a refusal is reported.

use std::fmt;

use bitflags::bitflags;

use super::entry::{Entry, EntryBits, TableAttrs};
use super::registers::{Cr4, Efer, GigabytePages};
use super::{Context, walk};
use crate::access::{Access, AccessKind};
use crate::addr::{Level, Pa, PageSize, Va};

/// Whether and how guest-physical addresses are translated.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub enum Nesting {
    /// They are physical addresses.
    #[default]
    Off,
    /// By extended page tables.
    Ept(Ept),
    /// By nested page tables.
    Npt(Npt),
}

/// What an Intel processor's EPT depends on.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Ept {
    /// The EPT pointer: bits 5:3 the walk's length less one, bit 6 accessed and dirty flags.
    pub eptp: u64,
    /// The VM-execution control "mode-based execute control for EPT".
    pub mode_based_execute: bool,
    /// IA32_VMX_EPT_VPID_CAP bit 0: entries may allow execution alone.
    pub execute_only: bool,
}

/// What an AMD processor's nested paging depends on: the host's registers, in the host's format.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Npt {
    /// nCR3.
    pub cr3: u64,
    /// The host's CR4: LA57 sets the number of levels.
    pub cr4: u64,
    /// The host's EFER: NXE.
    pub efer: u64,
}

/// For what a guest-physical address is translated.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// To read an entry of a guest table.
    TableRead,
    /// To set flags in one.
    TableWrite,
    /// For the guest's access itself, to a page that the guest's entries give to user mode or not.
    Final { user_page: bool },
}

bitflags! {
    /// The exit qualification of an EPT violation (SDM vol. 3C, table 28-7).
    #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
    pub struct Qualification: u64 {
        /// The access was a read.
        const READ = 1 << 0;
        /// It was a write.
        const WRITE = 1 << 1;
        /// It was a fetch.
        const FETCH = 1 << 2;
        /// The host's entries together allow reads.
        const READABLE = 1 << 3;
        /// They allow writes.
        const WRITABLE = 1 << 4;
        /// They allow execution (with mode-based control: in supervisor mode).
        const EXECUTABLE = 1 << 5;
        /// With mode-based control: they allow execution in user mode.
        const USER_EXECUTABLE = 1 << 6;
        /// There is a guest linear address.
        const LINEAR_VALID = 1 << 7;
        /// The address is the linear address's translation; if clear, that of a guest table.
        const FINAL = 1 << 8;
    }
}

bitflags! {
    /// EXITINFO1 of a nested page fault (APM vol. 2 15.25.6).
    #[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
    pub struct NestedInfo: u64 {
        /// The host's entries were present.
        const PRESENT = 1 << 0;
        /// The access was a write; reads of guest tables count as such.
        const WRITE = 1 << 1;
        /// The access was made as a user: always set.
        const USER = 1 << 2;
        /// A reserved bit was set in an entry of the host.
        const RESERVED = 1 << 3;
        /// The access was a fetch.
        const FETCH = 1 << 4;
        /// The address is the guest's final physical address.
        const FINAL = 1 << 32;
        /// The address is that of a guest table.
        const TABLE = 1 << 33;
    }
}

/// A translation that ends with the host.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum VmExit {
    /// An EPT violation.
    EptViolation {
        /// What was tried and what is allowed.
        qualification: Qualification,
        /// The guest-physical address.
        guest_physical: Pa,
        /// The guest linear address.
        linear: Va,
    },
    /// An EPT entry that no processor accepts.
    EptMisconfiguration {
        /// The guest-physical address.
        guest_physical: Pa,
    },
    /// #VMEXIT(NPF).
    NestedPageFault {
        /// EXITINFO1.
        info: NestedInfo,
        /// EXITINFO2: the guest-physical address.
        guest_physical: Pa,
    },
}

impl fmt::Display for VmExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EptViolation {
                qualification,
                guest_physical,
                ..
            } => write!(
                f,
                "EPT violation at {guest_physical}, qualification {:#x}",
                qualification.bits()
            ),
            Self::EptMisconfiguration { guest_physical } => {
                write!(f, "EPT misconfiguration at {guest_physical}")
            }
            Self::NestedPageFault {
                info,
                guest_physical,
            } => write!(
                f,
                "nested page fault at {guest_physical}, EXITINFO1 {:#x}",
                info.bits()
            ),
        }
    }
}

/// The memory types that a leaf of EPT may name in bits 5:3: UC, WC, WT, WP and WB.
const EPT_MEMORY_TYPES: [u64; 5] = [0, 1, 4, 5, 6];
const EPT_READ: u64 = 1 << 0;
const EPT_WRITE: u64 = 1 << 1;
const EPT_EXECUTE: u64 = 1 << 2;
const EPT_LARGE: u64 = 1 << 7;
const EPT_USER_EXECUTE: u64 = 1 << 10;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

impl Ept {
    /// EPTP bit 6.
    const fn accessed_and_dirty(&self) -> bool {
        self.eptp & 1 << 6 != 0
    }

    /// EPTP bits 5:3 hold the number of levels less one: 4, or else 3.
    const fn root_level(&self) -> Level {
        if self.eptp >> 3 & 7 == 4 {
            Level::Minus1
        } else {
            Level::L0
        }
    }

    /// What one entry takes away.
    fn denied(&self, raw: u64) -> TableAttrs {
        let user = if self.mode_based_execute {
            EPT_USER_EXECUTE
        } else {
            EPT_EXECUTE
        };
        let mut denied = TableAttrs::empty();
        denied.set(TableAttrs::HOST_NO_READ, raw & EPT_READ == 0);
        denied.set(TableAttrs::HOST_NO_WRITE, raw & EPT_WRITE == 0);
        denied.set(TableAttrs::HOST_NO_EXECUTE, raw & EPT_EXECUTE == 0);
        denied.set(TableAttrs::HOST_NO_USER_EXECUTE, raw & user == 0);
        denied
    }

    /// Decodes an entry (29.3.2): absent if it allows nothing, reserved if misconfigured
    /// (29.3.3.1).
    fn decode(&self, context: &Context, level: Level, raw: u64) -> Entry {
        let denied = self.denied(raw);
        if denied == TableAttrs::HOST {
            return Entry::NotPresent;
        }
        let size = match level {
            Level::L3 => Some(PageSize::Size4K),
            Level::L2 if raw & EPT_LARGE != 0 => Some(PageSize::Size2M),
            Level::L1 if raw & EPT_LARGE != 0 => Some(PageSize::Size1G),
            _ => None,
        };
        let unreadable = denied.contains(TableAttrs::HOST_NO_READ);
        let writable = !denied.contains(TableAttrs::HOST_NO_WRITE);
        let memory_type = raw >> 3 & 7;
        let beyond_physical = ADDRESS & !((1 << context.physical_bits.bits()) - 1);
        let reserved = match size {
            Some(size) => beyond_physical | ADDRESS & (size.bytes() - 1),
            // Bits 6:3, and 7 where no page is that large.
            None if level <= Level::L0 => beyond_physical | 0xf8,
            None => beyond_physical | 0x78,
        };
        if unreadable && (writable || !self.execute_only)
            || raw & reserved != 0
            || size.is_some() && !EPT_MEMORY_TYPES.contains(&memory_type)
            || size == Some(PageSize::Size1G) && context.gigabyte_pages == GigabytePages::Absent
        {
            return Entry::Reserved;
        }
        match size {
            Some(size) => Entry::Leaf(Pa::new(raw & ADDRESS), size),
            None => Entry::Table(Pa::new(raw & ADDRESS)),
        }
    }
}

impl Npt {
    /// The host's registers as the format of its tables depends on them.
    fn host(&self, guest: &Context) -> Context {
        Context {
            cr3: self.cr3,
            cr4: self.cr4,
            efer: self.efer,
            nesting: Nesting::Off,
            ..*guest
        }
    }

    /// What one entry takes away. All accesses are a user's (15.25.5).
    fn denied(raw: u64) -> TableAttrs {
        let bits = EntryBits::from_bits_truncate(raw);
        let mut denied = TableAttrs::empty();
        let user = bits.contains(EntryBits::USER);
        let execute = user && !bits.contains(EntryBits::NO_EXECUTE);
        denied.set(TableAttrs::HOST_NO_READ, !user);
        denied.set(
            TableAttrs::HOST_NO_WRITE,
            !(user && bits.contains(EntryBits::WRITABLE)),
        );
        denied.set(TableAttrs::HOST_NO_EXECUTE, !execute);
        denied.set(TableAttrs::HOST_NO_USER_EXECUTE, !execute);
        denied
    }
}

/// A guest-physical address could not be used: the host's entries are absent, malformed, or
/// take away (`denied`) what was tried.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    Absent,
    Malformed,
    Denied(TableAttrs),
}

impl Nesting {
    /// Where the host's tables start.
    pub(super) fn root(&self, context: &Context) -> Option<(Level, Pa)> {
        match self {
            Self::Off => None,
            Self::Ept(ept) => Some((ept.root_level(), Pa::new(ept.eptp & ADDRESS))),
            Self::Npt(npt) => {
                let root = walk::root(&npt.host(context));
                Some((root.level, root.base))
            }
        }
    }

    /// What a host's entry is.
    pub(super) fn decode(&self, context: &Context, level: Level, raw: u64) -> Entry {
        match self {
            Self::Off => Entry::NotPresent,
            Self::Ept(ept) => ept.decode(context, level, raw),
            Self::Npt(npt) => Entry::decode(&npt.host(context), level, raw),
        }
    }

    /// What a host's entry takes away.
    pub(super) fn denied(&self, raw: u64) -> TableAttrs {
        match self {
            Self::Off => TableAttrs::empty(),
            Self::Ept(ept) => ept.denied(raw),
            Self::Npt(_) => Npt::denied(raw),
        }
    }

    /// The accessed and dirty flags of a host's entry, if hardware keeps them.
    pub(super) const fn flags(&self) -> Option<(u64, u64)> {
        match self {
            Self::Ept(ept) if ept.accessed_and_dirty() => Some((1 << 8, 1 << 9)),
            Self::Npt(_) => Some((1 << 5, 1 << 6)),
            _ => None,
        }
    }

    /// Whether `why` writes, as far as the host is concerned: with EPT's accessed and dirty flags
    /// (29.3.5) and with nested paging (15.25.6) each access to a guest's table does.
    pub(super) fn writes(&self, why: Use, access: &Access) -> bool {
        match why {
            Use::TableWrite => true,
            Use::TableRead => self.flags().is_some(),
            Use::Final { .. } => access.kind.is_write(),
        }
    }

    /// What `why` needs, as bits that must not be denied.
    pub(super) fn needs(&self, why: Use, access: &Access) -> TableAttrs {
        match why {
            _ if self.writes(why, access) => TableAttrs::HOST_NO_WRITE,
            Use::Final { user_page } if access.kind == AccessKind::Fetch => {
                if user_page {
                    TableAttrs::HOST_NO_USER_EXECUTE
                } else {
                    TableAttrs::HOST_NO_EXECUTE
                }
            }
            _ => TableAttrs::HOST_NO_READ,
        }
    }

    /// The exit that `refusal` causes.
    pub(super) fn exit(&self, why: Use, access: &Access, at: Pa, refusal: Refusal) -> VmExit {
        let writes = self.writes(why, access);
        let is_final = matches!(why, Use::Final { .. });
        let fetch = is_final && access.kind == AccessKind::Fetch;
        match self {
            Self::Npt(npt) => {
                let mut info = NestedInfo::USER;
                info.set(NestedInfo::PRESENT, refusal != Refusal::Absent);
                info.set(NestedInfo::RESERVED, refusal == Refusal::Malformed);
                info.set(NestedInfo::WRITE, writes);
                let reported = Efer::from_bits_truncate(npt.efer).contains(Efer::NXE)
                    || Cr4::from_bits_truncate(npt.cr4).contains(Cr4::SMEP);
                info.set(NestedInfo::FETCH, fetch && reported);
                info.set(NestedInfo::FINAL, is_final);
                info.set(NestedInfo::TABLE, !is_final);
                VmExit::NestedPageFault {
                    info,
                    guest_physical: at,
                }
            }
            _ if refusal == Refusal::Malformed => {
                VmExit::EptMisconfiguration { guest_physical: at }
            }
            _ => {
                let denied = match refusal {
                    Refusal::Denied(denied) => denied,
                    _ => TableAttrs::HOST,
                };
                let mut bits = Qualification::LINEAR_VALID;
                bits.set(Qualification::FINAL, is_final);
                bits.set(Qualification::WRITE, writes);
                bits.set(Qualification::FETCH, fetch);
                // Reads of tables that count as writes are reported as both.
                let reads = why == Use::TableRead || is_final && access.kind == AccessKind::Load;
                bits.set(Qualification::READ, reads);
                let mode_based = matches!(self, Self::Ept(ept) if ept.mode_based_execute);
                for (bit, denial, reported) in [
                    (Qualification::READABLE, TableAttrs::HOST_NO_READ, true),
                    (Qualification::WRITABLE, TableAttrs::HOST_NO_WRITE, true),
                    (Qualification::EXECUTABLE, TableAttrs::HOST_NO_EXECUTE, true),
                    (
                        Qualification::USER_EXECUTABLE,
                        TableAttrs::HOST_NO_USER_EXECUTE,
                        mode_based,
                    ),
                ] {
                    bits.set(bit, reported && !denied.contains(denial));
                }
                VmExit::EptViolation {
                    qualification: bits,
                    guest_physical: at,
                    linear: access.va,
                }
            }
        }
    }
}

/// Whether `address` lies beyond what tables below a root at `level` can translate: 48 bits with
/// four levels.
pub(super) fn exceeds_reach(level: Level, address: Pa) -> bool {
    level == Level::L0 && address.raw() >> 48 != 0
}
