//! A one-core or many-core system over hand-built tables, for either architecture.

#![allow(dead_code, reason = "each test binary uses its own part")]

use mmuscope_models::aarch64::{self, Aarch64, Tlbi};
use mmuscope_models::access::{Access, AccessKind, Privilege, Translation};
use mmuscope_models::addr::{Pa, Va};
use mmuscope_models::arch::Arch;
use mmuscope_models::memory::{SparseMemory, TableMemory};
use mmuscope_models::profile::Profile;
use mmuscope_models::system::{CoreId, System};
use mmuscope_models::x86::{self, Flush, Pcid, X86_64};

/// What the tests need to know about an architecture with four levels of 512 entries.
pub trait TestArch: Arch {
    const PROFILE: &'static str;
    /// Registers with this root and address space.
    fn context(root: u64, space: u16) -> Self::Context;
    /// A pointer to a table.
    fn table(pa: u64) -> u64;
    /// A writable supervisor page (level 3).
    fn page(pa: u64, global: bool) -> u64;
    /// The same, read-only.
    fn read_only(pa: u64) -> u64;
    /// Removes one address of one space, pointers included, on the core alone.
    fn one(va: u64, space: u16) -> Self::Invalidation;
    /// Removes one space.
    fn space(space: u16) -> Self::Invalidation;
}

/// A TLBI by its fields CRm and op2.
pub fn tlbi(crm: u8, op2: u8, operand: u64) -> Tlbi {
    Tlbi::from_sys(0, crm, op2, operand, &Aarch64::context(0, 0)).unwrap()
}

impl TestArch for Aarch64 {
    const PROFILE: &'static str = "cortex-a76";

    fn context(root: u64, space: u16) -> aarch64::Context {
        aarch64::Context {
            sctlr: 1,
            // T0SZ = T1SZ = 16, 4K granules, 48-bit physical addresses.
            tcr: 16 | 16 << 16 | 0b10 << 30 | 0b101 << 32,
            ttbr0: root | u64::from(space) << 48,
            ..aarch64::Context::default()
        }
    }

    fn table(pa: u64) -> u64 {
        pa | 3
    }

    fn page(pa: u64, global: bool) -> u64 {
        pa | 1 << 10 | u64::from(!global) << 11 | 3
    }

    fn read_only(pa: u64) -> u64 {
        Self::page(pa, false) | 1 << 7
    }

    fn one(va: u64, space: u16) -> Tlbi {
        tlbi(7, 1, va >> 12 & ((1 << 44) - 1) | u64::from(space) << 48)
    }

    fn space(space: u16) -> Tlbi {
        tlbi(7, 2, u64::from(space) << 48)
    }
}

impl TestArch for X86_64 {
    const PROFILE: &'static str = "skylake-sp";

    fn context(root: u64, space: u16) -> x86::Context {
        x86::Context {
            cr0: 0x8001_0001,
            cr3: root | u64::from(space),
            cr4: 1 << 5 | 1 << 7 | 1 << 17,
            efer: 1 << 8 | 1 << 10 | 1 << 11,
            ..x86::Context::default()
        }
    }

    fn table(pa: u64) -> u64 {
        pa | 0x63
    }

    fn page(pa: u64, global: bool) -> u64 {
        pa | 0x63 | u64::from(global) << 8
    }

    fn read_only(pa: u64) -> u64 {
        pa | 0x61
    }

    fn one(va: u64, space: u16) -> Flush {
        Flush::Invlpg {
            va: Va::new(va),
            pcid: Pcid::from_low_bits(u64::from(space)),
        }
    }

    fn space(space: u16) -> Flush {
        Flush::InvpcidContext {
            pcid: Pcid::from_low_bits(u64::from(space)),
        }
    }
}

/// Where the first root table is. Tables are allocated upwards from here.
pub const ROOT: u64 = 0x10_0000;
/// Where the mapped memory of the tests begins: above all tables.
pub const DATA: u64 = 0x4000_0000;
pub const CPU: CoreId = CoreId::new(0);
pub const OTHER: CoreId = CoreId::new(1);

