//! Tests of TLB maintenance: operands, reach, and what each operation removes.

use super::*;
use crate::aarch64::{Attrs, MemoryType, Permissions, Shareability, Stage2Denials, TableAttrs};
use crate::addr::Pa;

const ASID: Asid = Asid::new(5);
const TAG: Tag = Tag::new(MachineId::ZERO, ASID);
const OTHER: Asid = Asid::new(6);
const VA: u64 = 0x0000_7f00_1234_5000;

/// A leaf of the 4K granule around [`VA`].
fn leaf(level: Level, scope: Scope<Tag>) -> Leaf<Aarch64> {
    let size = match level {
        Level::L3 => PageSize::Size4K,
        Level::L2 => PageSize::Size2M,
        _ => PageSize::Size1G,
    };
    Leaf {
        va: Va::new(VA).page_base(size),
        pa: Pa::new(0x4000_0000),
        size,
        level,
        group: None,
        scope,
        attrs: Attrs {
            permissions: Permissions::WRITE,
            memory: MemoryType::new(0xff),
            shareability: Shareability::Inner,
            stage2: Stage2Denials::empty(),
            block: None,
        },
    }
}

fn pointer(level: Level) -> TablePointer<Aarch64> {
    TablePointer {
        level,
        base: Pa::new(0x8000),
        attrs: TableAttrs::empty(),
    }
}

fn tlbi(mnemonic: &str, xt: u64) -> Tlbi {
    let context = Context {
        tcr: 1 << 36,
        ..Context::default()
    };
    Tlbi::new(mnemonic.parse().unwrap(), xt, &context).unwrap()
}

/// Operand of an address form: ASID, TTL, VA.
fn operand(asid: Asid, ttl: u64, va: u64) -> u64 {
    u64::from(asid.raw()) << 48 | ttl << 44 | va >> 12 & ((1 << 44) - 1)
}

/// Operand of a range form: ASID, 4K, `(num + 1) * 2` pages from `va`.
fn range_operand(asid: Asid, num: u64, ttl: u64, va: u64) -> u64 {
    u64::from(asid.raw()) << 48 | 1 << 46 | num << 39 | ttl << 37 | va >> 12 & ((1 << 37) - 1)
}

#[test]
fn scopes_named_by_each_form() {
    let own = leaf(Level::L3, Scope::Tagged(TAG));
    let other = leaf(Level::L3, Scope::Tagged(Tag::new(MachineId::ZERO, OTHER)));
    let global = leaf(Level::L3, Scope::Global(MachineId::ZERO));
    let address = operand(ASID, 0, VA);
    let range = range_operand(ASID, 0, 0, VA);
    for (mnemonic, xt, expected) in [
        ("vmalle1", 0, [true, true, true]),
        ("aside1", address, [true, false, false]),
        ("vae1", address, [true, false, true]),
        ("vale1", address, [true, false, true]),
        ("vaae1", address, [true, true, true]),
        ("vaale1", address, [true, true, true]),
        ("rvae1", range, [true, false, true]),
        ("rvale1", range, [true, false, true]),
        ("rvaae1", range, [true, true, true]),
        ("rvaale1", range, [true, true, true]),
    ] {
        let op = tlbi(mnemonic, xt);
        let removed = [own, other, global].map(|leaf| removes(&op, &leaf, leaf.size));
        assert_eq!(
            removed, expected,
            "{mnemonic}: own ASID, other ASID, global"
        );
    }
}

#[test]
fn pointers_named_by_each_form() {
    let address = operand(ASID, 0, VA);
    let range = range_operand(ASID, 0, 0, VA);
    // A pointer to the level 3 table that serves 2 MiB around VA: with the ASID; with
    // another; with the ASID, but for the next 2 MiB.
    for (mnemonic, xt, expected) in [
        ("vmalle1", 0, [true, true, true]),
        ("aside1", address, [true, false, true]),
        ("vae1", address, [true, false, false]),
        ("vale1", address, [false, false, false]),
        ("vaae1", address, [true, true, false]),
        ("vaale1", address, [false, false, false]),
        ("rvae1", range, [true, false, false]),
        ("rvale1", range, [false, false, false]),
        ("rvaae1", range, [true, true, false]),
        ("rvaale1", range, [false, false, false]),
    ] {
        let op = tlbi(mnemonic, xt);
        let base = VA & !0x1f_ffff;
        let removed = [(ASID, base), (OTHER, base), (ASID, base + 0x20_0000)].map(|(tag, va)| {
            removes_pointer(
                &op,
                Tag::new(MachineId::ZERO, tag),
                Va::new(va),
                &pointer(Level::L3),
                21,
            )
        });
        assert_eq!(removed, expected, "{mnemonic}");
    }
}

#[test]
fn an_address_form_removes_pointers_of_every_level() {
    let op = tlbi("vae1is", operand(ASID, 0, VA));
    for (level, span) in [(Level::L3, 21), (Level::L2, 30), (Level::L1, 39)] {
        let va = Va::new(VA >> span << span);
        assert!(removes_pointer(&op, TAG, va, &pointer(level), span));
    }
}

