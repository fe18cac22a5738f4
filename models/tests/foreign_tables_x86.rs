//! Tables that the crate `x86_64` builds, walked by our walker and read back by theirs.

mod common;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

use common::DenseMemory;
use mmuscope_models::access::{Access, AccessKind, Privilege, Rights};
use mmuscope_models::addr::{Pa, PageSize, Va};
use mmuscope_models::arch::{Arch, Leaf};
use mmuscope_models::x86::{Context, Cr0, Cr4, Efer, Fault, X86_64};
use proptest::prelude::*;
use x86_64::structures::paging::mapper::{MappedFrame, TranslateResult};
use x86_64::structures::paging::{
    FrameAllocator, Mapper, OffsetPageTable, Page, PageSize as ForeignPageSize, PageTable,
    PageTableFlags, PhysFrame, Size1GiB, Size2MiB, Size4KiB, Translate,
};
use x86_64::{PhysAddr, VirtAddr};

/// How many tables an arena holds; the first is the root.
const TABLES: usize = 256;

/// Host memory that stands for the first frames of physical memory: table `n` is at physical
/// address `n * 4096`.
struct Arena {
    memory: *mut u8,
}

impl Arena {
    const LAYOUT: Layout = match Layout::from_size_align(TABLES * 4096, 4096) {
        Ok(layout) => layout,
        Err(_) => panic!("an arena of whole pages has a layout"),
    };

    fn new() -> Self {
        // SAFETY: the layout has a size.
        let memory = unsafe { alloc_zeroed(Self::LAYOUT) };
        if memory.is_null() {
            handle_alloc_error(Self::LAYOUT);
        }
        Self { memory }
    }

    /// The foreign view of the arena.
    fn mapper(&mut self) -> OffsetPageTable<'_> {
        let offset = VirtAddr::from_ptr(self.memory);
        // SAFETY: the arena is zeroed, page-aligned memory that outlives the mapper, and its
        // first page is used for nothing but this root. Frames come from `Frames`, which stays
        // within the arena, so every table lies at the offset.
        unsafe { OffsetPageTable::new(&mut *self.memory.cast::<PageTable>(), offset) }
    }

    /// A copy of the tables as the walker's memory.
    fn snapshot(&mut self) -> DenseMemory {
        // SAFETY: the arena is initialised memory of this size, and the mapper's borrow is over.
        let bytes = unsafe { std::slice::from_raw_parts(self.memory, TABLES * 4096) };
        DenseMemory::from_bytes(Pa::new(0), bytes)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.memory, Self::LAYOUT) }
    }
}

/// Hands out the arena's tables after the root.
struct Frames {
    next: usize,
}

// SAFETY: every frame is handed out once.
unsafe impl FrameAllocator<Size4KiB> for Frames {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let frame = self.next;
        self.next += 1;
        (frame < TABLES).then(|| PhysFrame::containing_address(PhysAddr::new(frame as u64 * 4096)))
    }
}

/// One mapping of a page of `size`.
#[derive(Copy, Clone, Debug)]
struct Mapping {
    size: PageSize,
    va: u64,
    pa: u64,
    flags: PageTableFlags,
    parent: PageTableFlags,
}

fn flags(optional: PageTableFlags) -> impl Strategy<Value = PageTableFlags> {
    any::<u64>().prop_map(move |random| {
        (PageTableFlags::from_bits_truncate(random) & optional) | PageTableFlags::PRESENT
    })
}

/// Mappings that crowd into few tables, so that they meet and split upper levels.
fn mapping() -> impl Strategy<Value = Mapping> {
    let leaf = PageTableFlags::WRITABLE
        | PageTableFlags::USER_ACCESSIBLE
        | PageTableFlags::GLOBAL
        | PageTableFlags::NO_EXECUTE
        | PageTableFlags::DIRTY;
    let parent =
        PageTableFlags::WRITABLE | PageTableFlags::USER_ACCESSIBLE | PageTableFlags::NO_EXECUTE;
    let sizes = vec![PageSize::Size4K, PageSize::Size2M, PageSize::Size1G];
    let top = prop::sample::select(vec![0_u64, 1 << 39, 0xffff_8000 << 32, 0xffff_ff80 << 32]);
    (
        prop::sample::select(sizes),
        (top, 0..3_u64, 0..3_u64, 0..8_u64),
        0..1_u64 << 40,
        flags(leaf),
        flags(parent),
    )
        .prop_map(
            |(size, (top, first, second, third), pa, flags, parent)| Mapping {
                size,
                va: (top | first << 30 | second << 21 | third << 12) & !(size.bytes() - 1),
                pa: pa & !(size.bytes() - 1),
                flags,
                parent,
            },
        )
}

