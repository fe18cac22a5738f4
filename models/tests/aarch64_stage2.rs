//! Two stages of translation: against the composition of two maps, against a table of what each
//! permission field says, and against the syndromes that a hypervisor would see.

use std::collections::BTreeMap;

use mmuscope_models::aarch64::{
    Aarch64, Context, Fault, FaultKind, FaultStage, Implementation, PaRange, Stage2, TableUse, Tlbi,
};
use mmuscope_models::access::{Access, AccessKind, FoundIn, Privilege};
use mmuscope_models::addr::{Level, Pa, PageSize, Va};
use mmuscope_models::arch::{Arch, Step, WalkVisitor};
use mmuscope_models::memory::{SparseMemory, TableMemory};
use mmuscope_models::profile::Profile;
use mmuscope_models::system::{CoreId, System};
use proptest::prelude::*;

const CPU: CoreId = CoreId::new(0);
/// Where the hypervisor's tables lie, and where it puts what the guest has.
const HOST_ROOT: u64 = 0x10_0000;
const FRAMES: u64 = 0x8000_0000;
/// The guest's root, an IPA.
const GUEST_ROOT: u64 = 0x4000_0000;
const VA: u64 = 0x12_3456_7000;

/// Full access, Normal write-back, access flag set.
const HOST_PAGE: u64 = 1 << 10 | 3 << 8 | 3 << 6 | 0xf << 2 | 3;
/// Readable and writable at both levels, access flag set, not global.
const GUEST_PAGE: u64 = 1 << 11 | 1 << 10 | 1 << 6 | 3;

/// VTCR_EL2: 4 KiB granule, 48-bit IPAs from level 0, 48-bit output, 8-bit VMIDs.
const VTCR: u64 = 16 | 2 << 6 | 0b101 << 16;
const HCR_VM: u64 = 1;

fn registers() -> Context {
    Context {
        sctlr: 1,
        tcr: 16 | 16 << 16 | 0b10 << 30 | 0b101 << 32,
        ttbr0: GUEST_ROOT | 1 << 48,
        stage2: Stage2 {
            hcr: HCR_VM,
            vtcr: VTCR,
            vttbr: HOST_ROOT | 5 << 48,
            sctlr: 0,
        },
        implementation: Implementation {
            pa_range: PaRange::Bits48,
            ..Implementation::default()
        },
        ..Context::default()
    }
}

