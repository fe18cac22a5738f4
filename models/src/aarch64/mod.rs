//! AArch64 VMSAv8-64: registers, descriptors, the walker of both stages and TLB maintenance.
//!
//! ```text
//! registers     typed views of TCR_EL1, SCTLR_EL1, MAIR_EL1; ASIDs
//! geometry      granules, start levels, table indices, output address formats
//! descriptor    the 64 bits of an entry; attributes that a translation keeps
//! permission    who may do what
//! walk          the walker
//! stage2        the hypervisor's registers and descriptors; stages combined
//! fault         fault status codes, ESR_EL1
//! tlbi          encodings and mnemonics of every TLBI form
//! maintenance   what a TLBI of this regime must remove
//! ```
//!
//! The regime is EL1&0, Non-secure, without permission indirection or overlays and
//! without 128-bit descriptors.

mod descriptor;
mod fault;
mod geometry;
mod maintenance;
mod permission;
mod registers;
mod rules;
mod stage2;
mod tlbi;
mod walk;

use crate::access::{Access, Privilege, Rights};
use crate::addr::{Level, PageSize, Va};
use crate::arch::{
    Arch, Descriptor, Footprint, Half, Leaf, Lookup, MachineId, Reach, Root, TablePointer, Verdict,
    WalkVisitor,
};
use crate::counters::{MaintenanceClass, MaintenanceKind};
use crate::memory::TableMemory;

pub use descriptor::{Attrs, LeafBits, Permissions, TableAttrs};
pub use fault::{Fault, FaultKind, FaultStage};
pub use geometry::{Format, Geometry};
pub use maintenance::{LeafHint, Tlbi, TlbiKind, TlbiOp, UnknownTlbi};
pub use registers::{Asid, MemoryType, PaRange, Sctlr, Shareability, Tag, Tcr};
pub use stage2::{Stage2, Stage2Denials, TableUse};
pub use tlbi::{Operation, RegimeLevel, SysEncoding, TlbiForm, Unallocated, UnknownMnemonic};

use descriptor::Entry;

/// The registers that translation at EL1&0 depends on, raw.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Context {
    /// SCTLR_EL1.
    pub sctlr: u64,
    /// TCR_EL1.
    pub tcr: u64,
    /// TTBR0_EL1.
    pub ttbr0: u64,
    /// TTBR1_EL1.
    pub ttbr1: u64,
    /// MAIR_EL1.
    pub mair: u64,
    /// The registers of EL2: stage 2, and the VMID.
    pub stage2: Stage2,
    /// PSTATE.PAN.
    pub pan: bool,
    /// What the core implements.
    pub implementation: Implementation,
}

/// What a core implements, where registers alone do not say it.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Implementation {
    /// The physical address size (ID_AA64MMFR0_EL1.PARange). A larger TCR_EL1.IPS is cut to it.
    pub pa_range: PaRange,
    /// A block with nT set gives a translation fault, as FEAT_BBM levels 1 and 2 permit.
    pub nt_faults: bool,
}

impl Context {
    /// The TTBR that serves `half`.
    #[must_use]
    pub const fn ttbr(&self, half: Half) -> u64 {
        match half {
            Half::Lower => self.ttbr0,
            Half::Upper => self.ttbr1,
        }
    }

    /// The current ASID: of the TTBR that TCR_EL1.A1 selects, 8 or 16 bits by TCR_EL1.AS.
    #[must_use]
    pub const fn asid(&self) -> Asid {
        let tcr = Tcr::new(self.tcr);
        Asid::from_bits_63_48(self.ttbr(tcr.asid_half()), tcr.wide_asids())
    }

    /// The current VMID: zero on systems without virtual machines.
    #[must_use]
    pub const fn vmid(&self) -> MachineId {
        self.stage2.vmid()
    }

    /// The current address space.
    #[must_use]
    pub const fn tag(&self) -> Tag {
        Tag::new(self.vmid(), self.asid())
    }
}

/// The architecture.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Aarch64;

impl Arch for Aarch64 {
    const NAME: &'static str = "aarch64";

