//! Invalidation as values: what each instruction removes (Intel SDM vol. 3A 4.10.4.1).
//!
//! As with AArch64, a value removes what it must and no more, with the exception that INVLPG,
//! INVPCID 0 and a page fault differ in how much of the paging-structure caches they drop, and
//! real processors are known to do exactly what is written there.

use std::fmt;

use thiserror::Error;

use super::registers::{Cr0, Cr4, Pcid};
use super::walk::is_canonical;
use super::{Context, X86_64};
use crate::addr::{PageSize, Va};
use crate::arch::{Footprint, Leaf, Scope};

/// One invalidation.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Flush {
    /// INVLPG: leaves for the address under the current PCID or global, and every cached table
    /// pointer of the current PCID.
    Invlpg {
        /// The address.
        va: Va,
        /// The current PCID.
        pcid: Pcid,
    },
    /// INVPCID type 0: non-global leaves for one address in one PCID, and the table pointers that
    /// lead to it.
    InvpcidAddress {
        /// The address.
        va: Va,
        /// The PCID named by the descriptor.
        pcid: Pcid,
    },
    /// INVPCID type 1: everything non-global of one PCID.
    InvpcidContext {
        /// The PCID named by the descriptor.
        pcid: Pcid,
    },
    /// INVPCID type 2: everything, global pages included.
    InvpcidAll,
    /// INVPCID type 3: everything but global pages.
    InvpcidAllNonGlobal,
    /// MOV to CR3 with bit 63 clear (or without PCIDs): everything non-global of the new PCID.
    Cr3 {
        /// The new PCID; 0 without CR4.PCIDE.
        pcid: Pcid,
    },
    /// MOV to CR4 that changes PGE or LA57 or clears PCIDE, or to CR0 that clears PG:
    /// everything, global pages included.
    Everything,
    /// MOV to CR4 that changes PAE or sets SMEP: everything non-global of the current PCID.
    Cr4Context {
        /// The current PCID.
        pcid: Pcid,
    },
    /// A page fault: leaves for the address under the current PCID or global, and the table
    /// pointers that lead to it.
    PageFault {
        /// The faulting address.
        va: Va,
        /// The current PCID.
        pcid: Pcid,
    },
}

/// INVPCID was given a type or descriptor that raises #GP(0).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
pub enum InvpcidError {
    /// The type register holds more than 3.
    #[error("INVPCID type {0} does not exist")]
    Type(u64),
    /// Descriptor bits 63:12 are not zero.
    #[error("INVPCID descriptor {0:#x} has reserved bits set")]
    Descriptor(u64),
    /// The PCID is not zero while CR4.PCIDE is clear.
    #[error("INVPCID names PCID {0}, but CR4.PCIDE is clear")]
    PcidsOff(Pcid),
    /// Type 0 with an address that is not canonical.
    #[error("INVPCID names {0}, which is not canonical")]
    Address(Va),
}

impl Flush {
    /// Decodes INVPCID: its type register and the two words of its memory descriptor.
    ///
    /// # Errors
    /// [`InvpcidError`] where the instruction raises #GP(0).
    pub fn invpcid(
        context: &Context,
        kind: u64,
        descriptor: [u64; 2],
    ) -> Result<Self, InvpcidError> {
        let [low, address] = descriptor;
        if low >> 12 != 0 {
            return Err(InvpcidError::Descriptor(low));
        }
        let (pcid, va) = (Pcid::from_low_bits(low), Va::new(address));
        let names_pcid = kind < 2 && pcid != Pcid::ZERO;
        if names_pcid && !Cr4::from_bits_truncate(context.cr4).contains(Cr4::PCIDE) {
            return Err(InvpcidError::PcidsOff(pcid));
        }
        match kind {
            0 if !is_canonical(context, va) => Err(InvpcidError::Address(va)),
            0 => Ok(Self::InvpcidAddress { va, pcid }),
            1 => Ok(Self::InvpcidContext { pcid }),
            2 => Ok(Self::InvpcidAll),
            3 => Ok(Self::InvpcidAllNonGlobal),
            _ => Err(InvpcidError::Type(kind)),
        }
    }

    /// INVLPG of `va` under the current PCID.
    #[must_use]
    pub fn invlpg(context: &Context, va: Va) -> Self {
        Self::Invlpg {
            va,
            pcid: context.pcid(),
        }
    }

    /// The one address that it concerns, if it does not concern all.
    const fn address(&self) -> Option<Va> {
        match *self {
            Self::Invlpg { va, .. }
            | Self::InvpcidAddress { va, .. }
            | Self::PageFault { va, .. } => Some(va),
            _ => None,
        }
    }

