//! What the emulated processor has, and what a question makes use of.

use mmuscope_models::access::{AccessKind, Privilege};
use mmuscope_models::addr::{Level, PageSize};
use mmuscope_models::x86::{Cr0, Cr4, Efer, ErrorCode, PhysicalBits};

use super::expect::{Expected, Question};
use super::mailbox::Identity;
use crate::tally::Tally;

/// Optional features, out of CPUID.
#[derive(Copy, Clone, Debug)]
pub struct Features {
    /// Bits of CR4 that may be set.
    pub cr4: u64,
    /// Five levels.
    pub la57: bool,
    /// MAXPHYADDR.
    pub physical_bits: PhysicalBits,
}

impl Features {
    /// The features of the processor that `identity` describes.
    pub fn new(identity: &Identity) -> Self {
        let mut cr4 = Cr4::empty();
        for (register, bit, allows) in [
            (identity.leaf7_ebx, 7, Cr4::SMEP),
            (identity.leaf7_ebx, 20, Cr4::SMAP),
            (identity.leaf7_ecx, 3, Cr4::PKE),
            (identity.leaf7_ecx, 31, Cr4::PKS),
        ] {
            if register >> bit & 1 != 0 {
                cr4 |= allows;
            }
        }
        Self {
            cr4: cr4.bits(),
            la57: identity.leaf7_ecx >> 16 & 1 != 0,
            physical_bits: PhysicalBits::new(identity.physical_bits).unwrap(),
        }
    }
}

/// What a run must have covered.
pub const REQUIRED: &[&str] = &[
    "4 levels",
    "4K pages",
    "2M pages",
    "1G pages",
    "loads at CPL 0",
    "stores at CPL 0",
    "fetches at CPL 0",
    "loads at CPL 3",
    "stores at CPL 3",
    "fetches at CPL 3",
    "write protection off (WP=0)",
    "execute disable (NXE=1)",
    "execute disable off (NXE=0)",
    "reserved bits",
    "accessed and dirty flags set",
    "not canonical",
];

/// Counts what `question` made use of.
pub fn cover(question: &Question, expected: &Expected, tally: &mut Tally) {
    let context = question.context();
    let (cr0, cr4) = (
        Cr0::from_bits_truncate(context.cr0),
        Cr4::from_bits_truncate(context.cr4),
    );
    if expected.outcome.vector == 13 {
        return tally.cover("not canonical");
    }
    let Some(last) = expected.read.last() else {
        return;
    };
    let access = &question.access;
    let supervisor = access.privilege == Privilege::Supervisor;
    let fetch = access.kind == AccessKind::Fetch;
    let nxe = Efer::from_bits_truncate(context.efer).contains(Efer::NXE);
    let user_address = expected.read.iter().all(|read| read.raw & 1 << 2 != 0);
    let leaf = expected.leaf.is_some();
    let error = ErrorCode::from_bits_truncate(u32::try_from(expected.outcome.error).unwrap());
    let fault = expected.outcome.vector == 14;
    for (covered, feature) in [
        (question.la57, "5 levels"),
        (!question.la57, "4 levels"),
        (
            supervisor && fetch && user_address && cr4.contains(Cr4::SMEP),
            "SMEP",
        ),
        (
            supervisor && !fetch && user_address && cr4.contains(Cr4::SMAP) && !question.ac,
            "SMAP",
        ),
        (
            supervisor && !fetch && user_address && cr4.contains(Cr4::SMAP) && question.ac,
            "SMAP with AC",
        ),
        (
            fault && error.contains(ErrorCode::KEY) && user_address,
            "user keys (PKE)",
        ),
        (
            fault && error.contains(ErrorCode::KEY) && !user_address,
            "supervisor keys (PKS)",
        ),
        (
            supervisor && !cr0.contains(Cr0::WP),
            "write protection off (WP=0)",
        ),
        (nxe, "execute disable (NXE=1)"),
        (!nxe, "execute disable off (NXE=0)"),
        (
            fault && error.contains(ErrorCode::RESERVED),
            "reserved bits",
        ),
        (leaf && last.level == Level::L3, "4K pages"),
        (size(expected) == Some(PageSize::Size2M), "2M pages"),
        (size(expected) == Some(PageSize::Size1G), "1G pages"),
        (
            leaf && !expected.writes.is_empty(),
            "accessed and dirty flags set",
        ),
    ] {
        if covered {
            tally.cover(feature);
        }
    }
    tally.cover(match (access.kind, access.privilege) {
        (AccessKind::Load, Privilege::Supervisor) => "loads at CPL 0",
        (AccessKind::Store, Privilege::Supervisor) => "stores at CPL 0",
        (AccessKind::Fetch, Privilege::Supervisor) => "fetches at CPL 0",
        (AccessKind::Load, Privilege::User) => "loads at CPL 3",
        (AccessKind::Store, Privilege::User) => "stores at CPL 3",
        (AccessKind::Fetch, Privilege::User) => "fetches at CPL 3",
    });
}

fn size(expected: &Expected) -> Option<PageSize> {
    expected.leaf.map(|leaf| leaf.size)
}
