//! Invalidation as values: what each instruction removes (Intel SDM vol. 3A 4.10.4.1).
//!
//! As with AArch64, a value removes what it must and no more, with the exception that INVLPG,
//! INVPCID 0 and a page fault differ in how much of the paging-structure caches they drop, and
//! real processors are known to do exactly what is written there.

use std::fmt;

use thiserror::Error;

use super::broadcast::Invlpgb;
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
    /// INVLPGB, on every processor.
    Broadcast(Invlpgb),
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

    /// INVLPG of `va` under the current PCID. An address that is not canonical has no
    /// translations; of it the instruction still drops the table pointers here, which the
    /// architecture allows (it is a NOP there).
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
            Self::InvpcidAllNonGlobal => !scope.is_global(),
            Self::Broadcast(_) => false,
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
pub(super) fn footprint(op: &Flush) -> Footprint {
    if let Flush::Broadcast(op) = op {
        return op.footprint();
    }
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
    if let Flush::Broadcast(op) = op {
        return op.removes(leaf, held);
    }
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
        Flush::Broadcast(op) => op.removes_pointer(tag),
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
            Self::Broadcast(op) => op.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{Level, Pa};
    use crate::arch::MachineId;
    use crate::x86::{Attrs, TableAttrs};

    const VA: Va = Va::new(0x7f00_1234_5000);
    const NEXT: Va = Va::new(0x7f00_1254_5000);

    fn pcid(raw: u64) -> Pcid {
        Pcid::from_low_bits(raw)
    }

    fn leaf(va: Va, scope: Scope<Pcid>) -> Leaf<X86_64> {
        Leaf {
            va,
            pa: Pa::new(0x4000_0000),
            size: PageSize::Size4K,
            level: Level::L3,
            group: None,
            scope,
            attrs: Attrs {
                denied: TableAttrs::empty(),
                dirty: false,
                key: 0,
                pat_index: 0,
            },
        }
    }

    /// Leaves: the address in PCID 5, the same in PCID 6, global; another address in PCID 5.
    /// Pointers: for the address in PCID 5, in PCID 6; for another address in PCID 5.
    fn removed(op: Flush) -> ([bool; 4], [bool; 3]) {
        let own = Scope::Tagged(pcid(5));
        let leaves = [
            leaf(VA, own),
            leaf(VA, Scope::Tagged(pcid(6))),
            leaf(VA, Scope::Global(MachineId::ZERO)),
            leaf(NEXT, own),
        ];
        let pointers = [(5, VA), (6, VA), (5, NEXT)];
        (
            leaves.map(|leaf| removes(&op, &leaf, leaf.size)),
            pointers.map(|(tag, va)| removes_pointer(&op, pcid(tag), va, 21)),
        )
    }

    #[test]
    fn each_operation_removes_what_the_manual_says() {
        let (va, five) = (VA, pcid(5));
        let (yes, no) = (true, false);
        for (op, leaves, pointers) in [
            (
                Flush::Invlpg { va, pcid: five },
                [yes, no, yes, no],
                [yes, no, yes],
            ),
            (
                Flush::InvpcidAddress { va, pcid: five },
                [yes, no, no, no],
                [yes, no, no],
            ),
            (
                Flush::InvpcidContext { pcid: five },
                [yes, no, no, yes],
                [yes, no, yes],
            ),
            (Flush::InvpcidAll, [yes; 4], [yes; 3]),
            (Flush::InvpcidAllNonGlobal, [yes, yes, no, yes], [yes; 3]),
            (
                Flush::Cr3 { pcid: five },
                [yes, no, no, yes],
                [yes, no, yes],
            ),
            (Flush::Everything, [yes; 4], [yes; 3]),
            (
                Flush::Cr4Context { pcid: five },
                [yes, no, no, yes],
                [yes, no, yes],
            ),
            (
                Flush::PageFault { va, pcid: five },
                [yes, no, yes, no],
                [yes, no, no],
            ),
        ] {
            assert_eq!(removed(op), (leaves, pointers), "{op}");
        }
    }

    #[test]
    fn all_pieces_of_a_large_page_go() {
        let large = Leaf {
            va: VA.page_base(PageSize::Size2M),
            size: PageSize::Size2M,
            level: Level::L2,
            ..leaf(VA, Scope::Global(MachineId::ZERO))
        };
        let op = Flush::Invlpg {
            va: VA,
            pcid: Pcid::ZERO,
        };
        assert!(removes(&op, &large, PageSize::Size4K));
        assert!(removes(&op, &large, PageSize::Size2M));
    }

    #[test]
    fn mov_cr3_flushes_the_new_pcid_unless_bit_63_says_not() {
        let mut context = Context::default();
        assert_eq!(
            mov_cr3(&mut context, 0x1005),
            Some(Flush::Cr3 { pcid: Pcid::ZERO })
        );
        context.cr4 = Cr4::PCIDE.bits();
        assert_eq!(
            mov_cr3(&mut context, 0x2007),
            Some(Flush::Cr3 { pcid: pcid(7) })
        );
        assert_eq!(mov_cr3(&mut context, 1 << 63 | 0x3009), None);
        assert_eq!((context.cr3, context.pcid()), (0x3009, pcid(9)));
    }

    #[test]
    fn mov_cr4_and_cr0_flush_when_modes_change() {
        let flush = |old: Cr4, new: Cr4| {
            let mut context = Context {
                cr4: old.bits(),
                cr3: 5,
                ..Context::default()
            };
            let flush = mov_cr4(&mut context, new.bits());
            assert_eq!(context.cr4, new.bits());
            flush
        };
        let all = Some(Flush::Everything);
        assert_eq!(flush(Cr4::PGE, Cr4::empty()), all);
        assert_eq!(flush(Cr4::empty(), Cr4::PGE), all);
        assert_eq!(flush(Cr4::PCIDE, Cr4::empty()), all);
        assert_eq!(flush(Cr4::empty(), Cr4::PCIDE), None);
        let current = Some(Flush::Cr4Context { pcid: pcid(5) });
        assert_eq!(flush(Cr4::PCIDE, Cr4::PCIDE | Cr4::SMEP), current);
        assert_eq!(flush(Cr4::SMEP, Cr4::empty()), None);
        assert_eq!(flush(Cr4::SMAP, Cr4::PKE), None);
        let mut context = Context {
            cr0: Cr0::PG.bits(),
            ..Context::default()
        };
        assert_eq!(mov_cr0(&mut context, 0), all);
        assert_eq!(mov_cr0(&mut context, Cr0::PG.bits()), None);
    }

    #[test]
    fn invpcid_decodes_its_types_and_refuses_bad_operands() {
        let off = Context::default();
        let on = Context {
            cr4: Cr4::PCIDE.bits(),
            ..off
        };
        let bad = 0x8000_0000_0000;
        assert_eq!(
            Flush::invpcid(&on, 0, [5, VA.raw()]),
            Ok(Flush::InvpcidAddress {
                va: VA,
                pcid: pcid(5)
            })
        );
        assert_eq!(
            Flush::invpcid(&on, 1, [5, bad]),
            Ok(Flush::InvpcidContext { pcid: pcid(5) })
        );
        assert_eq!(Flush::invpcid(&off, 2, [5, bad]), Ok(Flush::InvpcidAll));
        assert_eq!(
            Flush::invpcid(&off, 3, [0, 0]),
            Ok(Flush::InvpcidAllNonGlobal)
        );
        assert_eq!(
            Flush::invpcid(&on, 0, [5, bad]),
            Err(InvpcidError::Address(Va::new(bad)))
        );
        assert_eq!(
            Flush::invpcid(&off, 1, [5, 0]),
            Err(InvpcidError::PcidsOff(pcid(5)))
        );
        assert_eq!(
            Flush::invpcid(&on, 1, [0x1000, 0]),
            Err(InvpcidError::Descriptor(0x1000))
        );
        assert_eq!(Flush::invpcid(&on, 4, [0, 0]), Err(InvpcidError::Type(4)));
    }
}