#[test]
fn a_wrong_level_hint_removes_nothing() {
    let page = leaf(Level::L3, Scope::Tagged(TAG));
    let block = leaf(Level::L2, Scope::Tagged(TAG));
    let removed = |mnemonic, xt| {
        let op = tlbi(mnemonic, xt);
        [page, block].map(|leaf| removes(&op, &leaf, leaf.size))
    };
    assert_eq!(removed("vale1", operand(ASID, 0b0000, VA)), [true, true]);
    assert_eq!(removed("vale1", operand(ASID, 0b0111, VA)), [true, false]);
    assert_eq!(removed("vale1", operand(ASID, 0b0110, VA)), [false, true]);
    // The right level of another granule.
    assert_eq!(removed("vale1", operand(ASID, 0b1111, VA)), [false, false]);
    assert_eq!(
        removed("rvale1", range_operand(ASID, 0, 3, VA)),
        [true, false]
    );
    assert_eq!(
        removed("rvale1", range_operand(ASID, 0, 2, VA)),
        [false, true]
    );
}

#[test]
fn a_range_removes_exactly_what_it_touches() {
    let op = tlbi("rvae1is", range_operand(ASID, 7, 0, VA));
    let at = |va: u64| Leaf {
        va: Va::new(va),
        ..leaf(Level::L3, Scope::Tagged(TAG))
    };
    let last = VA + 15 * 4096;
    for (va, expected) in [
        (VA - 4096, false),
        (VA, true),
        (last, true),
        (last + 4096, false),
    ] {
        assert_eq!(removes(&op, &at(va), PageSize::Size4K), expected, "{va:#x}");
    }
    assert_eq!(
        footprint(&op),
        Footprint::Addresses {
            first: Va::new(VA),
            last: Va::new(last + 4095)
        }
    );
}

#[test]
fn a_range_at_the_top_does_not_wrap_into_the_lower_half() {
    let op = tlbi("rvaae1is", range_operand(ASID, 31, 0, u64::MAX - 4095));
    let low = Leaf {
        va: Va::new(0),
        ..leaf(Level::L3, Scope::Global(MachineId::ZERO))
    };
    assert!(!removes(&op, &low, PageSize::Size4K));
    let top = Leaf {
        va: Va::new(u64::MAX - 4095),
        ..low
    };
    assert!(removes(&op, &top, PageSize::Size4K));
}

#[test]
fn a_reserved_or_wrong_range_granule_removes_nothing() {
    let page = leaf(Level::L3, Scope::Global(MachineId::ZERO));
    for tg in [0, 2, 3] {
        let xt = range_operand(ASID, 31, 0, VA) & !(3 << 46) | tg << 46;
        let op = tlbi("rvaae1is", xt);
        assert!(!removes(&op, &page, page.size), "TG {tg}");
        assert!(!removes_pointer(
            &op,
            TAG,
            Va::new(VA & !0x1f_ffff),
            &pointer(Level::L3),
            21
        ));
    }
}

#[test]
fn one_page_of_a_group_takes_the_group_entry_but_not_its_neighbours() {
    let op = tlbi("vale1is", operand(ASID, 0, VA));
    let member = |index: u64| Leaf {
        va: Va::new((VA & !0xffff) + index * 4096),
        group: Some(PageSize::Size64K),
        ..leaf(Level::L3, Scope::Tagged(TAG))
    };
    for index in 0..16 {
        // VA is member 5 of its group.
        assert_eq!(removes(&op, &member(index), PageSize::Size4K), index == 5);
        assert_eq!(
            removes(&op, &member(index), PageSize::Size16K),
            index / 4 == 1
        );
        assert!(removes(&op, &member(index), PageSize::Size64K));
    }
}

#[test]
fn all_pieces_of_a_splintered_block_go() {
    let op = tlbi("vale1is", operand(ASID, 0, VA));
    let block = leaf(Level::L2, Scope::Tagged(TAG));
    assert!(removes(&op, &block, PageSize::Size4K));
}

#[test]
fn another_machine_keeps_its_entries() {
    let guest = MachineId::new(3);
    let theirs = [
        leaf(Level::L3, Scope::Global(guest)),
        leaf(Level::L3, Scope::Tagged(Tag::new(guest, ASID))),
    ];
    for mnemonic in ["vmalle1", "aside1", "vae1", "vale1", "vaae1", "vaale1"] {
        let here = tlbi(mnemonic, operand(ASID, 0, VA));
        let there = Tlbi {
            vmid: guest,
            ..here
        };
        for entry in &theirs {
            assert!(!removes(&here, entry, entry.size), "{mnemonic}");
        }
        assert!(removes(&there, &theirs[1], PageSize::Size4K), "{mnemonic}");
        let tag = Tag::new(guest, ASID);
        let va = Va::new(VA);
        assert!(
            !removes_pointer(&here, tag, va, &pointer(Level::L3), 21),
            "{mnemonic}"
        );
    }
    assert!(!theirs[0].scope.admits(&TAG));
}
