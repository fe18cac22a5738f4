//! Properties of both walkers over arbitrary registers and arbitrary memory.

use std::cell::Cell;

use mmuscope_models::aarch64::{self, Aarch64, Implementation, PaRange};
use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::{Level, Pa, Va};
use mmuscope_models::arch::{
    Arch, Descriptor, Half, Leaf, Lookup, Step, TablePointer, Verdict, WalkVisitor,
};
use mmuscope_models::memory::{Peek, TableMemory};
use mmuscope_models::x86::{self, GigabytePages, PhysicalBits, X86_64};
use proptest::prelude::*;

/// Memory without end: the word at an address is a function of the address and a seed, shaped so
/// that walks get somewhere. Counts its reads.
#[derive(Debug)]
struct Endless {
    seed: u64,
    /// Ored into every word, and cleared from every word.
    set: u64,
    clear: u64,
    reads: Cell<usize>,
}

impl Endless {
    fn word(&self, pa: Pa) -> u64 {
        // splitmix64: any good mixer does.
        let mut word = pa
            .raw()
            .wrapping_add(self.seed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ word >> 31) & !self.clear | self.set
    }
}

impl TableMemory for Endless {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        assert_eq!(pa.raw() % 8, 0, "descriptors are aligned");
        self.reads.set(self.reads.get() + 1);
        Some(self.word(pa))
    }

    fn exchange_descriptor(&mut self, pa: Pa, current: u64, _new: u64) -> Option<u64> {
        assert_eq!(current, self.word(pa));
        Some(current)
    }
}

/// Memory in which another processor changes every descriptor before it can be updated.
struct Restless(Endless);

impl TableMemory for Restless {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        self.0.read_descriptor(pa)
    }

    fn exchange_descriptor(&mut self, _pa: Pa, current: u64, _new: u64) -> Option<u64> {
        Some(!current)
    }
}

/// Words as dense in valid, often address-less descriptors as `kind` says.
fn memory() -> impl Strategy<Value = Endless> {
    let shapes = prop::sample::select(vec![
        // Anything.
        (0, 0),
        // AArch64: valid tables and pages, AF set, addresses below 4 GiB in every format.
        (0x403, 0x0003_ffff_0000_f300),
        // The same, and no permissions taken away by tables.
        (0x403, 0xf803_ffff_0000_f300),
        // AArch64: valid, blocks or tables, addresses below 4 GiB.
        (0x401, 0x0003_ffff_0000_f300),
        // Valid, addresses anywhere below 2^40.
        (0x401, 0x000f_ff00_0000_0000),
        // x86: present, writable, user, no reserved bits below 52.
        (0x007, 0x000f_ff00_0000_0080),
        // x86: present tables or large pages, nothing reserved but bit 7 where it is.
        (0x007, 0x800f_fff0_3fff_e000),
    ]);
    (any::<u64>(), shapes).prop_map(|(seed, (set, clear))| Endless {
        seed,
        set,
        clear,
        reads: Cell::new(0),
    })
}

fn access(va: impl Strategy<Value = u64>) -> impl Strategy<Value = Access> {
    let kind = prop::sample::select(vec![AccessKind::Load, AccessKind::Store, AccessKind::Fetch]);
    let privilege = prop::sample::select(vec![Privilege::User, Privilege::Supervisor]);
    (va, kind, privilege)
        .prop_map(|(va, kind, privilege)| Access::new(Va::new(va), kind, privilege))
}

/// Addresses: anything, or sign-extended from some bit, which is in range more often.
fn va() -> impl Strategy<Value = u64> {
    (
        any::<u64>(),
        prop::sample::select(vec![0, 7, 8, 12, 16, 16, 25, 34, 39]),
    )
        .prop_map(|(raw, cut)| ((raw << cut).cast_signed() >> cut).cast_unsigned())
}

fn arm_context() -> impl Strategy<Value = aarch64::Context> {
    let ranges = prop::sample::select(vec![PaRange::Bits36, PaRange::Bits48, PaRange::Bits52]);
    (
        any::<(u64, u64, u64, u64, u64, bool)>(),
        12..49_u64,
        12..49_u64,
        ranges,
        // Roots anywhere, or where every output size reaches them.
        prop_oneof![1 => Just(u64::MAX), 7 => Just(0xffff_0000_ffff_ffc3_u64)],
    )
        .prop_map(
            |((sctlr, tcr, ttbr0, ttbr1, mair, pan), t0sz, t1sz, pa_range, root)| {
                aarch64::Context {
                    // The MMU is on in three cases of four.
                    sctlr: sctlr | sctlr >> 1 & 1,
                    tcr: tcr & !0x3f_003f & !(1 << 7 | 1 << 23) | t0sz | t1sz << 16,
                    ttbr0: ttbr0 & root,
                    ttbr1: ttbr1 & root,
                    mair,
                    pan,
                    implementation: Implementation {
                        pa_range,
                        ..Implementation::default()
                    },
                    ..aarch64::Context::default()
                }
            },
        )
}