/// Maps one page with the foreign crate; a conflict with an earlier mapping leaves it out.
fn map<S: ForeignPageSize>(mapper: &mut OffsetPageTable<'_>, frames: &mut Frames, wanted: Mapping)
where
    for<'a> OffsetPageTable<'a>: Mapper<S>,
{
    let page = Page::<S>::containing_address(VirtAddr::new(wanted.va));
    let frame = PhysFrame::<S>::containing_address(PhysAddr::new(wanted.pa));
    // SAFETY: these tables are never given to a processor.
    let result =
        unsafe { mapper.map_to_with_table_flags(page, frame, wanted.flags, wanted.parent, frames) };
    if let Ok(flush) = result {
        flush.ignore();
    }
}

fn build(mappings: &[Mapping]) -> Arena {
    let mut arena = Arena::new();
    let mut frames = Frames { next: 1 };
    let mut mapper = arena.mapper();
    for wanted in mappings {
        match wanted.size {
            PageSize::Size4K => map::<Size4KiB>(&mut mapper, &mut frames, *wanted),
            PageSize::Size2M => map::<Size2MiB>(&mut mapper, &mut frames, *wanted),
            _ => map::<Size1GiB>(&mut mapper, &mut frames, *wanted),
        }
    }
    arena
}

fn context() -> Context {
    Context {
        cr0: (Cr0::PG | Cr0::WP).bits(),
        cr3: 0,
        cr4: (Cr4::PAE | Cr4::PGE).bits(),
        efer: Efer::NXE.bits(),
        ..Context::default()
    }
}

/// What the foreign crate reads at `va`: page size, physical address, leaf flags.
fn foreign(mapper: &OffsetPageTable<'_>, va: u64) -> Option<(PageSize, u64, PageTableFlags)> {
    let TranslateResult::Mapped {
        frame,
        offset,
        flags,
    } = mapper.translate(VirtAddr::new(va))
    else {
        return None;
    };
    let size = match frame {
        MappedFrame::Size4KiB(_) => PageSize::Size4K,
        MappedFrame::Size2MiB(_) => PageSize::Size2M,
        MappedFrame::Size1GiB(_) => PageSize::Size1G,
    };
    Some((size, frame.start_address().as_u64() + offset, flags))
}

/// Flags of the table entries that lead to the leaf: the foreign `translate` leaves them out, so
/// they are read through the foreign crate's table types.
fn upper_flags(mapper: &OffsetPageTable<'_>, va: u64) -> Vec<PageTableFlags> {
    let page = Page::<Size4KiB>::containing_address(VirtAddr::new(va));
    let mut table = mapper.level_4_table();
    let mut all = Vec::new();
    for index in [page.p4_index(), page.p3_index(), page.p2_index()] {
        let entry = &table[index];
        if entry.flags().contains(PageTableFlags::HUGE_PAGE) {
            break;
        }
        all.push(entry.flags());
        let at = mapper.phys_offset() + entry.addr().as_u64();
        // SAFETY: the entry is present and no page, so it points to a table in the arena.
        table = unsafe { &*at.as_ptr::<PageTable>() };
    }
    all
}

fn expected_rights(leaf: PageTableFlags, upper: &[PageTableFlags], user: bool) -> Rights {
    let all = |flag| leaf.contains(flag) && upper.iter().all(|flags| flags.contains(flag));
    let writable = all(PageTableFlags::WRITABLE);
    let reachable = !user || all(PageTableFlags::USER_ACCESSIBLE);
    let no_execute = leaf.contains(PageTableFlags::NO_EXECUTE)
        || upper
            .iter()
            .any(|flags| flags.contains(PageTableFlags::NO_EXECUTE));
    Rights {
        read: reachable,
        write: reachable && writable && leaf.contains(PageTableFlags::DIRTY),
        execute: reachable && !no_execute,
    }
}

fn compare_leaf(mapper: &OffsetPageTable<'_>, va: u64, ours: &Leaf<X86_64>) {
    let (size, pa, flags) = foreign(mapper, va).unwrap();
    assert_eq!(ours.size, size);
    assert_eq!(ours.pa.raw() + (va - ours.va.raw()), pa);
    let global = flags.contains(PageTableFlags::GLOBAL);
    assert_eq!(ours.scope.is_global(), global);
    let upper = upper_flags(mapper, va);
    for privilege in [Privilege::Supervisor, Privilege::User] {
        assert_eq!(
            X86_64::rights(ours, &context(), privilege),
            expected_rights(flags, &upper, privilege == Privilege::User),
            "{va:#x} {flags:?} {upper:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn four_level_tables(
        mappings in prop::collection::vec(mapping(), 1..24),
        offsets in prop::collection::vec(0..1_u64 << 31, 8),
    ) {
        let mut arena = build(&mappings);
        let mut memory = arena.snapshot();
        let mapper = arena.mapper();
        let probes = mappings
            .iter()
            .flat_map(|mapping| offsets.iter().map(|offset| mapping.va.wrapping_add(*offset)))
            .chain(mappings.iter().map(|mapping| mapping.va));
        for va in probes {
            let access = Access::new(Va::new(va), AccessKind::Load, Privilege::Supervisor);
            match X86_64::walk(&context(), &access, None, &mut memory, &mut ()) {
                Ok(leaf) => compare_leaf(&mapper, va, &leaf),
                Err(Fault::PageFault { code }) => {
                    prop_assert_eq!(code.bits(), 0);
                    prop_assert!(foreign(&mapper, va).is_none());
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
}
