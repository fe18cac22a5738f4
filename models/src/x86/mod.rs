//! x86-64 paging: registers, entries, the walker and invalidation.

/// The registers that paging depends on, raw.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Context {
    /// CR0.
    pub cr0: u64,
    /// CR3.
    pub cr3: u64,
    /// CR4.
    pub cr4: u64,
    /// IA32_EFER.
    pub efer: u64,
    /// RFLAGS.AC, which lets supervisor code past SMAP.
    pub ac: bool,
    /// PKRU.
    pub pkru: u32,
}