/// A guest and its host, in one memory.
struct World {
    context: Context,
    memory: SparseMemory,
    next_host_table: u64,
    next_frame: u64,
    next_ipa: u64,
    /// What the host has mapped, kept apart from its tables.
    frames: BTreeMap<u64, u64>,
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            context: registers(),
            memory: SparseMemory::new(),
            next_host_table: HOST_ROOT + 0x1_0000,
            next_frame: FRAMES,
            next_ipa: GUEST_ROOT,
            frames: BTreeMap::new(),
        };
        // Sixteen frames, for concatenated roots.
        for n in 0..16 {
            world.memory.add_frame(Pa::new(HOST_ROOT + n * 0x1000));
        }
        world.next_ipa += 0x1000;
        world.back(GUEST_ROOT);
        world
    }

    /// The stage 2 entry of the page at `ipa`; tables on the way are made.
    fn host_entry(&mut self, ipa: u64, start: u32) -> u64 {
        // A concatenated root is one larger table.
        let mut at = HOST_ROOT + 8 * (ipa >> (39 - 9 * start));
        for level in start..3 {
            let mut table = self.memory.read_descriptor(Pa::new(at)).unwrap_or(0) & !0xfff;
            if table == 0 {
                table = self.next_host_table;
                self.next_host_table += 0x1000;
                self.memory.add_frame(Pa::new(table));
                self.memory.write(Pa::new(at), table | 3);
            }
            at = table + 8 * (ipa >> (30 - 9 * level) & 511);
        }
        at
    }

    fn host_start(&self) -> u32 {
        match self.context.stage2.vtcr >> 6 & 3 {
            2 => 0,
            1 => 1,
            _ => 2,
        }
    }

    /// Gives the page at `ipa` a frame, if it has none, and returns the frame.
    fn back(&mut self, ipa: u64) -> u64 {
        if let Some(frame) = self.frames.get(&ipa) {
            return *frame;
        }
        let frame = self.next_frame;
        // Frames do not follow each other as pages do.
        self.next_frame += 0x3000;
        self.memory.add_frame(Pa::new(frame));
        let entry = self.host_entry(ipa, self.host_start());
        self.memory.write(Pa::new(entry), frame | HOST_PAGE);
        self.frames.insert(ipa, frame);
        frame
    }

    fn new_ipa(&mut self) -> u64 {
        let ipa = self.next_ipa;
        self.next_ipa += 0x1000;
        self.back(ipa);
        ipa
    }

    /// The IPAs of the guest's entries for `va`, level 0 to 3; tables on the way are made.
    fn guest_path(&mut self, va: u64) -> [u64; 4] {
        let mut table = GUEST_ROOT;
        std::array::from_fn(|level| {
            let entry = table + 8 * (va >> (39 - 9 * level) & 511);
            if level < 3 {
                let at = self.frame_of(entry);
                let raw = self.memory.read_descriptor(at).unwrap();
                table = raw & 0xffff_ffff_f000;
                if raw == 0 {
                    table = self.new_ipa();
                    self.memory.write(at, table | 3);
                }
            }
            entry
        })
    }

    /// Where the host has put the word at `ipa`.
    fn frame_of(&self, ipa: u64) -> Pa {
        Pa::new(self.frames[&(ipa & !0xfff)] | ipa & 0xfff)
    }

    fn map(&mut self, va: u64, ipa: u64) {
        let [.., entry] = self.guest_path(va);
        self.memory.write(self.frame_of(entry), ipa | GUEST_PAGE);
    }

    fn walk(&mut self, kind: AccessKind, privilege: Privilege, va: u64) -> Outcome {
        let access = Access::new(Va::new(va), kind, privilege);
        let mut seen = Reads::default();
        let leaf = Aarch64::walk(&self.context, &access, None, &mut self.memory, &mut seen);
        Outcome {
            result: leaf.map(|leaf| leaf.pa.wrapping_add(Va::new(va).offset_in(leaf.size))),
            reads: seen,
            access,
        }
    }

    fn load(&mut self, va: u64) -> Outcome {
        self.walk(AccessKind::Load, Privilege::User, va)
    }
}

struct Outcome {
    result: Result<Pa, Fault>,
    reads: Reads,
    access: Access,
}

#[derive(Default)]
struct Reads {
    first: usize,
    second: usize,
}

impl WalkVisitor<Aarch64> for Reads {
    fn step(&mut self, _: &Step<Aarch64>) {
        self.first += 1;
    }
    fn second_stage_step(&mut self, _: &Step<Aarch64>) {
        self.second += 1;
    }
}

#[test]
fn four_levels_under_four_levels_are_24_reads() {
    let mut world = World::new();
    let ipa = world.new_ipa();
    world.map(VA, ipa);
    let outcome = world.load(VA + 0x128);
    assert_eq!(outcome.result, Ok(Pa::new(world.frames[&ipa] + 0x128)));
    assert_eq!((outcome.reads.first, outcome.reads.second), (4, 20));
}

