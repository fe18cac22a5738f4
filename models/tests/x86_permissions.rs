//! x86-64 access rights, exhaustively: every combination of entry bits, controls, protection-key
//! rights, access kind and mode.
//!
//! The expectation is a second statement of the rules: a list of clauses, each a reason to refuse
//! (Intel SDM vol. 3A 4.6.1, 4.6.2, 4.7), where the walker composes what is allowed.

mod common;

use common::{Chain, chain};
use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::Va;
use mmuscope_models::arch::{Arch, Verdict};
use mmuscope_models::x86::{Context, Cr0, Cr4, Efer, Fault, GigabytePages, X86_64};

const VA: Va = Va::new(0x0000_1234_5678_9000);
const XD: u64 = 1 << 63;

/// One combination of entry bits and controls.
#[derive(Copy, Clone, Debug)]
struct Case {
    /// R/W, U/S and XD of the leaf and of one upper entry; the others allow everything.
    leaf: [bool; 3],
    upper: [bool; 3],
    dirty: bool,
    wp: bool,
    smep: bool,
    smap: bool,
    ac: bool,
    nxe: bool,
    pke: bool,
    pks: bool,
    /// AD and WD of the page's key in PKRU; PKRS has the opposite.
    access_disable: bool,
    write_disable: bool,
}

const CASE_BITS: u32 = 16;

impl Case {
    fn number(number: u64) -> Self {
        let bit = |index: u32| number >> index & 1 != 0;
        Self {
            leaf: [bit(0), bit(1), bit(2)],
            upper: [bit(3), bit(4), bit(5)],
            wp: bit(6),
            smep: bit(7),
            smap: bit(8),
            ac: bit(9),
            nxe: bit(10),
            pke: bit(11),
            pks: bit(12),
            access_disable: bit(13),
            write_disable: bit(14),
            dirty: bit(15),
        }
    }

    /// Which key the leaf has: it varies so that no single key is special.
    fn key(&self) -> u64 {
        3 + 2 * u64::from(self.wp) + 8 * u64::from(self.smep)
    }

    fn context(&self) -> Context {
        let mut cr0 = Cr0::PG;
        cr0.set(Cr0::WP, self.wp);
        let mut cr4 = Cr4::PAE | Cr4::PGE;
        cr4.set(Cr4::SMEP, self.smep);
        cr4.set(Cr4::SMAP, self.smap);
        cr4.set(Cr4::PKE, self.pke);
        cr4.set(Cr4::PKS, self.pks);
        let mut efer = Efer::empty();
        efer.set(Efer::NXE, self.nxe);
        let pair = u32::from(self.access_disable) | u32::from(self.write_disable) << 1;
        let shift = 2 * u32::try_from(self.key()).unwrap();
        Context {
            cr0: cr0.bits(),
            cr3: 0x1000,
            cr4: cr4.bits(),
            efer: efer.bits(),
            ac: self.ac,
            pkru: pair << shift,
            pkrs: (pair ^ 3) << shift,
            ..Context::default()
        }
    }

    fn tables(&self, upper_level: usize) -> Chain {
        let entry = |base: u64, [writable, user, xd]: [bool; 3]| {
            base | 1 | u64::from(writable) << 1 | u64::from(user) << 2 | u64::from(xd) << 63
        };
        let leaf = entry(0x8000_0000, self.leaf) | self.key() << 59 | u64::from(self.dirty) << 6;
        let open = [true, true, false];
        let mut rows = [open; 3];
        rows[upper_level] = self.upper;
        chain(
            VA,
            &[39, 30, 21, 12],
            9,
            &[0x1000, 0x2000, 0x3000, 0x4000],
            &[
                entry(0x2000, rows[0]),
                entry(0x3000, rows[1]),
                entry(0x4000, rows[2]),
                leaf,
            ],
        )
    }

    /// The error code of the page fault that the access must raise, if any.
    fn expected(&self, kind: AccessKind, privilege: Privilege) -> Option<u32> {
        let write = kind == AccessKind::Store;
        let fetch = kind == AccessKind::Fetch;
        let data = !fetch;
        let user = privilege == Privilege::User;
        let access_bits = u32::from(write) << 1
            | u32::from(user) << 2
            | u32::from(fetch && (self.nxe || self.smep)) << 4;
        let xd = self.leaf[2] || self.upper[2];
        if xd && !self.nxe {
            return Some(access_bits | 0b1001);
        }
        let writable = self.leaf[0] && self.upper[0];
        let user_page = self.leaf[1] && self.upper[1];
        let (keys_on, ad, wd) = if user_page {
            (self.pke, self.access_disable, self.write_disable)
        } else {
            (self.pks, !self.access_disable, !self.write_disable)
        };
        let key_refuses = keys_on && data && (ad || wd && write && (user || self.wp));
        let refusals = [
            user && !user_page,
            user && write && !writable,
            !user && write && !writable && self.wp,
            fetch && xd,
            !user && fetch && user_page && self.smep,
            !user && data && user_page && self.smap && !self.ac,
            key_refuses,
        ];
        refusals
            .contains(&true)
            .then_some(access_bits | 1 | u32::from(key_refuses) << 5)
    }
}

