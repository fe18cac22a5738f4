//! The plugin on a user's own Unicorn instance: exact counts of single instructions, own hooks
//! and devices, faults without a machine around them.

mod common;

use common::{Bench, Seen, Target, VA, a64, frame};
use mmuscope_emu::plugin::{AttachError, Config, Stop, attach};
use mmuscope_emu::ram::Ram;
use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::addr::Pa;
use mmuscope_models::profile::Profile;
use mmuscope_models::system::TranslationMode;
use mmuscope_models::x86::X86_64;
use unicorn_engine::{Arch, HookType, Mode, Unicorn};

const MODELLED: TranslationMode = TranslationMode::Modelled;

fn bench(code: &[u32], prepare: impl FnOnce(&mut common::Tables)) -> Bench<Aarch64> {
    Bench::new(&a64(code), MODELLED, prepare)
}

#[test]
fn halves_of_a_pair_are_one_access_and_an_atomic_is_two() {
    // stp x3,x4,[x0]; ldp x5,x6,[x0]; ldr x7,[x1]; ldadd x3,x8,[x0]
    let mut bench = bench(
        &[0xa900_1003, 0xa940_1805, 0xf940_0027, 0xf823_0008],
        |_| {},
    );
    bench.set("x0", frame(3));
    bench.set("x1", frame(4));
    bench.set("x3", 30);
    bench.set("x4", 40);
    bench.run();
    let counters = bench.guest.counters();
    assert_eq!(
        ["x5", "x6", "x7", "x8"].map(|x| bench.get(x)),
        [30, 40, 4, 30]
    );
    assert_eq!(bench.word(frame(3)), 60);
    // One for each pair; the atomic reads and writes.
    assert_eq!((counters.stores, counters.loads), (1 + 1, 1 + 1 + 1));
    assert_eq!(counters.instructions.atomic, 1);
    assert_eq!(counters.instructions.total(), 4);
}

#[test]
fn a_repeated_string_instruction_counts_once() {
    // rep stosq; nop
    let mut bench = Bench::<X86_64>::new(&[0xf3, 0x48, 0xab, 0x90], MODELLED, |_| {});
    bench.set("rdi", frame(5));
    bench.set("rax", 77);
    bench.set("rcx", 8);
    bench.run();
    assert_eq!(
        [bench.word(frame(5) + 56), bench.word(frame(5) + 64)],
        [77, 5]
    );
    let counters = bench.guest.counters();
    assert_eq!(counters.stores, 1, "one line");
    assert_eq!(counters.instructions.total(), 2);
}

#[test]
fn a_string_is_accessed_by_lines() {
    // rep movsq; nop
    let mut bench = Bench::<X86_64>::new(&[0xf3, 0x48, 0xa5, 0x90], MODELLED, |_| {});
    bench.set("rsi", frame(4) + 0x100);
    bench.set("rdi", frame(5) + 0x30);
    bench.set("rcx", 20);
    bench.run();
    assert_eq!(bench.word(frame(5) + 0x30 + 19 * 8), 4);
    assert_eq!(bench.word(frame(5) + 0x30 + 20 * 8), 5);
    let counters = bench.guest.counters();
    // Read: two lines and a half. Written: two words, two lines, two words.
    assert_eq!((counters.loads, counters.stores), (3, 4));
    assert_eq!(counters.data_lines.unread, 2);
    assert_eq!(counters.instructions.total(), 2);
}

#[test]
fn dc_zva_is_one_store_of_a_line() {
    // dc zva, x2; add x9,x9,#1
    let mut bench = bench(&[0xd50b_7422, 0x9100_0529], |_| {});
    bench.set("x2", frame(5) + 0x48);
    bench.set("x9", 1);
    bench.run();
    let words = (0..24).map(|word| bench.word(frame(5) + word * 8));
    let cleared: Vec<_> = words.map(|word| word == 0).collect();
    assert!(cleared[8..16].iter().all(|cleared| *cleared));
    assert!(
        cleared[..8]
            .iter()
            .chain(&cleared[16..])
            .all(|cleared| !cleared)
    );
    assert_eq!(bench.guest.counters().stores, 1);
    assert_eq!(bench.get("x9"), 2);
}

/// str x3,[x0]; ldr x4,[x0]
const CROSS: [u32; 2] = [0xf900_0003, 0xf940_0004];

#[test]
fn an_access_across_pages_is_two_and_lands_in_both() {
    let mut bench = bench(&CROSS, |tables| {
        tables.map::<Aarch64>(VA, frame(1), Aarch64::PAGE);
        tables.map::<Aarch64>(VA + 0x1000, frame(7), Aarch64::PAGE);
    });
    bench.set("x0", VA + 0xffd);
    bench.set("x3", 0x8877_6655_4433_2211);
    bench.run();
    assert_eq!(bench.get("x4"), 0x8877_6655_4433_2211);
    assert_eq!(bench.word(frame(1) + 0xff8) >> 40, 0x33_2211);
    assert_eq!(bench.word(frame(7)) & 0xff_ffff_ffff, 0x88_7766_5544);
    let counters = bench.guest.counters();
    assert_eq!((counters.stores, counters.loads), (2, 2));
}