/// A system, its table memory, and the address space that core 0 runs in.
pub struct World<A: TestArch> {
    pub system: System<A>,
    pub memory: SparseMemory,
    next_table: u64,
}

impl<A: TestArch> World<A> {
    /// A machine of the architecture's first profile, in which every page has an entry of its
    /// own; every core runs in space 1.
    pub fn new(cores: usize) -> Self {
        let mut profile = Profile::builtin(A::PROFILE).unwrap();
        if profile.machine().tlb.policy.l2_coalesces.is_some() {
            profile.set("tlb.policy.l2_coalesces", "none").unwrap();
        }
        Self::of(&profile, cores)
    }

    pub fn of(profile: &Profile, cores: usize) -> Self {
        let mut memory = SparseMemory::new();
        memory.add_frame(Pa::new(ROOT));
        let mut system = System::new(profile, cores, ()).unwrap();
        for core in 0..cores {
            let core = CoreId::new(u16::try_from(core).unwrap());
            system.set_context(core, A::context(ROOT, 1), &memory);
        }
        Self {
            system,
            memory,
            next_table: ROOT + 0x1000,
        }
    }

    pub fn switch(&mut self, core: CoreId, root: u64, space: u16) {
        let context = A::context(root, space);
        self.system.set_context(core, context, &self.memory);
    }

    /// A new, empty table.
    pub fn new_table(&mut self) -> u64 {
        let table = self.next_table;
        self.next_table += 0x1000;
        self.memory.add_frame(Pa::new(table));
        table
    }

    /// A store to a table by core 0, as an emulator reports it.
    pub fn store(&mut self, at: u64, value: u64) {
        let old = self.memory.read_descriptor(Pa::new(at)).unwrap();
        self.memory.write(Pa::new(at), value);
        self.system
            .table_store(CPU, Pa::new(at), old, value, &self.memory);
    }

    /// The entry for `va` at `level` (0 to 3) below `root`; tables on the way are made.
    pub fn entry(&mut self, root: u64, va: u64, level: u32) -> u64 {
        let mut table = root;
        for above in 0..level {
            let at = table + 8 * (va >> (39 - 9 * above) & 511);
            let raw = self.memory.read_descriptor(Pa::new(at)).unwrap();
            table = if raw == 0 {
                let fresh = self.new_table();
                self.store(at, A::table(fresh));
                fresh
            } else {
                raw & 0xffff_ffff_f000
            };
        }
        table + 8 * (va >> (39 - 9 * level) & 511)
    }

    /// Maps the page at `va` below the first root.
    pub fn map(&mut self, va: u64, descriptor: u64) {
        let at = self.entry(ROOT, va, 3);
        self.store(at, descriptor);
    }

    /// Maps `count` pages from `va` to as many from [`DATA`].
    pub fn map_pages(&mut self, va: u64, count: u64) {
        for n in 0..count {
            self.map(va + n * 0x1000, A::page(DATA + n * 0x1000, false));
        }
    }

    pub fn try_access(
        &mut self,
        core: CoreId,
        kind: AccessKind,
        va: u64,
    ) -> Result<Translation, A::Fault> {
        let access = Access::new(Va::new(va), kind, Privilege::Supervisor);
        self.system.access(core, &access, 8, &mut self.memory)
    }

    pub fn on(&mut self, core: CoreId, va: u64) -> Translation {
        self.try_access(core, AccessKind::Load, va).unwrap()
    }

    /// A load by core 0.
    pub fn load(&mut self, va: u64) -> Translation {
        self.on(CPU, va)
    }
}

/// Makes a test of each architecture from one generic function.
#[macro_export]
macro_rules! for_both {
    ($($name:ident),* $(,)?) => {
        mod on_aarch64 {
            $(#[test] fn $name() { super::$name::<mmuscope_models::aarch64::Aarch64>(); })*
        }
        mod on_x86_64 {
            $(#[test] fn $name() { super::$name::<mmuscope_models::x86::X86_64>(); })*
        }
    };
}
