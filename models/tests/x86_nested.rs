//! Walks in two dimensions: a guest's tables whose every address the host's tables translate.
//!
//! The expectation is a second statement of the rules (SDM vol. 3C 29.3; APM vol. 2 15.25): lists
//! of reasons to refuse, in the order in which the processor meets them.

use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::{Pa, PageSize, Va};
use mmuscope_models::arch::{Arch, Leaf, Step, Verdict, WalkVisitor};
use mmuscope_models::memory::{SparseMemory, TableMemory};
use mmuscope_models::x86::{
    Context, Cr0, Cr4, Efer, Ept, Fault, GigabytePages, NestedInfo, Nesting, Npt, Qualification,
    VmExit, X86_64,
};

const VA: Va = Va::new(0x0000_1234_5678_9abc);
/// Guest-physical addresses of the guest's tables, root first, and of its page.
const TABLES: [u64; 5] = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000];
const PAGE: u64 = 0x4020_3000;
/// The host puts guest-physical addresses here.
const OFFSET: u64 = 0x40_0000_0000;
const HOST_ROOT: u64 = 0x80_0000_0000;
const EPT_ALL: u64 = 0b111 | 1 << 10 | 6 << 3;
const EPT_TABLE: u64 = 0b111 | 1 << 10;
const NPT_ALL: u64 = 0b111;
const KINDS: [AccessKind; 3] = [AccessKind::Load, AccessKind::Store, AccessKind::Fetch];

/// A guest and its host in one memory.
#[derive(Clone)]
struct World {
    memory: SparseMemory,
    context: Context,
    next_table: u64,
    host_levels: u32,
    host_table: u64,
}

impl World {
    /// A guest of `levels` levels with its tables in place, all permissions given, and a host that
    /// maps nothing yet.
    fn new(levels: usize, host_levels: u32, nesting: Nesting, leaf: u64) -> Self {
        let mut cr4 = Cr4::PAE | Cr4::PGE;
        cr4.set(Cr4::LA57, levels == 5);
        let ept = matches!(nesting, Nesting::Ept(_));
        let mut world = Self {
            memory: SparseMemory::new(),
            context: Context {
                cr0: (Cr0::PG | Cr0::WP).bits(),
                cr3: TABLES[5 - levels],
                cr4: cr4.bits(),
                efer: Efer::NXE.bits(),
                nesting,
                ..Context::default()
            },
            next_table: HOST_ROOT + 0x1000,
            host_levels,
            host_table: if ept { EPT_TABLE } else { NPT_ALL },
        };
        for depth in 5 - levels..5 {
            let entry = if depth == 4 {
                leaf
            } else {
                TABLES[depth + 1] | 7
            };
            world.memory.write(Pa::new(guest_entry(depth)), entry);
        }
        world
    }

    /// Maps one page of the host, and gives the address of its entry.
    fn host(&mut self, gpa: u64, size: PageSize, bits: u64) -> u64 {
        let mut table = HOST_ROOT;
        let mut shift = 12 + 9 * (self.host_levels - 1);
        loop {
            let at = table + (gpa >> shift & 511) * 8;
            if shift == size.shift() {
                let large = u64::from(shift > 12) << 7;
                let base = Pa::new(gpa).page_base(size).raw() + OFFSET;
                self.memory.write(Pa::new(at), base | bits | large);
                return at;
            }
            table = match self.memory.read_descriptor(Pa::new(at)) {
                Some(entry) => entry & 0xf_ffff_ffff_f000,
                None => {
                    self.next_table += 0x1000;
                    self.memory
                        .write(Pa::new(at), self.next_table | self.host_table);
                    self.next_table
                }
            };
            shift -= 9;
        }
    }

    /// Maps the guest's tables and its page with `bits`.
    fn host_all(&mut self, bits: u64) {
        for table in TABLES {
            self.host(table, PageSize::Size4K, bits);
        }
        self.host(PAGE, PageSize::Size4K, bits);
    }

    fn walk(&mut self, kind: AccessKind, privilege: Privilege) -> Result<Leaf<X86_64>, Fault> {
        let access = Access::new(VA, kind, privilege);
        X86_64::walk(&self.context, &access, None, &mut self.memory, &mut ())
    }

