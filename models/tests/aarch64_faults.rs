//! Every fault code that a stage 1 translation can give, each produced by tables or registers
//! that cause it, and the order in which they come.

mod common;

use common::{Chain, chain};
use mmuscope_models::aarch64::{Aarch64, Context, Fault, FaultKind, Implementation, PaRange};
use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::{Level, Pa, Va};
use mmuscope_models::arch::{Arch, Lookup};

const VA: Va = Va::new(0x0000_1234_5678_9abc);
const MMU_ON: u64 = 1;
const IPS_48: u64 = 0b101 << 32;
const HA: u64 = 1 << 39;
const DS: u64 = 1 << 59;

const TABLE: u64 = 0b11;
const PAGE: u64 = 0b11;
const BLOCK: u64 = 0b01;
const AF: u64 = 1 << 10;
const READ_ONLY: u64 = 1 << 7;

/// 4K granule, 48-bit input in both halves, 48-bit output, tables at 4 KiB steps from 4 KiB.
fn context() -> Context {
    Context {
        sctlr: MMU_ON,
        tcr: 16 | 16 << 16 | 0b10 << 30 | IPS_48,
        ttbr0: 0x1000,
        ttbr1: 0x1000,
        ..Context::default()
    }
}

/// 52-bit input and output: five levels.
fn five_level_context() -> Context {
    Context {
        tcr: 12 | 12 << 16 | 0b10 << 30 | 0b110 << 32 | DS,
        ..context()
    }
}

/// Tables for [`VA`] from level 0: `descriptors` root first.
fn four_levels(descriptors: &[u64]) -> Chain {
    chain(
        VA,
        &[39, 30, 21, 12],
        9,
        &[0x1000, 0x2000, 0x3000, 0x4000],
        descriptors,
    )
}

/// Tables for [`VA`] from level -1.
fn five_levels(descriptors: &[u64]) -> Chain {
    chain(
        VA,
        &[48, 39, 30, 21, 12],
        9,
        &[0x1000, 0x2000, 0x3000, 0x4000, 0x5000],
        descriptors,
    )
}

fn load() -> Access {
    Access::new(VA, AccessKind::Load, Privilege::Supervisor)
}

fn store() -> Access {
    Access::new(VA, AccessKind::Store, Privilege::Supervisor)
}

fn walk(context: &Context, access: &Access, tables: &mut Chain) -> Result<u64, Fault> {
    Aarch64::walk(context, access, None, &mut tables.memory, &mut ()).map(|leaf| leaf.pa.raw())
}

fn fsc(context: &Context, access: &Access, mut tables: Chain) -> u8 {
    walk(context, access, &mut tables).unwrap_err().fsc()
}

/// Table descriptors down to `depth` levels, then `last`.
fn down_to(depth: usize, last: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (0..depth)
        .map(|index| (index as u64 + 2) << 12 | TABLE)
        .collect();
    all.push(last);
    all
}

#[test]
fn translation_faults_of_levels_0_to_3() {
    for (depth, code) in [(0, 0x04), (1, 0x05), (2, 0x06), (3, 0x07)] {
        let tables = four_levels(&down_to(depth, 0));
        assert_eq!(fsc(&context(), &load(), tables), code);
    }
}

#[test]
fn a_level_3_entry_with_bit_1_clear_is_invalid() {
    let tables = four_levels(&down_to(3, 0x8000 | BLOCK | AF));
    assert_eq!(fsc(&context(), &load(), tables), 0x07);
}

#[test]
fn a_block_where_none_is_allowed_is_invalid() {
    let block = 0x8000_0000_0000 | BLOCK | AF;
    assert_eq!(fsc(&context(), &load(), four_levels(&[block])), 0x04);
    // With 52-bit addresses level 0 has blocks, level -1 has none.
    let wide = five_level_context();
    assert_eq!(fsc(&wide, &load(), five_levels(&[block])), 0x2b);
    let mut tables = five_levels(&down_to(1, block));
    assert_eq!(walk(&wide, &load(), &mut tables), Ok(0x8000_0000_0000));
}

#[test]
fn faults_of_level_minus_1() {
    let wide = five_level_context();
    assert_eq!(fsc(&wide, &load(), five_levels(&[0])), 0x2b);
    assert_eq!(fsc(&wide, &load(), five_levels(&[])), 0x13);
    // With a 48-bit core, the table address 1 << 51 of the level -1 entry is too wide.
    let narrow = Context {
        implementation: Implementation {
            pa_range: PaRange::Bits48,
            ..Implementation::default()
        },
        ..wide
    };
    let beyond = five_levels(&[1 << 9 | TABLE]);
    assert_eq!(fsc(&narrow, &load(), beyond), 0x29);
}