const KINDS: [AccessKind; 3] = [AccessKind::Load, AccessKind::Store, AccessKind::Fetch];
const PRIVILEGES: [Privilege; 2] = [Privilege::Supervisor, Privilege::User];

fn accesses() -> impl Iterator<Item = Access> {
    PRIVILEGES
        .into_iter()
        .flat_map(|privilege| KINDS.map(|kind| Access::new(VA, kind, privilege)))
}

fn judge(case: &Case, upper_level: usize) {
    let context = case.context();
    for access in accesses() {
        let mut tables = case.tables(upper_level);
        let before: Vec<u64> = (0..4).map(|depth| tables.entry(depth)).collect();
        let result = X86_64::walk(&context, &access, None, &mut tables.memory, &mut ());
        let expected = case.expected(access.kind, access.privilege);
        let fault_code = result.as_ref().err().map(Fault::error_code);
        assert_eq!(fault_code, expected, "{case:?} {access:?}");
        for (depth, before) in before.iter().enumerate() {
            let accessed = u64::from(result.is_ok()) << 5;
            let dirty = u64::from(result.is_ok() && depth == 3 && access.kind.is_write()) << 6;
            assert_eq!(tables.entry(depth), before | accessed | dirty, "{case:?}");
        }
        if let Ok(leaf) = result {
            judge_held(case, &context, &leaf);
        }
    }
}

/// What a TLB that holds `leaf` answers must be what a walk would.
fn judge_held(case: &Case, context: &Context, leaf: &mmuscope_models::arch::Leaf<X86_64>) {
    for access in accesses() {
        let refused = case.expected(access.kind, access.privilege);
        match X86_64::check(leaf, context, &access) {
            Verdict::Allowed => {
                assert_eq!(refused, None);
                assert!(!access.kind.is_write() || leaf.attrs.dirty);
            }
            Verdict::NeedsUpdate => {
                assert_eq!(refused, None);
                assert!(access.kind.is_write() && !leaf.attrs.dirty);
            }
            Verdict::Fault(fault) => assert_eq!(Some(fault.error_code()), refused, "{case:?}"),
        }
        let rights = X86_64::rights(leaf, context, access.privilege);
        let has = match access.kind {
            AccessKind::Load => rights.read,
            AccessKind::Store => rights.write,
            AccessKind::Fetch => rights.execute,
        };
        let without_update = !access.kind.is_write() || leaf.attrs.dirty;
        assert_eq!(has, refused.is_none() && without_update, "{case:?}");
    }
}

#[test]
fn every_combination_of_entry_bits_and_controls() {
    for number in 0..1 << CASE_BITS {
        judge(&Case::number(number), usize::try_from(number % 3).unwrap());
    }
}

/// A walk of a supervisor load over four entries that lead to [`VA`].
fn error_code(context: &Context, entries: [u64; 4]) -> Option<u32> {
    let mut tables = chain(
        VA,
        &[39, 30, 21, 12],
        9,
        &[0x1000, 0x2000, 0x3000, 0x4000],
        &entries,
    );
    let access = Access::new(VA, AccessKind::Load, Privilege::Supervisor);
    X86_64::walk(context, &access, None, &mut tables.memory, &mut ())
        .err()
        .map(|fault| fault.error_code())
}