#[test]
fn concatenated_roots_stand_for_a_level() {
    // 40-bit IPAs from level 1: two tables side by side; 43 bits: sixteen.
    for (bits, far) in [(40, 1_u64 << 39), (43, 15 << 39)] {
        let mut world = World::new();
        world.frames.clear();
        for n in 0..16 {
            world.memory.add_frame(Pa::new(HOST_ROOT + n * 0x1000));
            for word in 0..512 {
                world
                    .memory
                    .write(Pa::new(HOST_ROOT + n * 0x1000 + word * 8), 0);
            }
        }
        world.context.stage2.vtcr = (64 - bits) | 1 << 6 | 0b101 << 16;
        world.back(GUEST_ROOT);
        let ipa = far + 0x5000;
        world.back(ipa);
        world.map(VA, ipa);
        let outcome = world.load(VA);
        assert_eq!(outcome.result, Ok(Pa::new(world.frames[&ipa])), "{bits}");
        assert_eq!((outcome.reads.first, outcome.reads.second), (4, 15));
        // One bit more is no IPA.
        world.map(VA, 1 << bits);
        let fault = world.load(VA).result.unwrap_err();
        assert_eq!(
            (fault.kind, fault.level),
            (FaultKind::Translation, Level::L0)
        );
        assert_eq!(
            fault.stage,
            FaultStage::Two {
                ipa: Pa::new(1 << bits),
                table: None
            }
        );
    }
}

#[test]
fn registers_at_odds_fault_every_address() {
    for vtcr in [
        // Start levels that resolve too little or too much of the input.
        16 | 1 << 6 | 0b101 << 16,
        16 | 0b101 << 16,
        40 | 2 << 6 | 0b101 << 16,
        // 49 bits of a 4 KiB granule without DS.
        15 | 2 << 6 | 0b101 << 16,
    ] {
        let mut world = World::new();
        let ipa = world.new_ipa();
        world.map(VA, ipa);
        world.context.stage2.vtcr = vtcr;
        let fault = world.load(VA).result.unwrap_err();
        assert_eq!(
            (fault.kind, fault.level),
            (FaultKind::Translation, Level::L0),
            "{vtcr:#x}"
        );
        assert!(matches!(fault.stage, FaultStage::Two { .. }));
    }
}

#[test]
fn a_guest_table_without_a_frame_is_reported_as_such() {
    for level in 0..4 {
        let mut world = World::new();
        let ipa = world.new_ipa();
        world.map(VA, ipa);
        let entry = world.guest_path(VA)[level];
        let host = world.host_entry(entry, 0);
        world.memory.write(Pa::new(host), 0);
        let outcome = world.walk(AccessKind::Store, Privilege::User, VA);
        let fault = outcome.result.unwrap_err();
        assert_eq!(
            (fault.kind, fault.level),
            (FaultKind::Translation, Level::L3)
        );
        let table = Some(TableUse::Read);
        assert_eq!(
            fault.stage,
            FaultStage::Two {
                ipa: Pa::new(entry),
                table
            }
        );
        // Data abort from a lower level, IL, S1PTW, not a write although the access is one.
        assert_eq!(
            fault.esr(&outcome.access, true),
            0x24 << 26 | 1 << 25 | 1 << 7 | 7
        );
        assert_eq!(fault.hpfar(), Some(entry >> 12 << 4));
    }
}

#[test]
fn the_page_itself_without_a_frame_is_no_table_fault() {
    for (kind, esr) in [
        (AccessKind::Load, 0x24 << 26 | 1 << 25 | 7),
        (AccessKind::Store, 0x24 << 26 | 1 << 25 | 1 << 6 | 7),
        (AccessKind::Fetch, 0x20 << 26 | 1 << 25 | 7),
    ] {
        let mut world = World::new();
        let ipa = world.new_ipa();
        world.map(VA, ipa);
        let host = world.host_entry(ipa, 0);
        world.memory.write(Pa::new(host), 0);
        let outcome = world.walk(kind, Privilege::User, VA);
        let fault = outcome.result.unwrap_err();
        assert_eq!(fault.esr(&outcome.access, true), esr, "{kind:?}");
        assert_eq!(fault.hpfar(), Some(ipa >> 12 << 4));
    }
}

#[test]
fn a_guest_that_faults_by_itself_asks_the_host_nothing() {
    let mut world = World::new();
    let ipa = world.new_ipa();
    world.map(VA, ipa);
    let fault = world.load(VA + 0x1000).result.unwrap_err();
    assert_eq!(fault, Fault::new(FaultKind::Translation, Level::L3));
    assert_eq!(fault.hpfar(), None);
}

