//! The system-register CPU interface of a GICv3, as far as software-generated interrupts use it
//! (IHI 0069, 12.2): no priorities, no distributor, group 1 only.

use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::system::CoreId;

use super::SysReg;
use crate::plugin::{Shared, Vcpu};

/// ICC_SGI1R_EL1.
pub const SGI1R: SysReg = SysReg(3, 0, 12, 11, 5);
/// ICC_IAR1_EL1.
pub const IAR1: SysReg = SysReg(3, 0, 12, 12, 0);
/// ICC_EOIR1_EL1.
pub const EOIR1: SysReg = SysReg(3, 0, 12, 12, 1);

/// No interrupt is pending.
const SPURIOUS: u64 = 1023;

/// The state of one CPU interface.
#[derive(Debug, Default)]
pub struct Gic {
    /// The interrupt whose exception has been taken and that is not acknowledged yet has been
    /// charged to this core.
    signalled: bool,
}

/// Registers that are accepted and read as zero.
pub fn is_accepted(reg: SysReg) -> bool {
    let SysReg(op0, op1, crn, crm, op2) = reg;
    (op0, op1) == (3, 0)
        && match (crn, crm) {
            // ICC_PMR_EL1.
            (4, 6) => op2 == 0,
            // ICC_DIR_EL1, ICC_RPR_EL1.
            (12, 11) => matches!(op2, 1 | 3),
            // ICC_HPPIR1, BPR1, CTLR, SRE, IGRPEN0, IGRPEN1.
            (12, 12) => matches!(op2, 2..=7),
            _ => false,
        }
}

/// The IRQ exception for the first pending interrupt is being taken.
pub fn signal(vcpu: &mut Vcpu<Aarch64>, shared: &mut Shared<Aarch64>) {
    if let Some(first) = vcpu.interrupts.first() {
        shared.receive(vcpu.core, first.arrival);
        vcpu.cpu.gic.signalled = true;
    }
}

/// ICC_IAR1_EL1 is read: the first interrupt that has arrived, or 1023.
pub fn acknowledge(vcpu: &mut Vcpu<Aarch64>, shared: &mut Shared<Aarch64>) -> u64 {
    let now = shared.now(vcpu.core);
    match vcpu.interrupts.first().copied() {
        Some(first) if first.arrival <= now => {
            vcpu.interrupts.remove(0);
            if !std::mem::take(&mut vcpu.cpu.gic.signalled) {
                shared.receive(vcpu.core, first.arrival);
            }
            u64::from(first.number)
        }
        _ => SPURIOUS,
    }
}

/// ICC_SGI1R_EL1 is written: sends an interrupt to every core that it names.
pub fn send(vcpu: &mut Vcpu<Aarch64>, shared: &mut Shared<Aarch64>, value: u64) {
    let number = u32::try_from(value >> 24 & 0xf).unwrap_or(0);
    let all_but_self = value >> 40 & 1 == 1;
    let range = value >> 44 & 0xf;
    let aff1 = value >> 16 & 0xff;
    for index in 0..shared.system.cores() {
        let named = if all_but_self {
            index != vcpu.core.index()
        } else {
            let affinity = affinity(index);
            affinity >> 8 == aff1
                && affinity >> 4 & 0xf == range
                && value >> (affinity & 0xf) & 1 == 1
        };
        if named {
            let to = CoreId::new(u16::try_from(index).unwrap_or(u16::MAX));
            shared.send(vcpu.core, to, number);
        }
    }
    // The receivers may have to run before this core goes on.
    vcpu.budget = 0;
}

/// MPIDR_EL1 affinity of a core: Aff0 is its number, and Aff1 counts on from 256.
pub fn affinity(index: usize) -> u64 {
    index as u64
}