fn x86_context() -> impl Strategy<Value = x86::Context> {
    (
        any::<(u64, u64, u64, u64, bool, u32, u32)>(),
        prop::sample::select(vec![36, 46, 52]),
        prop::sample::select(vec![GigabytePages::Supported, GigabytePages::Absent]),
    )
        .prop_map(
            |((cr0, cr3, cr4, efer, ac, pkru, pkrs), bits, gigabyte_pages)| x86::Context {
                cr0: cr0 | cr0 >> 1 & 1 << 31,
                cr3,
                cr4,
                efer,
                ac,
                pkru,
                pkrs,
                physical_bits: PhysicalBits::new(bits).unwrap(),
                gigabyte_pages,
                nesting: x86::Nesting::Off,
            },
        )
}

/// Remembers a walk.
struct Recorder<A: Arch> {
    steps: Vec<Step<A>>,
    updates: usize,
}

impl<A: Arch> Recorder<A> {
    const fn new() -> Self {
        Self {
            steps: Vec::new(),
            updates: 0,
        }
    }
}

impl<A: Arch> WalkVisitor<A> for Recorder<A> {
    fn step(&mut self, step: &Step<A>) {
        self.steps.push(*step);
    }

    fn update(&mut self, level: Level, at: Pa, old: u64, new: u64) {
        assert_ne!(old, new);
        assert!(
            self.steps
                .iter()
                .any(|step| step.at == at && step.level == level)
        );
        self.updates += 1;
    }
}

fn walk<A: Arch>(
    context: &A::Context,
    access: &Access,
    start: Option<TablePointer<A>>,
    memory: &Endless,
) -> Result<Leaf<A>, A::Fault> {
    A::walk(context, access, start, &mut Peek(memory), &mut ())
}

/// What must hold for every walk of every architecture. `half` is the address's.
fn explore<A: Arch>(context: &A::Context, access: &Access, half: Half, memory: &Endless) {
    let mut recorder = Recorder::<A>::new();
    let result = A::walk(context, access, None, &mut Peek(memory), &mut recorder);
    let steps = &recorder.steps;
    assert_eq!(memory.reads.get(), steps.len() + recorder.updates);
    assert!(steps.len() <= Level::COUNT, "{} reads", steps.len());
    let off = !matches!(A::before_lookup(context, access), Ok(Lookup::Tagged(_)));
    assert!(steps.is_empty() || !off);
    for pair in steps.windows(2) {
        assert_eq!(Some(pair[1].level), pair[0].level.next());
        let next = pair[0].next.unwrap();
        assert_eq!(next.level, pair[1].level);
        // The entry read next lies in the table pointed to: at most 64 KiB.
        assert!((next.base.raw()..next.base.raw() + 0x1_0000).contains(&pair[1].at.raw()));
    }
    for step in steps {
        judge_step::<A>(context, half, step, steps.last().unwrap(), &result);
        if step.next.is_some() {
            assert_eq!(walk::<A>(context, access, step.next, memory), result);
        }
    }
    if let Ok(leaf) = &result {
        judge_leaf(context, access, leaf, recorder.updates > 0);
    }
}

/// The descriptor, decoded by itself, agrees with what the walk made of it.
fn judge_step<A: Arch>(
    context: &A::Context,
    half: Half,
    step: &Step<A>,
    last: &Step<A>,
    result: &Result<Leaf<A>, A::Fault>,
) {
    match A::descriptor(context, half, step.level, step.raw) {
        Descriptor::Invalid => assert!(step == last && result.is_err()),
        Descriptor::Table(base) => match step.next {
            Some(next) => assert_eq!(next.base, base),
            // Only a base beyond the physical address size ends a walk at a table.
            None => assert!(result.is_err() && base.raw() >> 32 != 0),
        },
        Descriptor::Leaf { pa, size, .. } => {
            assert!(step == last);
            if let Ok(leaf) = result {
                assert_eq!((leaf.pa, leaf.size, leaf.level), (pa, size, step.level));
            }
        }
    }
}

/// A leaf is aligned, covers the address, and serves the access that found it.
fn judge_leaf<A: Arch>(context: &A::Context, access: &Access, leaf: &Leaf<A>, updated: bool) {
    assert!(leaf.va.is_aligned(leaf.size) && leaf.pa.is_aligned(leaf.size));
    assert!(leaf.group.is_none_or(|group| group > leaf.size));
    if matches!(A::before_lookup(context, access), Ok(Lookup::Tagged(_))) {
        let va = A::canonical(context, access.va);
        assert_eq!(va.page_base(leaf.size), leaf.va);
        let verdict = A::check(leaf, context, access);
        assert!(verdict == Verdict::Allowed, "{verdict:?} {updated}");
    }
}

