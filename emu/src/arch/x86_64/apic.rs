//! The local APIC in x2APIC mode, as far as interrupts between processors use it (Intel SDM
//! volume 3A, 11.12): no priorities, no timer.

use mmuscope_models::system::CoreId;
use mmuscope_models::x86::X86_64;

use crate::plugin::{Shared, Vcpu};

/// MSR of the APIC id.
pub const ID: u32 = 0x802;
/// MSR of the interrupt command register.
pub const ICR: u32 = 0x830;
/// The MSRs of the x2APIC.
pub const MSRS: std::ops::RangeInclusive<u32> = 0x800..=0x8ff;

/// The destination that names every processor.
const BROADCAST: u64 = 0xffff_ffff;

/// The interrupt command register is written: sends an interrupt to every core that it names.
pub fn send(vcpu: &mut Vcpu<X86_64>, shared: &mut Shared<X86_64>, command: u64) {
    let number = u32::try_from(command & 0xff).unwrap_or(0);
    let destination = command >> 32;
    let me = vcpu.core.index();
    for index in 0..shared.system.cores() {
        let named = match command >> 18 & 3 {
            0 => destination == index as u64 || destination == BROADCAST,
            1 => index == me,
            2 => true,
            _ => index != me,
        };
        if named {
            let to = CoreId::new(u16::try_from(index).unwrap_or(u16::MAX));
            shared.send(vcpu.core, to, number);
        }
    }
    // The receivers may have to run before this core goes on.
    vcpu.budget = 0;
}

/// Takes the first pending interrupt for delivery: its vector.
pub fn accept(vcpu: &mut Vcpu<X86_64>, shared: &mut Shared<X86_64>) -> Option<u8> {
    if vcpu.interrupts.is_empty() {
        return None;
    }
    let first = vcpu.interrupts.remove(0);
    shared.receive(vcpu.core, first.arrival);
    u8::try_from(first.number).ok()
}