#[test]
fn a_store_whose_second_page_is_stale_lands_where_the_model_says() {
    // ldr x7,[x8]; str x2,[x1]; dsb ishst; tlbi vae1is,x5; dsb ish; str x3,[x0]; ldr x4,[x0]
    let code = [
        0xf940_0107,
        0xf900_0022,
        0xd503_3a9f,
        0xd508_8325,
        0xd503_3b9f,
        0xf900_0003,
        0xf940_0004,
    ];
    let mut pte = 0;
    let mut bench = bench(&code, |tables| {
        tables.map::<Aarch64>(VA, frame(1), Aarch64::PAGE);
        tables.map::<Aarch64>(VA + 0x1000, frame(7), Aarch64::PAGE);
        pte = tables.entry::<Aarch64>(VA + 0x1000, 3);
    });
    bench.set("x8", VA + 0x1000);
    bench.set("x1", pte);
    bench.set("x2", frame(9) | Aarch64::PAGE);
    bench.set("x5", (VA + 0x1000) >> 12);
    bench.set("x0", VA + 0xffc);
    bench.set("x3", u64::MAX);
    bench.run();
    assert_eq!(bench.get("x7"), 7, "the first frame was read before");
    assert_eq!(bench.get("x4"), u64::MAX);
    assert_eq!(bench.word(frame(7)), 7, "the old frame is as it was");
    assert_eq!(bench.word(frame(9)) & 0xffff_ffff, 0xffff_ffff);
    let counters = bench.guest.counters();
    assert_eq!(
        (counters.stores, counters.loads),
        (3, 3),
        "retries are not counted"
    );
}

/// One frame at more addresses than there are alias windows.
#[test]
fn a_frame_may_be_mapped_at_any_number_of_addresses() {
    // 1: ldr x3,[x0]; add x3,x3,#1; str x3,[x0]; add x0,x0,#1,lsl 12; subs x9,x9,#1; b.ne 1b
    let code = [
        0xf940_0003,
        0x9100_0463,
        0xf900_0003,
        0x9140_0400,
        0xf100_0529,
        0x54ff_ff61,
    ];
    const PAGES: u64 = 1000;
    let mut bench = bench(&code, |tables| {
        for page in 0..PAGES {
            tables.map::<Aarch64>(VA + page * 0x1000, frame(2), Aarch64::PAGE);
        }
    });
    bench.set("x0", VA);
    bench.set("x9", PAGES);
    bench.run();
    assert_eq!(bench.word(frame(2)), 2 + PAGES);
    let counters = bench.guest.counters();
    assert_eq!((counters.loads, counters.stores), (PAGES, PAGES));
}

#[test]
fn a_fault_enters_the_guests_vector_with_its_syndrome() {
    // The handler at VBAR + 0x200: mrs x4,esr_el1; mrs x5,far_el1; add x0,x0,#1,lsl 12;
    // msr elr.. is not needed: the guest returns to the faulting load with another address.
    let handler = [0xd538_5204, 0xd538_6005, 0x9140_0400, 0xd69f_03e0];
    // ldr x3,[x0]
    let mut bench = bench(&[0xf940_0003], |tables| {
        tables.map::<Aarch64>(VA + 0x1000, frame(6), Aarch64::PAGE);
    });
    let vectors = frame(8);
    bench
        .ram
        .write(Pa::new(vectors + 0x200), &a64(&handler))
        .unwrap();
    bench.set("vbar", vectors);
    bench.set("x0", VA);
    bench.run();
    assert_eq!(bench.get("x3"), 6);
    // Data abort from the same level, IL, translation fault at level 3.
    assert_eq!(bench.get("x4"), 0x25 << 26 | 1 << 25 | 0b111);
    assert_eq!(bench.get("x5"), VA);
    let counters = bench.guest.counters();
    assert_eq!(
        (
            counters.data.faults,
            counters.exceptions.sync,
            counters.exceptions.returns
        ),
        (1, 1, 1)
    );
    assert_eq!(counters.loads, 2);
    assert_eq!(
        counters.instructions.total(),
        5,
        "the load counts once, when it completes"
    );
}

#[test]
fn a_write_protected_page_faults_also_when_the_engine_still_lets_it_pass() {
    // str x3,[x0]; str x2,[x1]; tlbi vae1os,x5; str x3,[x0,#8]: the last store faults. The engine does
    // not know this TLBI, so its own entry still allows the store.
    let code = [0xf900_0003, 0xf900_0022, 0xd508_8125, 0xf900_0403];
    // mrs x4,esr_el1; add x0,x0,#1,lsl 12; eret
    let handler = [0xd538_5204, 0x9140_0400, 0xd69f_03e0];
    let mut pte = 0;
    let mut bench = bench(&code, |tables| {
        tables.map::<Aarch64>(VA, frame(1), Aarch64::PAGE);
        tables.map::<Aarch64>(VA + 0x1000, frame(2), Aarch64::PAGE);
        pte = tables.entry::<Aarch64>(VA, 3);
    });
    let vectors = frame(8);
    bench
        .ram
        .write(Pa::new(vectors + 0x200), &a64(&handler))
        .unwrap();
    bench.set("vbar", vectors);
    bench.set("x0", VA);
    bench.set("x1", pte);
    bench.set("x2", frame(1) | Aarch64::READ_ONLY);
    bench.set("x3", 99);
    bench.set("x5", VA >> 12);
    bench.run();
    // Data abort, write, permission fault at level 3.
    assert_eq!(bench.get("x4"), 0x25 << 26 | 1 << 25 | 1 << 6 | 0b1111);
    assert_eq!([bench.word(frame(1)), bench.word(frame(1) + 8)], [99, 1]);
    assert_eq!(bench.word(frame(2) + 8), 99);
}

