//! Stage 1 permissions, exhaustively: every combination of leaf and table permission bits, the
//! controls that change their meaning, access kind and privilege.
//!
//! The expectation is a second statement of the rules, built differently from the walker: the
//! manual's tables of AP and APTable as text (who has which of `r`, `w`, `x`), from which each
//! further rule strikes letters.

mod common;

use common::chain;
use mmuscope_models::aarch64::{Aarch64, Context, Fault, FaultKind};
use mmuscope_models::access::{Access, AccessKind, Privilege, Rights};
use mmuscope_models::addr::{Level, Va};
use mmuscope_models::arch::{Arch, Verdict};

const KINDS: [(AccessKind, char); 3] = [
    (AccessKind::Load, 'r'),
    (AccessKind::Store, 'w'),
    (AccessKind::Fetch, 'x'),
];
const PRIVILEGES: [Privilege; 2] = [Privilege::Supervisor, Privilege::User];

/// One combination of permission bits and controls.
#[derive(Copy, Clone, Debug)]
struct Case {
    /// Leaf AP\[2:1\].
    ap: u64,
    pxn: bool,
    uxn: bool,
    dbm: bool,
    ap_table: u64,
    pxn_table: bool,
    uxn_table: bool,
    hpd: bool,
    wxn: bool,
    epan: bool,
    pan: bool,
    ha: bool,
    hd: bool,
}

/// The number of bits that [`Case::number`] takes.
const CASE_BITS: u32 = 15;

impl Case {
    fn number(number: u64) -> Self {
        let bit = |index: u32| number >> index & 1 != 0;
        Self {
            ap: number & 3,
            ap_table: number >> 2 & 3,
            pxn: bit(4),
            uxn: bit(5),
            dbm: bit(6),
            pxn_table: bit(7),
            uxn_table: bit(8),
            hpd: bit(9),
            wxn: bit(10),
            epan: bit(11),
            pan: bit(12),
            ha: bit(13),
            hd: bit(14),
        }
    }

    fn leaf(&self) -> u64 {
        0x0000_0000_8000_0403
            | self.ap << 6
            | u64::from(self.pxn) << 53
            | u64::from(self.uxn) << 54
            | u64::from(self.dbm) << 51
    }

    fn table_bits(&self) -> u64 {
        self.ap_table << 61 | u64::from(self.uxn_table) << 60 | u64::from(self.pxn_table) << 59
    }

    fn context(&self) -> Context {
        Context {
            sctlr: 1 | u64::from(self.wxn) << 19 | u64::from(self.epan) << 57,
            tcr: 16
                | 16 << 16
                | 0b10 << 30
                | 0b101 << 32
                | u64::from(self.ha) << 39
                | u64::from(self.hd) << 40
                | (u64::from(self.hpd) * (0b11 << 41)),
            ttbr0: 0x1000,
            ttbr1: 0x1000,
            pan: self.pan,
            ..Context::default()
        }
    }

    /// Whether AP\[2\] of the leaf only says that the page is clean.
    fn dirty_is_managed(&self) -> bool {
        self.dbm && self.ha && self.hd
    }

    /// The letters that remain for EL1 and EL0.
    fn expected(&self) -> (String, String) {
        // AP[2:1] with AP[2] taken as clear where hardware manages dirty state.
        let ap = if self.dirty_is_managed() {
            self.ap & 1
        } else {
            self.ap
        };
        let (mut el1, mut el0) = match ap {
            0b00 => ("rwx".to_owned(), "x".to_owned()),
            0b01 => ("rwx".to_owned(), "rwx".to_owned()),
            0b10 => ("rx".to_owned(), "x".to_owned()),
            _ => ("rx".to_owned(), "rx".to_owned()),
        };
        let hierarchy = !self.hpd;
        let (from_el1, from_el0) = match self.ap_table {
            _ if !hierarchy => ("", ""),
            0b00 => ("", ""),
            0b01 => ("", "rw"),
            0b10 => ("w", "w"),
            _ => ("w", "rw"),
        };
        strike(&mut el1, from_el1);
        strike(&mut el0, from_el0);
        if self.uxn || hierarchy && self.uxn_table {
            strike(&mut el0, "x");
        }
        if self.pxn || hierarchy && self.pxn_table || el0.contains('w') {
            strike(&mut el1, "x");
        }
        let el0_reaches = el0.contains('r') || el0.contains('w');
        // EPAN asks about the descriptor's UXN, whatever WXN makes of it.
        let el0_may_execute = el0.contains('x');
        if self.wxn {
            for letters in [&mut el1, &mut el0] {
                if letters.contains('w') {
                    strike(letters, "x");
                }
            }
        }
        if self.pan && (el0_reaches || self.epan && el0_may_execute) {
            strike(&mut el1, "rw");
        }
        (el1, el0)
    }
}

