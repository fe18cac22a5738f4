//! AArch64 VMSAv8-64: registers, descriptors, the stage 1 walker and TLB maintenance.

/// The registers that stage 1 translation at EL1&0 depends on, raw.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct Context {
    /// SCTLR_EL1.
    pub sctlr: u64,
    /// TCR_EL1.
    pub tcr: u64,
    /// TTBR0_EL1.
    pub ttbr0: u64,
    /// TTBR1_EL1.
    pub ttbr1: u64,
    /// MAIR_EL1.
    pub mair: u64,
    /// PSTATE.PAN.
    pub pan: bool,
}