fn half(va: Va, bit: u32) -> Half {
    if va.raw() >> bit & 1 == 0 {
        Half::Lower
    } else {
        Half::Upper
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn aarch64_walks(context in arm_context(), access in access(va()), memory in memory()) {
        let half = half(access.va, 55);
        explore::<Aarch64>(&context, &access, half, &memory);
        if let Ok(leaf) = walk::<Aarch64>(&context, &access, None, &memory) {
            let bits = aarch64::Format::new(&context, half).output_bits();
            let mmu_on = aarch64::Sctlr::new(context.sctlr).mmu_on();
            prop_assert!(!mmu_on || leaf.pa.raw() >> bits == 0);
            prop_assert!(leaf.pa.raw() >> context.implementation.pa_range.bits() == 0);
        }
    }

    #[test]
    fn x86_walks(context in x86_context(), access in access(va()), memory in memory()) {
        explore::<X86_64>(&context, &access, half(access.va, 63), &memory);
        if let Ok(leaf) = walk::<X86_64>(&context, &access, None, &memory) {
            let paging = context.cr0 >> 31 & 1 != 0;
            prop_assert!(!paging || leaf.pa.raw() >> context.physical_bits.bits() == 0);
        }
    }

    #[test]
    fn walks_end_though_descriptors_keep_changing(
        arm in arm_context(),
        x86 in x86_context(),
        access in access(va()),
        memory in memory(),
    ) {
        let mut memory = Restless(memory);
        let _ = Aarch64::walk(&arm, &access, None, &mut memory, &mut ());
        let _ = X86_64::walk(&x86, &access, None, &mut memory, &mut ());
        prop_assert!(memory.0.reads.get() <= 2 * 8 * Level::COUNT);
    }

    /// Arbitrary pointers, as a stale walk cache may hold them.
    #[test]
    fn walks_from_any_table_pointer_end(
        arm in arm_context(),
        x86 in x86_context(),
        access in access(va()),
        level in prop::sample::select(Level::ALL.to_vec()),
        base in any::<u64>().prop_map(|base| Pa::new(base & !0xfff)),
        memory in memory(),
    ) {
        let start = TablePointer {
            level,
            base,
            attrs: aarch64::TableAttrs::all(),
        };
        let _ = walk::<Aarch64>(&arm, &access, Some(start), &memory);
        let start = TablePointer {
            level,
            base,
            attrs: x86::TableAttrs::all(),
        };
        let _ = walk::<X86_64>(&x86, &access, Some(start), &memory);
    }
}

#[test]
fn an_update_that_never_succeeds_is_reported() {
    // Valid pages without the access flag, hardware access flag on.
    let memory = Endless {
        seed: 1,
        set: 0x003,
        clear: !0,
        reads: Cell::new(0),
    };
    let context = aarch64::Context {
        sctlr: 1,
        tcr: 16 | 0b101 << 32 | 1 << 39,
        ..aarch64::Context::default()
    };
    let access = Access::new(Va::new(0), AccessKind::Load, Privilege::Supervisor);
    let fault = Aarch64::walk(&context, &access, None, &mut Restless(memory), &mut ());
    assert_eq!(fault.unwrap_err().fsc(), 0x31);
}

/// The properties above would hold of walkers that always fault: the generators must get through.
#[test]
fn the_generators_reach_leaves_and_faults_of_every_kind() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    use std::collections::BTreeMap;

    let mut runner = TestRunner::deterministic();
    let strategy = (arm_context(), x86_context(), access(va()), memory());
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..80_000 {
        let (arm, x86, access, memory) = strategy.new_tree(&mut runner).unwrap().current();
        if matches!(Aarch64::before_lookup(&arm, &access), Ok(Lookup::Tagged(_))) {
            let outcome = match walk::<Aarch64>(&arm, &access, None, &memory) {
                Ok(leaf) => format!("aarch64 {}", leaf.size),
                Err(fault) => format!("aarch64 {:?}", fault.kind),
            };
            *seen.entry(outcome).or_default() += 1;
        }
        if matches!(X86_64::before_lookup(&x86, &access), Ok(Lookup::Tagged(_))) {
            let outcome = match walk::<X86_64>(&x86, &access, None, &memory) {
                Ok(leaf) => format!("x86 {}", leaf.size),
                Err(fault) => format!("x86 {:#x}", fault.error_code() & 0x29),
            };
            *seen.entry(outcome).or_default() += 1;
        }
    }
    let expected = "aarch64 4K, aarch64 16K, aarch64 64K, aarch64 2M, aarch64 32M, aarch64 512M, \
        aarch64 1G, aarch64 64G, aarch64 512G, aarch64 4T, aarch64 AddressSize, \
        aarch64 Translation, aarch64 AccessFlag, aarch64 Permission, \
        x86 4K, x86 2M, x86 1G, x86 0x0, x86 0x1, x86 0x9, x86 0x21";
    for outcome in expected.split(", ") {
        let times = seen.get(outcome.trim()).copied().unwrap_or(0);
        assert!(times >= 5, "{outcome}: {times} times of {seen:?}");
    }
}