#[test]
fn address_size_faults_of_levels_0_to_3() {
    // 40-bit output addresses; bit 40 is the first too many.
    let narrow = Context {
        tcr: context().tcr & !(7 << 32) | 0b010 << 32,
        ..context()
    };
    let beyond = 1 << 40;
    for (depth, code) in [(0, 0x00), (1, 0x01), (2, 0x02)] {
        let tables = four_levels(&down_to(depth, beyond | TABLE));
        assert_eq!(fsc(&narrow, &load(), tables), code);
    }
    let page = four_levels(&down_to(3, beyond | PAGE | AF));
    assert_eq!(fsc(&narrow, &load(), page), 0x03);
    let block = four_levels(&down_to(2, beyond | BLOCK | AF));
    assert_eq!(fsc(&narrow, &load(), block), 0x02);
    // The last address that fits.
    let mut last = four_levels(&down_to(3, (beyond - 4096) | PAGE | AF));
    assert_eq!(walk(&narrow, &load(), &mut last), Ok(beyond - 4096));
}

#[test]
fn a_root_beyond_the_output_size_is_an_address_size_fault_of_level_0() {
    let mut narrow = context();
    narrow.tcr &= !(7 << 32);
    narrow.ttbr0 = 1 << 32;
    assert_eq!(fsc(&narrow, &load(), four_levels(&[])), 0x00);
}

#[test]
fn access_flag_faults_of_levels_1_to_3() {
    for (depth, leaf, code) in [
        (1, 0x4000_0000 | BLOCK, 0x09),
        (2, 0x4000_0000 | BLOCK, 0x0a),
        (3, 0x4000_0000 | PAGE, 0x0b),
    ] {
        let tables = four_levels(&down_to(depth, leaf));
        assert_eq!(fsc(&context(), &load(), tables), code);
    }
    let level_0 = five_levels(&down_to(1, BLOCK));
    assert_eq!(fsc(&five_level_context(), &load(), level_0), 0x08);
}

#[test]
fn permission_faults_of_levels_0_to_3() {
    for (depth, leaf, code) in [
        (1, BLOCK | AF | READ_ONLY, 0x0d),
        (2, BLOCK | AF | READ_ONLY, 0x0e),
        (3, PAGE | AF | READ_ONLY, 0x0f),
    ] {
        let tables = four_levels(&down_to(depth, leaf));
        assert_eq!(fsc(&context(), &store(), tables), code);
    }
    let level_0 = five_levels(&down_to(1, BLOCK | AF | READ_ONLY));
    assert_eq!(fsc(&five_level_context(), &store(), level_0), 0x0c);
}

#[test]
fn external_aborts_on_walks_of_levels_0_to_3() {
    for (depth, code) in [(0, 0x14), (1, 0x15), (2, 0x16), (3, 0x17)] {
        let mut descriptors = down_to(depth, 0);
        descriptors.pop();
        let tables = four_levels(&descriptors);
        assert_eq!(fsc(&context(), &load(), tables), code);
    }
}

#[test]
fn codes_that_no_table_causes() {
    for (kind, code) in [
        (FaultKind::External, 0x10),
        (FaultKind::Alignment, 0x21),
        (FaultKind::TlbConflict, 0x30),
    ] {
        assert_eq!(Fault::new(kind, Level::L0).fsc(), code);
    }
}

