//! Stale translations are real: a guest reads what the modelled TLBs hold, not what the tables
//! say, until something removes it.

mod common;

use common::{Bench, VA, a64, frame};
use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::system::TranslationMode;
use mmuscope_models::x86::X86_64;

/// ldr x3,[x0]; str x2,[x1]; ldr x4,[x0]; dsb ishst; tlbi vae1is,x5; dsb ish; isb; ldr x6,[x0]
const STALE_A64: [u32; 8] = [
    0xf940_0003,
    0xf900_0022,
    0xf940_0004,
    0xd503_3a9f,
    0xd508_8325,
    0xd503_3b9f,
    0xd503_3fdf,
    0xf940_0006,
];
/// mov (%rdi),%rax; mov %rdx,(%rsi); mov (%rdi),%rbx; invlpg (%rdi); mov (%rdi),%rcx; nop
const STALE_X86: [u8; 16] = [
    0x48, 0x8b, 0x07, 0x48, 0x89, 0x16, 0x48, 0x8b, 0x1f, 0x0f, 0x01, 0x3f, 0x48, 0x8b, 0x0f, 0x90,
];

fn stale_aarch64(mode: TranslationMode) -> [u64; 3] {
    let mut pte = 0;
    let mut bench = Bench::<Aarch64>::new(&a64(&STALE_A64), mode, |tables| {
        tables.map::<Aarch64>(VA, frame(1), <Aarch64 as common::Target>::PAGE);
        pte = tables.entry::<Aarch64>(VA, 3);
    });
    bench.set("x0", VA + 8);
    bench.set("x1", pte);
    bench.set("x2", frame(2) | <Aarch64 as common::Target>::PAGE);
    bench.set("x5", VA >> 12);
    bench.run();
    ["x3", "x4", "x6"].map(|register| bench.get(register))
}

fn stale_x86(mode: TranslationMode) -> [u64; 3] {
    let mut pte = 0;
    let mut bench = Bench::<X86_64>::new(&STALE_X86, mode, |tables| {
        tables.map::<X86_64>(VA, frame(1), <X86_64 as common::Target>::PAGE);
        pte = tables.entry::<X86_64>(VA, 3);
    });
    bench.set("rdi", VA + 8);
    bench.set("rsi", pte);
    bench.set("rdx", frame(2) | <X86_64 as common::Target>::PAGE);
    bench.run();
    assert_eq!(bench.guest.counters().flushes.invlpg, 1);
    ["rax", "rbx", "rcx"].map(|register| bench.get(register))
}

#[test]
fn the_old_page_is_read_until_it_is_invalidated() {
    for mode in [TranslationMode::Modelled, TranslationMode::Hoarder] {
        assert_eq!(stale_aarch64(mode), [1, 1, 2], "aarch64 {mode:?}");
        assert_eq!(stale_x86(mode), [1, 1, 2], "x86 {mode:?}");
    }
}

#[test]
fn without_tlbs_the_new_page_is_read_at_once() {
    let mode = TranslationMode::PassThrough;
    assert_eq!(stale_aarch64(mode), [1, 2, 2]);
    assert_eq!(stale_x86(mode), [1, 2, 2]);
}

/// ldr x3,[x0]; str x2,[x1]; 1: ldr x7,[x8]; add x8,x8,#4096; subs x9,x9,#1; b.ne 1b; ldr x4,[x0]
const EVICT_A64: [u32; 7] = [
    0xf940_0003,
    0xf900_0022,
    0xf940_0107,
    0x9140_0508,
    0xf100_0529,
    0x54ff_ffa1,
    0xf940_0004,
];
/// mov (%rdi),%rax; mov %rdx,(%rsi); 1: mov (%r8),%r10; add $4096,%r8; dec %r9; jne 1b;
/// mov (%rdi),%rbx; nop
const EVICT_X86: [u8; 25] = [
    0x48, 0x8b, 0x07, 0x48, 0x89, 0x16, 0x4d, 0x8b, 0x10, 0x49, 0x81, 0xc0, 0x00, 0x10, 0x00, 0x00,
    0x49, 0xff, 0xc9, 0x75, 0xf1, 0x48, 0x8b, 0x1f, 0x90,
];

fn evict_aarch64(mode: TranslationMode, pages: u64) -> u64 {
    let mut pte = 0;
    let mut bench = Bench::<Aarch64>::new(&a64(&EVICT_A64), mode, |tables| {
        tables.map::<Aarch64>(VA, frame(1), <Aarch64 as common::Target>::PAGE);
        pte = tables.entry::<Aarch64>(VA, 3);
    });
    bench.set("x0", VA);
    bench.set("x1", pte);
    bench.set("x2", frame(2) | <Aarch64 as common::Target>::PAGE);
    bench.set("x8", common::RAM_BASE);
    bench.set("x9", pages);
    bench.run();
    assert_eq!(bench.get("x3"), 1);
    bench.get("x4")
}

