//! What an architecture must define so that TLBs, walk caches and systems are generic over it.
//!
//! There is one walker per architecture ([`Arch::walk`]) and many visitors of it: the timed walk,
//! the explaining walk and the table dump all see the same steps.

use std::fmt;
use std::hash::Hash;

use crate::access::{Access, Privilege, Rights};
use crate::addr::{Level, Pa, PageSize, Va};
use crate::counters::MaintenanceClass;
use crate::memory::TableMemory;

/// The machine that an entry belongs to: AArch64's VMID, x86's VPID. An entry never serves
/// another machine, global or not (Arm ARM R_NWYRD; SDM volume 3C, "VPIDs and EPT").
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct MachineId(u16);

impl MachineId {
    /// VMID 0, VPID 0: what a system without virtual machines runs under.
    pub const ZERO: Self = Self(0);

    /// The machine with this number.
    #[must_use]
    pub const fn new(raw: u16) -> Self {
        Self(raw)
    }

    /// Its number.
    #[must_use]
    pub const fn raw(self) -> u16 {
        self.0
    }
}

impl fmt::Display for MachineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What entries are tagged with: an address space of a machine.
pub trait SpaceTag: Copy + Eq + Ord + Hash + fmt::Debug {
    /// The machine whose address space it is.
    fn machine(&self) -> MachineId;
}

/// Which address-space identifiers an entry answers to.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Scope<T> {
    /// Every address space of one machine (AArch64 `nG` = 0, x86 `G` = 1 with CR4.PGE).
    Global(MachineId),
    /// The one with this ASID or PCID.
    Tagged(T),
}

impl<T: SpaceTag> Scope<T> {
    /// Whether an access made under `tag` may use an entry of this scope.
    pub fn admits(&self, tag: &T) -> bool {
        match self {
            Self::Global(machine) => *machine == tag.machine(),
            Self::Tagged(own) => own == tag,
        }
    }

    /// The machine that the entry serves.
    pub fn machine(&self) -> MachineId {
        match self {
            Self::Global(machine) => *machine,
            Self::Tagged(tag) => tag.machine(),
        }
    }

    /// Whether it serves every address space of its machine.
    pub const fn is_global(&self) -> bool {
        matches!(self, Self::Global(_))
    }
}

/// A leaf translation: what a walk found, and what a TLB holds.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Leaf<A: Arch> {
    /// First address of the page or block; aligned to `size`.
    pub va: Va,
    /// First physical address of the page or block; aligned to `size`.
    pub pa: Pa,
    /// Size of the page or block that the descriptor describes.
    pub size: PageSize,
    /// Level of the descriptor.
    pub level: Level,
    /// If the descriptor's contiguous bit is in effect, the size of its group.
    pub group: Option<PageSize>,
    /// Which address spaces it serves.
    pub scope: Scope<A::Tag>,
    /// Permissions, memory type and dirty state, table permissions already folded in.
    pub attrs: A::Attrs,
}

/// A pointer to a table below the root, as a walk cache keeps it.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct TablePointer<A: Arch> {
    /// The level of the table pointed to (its entries are of this level).
    pub level: Level,
    /// Where the table starts.
    pub base: Pa,
    /// What the upper levels allow; leaf permissions are combined with it.
    pub attrs: A::TableAttrs,
}

/// What a descriptor is, looked at by itself.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Descriptor {
    /// Not valid at its level: a walk that meets it ends in a fault.
    Invalid,
    /// Points to the next level's table.
    Table(Pa),
    /// Maps a page or block of this size.
    Leaf {
        /// First physical address.
        pa: Pa,
        /// Size of the page or block.
        size: PageSize,
        /// Whether the contiguous bit is set (never on x86).
        contiguous: bool,
    },
}

/// Which half of the address space a root table serves.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum Half {
    /// The user half: TTBR0; the low half of an x86 root.
    Lower,
    /// The kernel half: TTBR1; the high half of an x86 root.
    Upper,
}

/// A root table that the present register state makes reachable.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Root {
    /// Where the table starts.
    pub base: Pa,
    /// The level of its entries.
    pub level: Level,
    /// The entries that belong to this root, as indices into the table.
    pub first: usize,
    /// One past the last entry.
    pub end: usize,
    /// Which half of the address space it serves.
    pub half: Half,
}

/// One descriptor read of a walk.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Step<A: Arch> {
    /// The level of the descriptor.
    pub level: Level,
    /// The address it was read from.
    pub at: Pa,
    /// Its value as memory holds it, before any byte swap that a big-endian regime makes.
    pub raw: u64,
    /// The table it points to, if it is a table descriptor and the walk goes on. A walk cache may
    /// keep it, whatever becomes of the walk, if it also obeys
    /// [`Arch::invalidated_by_fault`].
    pub next: Option<TablePointer<A>>,
}

/// Sees a walk as it happens. Every method does nothing unless implemented.
pub trait WalkVisitor<A: Arch> {
    /// A descriptor was read.
    fn step(&mut self, step: &Step<A>) {
        let _ = step;
    }

    /// Hardware changed the descriptor at `at` (accessed or dirty state).
    fn update(&mut self, level: Level, at: Pa, old: u64, new: u64) {
        let _ = (level, at, old, new);
    }

    /// A descriptor of the second stage was read, to translate an address of the first: that of
    /// one of its tables, or the one it ends with. The step's pointer leads to a table of the
    /// second stage.
    fn second_stage_step(&mut self, step: &Step<A>) {
        let _ = step;
    }

