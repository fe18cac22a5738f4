//! Tables that the crate `aarch64-paging` builds, walked by our walker.
//!
//! The crate's authors read the same manual and share no code with us: what they mapped must be
//! what we translate, at the same level, with the same permissions and contiguous groups.

mod common;

use aarch64_paging::descriptor::{El1Attributes, PhysicalAddress};
use aarch64_paging::paging::{Constraints, El1And0, MemoryRegion, RootTable, VaRange};
use aarch64_paging::target::TargetAllocator;
use mmuscope_models::aarch64::{Aarch64, Context, FaultKind};
use mmuscope_models::access::{Access, AccessKind, Privilege, Rights};
use mmuscope_models::addr::{Pa, PageSize, Va};
use mmuscope_models::arch::{Arch, Leaf};
use proptest::prelude::*;

use common::DenseMemory;

/// Where the tables lie on the target.
const TABLES: u64 = 0x1_0000;
const PAGE: u64 = 4096;

/// One mapping: `pages` pages from `first` to the same offset from `frame`.
#[derive(Clone, Debug)]
struct Region {
    first: u64,
    pages: u64,
    frame: u64,
    flags: El1Attributes,
}

impl Region {
    fn end(&self) -> u64 {
        self.first + self.pages * PAGE
    }
}

/// A start or target address that often is aligned to a block or a group.
fn aligned_page(bits: u32) -> impl Strategy<Value = u64> {
    (
        0..1_u64 << (bits - 12),
        prop::sample::select(vec![0, 4, 9, 13, 18]),
    )
        .prop_map(|(page, align)| page >> align << align << 12)
}

fn flags() -> impl Strategy<Value = El1Attributes> {
    let optional = El1Attributes::USER
        | El1Attributes::READ_ONLY
        | El1Attributes::NON_GLOBAL
        | El1Attributes::PXN
        | El1Attributes::UXN
        | El1Attributes::GP
        | El1Attributes::CONTIGUOUS_OR_PROTECTED
        | El1Attributes::ATTRIBUTE_INDEX_5
        | El1Attributes::INNER_SHAREABLE;
    any::<usize>().prop_map(move |random| {
        (El1Attributes::from_bits_truncate(random) & optional)
            | El1Attributes::VALID
            | El1Attributes::ACCESSED
    })
}

/// Up to six regions, sorted and disjoint, of one page to a little more than a gigabyte.
fn regions(input_bits: u32) -> impl Strategy<Value = Vec<Region>> {
    let pages = prop_oneof![
        1..40_u64,
        prop::sample::select(vec![16, 32, 512, 1024, 16 * 512, 512 * 512 + 513]),
    ];
    let region = (aligned_page(input_bits), pages, aligned_page(40), flags()).prop_map(
        |(first, pages, frame, flags)| Region {
            first,
            pages,
            frame,
            flags,
        },
    );
    prop::collection::vec(region, 1..6).prop_map(move |mut regions| {
        regions.sort_by_key(|region| region.first);
        let mut free_from = 0;
        regions.retain(|region| {
            let fits = region.first >= free_from && region.end() <= 1 << input_bits;
            if fits {
                free_from = region.end();
            }
            fits
        });
        regions
    })
}

type Root = RootTable<El1And0, TargetAllocator<El1Attributes>>;

/// Builds the regions with the foreign crate.
fn build(regions: &[Region], root_level: usize) -> (Root, DenseMemory) {
    let allocator = TargetAllocator::new(TABLES);
    let mut root = Root::with_va_range(allocator, root_level, El1And0, VaRange::Lower);
    for region in regions {
        let range = MemoryRegion::new(
            usize::try_from(region.first).unwrap(),
            usize::try_from(region.end()).unwrap(),
        );
        let frame = PhysicalAddress(usize::try_from(region.frame).unwrap());
        root.map_range(&range, frame, region.flags, Constraints::empty())
            .unwrap();
    }
    let memory = DenseMemory::from_bytes(Pa::new(TABLES), &root.translation().as_bytes());
    (root, memory)
}

fn context(input_bits: u32) -> Context {
    Context {
        sctlr: 1,
        tcr: u64::from(64 - input_bits) | 0b101 << 32,
        ttbr0: TABLES,
        mair: 0x7766_5544_3322_1100,
        ..Context::default()
    }
}

fn load(va: u64) -> Access {
    Access::new(Va::new(va), AccessKind::Load, Privilege::Supervisor)
}