#[test]
fn reserved_bits_of_every_level() {
    let context = Context {
        physical_bits: mmuscope_models::x86::PhysicalBits::new(46).unwrap(),
        ..Case::number(1 << 10).context()
    };
    let good = [0x2007, 0x3007, 0x4007, 0x8000_0007];
    assert_eq!(error_code(&context, good), None);
    let reserved = Some(0b1001);
    for depth in 0..4 {
        // Absent: the other bits do not count.
        let mut entries = good;
        entries[depth] = !1 & !XD;
        assert_eq!(error_code(&context, entries), Some(0));
        for bit in 46..52 {
            let mut entries = good;
            entries[depth] |= 1 << bit;
            assert_eq!(error_code(&context, entries), reserved, "{depth} {bit}");
        }
        // Bits that software or protection keys own.
        for bit in (9..12).chain(52..63) {
            let mut entries = good;
            entries[depth] |= 1 << bit;
            assert_eq!(error_code(&context, entries), None, "{depth} {bit}");
        }
    }
    let mut entries = good;
    entries[0] |= 1 << 7;
    assert_eq!(error_code(&context, entries), reserved);
    // Large pages: bit 12 is PAT, the rest below the address is reserved.
    for (depth, top) in [(1, 30), (2, 21)] {
        let mut entries = good;
        entries[depth] = 0x4000_0087;
        assert_eq!(error_code(&context, entries), None);
        entries[depth] |= 1 << 12;
        assert_eq!(error_code(&context, entries), None);
        for bit in 13..top {
            let mut entries = entries;
            entries[depth] |= 1 << bit;
            assert_eq!(error_code(&context, entries), reserved, "{depth} {bit}");
        }
    }
}

/// Without 1 GiB pages, bit 7 is reserved in the entries that would map them, and only there.
#[test]
fn gigabyte_pages_need_a_processor_that_has_them() {
    let with = Case::number(1 << 10).context();
    let without = Context {
        gigabyte_pages: GigabytePages::Absent,
        ..with
    };
    let good = [0x2007, 0x3007, 0x4007, 0x8000_0007];
    for (depth, expected) in [(1, Some(0b1001)), (2, None)] {
        let mut entries = good;
        entries[depth] = 0x4000_0087;
        assert_eq!(error_code(&with, entries), None);
        assert_eq!(error_code(&without, entries), expected);
    }
    assert_eq!(error_code(&without, good), None);
}

/// RFLAGS.AC opens user pages to the supervisor's own loads and stores, not to the implicit ones.
#[test]
fn implicit_supervisor_accesses_obey_smap_whatever_ac_says() {
    let context = Context {
        ac: true,
        cr4: (Cr4::PAE | Cr4::SMAP).bits(),
        ..Case::number(1 << 10).context()
    };
    let user = [0x2007, 0x3007, 0x4007, 0x8000_0007];
    assert_eq!(error_code(&context, user), None);
    assert_eq!(error_code(&context.for_implicit_access(), user), Some(1));
    let supervisor = [0x2007, 0x3007, 0x4007, 0x8000_0003];
    assert_eq!(error_code(&context.for_implicit_access(), supervisor), None);
}

/// The three low bits and I/D of the error code, and CR2's address, over a five-level table that
/// ends at each level.
#[test]
fn an_absent_entry_at_each_of_five_levels() {
    let context = Context {
        cr4: (Cr4::PAE | Cr4::LA57).bits(),
        ..Case::number(1 << 10).context()
    };
    let va = Va::new(0x00f3_1234_5678_9000);
    let entries = [0x2007, 0x3007, 0x4007, 0x5007, 0x8000_0007];
    let tables = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000];
    for depth in 0..5 {
        let mut entries = entries;
        entries[depth] &= !1;
        for access in accesses() {
            let access = Access { va, ..access };
            let mut tables = chain(va, &[48, 39, 30, 21, 12], 9, &tables, &entries);
            let fault = X86_64::walk(&context, &access, None, &mut tables.memory, &mut ());
            let expected = u32::from(access.kind == AccessKind::Store) << 1
                | u32::from(access.privilege == Privilege::User) << 2
                | u32::from(access.kind == AccessKind::Fetch) << 4;
            assert_eq!(fault.unwrap_err().error_code(), expected);
        }
    }
}

#[test]
fn addresses_that_are_not_canonical_raise_no_page_fault() {
    let four = Case::number(0).context();
    let five = Context {
        cr4: four.cr4 | Cr4::LA57.bits(),
        ..four
    };
    for (context, va, canonical) in [
        (four, 0x0000_7fff_ffff_ffff, true),
        (four, 0x0000_8000_0000_0000, false),
        (four, 0xffff_8000_0000_0000, true),
        (four, 0xffff_7fff_ffff_ffff, false),
        (five, 0x00ff_ffff_ffff_ffff, true),
        (five, 0x0100_0000_0000_0000, false),
        (five, 0xff00_0000_0000_0000, true),
    ] {
        let access = Access::new(Va::new(va), AccessKind::Load, Privilege::User);
        let result = X86_64::before_lookup(&context, &access);
        assert_eq!(result.is_ok(), canonical, "{va:#x}");
        if let Err(fault) = result {
            assert_eq!((fault.vector(), fault.error_code()), (13, 0));
            assert_eq!(fault.of_stack_access().vector(), 12);
        }
    }
}