    /// Whether leaves of `scope` are concerned.
    fn names_scope(&self, scope: &Scope<Pcid>) -> bool {
        match *self {
            Self::Invlpg { pcid, .. } | Self::PageFault { pcid, .. } => scope.admits(&pcid),
            Self::InvpcidAddress { pcid, .. }
            | Self::InvpcidContext { pcid }
            | Self::Cr3 { pcid }
            | Self::Cr4Context { pcid } => *scope == Scope::Tagged(pcid),
            Self::InvpcidAll | Self::Everything => true,
            Self::InvpcidAllNonGlobal => *scope != Scope::Global,
        }
    }
}

/// MOV to CR0: writes it and says what that removes.
#[must_use = "the flush has to be applied to the core's TLBs"]
pub fn mov_cr0(context: &mut Context, value: u64) -> Option<Flush> {
    let cleared = Cr0::from_bits_truncate(context.cr0 & !value);
    context.cr0 = value;
    cleared.contains(Cr0::PG).then_some(Flush::Everything)
}

/// MOV to CR3: writes it (bit 63 is not stored) and says what that removes.
#[must_use = "the flush has to be applied to the core's TLBs"]
pub fn mov_cr3(context: &mut Context, value: u64) -> Option<Flush> {
    const NO_FLUSH: u64 = 1 << 63;
    let pcids = Cr4::from_bits_truncate(context.cr4).contains(Cr4::PCIDE);
    context.cr3 = value & !NO_FLUSH;
    let keeps = pcids && value & NO_FLUSH != 0;
    (!keeps).then(|| Flush::Cr3 {
        pcid: context.pcid(),
    })
}

/// MOV to CR4: writes it and says what that removes.
#[must_use = "the flush has to be applied to the core's TLBs"]
pub fn mov_cr4(context: &mut Context, value: u64) -> Option<Flush> {
    let pcid = context.pcid();
    let old = Cr4::from_bits_truncate(context.cr4);
    let new = Cr4::from_bits_truncate(value);
    context.cr4 = value;
    let changed = old ^ new;
    let set = new - old;
    if changed.intersects(Cr4::PGE | Cr4::LA57) || (old - new).contains(Cr4::PCIDE) {
        Some(Flush::Everything)
    } else if changed.contains(Cr4::PAE) || set.contains(Cr4::SMEP) {
        Some(Flush::Cr4Context { pcid })
    } else {
        None
    }
}

/// See [`crate::arch::Arch::footprint`].
pub(super) const fn footprint(op: &Flush) -> Footprint {
    match op.address() {
        Some(va) => Footprint::Addresses {
            first: va,
            last: va,
        },
        None => Footprint::Everywhere,
    }
}

/// See [`crate::arch::Arch::removes`].
pub(super) fn removes(op: &Flush, leaf: &Leaf<X86_64>, held: PageSize) -> bool {
    // A large page held in pieces loses all of them (4.10.2.3, 4.10.4.1).
    let size = held.max(leaf.size);
    op.names_scope(&leaf.scope)
        && op
            .address()
            .is_none_or(|va| va.page_base(size) == leaf.va.page_base(size))
}

/// See [`crate::arch::Arch::removes_pointer`]. Cached pointers are never global.
pub(super) fn removes_pointer(op: &Flush, tag: Pcid, va: Va, span_shift: u32) -> bool {
    let leads_to = |address: Va| address.raw() >> span_shift == va.raw() >> span_shift;
    match *op {
        Flush::Invlpg { pcid, .. }
        | Flush::InvpcidContext { pcid }
        | Flush::Cr3 { pcid }
        | Flush::Cr4Context { pcid } => pcid == tag,
        Flush::InvpcidAddress { va, pcid } | Flush::PageFault { va, pcid } => {
            pcid == tag && leads_to(va)
        }
        Flush::InvpcidAll | Flush::InvpcidAllNonGlobal | Flush::Everything => true,
    }
}

impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invlpg { va, pcid } => write!(f, "invlpg {va} (pcid {pcid})"),
            Self::InvpcidAddress { va, pcid } => write!(f, "invpcid 0 {va} pcid {pcid}"),
            Self::InvpcidContext { pcid } => write!(f, "invpcid 1 pcid {pcid}"),
            Self::InvpcidAll => f.write_str("invpcid 2"),
            Self::InvpcidAllNonGlobal => f.write_str("invpcid 3"),
            Self::Cr3 { pcid } => write!(f, "mov cr3 (pcid {pcid})"),
            Self::Everything => f.write_str("full flush (CR0 or CR4)"),
            Self::Cr4Context { pcid } => write!(f, "mov cr4 (pcid {pcid})"),
            Self::PageFault { va, pcid } => write!(f, "#PF at {va} (pcid {pcid})"),
        }
    }
}
