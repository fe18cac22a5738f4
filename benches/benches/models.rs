//! What the models cost by themselves: a walk through tables that are in the host's caches, and
//! an access of a whole system that a TLB serves.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::{Level, Pa, Va};
use mmuscope_models::arch::{Arch, Step, TablePointer, WalkVisitor};
use mmuscope_models::memory::TableMemory;
use mmuscope_models::profile::Profile;
use mmuscope_models::system::{CoreId, System, Timing};
use mmuscope_models::{aarch64, x86};

/// Pages that the walks go round: their leaf table is one frame.
const PAGES: u64 = 512;
/// Where they are mapped.
const START: u64 = 0x40_0000_0000;

/// Four tables, one below the other, that map [`PAGES`] pages.
struct Tables {
    words: Vec<u64>,
}

impl Tables {
    /// `table` and `page` are the bits of table and page entries beside the address.
    fn new(table: u64, page: u64) -> Self {
        let mut words = vec![0; 4 * 512];
        for (level, shift) in [39, 30, 21].into_iter().enumerate() {
            let index = usize::try_from(START >> shift & 511).unwrap();
            words[level * 512 + index] = ((level as u64 + 1) * 4096) | table;
        }
        for (index, word) in words[3 * 512..].iter_mut().enumerate() {
            *word = ((index as u64 + 0x1000) * 4096) | page;
        }
        Self { words }
    }
}

impl TableMemory for Tables {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        let index = usize::try_from(pa.raw() / 8).ok()?;
        self.words.get(index).copied()
    }

    fn exchange_descriptor(&mut self, pa: Pa, current: u64, new: u64) -> Option<u64> {
        let index = usize::try_from(pa.raw() / 8).ok()?;
        let word = self.words.get_mut(index)?;
        let old = *word;
        if old == current {
            *word = new;
        }
        Some(old)
    }
}

/// Remembers the pointer to the leaf table, as a walk cache would.
struct LastPointer<A: Arch>(Option<TablePointer<A>>);

impl<A: Arch> WalkVisitor<A> for LastPointer<A> {
    fn step(&mut self, step: &Step<A>) {
        if step.next.is_some_and(|next| next.level == Level::L3) {
            self.0 = step.next;
        }
    }
}

fn access(page: u64) -> Access {
    let va = Va::new(START + page % PAGES * 4096 + 0x238);
    Access::new(va, AccessKind::Load, Privilege::Supervisor)
}

fn walks<A: Arch>(criterion: &mut Criterion, context: &A::Context, mut tables: Tables) {
    let mut group = criterion.benchmark_group(format!("walk/{}", A::NAME));
    group.throughput(Throughput::Elements(1));
    let mut page = 0;
    group.bench_function("four levels", |bencher| {
        bencher.iter(|| {
            page += 1;
            let access = black_box(access(page));
            A::walk(context, &access, None, &mut tables, &mut ()).unwrap()
        });
    });

    let mut pointer = LastPointer(None);
    A::walk(context, &access(0), None, &mut tables, &mut pointer).unwrap();
    assert!(pointer.0.is_some(), "the walk passes through a leaf table");
    group.bench_function("from the leaf table", |bencher| {
        bencher.iter(|| {
            page += 1;
            let access = black_box(access(page));
            A::walk(context, &access, pointer.0, &mut tables, &mut ()).unwrap()
        });
    });
    group.finish();
}

/// Accesses of a system: 16 pages stay in the first-level data TLB, 512 need the second.
fn accesses<A: Arch>(
    criterion: &mut Criterion,
    profile: &str,
    context: &A::Context,
    mut tables: Tables,
) {
    let profile = Profile::builtin(profile).unwrap();
    let mut group = criterion.benchmark_group(format!("access/{}", A::NAME));
    group.throughput(Throughput::Elements(1));
    for (timing, timing_name) in [(Timing::Off, "timing off"), (Timing::Full, "timing full")] {
        for (pages, found) in [(16, "L1 TLB hit"), (PAGES, "L2 TLB hit")] {
            let mut system = System::<A>::new(&profile, 1, ()).unwrap();
            let core = CoreId::new(0);
            system.set_timing(timing);
            system.set_context(core, context.clone(), &tables);
            let mut page = 0;
            group.bench_function(format!("{found}, {timing_name}"), |bencher| {
                bencher.iter(|| {
                    page += 1;
                    let access = black_box(access(page % pages));
                    system.access(core, &access, 8, &mut tables).unwrap()
                });
            });
            let walks = system.counters(core).data.walks;
            assert!(
                walks <= pages,
                "{walks} walks: the TLB does not hold {pages} pages"
            );
        }
    }
    group.finish();
}

fn aarch64_context() -> aarch64::Context {
    aarch64::Context {
        sctlr: 1,
        // T0SZ = T1SZ = 16, TG1 = 4K, IPS = 48 bits.
        tcr: 16 | 16 << 16 | 0b10 << 30 | 0b101 << 32,
        ..aarch64::Context::default()
    }
}

/// Pages with AF, inner shareable, EL1 read and write.
fn aarch64_tables() -> Tables {
    Tables::new(0x3, 0x703)
}

fn x86_context() -> x86::Context {
    x86::Context {
        // PG, WP, PE; PGE, PAE; NXE, LMA, LME.
        cr0: 0x8001_0001,
        cr4: 0xa0,
        efer: 0xd00,
        ..x86::Context::default()
    }
}

/// Present, writable, accessed; dirty too in the leaf.
fn x86_tables() -> Tables {
    Tables::new(0x23, 0x63)
}

fn all(criterion: &mut Criterion) {
    walks::<aarch64::Aarch64>(criterion, &aarch64_context(), aarch64_tables());
    walks::<x86::X86_64>(criterion, &x86_context(), x86_tables());
    let arm = aarch64_context();
    accesses::<aarch64::Aarch64>(criterion, "cortex-a76", &arm, aarch64_tables());
    accesses::<x86::X86_64>(criterion, "skylake-sp", &x86_context(), x86_tables());
}

criterion_group!(benches, all);
criterion_main!(benches);