    fn word(&self, at: u64) -> u64 {
        self.memory.read_descriptor(Pa::new(at)).unwrap_or(0)
    }
}

/// Where the host has the guest's entry of the level at `depth` (0: PML5) for [`VA`].
fn guest_entry(depth: usize) -> u64 {
    let shift = 48 - 9 * u32::try_from(depth).unwrap();
    OFFSET + TABLES[depth] + (VA.raw() >> shift & 511) * 8
}

fn ept(flags: u64) -> Ept {
    Ept {
        eptp: HOST_ROOT | 3 << 3 | 6 | flags,
        mode_based_execute: false,
        execute_only: true,
    }
}

fn npt() -> Nesting {
    Nesting::Npt(Npt {
        cr3: HOST_ROOT,
        cr4: Cr4::PAE.bits(),
        efer: Efer::NXE.bits(),
    })
}

#[derive(Default)]
struct Reads {
    guest: usize,
    host: usize,
}

impl WalkVisitor<X86_64> for Reads {
    fn step(&mut self, _step: &Step<X86_64>) {
        self.guest += 1;
    }
    fn second_stage_step(&mut self, _step: &Step<X86_64>) {
        self.host += 1;
    }
}

#[test]
fn a_walk_reads_24_entries_with_four_levels_each_and_35_with_five() {
    for (levels, host_levels, host_reads) in [(4, 4, 20), (4, 5, 25), (5, 4, 24), (5, 5, 30)] {
        let length = u64::from(host_levels - 1) << 3;
        let extended = Ept {
            eptp: HOST_ROOT | length | 6,
            ..ept(0)
        };
        let mut cr4 = Cr4::PAE;
        cr4.set(Cr4::LA57, host_levels == 5);
        let nested = Npt {
            cr3: HOST_ROOT,
            cr4: cr4.bits(),
            efer: 0,
        };
        for (nesting, bits) in [
            (Nesting::Ept(extended), EPT_ALL),
            (Nesting::Npt(nested), NPT_ALL),
        ] {
            let mut world = World::new(levels, host_levels, nesting, PAGE | 7);
            world.host_all(bits);
            let access = Access::new(VA, AccessKind::Store, Privilege::User);
            let mut reads = Reads::default();
            let memory = &mut world.memory;
            let leaf = X86_64::walk(&world.context, &access, None, memory, &mut reads).unwrap();
            assert_eq!(leaf.pa, Pa::new(PAGE + OFFSET));
            assert_eq!((reads.guest, reads.host), (levels, host_reads));
        }
    }
}

#[test]
fn the_smaller_page_of_the_two_is_what_a_tlb_may_hold() {
    use PageSize::{Size1G, Size2M, Size4K};
    for (guest_size, depth) in [(Size4K, 4), (Size2M, 3), (Size1G, 2)] {
        for host_size in [Size4K, Size2M, Size1G] {
            let base = Pa::new(PAGE).page_base(guest_size).raw();
            let large = u64::from(depth < 4) << 7;
            let mut world = World::new(4, 4, Nesting::Ept(ept(0)), 0);
            world
                .memory
                .write(Pa::new(guest_entry(depth)), base | 7 | large);
            for table in TABLES {
                world.host(table, Size4K, EPT_ALL);
            }
            let gpa = base + VA.offset_in(guest_size);
            world.host(gpa, host_size, EPT_ALL);
            let leaf = world.walk(AccessKind::Load, Privilege::User).unwrap();
            let smaller = guest_size.min(host_size);
            assert_eq!(leaf.size, smaller);
            assert_eq!(leaf.va, VA.page_base(smaller));
            assert_eq!(leaf.pa, Pa::new(gpa + OFFSET).page_base(smaller));
        }
    }
}

/// One combination of the guest's leaf, the host's leaf and an upper entry of the host.
#[derive(Copy, Clone, Debug)]
struct Case {
    /// R/W, U/S, XD of the guest's leaf.
    guest: [bool; 3],
    /// R, W, X and user X of the host's leaf for the page, and of an entry above it.
    host: [bool; 4],
    above: [bool; 4],
    mode_based: bool,
    execute_only: bool,
}

