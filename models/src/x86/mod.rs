//! x86-64 paging: registers, entries, the walker and invalidation.
//!
//! ```text
//! registers     typed views of CR0, CR4, EFER; PCIDs; protection key registers
//! entry         the 64 bits of an entry; attributes that a translation keeps
//! permission    who may do what
//! walk          the walker
//! nested        the host's tables: EPT and nested paging, and their exits
//! fault         exceptions and error codes
//! flush         what INVLPG, INVPCID, MOV CRn and page faults remove
//! broadcast     what INVLPGB removes, on every processor
//! ```
//!
//! Paging on means 4-level or 5-level paging, as in 64-bit mode: CR4.PAE and EFER.LMA are taken
//! for granted. Linear-address masking and shadow stacks are not modelled.

mod broadcast;
mod entry;
mod fault;
mod flush;
mod nested;
mod permission;
mod registers;
mod walk;

use crate::access::{Access, Privilege, Rights};
use crate::addr::{Level, PageSize, Va};
use crate::arch::{
    Arch, Descriptor, Footprint, Half, Leaf, Lookup, Reach, Root, TablePointer, Verdict,
    WalkVisitor,
};
use crate::counters::{MaintenanceClass, MaintenanceKind};
use crate::memory::TableMemory;

pub use broadcast::{Asid, Invlpgb, InvlpgbError, Run, Stride};
pub use entry::{Attrs, EntryBits, TableAttrs};
pub use fault::{ErrorCode, Fault};
pub use flush::{Flush, InvpcidError, mov_cr0, mov_cr3, mov_cr4};
pub use nested::{Ept, NestedInfo, Nesting, Npt, Qualification, VmExit};
pub use registers::{Cr0, Cr4, Efer, GigabytePages, Pcid, PhysicalBits};

use entry::Entry;

/// The registers that paging depends on, raw.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Context {
    /// CR0.
    pub cr0: u64,
    /// CR3.
    pub cr3: u64,
    /// CR4.
    pub cr4: u64,
    /// IA32_EFER.
    pub efer: u64,
    /// RFLAGS.AC, which lets supervisor code past SMAP.
    pub ac: bool,
    /// PKRU.
    pub pkru: u32,
    /// IA32_PKRS.
    pub pkrs: u32,
    /// MAXPHYADDR of the processor.
    pub physical_bits: PhysicalBits,
    /// Whether the processor has 1 GiB pages.
    pub gigabyte_pages: GigabytePages,
    /// The host's tables, if the processor runs a guest.
    pub nesting: Nesting,
}

impl Context {
    /// The current PCID: CR3 bits 11:0 with CR4.PCIDE, else 0.
    #[must_use]
    pub fn pcid(&self) -> Pcid {
        if Cr4::from_bits_truncate(self.cr4).contains(Cr4::PCIDE) {
            Pcid::from_low_bits(self.cr3)
        } else {
            Pcid::ZERO
        }
    }

    /// The registers as an implicit supervisor-mode access sees them: reads of the descriptor
    /// tables and the task-state segment, at any privilege level. RFLAGS.AC does not let them
    /// past SMAP (SDM vol. 3A 4.6.1). Such an access is made with [`Privilege::Supervisor`].
    #[must_use]
    pub const fn for_implicit_access(self) -> Self {
        Self { ac: false, ..self }
    }
}

/// The architecture.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct X86_64;

impl Arch for X86_64 {
    const NAME: &'static str = "x86_64";

    type Tag = Pcid;
    type Context = Context;
    type Attrs = Attrs;
    type TableAttrs = TableAttrs;
    type Fault = Fault;
    type Invalidation = Flush;

    fn before_lookup(context: &Context, access: &Access) -> Result<Lookup<Pcid>, Fault> {
        walk::before_lookup(context, access)
    }

    fn check(leaf: &Leaf<Self>, context: &Context, access: &Access) -> Verdict<Fault> {
        let permitted = permission::permitted(&leaf.attrs, context, access.privilege);
        if !permission::includes(permitted, access.kind) {
            return Verdict::Fault(permission::violation(&leaf.attrs, context, access));
        }
        // What the host refuses, it refuses with the guest-physical address: a walk finds it.
        let by_host = permission::includes(permission::host(&leaf.attrs), access.kind);
        if !by_host || access.kind.is_write() && !leaf.attrs.dirty {
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

    fn descriptor(context: &Context, _half: Half, level: Level, raw: u64) -> Descriptor {
        match Entry::decode(context, level, raw) {
            Entry::NotPresent | Entry::Reserved => Descriptor::Invalid,
            Entry::Table(base) => Descriptor::Table(base),
            Entry::Leaf(pa, size) => Descriptor::Leaf {
                pa,
                size,
                contiguous: false,
            },
        }
    }

    fn roots(context: &Context) -> [Option<Root>; 2] {
        if !Cr0::from_bits_truncate(context.cr0).contains(Cr0::PG) {
            return [None, None];
        }
        let TablePointer { level, base, .. } = walk::root(context);
        let root = |first, end, half| {
            Some(Root {
                base,
                level,
                first,
                end,
                half,
            })
        };
        [root(0, 256, Half::Lower), root(256, 512, Half::Upper)]
    }

    fn span_shift(_context: &Context, _half: Half, level: Level) -> u32 {
        walk::span_shift(level)
    }

    fn invalidated_by_fault(fault: &Fault, context: &Context, access: &Access) -> Option<Flush> {
        matches!(fault, Fault::PageFault { .. } | Fault::Exit(_)).then(|| Flush::PageFault {
            va: access.va,
            pcid: context.pcid(),
        })
    }

    fn class(op: &Flush) -> MaintenanceClass {
        let kind = match op {
            Flush::Invlpg { .. } => MaintenanceKind::Invlpg,
            Flush::InvpcidAddress { .. } => MaintenanceKind::InvpcidAddress,
            Flush::InvpcidContext { .. } => MaintenanceKind::InvpcidContext,
            Flush::InvpcidAll => MaintenanceKind::InvpcidAll,
            Flush::InvpcidAllNonGlobal => MaintenanceKind::InvpcidAllNonGlobal,
            Flush::Cr3 { .. } => MaintenanceKind::Cr3,
            Flush::Everything | Flush::Cr4Context { .. } => MaintenanceKind::Cr4,
            Flush::PageFault { .. } | Flush::Broadcast(_) => MaintenanceKind::Other,
        };
        MaintenanceClass { kind, pages: 0 }
    }

    fn reach(op: &Flush) -> Reach {
        match op {
            Flush::Broadcast(_) => Reach::OuterShareable,
            _ => Reach::Local,
        }
    }

    fn footprint(op: &Flush) -> Footprint {
        flush::footprint(op)
    }

    fn removes(op: &Flush, leaf: &Leaf<Self>, held: PageSize) -> bool {
        flush::removes(op, leaf, held)
    }

    fn removes_pointer(
        op: &Flush,
        tag: Pcid,
        va: Va,
        _pointer: &TablePointer<Self>,
        span_shift: u32,
    ) -> bool {
        flush::removes_pointer(op, tag, va, span_shift)
    }
}