    type Tag = Tag;
    type Context = Context;
    type Attrs = Attrs;
    type TableAttrs = TableAttrs;
    type Fault = Fault;
    type Invalidation = Tlbi;

    fn canonical(_context: &Context, va: Va) -> Va {
        walk::canonical(va)
    }

    fn before_lookup(context: &Context, access: &Access) -> Result<Lookup<Tag>, Fault> {
        walk::before_lookup(context, access)
    }

    fn check(leaf: &Leaf<Self>, context: &Context, access: &Access) -> Verdict<Fault> {
        let permitted = permission::permitted(&leaf.attrs, context, access.privilege);
        if !permission::includes(permitted, access.kind) {
            return Verdict::Fault(Fault::new(FaultKind::Permission, leaf.level));
        }
        // What stage 2 refuses, it refuses with its own level: a walk finds it.
        let host = leaf.attrs.stage2.permitted(access.privilege);
        let unrecorded = access.kind.is_write() && permission::needs_record(&leaf.attrs);
        if unrecorded || !permission::includes(host, access.kind) {
            Verdict::NeedsUpdate
        } else {
            Verdict::Allowed
        }
    }

    fn rights(leaf: &Leaf<Self>, context: &Context, privilege: Privilege) -> Rights {
        permission::rights(&leaf.attrs, context, privilege)
    }

    fn walk<M: TableMemory, V: WalkVisitor<Self>>(
        context: &Context,
        access: &Access,
        start: Option<TablePointer<Self>>,
        memory: &mut M,
        visitor: &mut V,
    ) -> Result<Leaf<Self>, Fault> {
        walk::walk(context, access, start, memory, visitor)
    }

    fn descriptor(context: &Context, half: Half, level: Level, raw: u64) -> Descriptor {
        let raw = if Sctlr::new(context.sctlr).big_endian() {
            raw.swap_bytes()
        } else {
            raw
        };
        match Format::new(context, half).decode(level, raw) {
            Entry::Invalid => Descriptor::Invalid,
            Entry::Table(base, _) => Descriptor::Table(base),
            Entry::Leaf(pa, size, bits) => Descriptor::Leaf {
                pa,
                size,
                contiguous: bits.contains(LeafBits::CONTIGUOUS),
            },
        }
    }

    fn roots(context: &Context) -> [Option<Root>; 2] {
        let root = |half| {
            let tcr = Tcr::new(context.tcr);
            if !Sctlr::new(context.sctlr).mmu_on() || tcr.walk_disabled(half) {
                return None;
            }
            let geometry = Geometry::new(context, half)?;
            Some(Root {
                base: geometry.root_base(context.ttbr(half)),
                level: geometry.start(),
                first: 0,
                end: usize::try_from(geometry.root_entries()).ok()?,
                half,
            })
        };
        [root(Half::Lower), root(Half::Upper)]
    }

    fn span_shift(context: &Context, half: Half, level: Level) -> u32 {
        Format::new(context, half).span_shift(level)
    }

    fn class(op: &Tlbi) -> MaintenanceClass {
        let kind = match op.kind() {
            TlbiKind::All => MaintenanceKind::TlbiAll,
            TlbiKind::Asid => MaintenanceKind::TlbiAsid,
            TlbiKind::Va => MaintenanceKind::TlbiVa,
            TlbiKind::Vaa => MaintenanceKind::TlbiVaa,
            TlbiKind::Range => MaintenanceKind::TlbiRange,
            TlbiKind::Ipa => MaintenanceKind::Other,
        };
        let pages = op.pages().unwrap_or_default();
        MaintenanceClass { kind, pages }
    }

    fn reach(op: &Tlbi) -> Reach {
        op.reach
    }

    fn footprint(op: &Tlbi) -> Footprint {
        maintenance::footprint(op)
    }

    fn removes(op: &Tlbi, leaf: &Leaf<Self>, held: PageSize) -> bool {
        maintenance::removes(op, leaf, held)
    }

    fn removes_pointer(
        op: &Tlbi,
        tag: Tag,
        va: Va,
        pointer: &TablePointer<Self>,
        span_shift: u32,
    ) -> bool {
        maintenance::removes_pointer(op, tag, va, pointer, span_shift)
    }
}
