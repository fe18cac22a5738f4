use super::*;
use crate::arch::Arch;
use crate::memory::SparseMemory;

/// 4K granule, 48 bits in both halves, 48-bit output.
fn context() -> Context {
    Context {
        sctlr: 1,
        tcr: 16 | 16 << 16 | 0b10 << 30 | 0b101 << 32,
        ttbr0: 0x1000,
        ttbr1: 0x9000,
        ..Context::default()
    }
}

#[test]
fn four_levels_lead_to_a_page() {
    let mut memory = SparseMemory::new();
    let va = Va::new(0x0000_1234_5678_9abc);
    for (table, shift, descriptor) in [
        (0x1000, 39, 0x2003),
        (0x2000, 30, 0x3003),
        (0x3000, 21, 0x4003),
        (0x4000, 12, 0xabcd_e403 | 1 << 6),
    ] {
        memory.write(Pa::new(table + (va.raw() >> shift & 511) * 8), descriptor);
    }
    let access = Access::new(va, AccessKind::Store, Privilege::User);
    let leaf = Aarch64::walk(&context(), &access, None, &mut memory, &mut ()).unwrap();
    assert_eq!(leaf.pa, Pa::new(0xabcd_e000));
    assert_eq!(leaf.va, Va::new(0x1234_5678_9000));
    assert_eq!(leaf.size, PageSize::Size4K);
    assert!(leaf.scope.is_global());
    let other = Access::new(Va::new(va.raw() + 4096), AccessKind::Load, Privilege::User);
    assert_eq!(
        Aarch64::walk(&context(), &other, None, &mut memory, &mut ()),
        Err(Fault::new(FaultKind::ExternalOnWalk, Level::L3))
    );
}