/// What the foreign descriptor at `va` is: its level, and whether it is marked contiguous.
fn foreign_leaf(root: &Root, va: u64) -> (i8, bool) {
    let page = usize::try_from(va & !(PAGE - 1)).unwrap();
    let mut found = None;
    root.walk_range(
        &MemoryRegion::new(page, page + 4096),
        &mut |_, descriptor, level| {
            let contiguous = descriptor
                .flags()
                .contains(El1Attributes::CONTIGUOUS_OR_PROTECTED);
            found = Some((i8::try_from(level).unwrap(), contiguous));
            Ok(())
        },
    )
    .unwrap();
    found.unwrap()
}

/// Rights as the flags that were asked for give them, PAN and WXN off.
fn expected_rights(flags: El1Attributes, privilege: Privilege) -> Rights {
    let user = flags.contains(El1Attributes::USER);
    let writable = !flags.contains(El1Attributes::READ_ONLY);
    match privilege {
        Privilege::User => Rights {
            read: user,
            write: user && writable,
            execute: !flags.contains(El1Attributes::UXN),
        },
        Privilege::Supervisor => Rights {
            read: true,
            write: writable,
            execute: !(flags.contains(El1Attributes::PXN) || user && writable),
        },
    }
}

fn compare_leaf(region: &Region, root: &Root, context: &Context, va: u64, leaf: &Leaf<Aarch64>) {
    assert_eq!(
        leaf.pa.raw() + (va - leaf.va.raw()),
        region.frame + (va - region.first),
        "{va:#x}"
    );
    let (level, contiguous) = foreign_leaf(root, va);
    assert_eq!(
        (leaf.level.number(), leaf.group.is_some()),
        (level, contiguous)
    );
    if let Some(group) = leaf.group {
        assert_eq!(group.bytes(), 16 * leaf.size.bytes());
    }
    for privilege in [Privilege::Supervisor, Privilege::User] {
        assert_eq!(
            Aarch64::rights(leaf, context, privilege),
            expected_rights(region.flags, privilege)
        );
    }
    let global = !region.flags.contains(El1Attributes::NON_GLOBAL);
    assert_eq!(leaf.scope.is_global(), global);
    let index = region.flags.bits() >> 2 & 7;
    assert_eq!(usize::from(leaf.attrs.memory.raw()), index * 0x11);
}

/// Addresses worth asking about: the edges of every region, and a few inside and around.
fn probes(regions: &[Region], random: &[u64]) -> Vec<u64> {
    let mut all = random.to_vec();
    for region in regions {
        all.extend([
            region.first,
            region.first.wrapping_sub(1),
            region.end() - 1,
            region.end(),
        ]);
        let length = region.pages * PAGE;
        all.extend(random.iter().map(|random| region.first + random % length));
    }
    all
}

fn compare(input_bits: u32, root_level: usize, regions: &[Region], random: &[u64]) {
    let (root, mut memory) = build(regions, root_level);
    let context = context(input_bits);
    for va in probes(regions, random) {
        if va >> input_bits != 0 {
            continue;
        }
        let holder = regions
            .iter()
            .find(|region| (region.first..region.end()).contains(&va));
        match (
            Aarch64::walk(&context, &load(va), None, &mut memory, &mut ()),
            holder,
        ) {
            (Ok(leaf), Some(region)) => compare_leaf(region, &root, &context, va, &leaf),
            (Err(fault), None) => assert_eq!(fault.kind, FaultKind::Translation, "{va:#x}"),
            (result, holder) => panic!("{va:#x}: {result:?}, mapped as {holder:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn four_level_tables(
        regions in regions(48),
        random in prop::collection::vec(0..1_u64 << 48, 24),
    ) {
        compare(48, 0, &regions, &random);
    }

    #[test]
    fn three_level_tables(
        regions in regions(39),
        random in prop::collection::vec(0..1_u64 << 39, 24),
    ) {
        compare(39, 1, &regions, &random);
    }
}

#[test]
fn a_gigabyte_maps_as_one_block_and_a_marked_page_as_one_of_a_group() {
    let flags = El1Attributes::VALID | El1Attributes::ACCESSED;
    let block = Region {
        first: 1 << 30,
        pages: 1 << 18,
        frame: 1 << 30,
        flags,
    };
    let group = Region {
        first: 1 << 16,
        pages: 16,
        frame: 1 << 16,
        flags: flags | El1Attributes::CONTIGUOUS_OR_PROTECTED,
    };
    let (_, mut memory) = build(&[group, block], 1);
    let mut leaf = |va| Aarch64::walk(&context(39), &load(va), None, &mut memory, &mut ()).unwrap();
    assert_eq!(leaf(1 << 30).size, PageSize::Size1G);
    assert_eq!(leaf(0x1_f000).group, Some(PageSize::Size64K));
}