/// Stage 2's verdict by its fields alone, written as the manual's tables have it: S2AP 01 is
/// read, 10 write, 11 both; XN 00 both, 01 EL0 only, 10 none, 11 EL1 only; a fetch needs a read.
fn stage2_allows(s2ap: u64, xn: u64, managed: bool, kind: AccessKind, user: bool) -> bool {
    let reads = s2ap == 1 || s2ap == 3;
    match kind {
        AccessKind::Load => reads,
        AccessKind::Store => s2ap >= 2 || managed,
        AccessKind::Fetch => {
            let executes = match xn {
                0 => true,
                1 => user,
                2 => false,
                _ => !user,
            };
            reads && executes
        }
    }
}

/// Every stage 2 permission, with and without hardware dirty state, for every kind of access: a
/// fault exactly where the tables say so, and a descriptor written exactly where it must be.
#[test]
fn permissions_are_those_of_the_tables() {
    let mut cases = 0;
    let mut world = World::new();
    let ipa = world.new_ipa();
    world.map(VA, ipa);
    // A page for EL1 alone, where EL1 may fetch: an EL0-writable page is never EL1-executable.
    let kernel = VA + 0x1000;
    let [.., entry] = world.guest_path(kernel);
    let at = world.frame_of(entry);
    world.memory.write(at, ipa | GUEST_PAGE & !(1 << 6));
    let host = Pa::new(world.host_entry(ipa, 0));
    let frame = world.frames[&ipa];
    for bits in 0..256_u64 {
        let (s2ap, xn) = (bits & 3, bits >> 2 & 3);
        let [dbm, ha, hd, af] = [4, 5, 6, 7].map(|bit| bits >> bit & 1);
        world.context.stage2.vtcr = VTCR | ha << 21 | hd << 22;
        let raw =
            frame | HOST_PAGE & !(3 << 6 | 1 << 10) | s2ap << 6 | xn << 53 | dbm << 51 | af << 10;
        for kind in [AccessKind::Load, AccessKind::Store, AccessKind::Fetch] {
            for (user, va) in [(true, VA), (false, kernel)] {
                world.memory.write(host, raw);
                let privilege = if user {
                    Privilege::User
                } else {
                    Privilege::Supervisor
                };
                let outcome = world.walk(kind, privilege, va);
                let managed = dbm & ha & hd == 1;
                let expected = if af | ha == 0 {
                    Err(FaultKind::AccessFlag)
                } else if stage2_allows(s2ap, xn, managed, kind, user) {
                    Ok(Pa::new(frame))
                } else {
                    Err(FaultKind::Permission)
                };
                assert_eq!(
                    outcome.result.map_err(|it| it.kind),
                    expected,
                    "{bits:#x} {kind:?}"
                );
                let written = world.memory.read_descriptor(host).unwrap();
                let dirtied = expected.is_ok() && kind.is_write() && s2ap < 2;
                let accessed = u64::from(expected.is_ok()) << 10;
                assert_eq!(
                    written,
                    raw | accessed | u64::from(dirtied) << 7,
                    "{bits:#x} {kind:?}"
                );
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 256 * 6);
}

/// What the guest's walker writes, the host must let it write.
#[test]
fn an_access_flag_in_a_read_only_table_is_a_table_write_fault() {
    let mut world = World::new();
    let ipa = world.new_ipa();
    world.map(VA, ipa);
    world.context.tcr |= 1 << 39;
    let [.., entry] = world.guest_path(VA);
    let at = world.frame_of(entry);
    let raw = world.memory.read_descriptor(at).unwrap();
    world.memory.write(at, raw & !(1 << 10));
    let host = Pa::new(world.host_entry(entry, 0));
    let table = world.memory.read_descriptor(host).unwrap();
    world.memory.write(host, table & !(1 << 7));
    let outcome = world.load(VA);
    let fault = outcome.result.unwrap_err();
    let how = Some(TableUse::Update);
    assert_eq!(fault.kind, FaultKind::Permission);
    assert_eq!(
        fault.stage,
        FaultStage::Two {
            ipa: Pa::new(entry),
            table: how
        }
    );
    // A load, reported as a write: it is the walker's.
    assert_eq!(
        fault.esr(&outcome.access, true),
        0x24 << 26 | 1 << 25 | 1 << 7 | 1 << 6 | 0xf
    );
    // Nothing was written.
    assert_eq!(world.memory.read_descriptor(at), Some(raw & !(1 << 10)));
    world.memory.write(host, table);
    assert!(world.load(VA).result.is_ok());
    assert_eq!(world.memory.read_descriptor(at), Some(raw));
}

#[test]
fn with_stage_1_off_addresses_are_ipas() {
    let mut world = World::new();
    let ipa = world.new_ipa();
    world.context.sctlr = 0;
    let outcome = world.load(ipa + 0x40);
    assert_eq!(outcome.result, Ok(Pa::new(world.frames[&ipa] + 0x40)));
    assert_eq!((outcome.reads.first, outcome.reads.second), (0, 4));
    world.context.sctlr = 1;
    // Default cacheable: stage 1 is off whatever SCTLR_EL1 says.
    world.context.stage2.hcr |= 1 << 12;
    assert_eq!(world.load(ipa).result, Ok(Pa::new(world.frames[&ipa])));
}

#[test]
fn machines_do_not_see_each_other_in_the_tlb() {
    let mut world = World::new();
    let ipa = world.new_ipa();
    world.map(VA, ipa);
    let profile = Profile::builtin("neoverse-n1").unwrap();
    let mut system = System::<Aarch64>::new(&profile, 1, ()).unwrap();
    let access = Access::new(Va::new(VA), AccessKind::Load, Privilege::User);
    let mut load = |system: &mut System<Aarch64>, context: &Context| {
        system.set_context(CPU, *context, &world.memory);
        let translation = system.access(CPU, &access, 8, &mut world.memory).unwrap();
        (translation.size, translation.found_in)
    };
    let own = world.context;
    let mut other = own;
    other.stage2.vttbr = HOST_ROOT | 6 << 48;
    assert_eq!(load(&mut system, &own), (PageSize::Size4K, FoundIn::Walk));
    assert_eq!(load(&mut system, &own).1, FoundIn::L1Tlb);
    assert_eq!(load(&mut system, &other).1, FoundIn::Walk);
    let execute = |system: &mut System<Aarch64>, context: &Context, mnemonic: &str| {
        let op = Tlbi::new(mnemonic.parse().unwrap(), ipa >> 12, context).unwrap();
        system.invalidate(CPU, &op);
    };
    // An IPA form concerns entries of stage 2 alone: what both stages gave stays (D8.17.6.1).
    for (mnemonic, own_stays, other_stays) in [
        ("ipas2e1is", true, true),
        ("vmalle1is", false, true),
        ("vmalls12e1is", false, true),
        ("alle1is", false, false),
    ] {
        load(&mut system, &own);
        load(&mut system, &other);
        execute(&mut system, &own, mnemonic);
        let found = |stays| if stays { FoundIn::L1Tlb } else { FoundIn::Walk };
        assert_eq!(load(&mut system, &own).1, found(own_stays), "{mnemonic}");
        assert_eq!(
            load(&mut system, &other).1,
            found(other_stays),
            "{mnemonic}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Both stages together are the composition of two maps that share nothing with tables.
    #[test]
    fn a_walk_is_the_composition_of_two_maps(
        maps in proptest::collection::vec((0..64_u64, 0..32_u64, any::<bool>()), 1..40),
        probes in proptest::collection::vec(0..64_u64, 1..40),
    ) {
        let mut world = World::new();
        let mut guest = BTreeMap::new();
        // Spread over tables of every level.
        let va_of = |n: u64| n % 4 * 0x1000 + n / 4 % 4 * 0x20_0000 + n / 16 % 2 * 0x4000_0000 + ((n / 32) << 39);
        for (page, frame, backed) in maps {
            let ipa = 0x7000_0000 + frame * 0x1000 + ((frame % 3) << 30);
            if backed {
                world.back(ipa);
            }
            world.map(va_of(page), ipa);
            guest.insert(va_of(page), ipa);
        }
        for probe in probes {
            let va = va_of(probe);
            let got = world.load(va + 0x18).result;
            match guest.get(&va) {
                None => {
                    let fault = got.unwrap_err();
                    prop_assert_eq!((fault.kind, fault.stage), (FaultKind::Translation, FaultStage::One));
                }
                Some(ipa) => match world.frames.get(ipa) {
                    Some(frame) => prop_assert_eq!(got, Ok(Pa::new(frame + 0x18))),
                    None => {
                        let fault = got.unwrap_err();
                        prop_assert_eq!(fault.kind, FaultKind::Translation);
                        prop_assert_eq!(fault.stage, FaultStage::Two { ipa: Pa::new(ipa + 0x18), table: None });
                    }
                },
            }
        }
    }

    /// Whatever registers and memory hold, a walk ends in the reads that the levels allow, with
    /// an address that the core has or with a fault.
    #[test]
    fn any_registers_over_any_memory_end(
        registers in any::<[u64; 9]>(),
        sizes in (12..49_u64, 16..49_u64, 0..4_u64, 0..3_u64),
        seed in any::<u64>(),
        va in any::<u32>(),
        kind in prop::sample::select(vec![AccessKind::Load, AccessKind::Store, AccessKind::Fetch]),
    ) {
        let [sctlr, tcr, ttbr0, mair, hcr, vtcr, vttbr, sctlr2, ttbr1] = registers;
        let (t0sz, s2t0sz, sl0, tg0) = sizes;
        let context = Context {
            sctlr: sctlr | 1,
            tcr: tcr & !0x3f_003f & !(1 << 7 | 1 << 23) | t0sz | 25 << 16,
            ttbr0: ttbr0 & 0xffff_0000_ffff_f000,
            ttbr1,
            mair,
            stage2: Stage2 {
                hcr: hcr | HCR_VM,
                vtcr: vtcr & !0xc0ff | s2t0sz | sl0 << 6 | tg0 << 14,
                vttbr: vttbr & 0xffff_0000_ffff_f000,
                sctlr: sctlr2 & !(1 << 25),
            },
            implementation: Implementation { pa_range: PaRange::Bits52, ..Implementation::default() },
            ..Context::default()
        };
        let access = Access::new(Va::new(u64::from(va)), kind, Privilege::User);
        let mut seen = Reads::default();
        let leaf = Aarch64::walk(&context, &access, None, &mut Noise(seed), &mut seen);
        prop_assert!(seen.first <= Level::COUNT);
        prop_assert!(seen.second <= (seen.first + 2) * Level::COUNT);
        if let Ok(leaf) = leaf {
            prop_assert_eq!(leaf.pa.raw() >> 52, 0);
            prop_assert!(leaf.va.is_aligned(leaf.size) && leaf.pa.is_aligned(leaf.size));
            prop_assert!(leaf.group.is_none_or(|group| group > leaf.size));
        }
    }
}

/// Memory that holds something everywhere: mostly valid descriptors with the access flag.
struct Noise(u64);

impl TableMemory for Noise {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        let mixed = (pa.raw() ^ self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = mixed ^ mixed >> 29;
        Some(mixed & 0x00ff_0000_ffff_fffc | 0x4c0 | 1 | u64::from(mixed >> 61 != 0) << 1)
    }

    fn exchange_descriptor(&mut self, pa: Pa, _current: u64, _new: u64) -> Option<u64> {
        self.read_descriptor(pa)
    }
}