    /// Hardware changed the second-stage descriptor at `at`.
    fn second_stage_update(&mut self, level: Level, at: Pa, old: u64, new: u64) {
        let _ = (level, at, old, new);
    }
}

/// The visitor that does not look.
impl<A: Arch> WalkVisitor<A> for () {}

/// How an access is to be translated, decided from the registers alone.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Lookup<T> {
    /// Translation is off: the address is physical.
    Off(Pa),
    /// Look up the TLBs under this tag, then walk.
    Tagged(T),
}

/// Whether a leaf that is at hand serves an access.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Verdict<F> {
    /// It does.
    Allowed,
    /// It would, but hardware must first set accessed or dirty state in the table: walk again.
    NeedsUpdate,
    /// It does not.
    Fault(F),
}

/// How far an invalidation reaches.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Reach {
    /// The core that executes it.
    Local,
    /// Every core of the inner-shareable domain.
    InnerShareable,
    /// Every core of the outer-shareable domain.
    OuterShareable,
}

/// The addresses that an invalidation can concern, so that a TLB looks only where entries can be.
/// [`Arch::removes`] decides about each entry. It bounds leaves only: cached table pointers are
/// all asked, one by one ([`Arch::removes_pointer`]).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Footprint {
    /// Any address.
    Everywhere,
    /// Entries that translate any address from `first` to `last`, both included.
    Addresses {
        /// Lowest address.
        first: Va,
        /// Highest address.
        last: Va,
    },
}

/// An architecture's memory-management unit.
pub trait Arch: Copy + Eq + fmt::Debug + 'static {
    /// The name that profiles, reports and options use: `aarch64` or `x86_64`.
    const NAME: &'static str;

    /// Address-space identifier, with the machine that the space belongs to.
    type Tag: SpaceTag;
    /// The registers that translation depends on. By default translation is off.
    type Context: Clone + PartialEq + fmt::Debug + Default;
    /// What a leaf keeps beside the address.
    type Attrs: Copy + Eq + fmt::Debug;
    /// What table descriptors contribute to the leaves below them.
    type TableAttrs: Copy + Eq + fmt::Debug + Default;
    /// An architectural fault.
    type Fault: Copy + Eq + fmt::Debug + fmt::Display;
    /// One TLB maintenance operation, operands decoded.
    type Invalidation: Copy + Eq + fmt::Debug + fmt::Display;

    /// The address that tables and TLBs see: `va` without what translation ignores (AArch64's
    /// top-byte tag), sign-extended. TLBs and walk caches are indexed and compared with it.
    fn canonical(context: &Self::Context, va: Va) -> Va {
        let _ = context;
        va
    }

    /// What comes before any TLB lookup: MMU off, address range or canonical check, the tag.
    ///
    /// # Errors
    /// The fault of an address that no table can translate.
    fn before_lookup(
        context: &Self::Context,
        access: &Access,
    ) -> Result<Lookup<Self::Tag>, Self::Fault>;

    /// Whether `leaf` serves `access`.
    fn check(leaf: &Leaf<Self>, context: &Self::Context, access: &Access) -> Verdict<Self::Fault>;

    /// What `privilege` may do through `leaf` without changing the table.
    fn rights(leaf: &Leaf<Self>, context: &Self::Context, privilege: Privilege) -> Rights;

    /// Walks the tables for `access`, from the root or from `start` (a walk-cache hit), checks
    /// permissions, and makes the accessed and dirty updates that the context asks for.
    ///
    /// # Errors
    /// The first fault in the architecture's priority order.
    fn walk<M: TableMemory, V: WalkVisitor<Self>>(
        context: &Self::Context,
        access: &Access,
        start: Option<TablePointer<Self>>,
        memory: &mut M,
        visitor: &mut V,
    ) -> Result<Leaf<Self>, Self::Fault>;

    /// Decodes a descriptor of a table at `level` that serves `half`, as the context's granule and
    /// sizes have it. `raw` is the value as memory holds it.
    fn descriptor(context: &Self::Context, half: Half, level: Level, raw: u64) -> Descriptor;

    /// The root tables that the context makes reachable: none with the MMU off, at most two.
    fn roots(context: &Self::Context) -> [Option<Root>; 2];

    /// log2 of the bytes that one entry at `level` spans.
    fn span_shift(context: &Self::Context, half: Half, level: Level) -> u32;

    /// What the delivery of `fault` itself removes from the core's TLBs and walk caches: on x86 a
    /// page fault drops what is cached for its address, so that a permission that was raised
    /// without invalidation is seen at the second try.
    fn invalidated_by_fault(
        fault: &Self::Fault,
        context: &Self::Context,
        access: &Access,
    ) -> Option<Self::Invalidation> {
        let _ = (fault, context, access);
        None
    }

    /// How `op` is counted and priced.
    fn class(op: &Self::Invalidation) -> MaintenanceClass;

    /// How far `op` reaches.
    fn reach(op: &Self::Invalidation) -> Reach;

    /// Which addresses `op` can concern.
    fn footprint(op: &Self::Invalidation) -> Footprint;

    /// Whether `op` must remove this leaf. `held` is the size of the TLB entry that holds it: the
    /// page itself, or a larger or smaller piece, around `leaf.va`.
    fn removes(op: &Self::Invalidation, leaf: &Leaf<Self>, held: PageSize) -> bool;

    /// Whether `op` must remove a cached pointer to a table that serves `span` bytes from `va`
    /// under `tag`.
    fn removes_pointer(
        op: &Self::Invalidation,
        tag: Self::Tag,
        va: Va,
        pointer: &TablePointer<Self>,
        span_shift: u32,
    ) -> bool;
}