const CASE_BITS: u32 = 13;

impl Case {
    fn number(number: u64) -> Self {
        let bit = |index: u32| number >> index & 1 != 0;
        Self {
            guest: [bit(0), bit(1), bit(2)],
            host: [bit(3), bit(4), bit(5), bit(6)],
            above: [bit(7), bit(8), bit(9), bit(10)],
            mode_based: bit(11),
            execute_only: bit(12),
        }
    }

    fn bits([read, write, execute, user]: [bool; 4]) -> u64 {
        u64::from(read) | u64::from(write) << 1 | u64::from(execute) << 2 | u64::from(user) << 10
    }

    /// What the host does to one entry: `None` it goes on, else misconfiguration or violation.
    fn entry(&self, [read, write, execute, user]: [bool; 4]) -> Option<bool> {
        let user = user && self.mode_based;
        if !(read || write || execute || user) {
            return Some(false);
        }
        let malformed = !read && (write || !self.execute_only);
        malformed.then_some(true)
    }

    fn world(&self) -> World {
        let [writable, user, xd] = self.guest;
        let leaf = PAGE | 1 | u64::from(writable) << 1 | u64::from(user) << 2 | u64::from(xd) << 63;
        let nesting = Nesting::Ept(Ept {
            mode_based_execute: self.mode_based,
            execute_only: self.execute_only,
            ..ept(0)
        });
        let mut world = World::new(4, 4, nesting, leaf | 0x60);
        for depth in 1..4 {
            let at = Pa::new(guest_entry(depth));
            let entry = world.memory.read_descriptor(at).unwrap();
            world.memory.write(at, entry | 0x20);
        }
        for table in TABLES {
            world.host(table, PageSize::Size4K, EPT_ALL);
        }
        // The page lies in another gigabyte than the tables: an upper entry of its own.
        let at = world.host(PAGE, PageSize::Size4K, Self::bits(self.host) | 6 << 3);
        let directory = at & !0xfff;
        let above = (0..0x20)
            .map(|n| HOST_ROOT + 0x1000 * n + (PAGE >> 21 & 511) * 8)
            .find(|at| world.word(*at) & !0xfff == directory)
            .unwrap();
        world
            .memory
            .write(Pa::new(above), directory | Self::bits(self.above));
        world
    }

    fn expected(&self, kind: AccessKind, privilege: Privilege) -> Option<Fault> {
        let [writable, user_page, xd] = self.guest;
        let (write, fetch) = (kind == AccessKind::Store, kind == AccessKind::Fetch);
        let user = privilege == Privilege::User;
        if user && !user_page || write && !writable || fetch && xd {
            let code = 1 | u32::from(write) << 1 | u32::from(user) << 2 | u32::from(fetch) << 4;
            let code = mmuscope_models::x86::ErrorCode::from_bits_retain(code);
            return Some(Fault::PageFault { code });
        }
        let guest_physical = Pa::new(PAGE + VA.offset_in(PageSize::Size4K));
        let fault = |qualification: u64| {
            Fault::Exit(VmExit::EptViolation {
                qualification: Qualification::from_bits_retain(qualification),
                guest_physical,
                linear: VA,
            })
        };
        let what = match kind {
            AccessKind::Load => 0x181,
            AccessKind::Store => 0x182,
            AccessKind::Fetch => 0x184,
        };
        for entry in [self.above, self.host] {
            match self.entry(entry) {
                Some(true) => {
                    return Some(Fault::Exit(VmExit::EptMisconfiguration { guest_physical }));
                }
                Some(false) => return Some(fault(what)),
                None => {}
            }
        }
        let [read, writes, execute, user_execute] =
            [0, 1, 2, 3].map(|n| self.host[n] && self.above[n]);
        let may_execute = if self.mode_based && user_page {
            user_execute
        } else {
            execute
        };
        let allowed = match kind {
            AccessKind::Load => read,
            AccessKind::Store => writes,
            AccessKind::Fetch => may_execute,
        };
        let granted = u64::from(read) << 3
            | u64::from(writes) << 4
            | u64::from(execute) << 5
            | u64::from(user_execute && self.mode_based) << 6;
        (!allowed).then(|| fault(what | granted))
    }
}