fn evict_x86(mode: TranslationMode, pages: u64) -> u64 {
    let mut pte = 0;
    let mut bench = Bench::<X86_64>::new(&EVICT_X86, mode, |tables| {
        tables.map::<X86_64>(VA, frame(1), <X86_64 as common::Target>::PAGE);
        pte = tables.entry::<X86_64>(VA, 3);
    });
    bench.set("rdi", VA);
    bench.set("rsi", pte);
    bench.set("rdx", frame(2) | <X86_64 as common::Target>::PAGE);
    bench.set("r8", common::RAM_BASE);
    bench.set("r9", pages);
    bench.run();
    assert_eq!(bench.get("rax"), 1);
    bench.get("rbx")
}

/// More pages than any modelled TLB has entries.
const MANY: u64 = 8192;

#[test]
fn the_new_page_is_read_when_the_old_entry_was_evicted() {
    let mode = TranslationMode::Modelled;
    assert_eq!(evict_aarch64(mode, 8), 1, "still in the TLB");
    assert_eq!(evict_x86(mode, 8), 1, "still in the TLB");
    assert_eq!(evict_aarch64(mode, MANY), 2, "evicted");
    assert_eq!(evict_x86(mode, MANY), 2, "evicted");
}

#[test]
fn a_hoarder_never_evicts() {
    assert_eq!(evict_aarch64(TranslationMode::Hoarder, MANY), 1);
    assert_eq!(evict_x86(TranslationMode::Hoarder, MANY), 1);
}

/// ldr x3,[x0]; str x2,[x1]; dsb ishst; tlbi vale1is,x5; dsb ish; isb; ldr x4,[x0];
/// tlbi vae1is,x5; dsb ish; isb; ldr x6,[x0]
const TABLE_A64: [u32; 11] = [
    0xf940_0003,
    0xf900_0022,
    0xd503_3a9f,
    0xd508_83a5,
    0xd503_3b9f,
    0xd503_3fdf,
    0xf940_0004,
    0xd508_8325,
    0xd503_3b9f,
    0xd503_3fdf,
    0xf940_0006,
];

/// Changes the level 1 entry above a page to another tree that maps it elsewhere.
#[test]
fn a_moved_table_is_walked_through_until_its_pointer_is_invalidated_aarch64() {
    let page = <Aarch64 as common::Target>::PAGE;
    let (mut entry, mut other) = (0, 0);
    let mut bench = Bench::<Aarch64>::new(&a64(&TABLE_A64), TranslationMode::Modelled, |tables| {
        // Another tree, built at another address: its level 2 table will be moved here.
        let elsewhere = VA + (1 << 30);
        tables.map::<Aarch64>(elsewhere, frame(2), page);
        tables.map::<Aarch64>(VA, frame(1), page);
        entry = tables.entry::<Aarch64>(VA, 1);
        other = tables.entry::<Aarch64>(elsewhere, 1);
    });
    let moved = bench.word(other);
    bench.set("x0", VA);
    bench.set("x1", entry);
    bench.set("x2", moved);
    bench.set("x5", VA >> 12);
    bench.run();
    assert_eq!(bench.get("x3"), 1);
    assert_eq!(
        bench.get("x4"),
        1,
        "VALE1IS leaves the table pointer: the old table is used"
    );
    assert_eq!(bench.get("x6"), 2, "VAE1IS removes it");
    assert!(
        bench
            .guest
            .counters()
            .data
            .walk_cache_hits
            .iter()
            .sum::<u64>()
            > 0
    );
}

/// mov (%rdi),%rax; mov %rdx,(%rsi); mov 4096(%rdi),%rbx; invlpg (%rdi); mov 8192(%rdi),%rcx; nop
const TABLE_X86: [u8; 24] = [
    0x48, 0x8b, 0x07, 0x48, 0x89, 0x16, 0x48, 0x8b, 0x9f, 0x00, 0x10, 0x00, 0x00, 0x0f, 0x01, 0x3f,
    0x48, 0x8b, 0x8f, 0x00, 0x20, 0x00, 0x00, 0x90,
];

#[test]
fn a_moved_table_is_walked_through_until_its_pointer_is_invalidated_x86() {
    let page = <X86_64 as common::Target>::PAGE;
    let (mut entry, mut other) = (0, 0);
    let mut bench = Bench::<X86_64>::new(&TABLE_X86, TranslationMode::Modelled, |tables| {
        let elsewhere = VA + (2 << 20);
        for n in 0..3 {
            tables.map::<X86_64>(VA + n * 0x1000, frame(1), page);
            tables.map::<X86_64>(elsewhere + n * 0x1000, frame(2), page);
        }
        entry = tables.entry::<X86_64>(VA, 2);
        other = tables.entry::<X86_64>(elsewhere, 2);
    });
    let moved = bench.word(other);
    bench.set("rdi", VA);
    bench.set("rsi", entry);
    bench.set("rdx", moved);
    bench.run();
    assert_eq!(bench.get("rax"), 1);
    assert_eq!(
        bench.get("rbx"),
        1,
        "a page never used before is walked through the old table"
    );
    assert_eq!(
        bench.get("rcx"),
        2,
        "INVLPG of any address removes the pointers of this PCID"
    );
}