fn strike(letters: &mut String, gone: &str) {
    letters.retain(|letter| !gone.contains(letter));
}

/// Walks every access of one case over fresh tables, and asks `check` and `rights` about the leaf
/// that a permitted one gave.
fn judge(case: &Case, va: Va, table_level: usize) {
    let mut upper = [0x2003, 0x3003, 0x4003];
    upper[table_level] |= case.table_bits();
    let [root, first, second] = upper;
    let context = case.context();
    let (el1, el0) = case.expected();
    for privilege in PRIVILEGES {
        let letters = if privilege == Privilege::User {
            &el0
        } else {
            &el1
        };
        for (kind, letter) in KINDS {
            let mut tables = chain(
                va,
                &[39, 30, 21, 12],
                9,
                &[0x1000, 0x2000, 0x3000, 0x4000],
                &[root, first, second, case.leaf()],
            );
            let access = Access::new(va, kind, privilege);
            let result = Aarch64::walk(&context, &access, None, &mut tables.memory, &mut ());
            let permitted = letters.contains(letter);
            let becomes_dirty = permitted && kind == AccessKind::Store && case.ap & 2 != 0;
            let after = case.leaf() & !(u64::from(becomes_dirty) << 7);
            assert_eq!(tables.entry(3), after, "{case:?} {access:?}");
            match result {
                Ok(leaf) => {
                    assert!(permitted, "{case:?} {access:?} was permitted");
                    let clean = case.ap & 2 != 0 && !becomes_dirty;
                    judge_held(case, &context, va, &leaf, clean);
                }
                Err(fault) => {
                    assert!(!permitted, "{case:?} {access:?} was refused");
                    assert_eq!(fault, Fault::new(FaultKind::Permission, Level::L3));
                }
            }
        }
    }
}

/// What a TLB that holds `leaf` answers must be what a walk would.
fn judge_held(
    case: &Case,
    context: &Context,
    va: Va,
    leaf: &mmuscope_models::arch::Leaf<Aarch64>,
    clean: bool,
) {
    let (el1, el0) = case.expected();
    for privilege in PRIVILEGES {
        let letters = if privilege == Privilege::User {
            &el0
        } else {
            &el1
        };
        for (kind, letter) in KINDS {
            let expected = match (letters.contains(letter), kind) {
                (false, _) => Verdict::Fault(Fault::new(FaultKind::Permission, Level::L3)),
                (true, AccessKind::Store) if clean => Verdict::NeedsUpdate,
                (true, _) => Verdict::Allowed,
            };
            let access = Access::new(va, kind, privilege);
            assert_eq!(Aarch64::check(leaf, context, &access), expected, "{case:?}");
        }
        let expected = Rights {
            read: letters.contains('r'),
            write: letters.contains('w') && !clean,
            execute: letters.contains('x'),
        };
        assert_eq!(
            Aarch64::rights(leaf, context, privilege),
            expected,
            "{case:?}"
        );
    }
}

#[test]
fn every_combination_of_permission_bits_and_controls() {
    for number in 0..1 << CASE_BITS {
        let case = Case::number(number);
        // Alternate halves and the level that holds the table bits: neither may matter.
        let va = if number.count_ones() % 2 == 0 {
            Va::new(0x0000_1234_5678_9000)
        } else {
            Va::new(0xffff_1234_5678_9000)
        };
        judge(&case, va, usize::try_from(number % 3).unwrap());
    }
}

#[test]
fn table_bits_of_different_levels_add_up() {
    let context = Case::number(0).context();
    let va = Va::new(0x1234_5678_9000);
    // No EL0 access from level 0, no writes from level 1, no EL1 execution from level 2.
    let mut tables = chain(
        va,
        &[39, 30, 21, 12],
        9,
        &[0x1000, 0x2000, 0x3000, 0x4000],
        &[0x2003 | 1 << 61, 0x3003 | 1 << 62, 0x4003 | 1 << 59, 0x8443],
    );
    let access = Access::new(va, AccessKind::Load, Privilege::Supervisor);
    let leaf = Aarch64::walk(&context, &access, None, &mut tables.memory, &mut ()).unwrap();
    let rights = |privilege| Aarch64::rights(&leaf, &context, privilege);
    let only = |read, execute| Rights {
        read,
        write: false,
        execute,
    };
    assert_eq!(rights(Privilege::Supervisor), only(true, false));
    assert_eq!(rights(Privilege::User), only(false, true));
}