#[test]
fn every_combination_of_guest_and_ept_permissions() {
    for number in 0..1 << CASE_BITS {
        let case = Case::number(number);
        let mut world = case.world();
        let outcomes = |world: &mut World| {
            [Privilege::Supervisor, Privilege::User]
                .map(|privilege| KINDS.map(|kind| (kind, privilege, world.walk(kind, privilege))))
        };
        for (kind, privilege, result) in outcomes(&mut world).into_iter().flatten() {
            let expected = case.expected(kind, privilege);
            assert_eq!(result.err(), expected, "{case:?} {kind:?} {privilege:?}");
            let Ok(leaf) = result else { continue };
            // What holds the translation must judge every other access as a walk would; what
            // the host refuses is left to a walk.
            for (kind, privilege, again) in outcomes(&mut world).into_iter().flatten() {
                let access = Access::new(VA, kind, privilege);
                let verdict = X86_64::check(&leaf, &world.context, &access);
                let expected = match again {
                    Ok(_) => Verdict::Allowed,
                    Err(Fault::Exit(_)) => Verdict::NeedsUpdate,
                    Err(fault) => Verdict::Fault(fault),
                };
                assert_eq!(verdict, expected, "{case:?} {access:?}");
                let rights = X86_64::rights(&leaf, &world.context, privilege);
                let has = match kind {
                    AccessKind::Load => rights.read,
                    AccessKind::Store => rights.write,
                    AccessKind::Fetch => rights.execute,
                };
                assert_eq!(has, again.is_ok(), "{case:?} {access:?}");
            }
        }
    }
}

#[test]
fn ept_entries_that_no_processor_accepts() {
    let misconfigured = |bits: u64, size: PageSize, gigabyte_pages: GigabytePages| {
        let mut world = World::new(4, 4, Nesting::Ept(ept(0)), PAGE | 7);
        world.context.gigabyte_pages = gigabyte_pages;
        for table in TABLES {
            world.host(table, PageSize::Size4K, EPT_ALL);
        }
        world.host(PAGE, size, bits);
        match world.walk(AccessKind::Load, Privilege::User) {
            Ok(_) => false,
            Err(Fault::Exit(VmExit::EptMisconfiguration { guest_physical })) => {
                assert_eq!(guest_physical.raw(), PAGE + 0xabc);
                true
            }
            Err(other) => panic!("{other}"),
        }
    };
    let with = GigabytePages::Supported;
    for memory_type in 0..8 {
        let bits = 7 | memory_type << 3;
        let unknown = matches!(memory_type, 2 | 3 | 7);
        assert_eq!(misconfigured(bits, PageSize::Size4K, with), unknown);
    }
    for bit in 12..21 {
        assert!(misconfigured(EPT_ALL | 1 << bit, PageSize::Size2M, with));
    }
    assert!(!misconfigured(EPT_ALL, PageSize::Size1G, with));
    let without = GigabytePages::Absent;
    assert!(misconfigured(EPT_ALL, PageSize::Size1G, without));
}