#[test]
fn register_faults_are_translation_faults_of_level_0() {
    let fault = Fault::new(FaultKind::Translation, Level::L0);
    let before = |context: &Context, va: u64, kind, privilege| {
        Aarch64::before_lookup(context, &Access::new(Va::new(va), kind, privilege))
    };
    let tagged = |context: &Context| Ok(Lookup::Tagged(context.tag()));
    let (load, fetch) = (AccessKind::Load, AccessKind::Fetch);
    let (user, kernel) = (Privilege::User, Privilege::Supervisor);
    let plain = context();
    // The address range of each half.
    for (va, inside) in [
        (0x0000_ffff_ffff_ffff, true),
        (0x0001_0000_0000_0000, false),
        (0x0100_0000_0000_0000, false),
        (0xffff_0000_0000_0000, true),
        (0xfffe_ffff_ffff_ffff, false),
        (0xfeff_0000_0000_0000, false),
    ] {
        let expected = if inside { tagged(&plain) } else { Err(fault) };
        assert_eq!(before(&plain, va, load, kernel), expected, "{va:#x}");
    }
    // TBI drops the top byte; TBID keeps it for fetches.
    let mut tbi = plain;
    tbi.tcr |= 0b11 << 37;
    assert_eq!(
        before(&tbi, 0x5a00_1234_0000_0000, fetch, user),
        tagged(&tbi)
    );
    assert_eq!(before(&tbi, 0x5a80_0000_0000_0000, load, user), Err(fault));
    tbi.tcr |= 0b11 << 51;
    assert_eq!(
        before(&tbi, 0x5a00_1234_0000_0000, load, user),
        tagged(&tbi)
    );
    assert_eq!(before(&tbi, 0x5a00_1234_0000_0000, fetch, user), Err(fault));
    // E0PD1 shuts EL0 out of the upper half only.
    let mut e0pd = plain;
    e0pd.tcr |= 1 << 56;
    assert_eq!(before(&e0pd, 0xffff << 48, load, user), Err(fault));
    assert_eq!(before(&e0pd, 0xffff << 48, load, kernel), tagged(&e0pd));
    assert_eq!(before(&e0pd, 0, load, user), tagged(&e0pd));
    // TxSZ out of range, for the half that has it.
    for (t0sz, granule) in [
        (15, 0),
        (49, 0),
        (11, 0b01),
        (48, 0b01),
        (15, 0b10),
        (49, 0b10),
    ] {
        let mut bad = plain;
        bad.tcr = bad.tcr & !0xc03f | t0sz | granule << 14;
        assert_eq!(
            before(&bad, 0, load, kernel),
            Err(fault),
            "{t0sz} {granule}"
        );
        assert_eq!(before(&bad, 0xffff << 48, load, kernel), tagged(&bad));
    }
}

#[test]
fn epd_faults_on_the_walk_not_before_the_lookup() {
    let mut disabled = context();
    disabled.tcr |= 1 << 7;
    // A TLB hit wins over EPD, so it must not show before the lookup.
    assert!(Aarch64::before_lookup(&disabled, &load()).is_ok());
    assert_eq!(
        fsc(&disabled, &load(), four_levels(&down_to(0, 0x2003))),
        0x04
    );
}

#[test]
fn a_disabled_mmu_maps_flat_within_the_physical_size() {
    let mut off = context();
    off.sctlr = 0;
    off.implementation.pa_range = PaRange::Bits40;
    let at = |va| Access::new(Va::new(va), AccessKind::Store, Privilege::User);
    assert_eq!(
        Aarch64::before_lookup(&off, &at((1 << 40) - 1)),
        Ok(Lookup::Off(Pa::new((1 << 40) - 1)))
    );
    let fault = Aarch64::before_lookup(&off, &at(1 << 40)).unwrap_err();
    assert_eq!(fault.fsc(), 0x00);
    // A tag is dropped even with the MMU off.
    off.tcr |= 1 << 37;
    assert_eq!(
        Aarch64::before_lookup(&off, &at(0x7700_0000_0000_1000)),
        Ok(Lookup::Off(Pa::new(0x1000)))
    );
}

#[test]
fn a_leaf_with_several_faults_reports_them_in_the_architected_order() {
    let mut narrow = context();
    narrow.tcr = narrow.tcr & !(7 << 32) | 0b010 << 32;
    let order = [
        (1 << 40 | PAGE | READ_ONLY, FaultKind::AddressSize),
        (PAGE | READ_ONLY, FaultKind::AccessFlag),
        (PAGE | AF | READ_ONLY, FaultKind::Permission),
    ];
    for (leaf, kind) in order {
        let mut tables = four_levels(&down_to(3, leaf));
        let fault = walk(&narrow, &store(), &mut tables).unwrap_err();
        assert_eq!(fault, Fault::new(kind, Level::L3));
    }
}

#[test]
fn hardware_sets_the_access_flag_only_for_a_permitted_access() {
    let mut managed = context();
    managed.tcr |= HA;
    let mut tables = four_levels(&down_to(3, 0x8000 | PAGE | READ_ONLY));
    assert_eq!(
        walk(&managed, &store(), &mut tables).unwrap_err().fsc(),
        0x0f
    );
    assert_eq!(tables.entry(3) & AF, 0);
    assert_eq!(walk(&managed, &load(), &mut tables), Ok(0x8000));
    assert_eq!(tables.entry(3) & AF, AF);
}

#[test]
fn syndromes_name_class_direction_and_code() {
    let fault = Fault::new(FaultKind::Permission, Level::L3);
    let of = |kind, lower| {
        let access = Access::new(VA, kind, Privilege::User);
        fault.esr(&access, lower)
    };
    assert_eq!(of(AccessKind::Store, true), 0x9200_004f);
    assert_eq!(of(AccessKind::Load, false), 0x9600_000f);
    assert_eq!(of(AccessKind::Fetch, true), 0x8200_000f);
    assert_eq!(of(AccessKind::Fetch, false), 0x8600_000f);
    assert_eq!(fault.to_string(), "permission fault, level 3");
}