#[test]
fn own_hooks_and_devices_stay_usable() {
    const DEVICE: u64 = 0x0900_0000;
    // ldr x3,[x0]; str x3,[x1]
    let mut bench = bench(&[0xf940_0003, 0xf900_0023], |tables| {
        tables.map::<Aarch64>(VA, DEVICE, Aarch64::PAGE);
    });
    let uc = bench.guest.engine();
    uc.mmio_map_ro(DEVICE, 0x1000, |_, offset, _| 0x10 + offset)
        .unwrap();
    uc.add_block_hook(1, 0, |uc: &mut Unicorn<'_, Seen>, _, _| {
        uc.get_data_mut().blocks += 1
    })
    .unwrap();
    uc.add_mem_hook(
        HookType::MEM_WRITE,
        1,
        0,
        |uc: &mut Unicorn<'_, Seen>, _, _, _, _| {
            uc.get_data_mut().stores += 1;
            true
        },
    )
    .unwrap();
    bench.set("x0", VA);
    bench.set("x1", frame(0));
    bench.run();
    // An 8-byte access of a device comes as two of 4 bytes.
    assert_eq!(bench.word(frame(0)), 0x14_0000_0010);
    let seen = bench.guest.engine().get_data();
    assert_eq!((seen.blocks, seen.stores), (1, 1));
    assert_eq!(bench.guest.counters().stores, 1);
}

#[test]
fn interrupts_are_delivered_when_unmasked() {
    // msr daifclr,#2; nop; b .+4; add x9,x9,#1
    let code = [0xd503_42ff, 0xd503_201f, 0x1400_0001, 0x9100_0529];
    // mrs x4,icc_iar1_el1; msr icc_eoir1_el1,x4; eret
    let handler = [0xd538_cc04, 0xd518_cc24, 0xd69f_03e0];
    let mut bench = bench(&code, |_| {});
    let vectors = frame(8);
    bench
        .ram
        .write(Pa::new(vectors + 0x280), &a64(&handler))
        .unwrap();
    bench.set("vbar", vectors);
    bench.guest.interrupt(5);
    bench.run();
    assert_eq!(bench.get("x4"), 5);
    assert_eq!(bench.get("x9"), 1);
    assert_eq!(bench.guest.counters().exceptions.interrupt, 1);
}

#[test]
fn code_that_is_overwritten_is_executed_as_it_is_now() {
    // b 2f; 1: add x9,x9,#1; b 3f; 2: str w2,[x1]; b 1b; 3: nop   (x1: the address of 1)
    let code = [
        0x1400_0003,
        0x9100_0529,
        0x1400_0003,
        0xb900_0022,
        0x17ff_fffd,
        0xd503_201f,
    ];
    let mut bench = bench(&code, |_| {});
    bench.set("x1", common::CODE + 4);
    // add x9,x9,#2
    bench.set("x2", 0x9100_0929);
    bench.set("x9", 0);
    bench.run();
    assert_eq!(bench.get("x9"), 2);
}

#[test]
fn hypercalls_and_sleep_come_back_to_the_user() {
    // hvc #7; wfi; nop
    let mut bench = bench(&[0xd400_00e2, 0xd503_207f, 0xd503_201f], |_| {});
    let code = common::CODE;
    assert_eq!(bench.guest.run(code, None).unwrap(), Stop::Hypercall(7));
    assert_eq!(bench.guest.pc().unwrap(), code + 4);
    assert_eq!(bench.guest.run(code + 4, None).unwrap(), Stop::Idle);
    assert_eq!(bench.guest.pc().unwrap(), code + 8);
    assert_eq!(
        bench.guest.run(code + 8, Some(code + 12)).unwrap(),
        Stop::Until
    );
    assert_eq!(bench.guest.counters().instructions.total(), 3);
}

#[test]
fn an_engine_of_another_architecture_is_refused() {
    let ram = Ram::new(Pa::new(0), 0x1000).unwrap();
    let profile = Profile::builtin(Aarch64::PROFILE).unwrap();
    let mut uc = Unicorn::new(Arch::X86, Mode::MODE_64).unwrap();
    let refused = attach::<Aarch64, _>(&mut uc, ram.clone(), &Config::new(&profile));
    assert!(matches!(refused, Err(AttachError::Architecture { .. })));
    let refused = attach::<X86_64, _>(&mut uc, ram, &Config::new(&profile));
    assert!(
        matches!(refused, Err(AttachError::Profile(_))),
        "the profile is of the other"
    );
}