#[test]
fn reads_of_guest_tables_are_writes_for_ept_flags_and_for_nested_paging() {
    for (nesting, writable, read_only, accessed, dirty) in [
        (Nesting::Ept(ept(1 << 6)), EPT_ALL, EPT_ALL & !2, 8, 9),
        (npt(), 7, 5, 5, 6),
    ] {
        let mut world = World::new(4, 4, nesting, PAGE | 7);
        world.host_all(writable);
        let page = world.host(PAGE, PageSize::Size4K, writable);
        let table = world.host(TABLES[4], PageSize::Size4K, writable);
        let flags =
            |world: &World, at: u64| (world.word(at) >> accessed & 1, world.word(at) >> dirty & 1);
        let leaf = world.walk(AccessKind::Load, Privilege::User).unwrap();
        assert!(!leaf.attrs.dirty);
        assert_eq!(flags(&world, table), (1, 1));
        assert_eq!(flags(&world, page), (1, 0));
        // The guest's entry is dirty, the host's is not: the first store still has to walk.
        let at = Pa::new(guest_entry(4));
        let entry = world.word(at.raw());
        world.memory.write(at, entry | 0x40);
        let leaf = world.walk(AccessKind::Load, Privilege::User).unwrap();
        assert!(!leaf.attrs.dirty);
        let leaf = world.walk(AccessKind::Store, Privilege::User).unwrap();
        assert!(leaf.attrs.dirty);
        assert_eq!(flags(&world, page), (1, 1));
        // A table that the host does not let be written cannot even be read.
        world.host(TABLES[4], PageSize::Size4K, read_only);
        let guest_physical = Pa::new(guest_entry(4) - OFFSET);
        let expected = match nesting {
            Nesting::Npt(_) => VmExit::NestedPageFault {
                info: NestedInfo::PRESENT
                    | NestedInfo::WRITE
                    | NestedInfo::USER
                    | NestedInfo::TABLE,
                guest_physical,
            },
            _ => VmExit::EptViolation {
                qualification: Qualification::from_bits_retain(0b1010_1011),
                guest_physical,
                linear: VA,
            },
        };
        let result = world.walk(AccessKind::Load, Privilege::User);
        assert_eq!(result, Err(Fault::Exit(expected)));
    }
}

#[test]
fn without_ept_flags_only_an_update_of_a_guest_entry_is_a_write() {
    let mut world = World::new(4, 4, Nesting::Ept(ept(0)), PAGE | 0x27);
    world.host_all(EPT_ALL);
    world.walk(AccessKind::Load, Privilege::User).unwrap();
    world.host(TABLES[4], PageSize::Size4K, EPT_ALL & !2);
    assert!(world.walk(AccessKind::Load, Privilege::User).is_ok());
    let exit = VmExit::EptViolation {
        qualification: Qualification::from_bits_retain(0b1010_1010),
        guest_physical: Pa::new(guest_entry(4) - OFFSET),
        linear: VA,
    };
    let result = world.walk(AccessKind::Store, Privilege::User);
    assert_eq!(result, Err(Fault::Exit(exit)));
}

#[test]
fn nested_page_faults_say_where_and_why() {
    let base = NestedInfo::USER;
    let present = NestedInfo::PRESENT;
    for (bits, kind, expected) in [
        (0, AccessKind::Load, base),
        (0, AccessKind::Store, base | NestedInfo::WRITE),
        (0, AccessKind::Fetch, base | NestedInfo::FETCH),
        // A page that is the host supervisor's: the guest counts as a user.
        (3, AccessKind::Load, base | present),
        (5, AccessKind::Store, base | present | NestedInfo::WRITE),
        (
            7 | 1 << 63,
            AccessKind::Fetch,
            base | present | NestedInfo::FETCH,
        ),
        (
            7 | 1 << 51,
            AccessKind::Load,
            base | present | NestedInfo::RESERVED,
        ),
    ] {
        let mut world = World::new(4, 4, npt(), PAGE | 7);
        world.context.physical_bits = mmuscope_models::x86::PhysicalBits::new(48).unwrap();
        world.host_all(7);
        world.host(PAGE, PageSize::Size4K, bits);
        let exit = VmExit::NestedPageFault {
            info: expected | NestedInfo::FINAL,
            guest_physical: Pa::new(PAGE + 0xabc),
        };
        let result = world.walk(kind, Privilege::Supervisor);
        assert_eq!(result, Err(Fault::Exit(exit)), "{bits:#x}");
    }
}

#[test]
fn a_guest_without_paging_is_translated_by_its_host_alone() {
    let mut world = World::new(4, 4, Nesting::Ept(ept(0)), 0);
    world.context.cr0 = 0;
    world.host(VA.raw(), PageSize::Size4K, EPT_ALL & !2);
    let leaf = world.walk(AccessKind::Load, Privilege::Supervisor).unwrap();
    assert_eq!(leaf.pa.raw(), (VA.raw() & !0xfff) + OFFSET);
    let result = world.walk(AccessKind::Store, Privilege::Supervisor);
    assert!(matches!(
        result,
        Err(Fault::Exit(VmExit::EptViolation { .. }))
    ));
}
