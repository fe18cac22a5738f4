//! Taking exceptions to EL1 (Arm ARM DDI 0487, D1.3.5 and D1.3.6).

use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::access::Privilege;
use mmuscope_models::system::ExceptionKind;
use unicorn_engine::{RegisterARM64, Unicorn, uc_error};

use super::{PSTATE_ENTRY, SPSR, instruction_at, refused};
use crate::arch::{EmuArch, Trap};
use crate::plugin::{Exit, Handle, RunError, Shared, Vcpu};

/// The engine's exception numbers.
const UNDEFINED: u32 = 1;
const SUPERVISOR_CALL: u32 = 2;
const BREAKPOINT: u32 = 7;

/// ESR_EL1.EC, shifted into place, with IL.
const IL: u64 = 1 << 25;
const EC_UNKNOWN: u64 = IL;
const EC_SVC: u64 = 0x15 << 26 | IL;
const EC_BRK: u64 = 0x3c << 26 | IL;

/// What one entry writes.
#[derive(Copy, Clone, Debug)]
pub struct Entry {
    kind: ExceptionKind,
    esr: Option<u64>,
    far: Option<u64>,
}

impl Entry {
    pub const fn fault(esr: u64, far: u64) -> Self {
        Self {
            kind: ExceptionKind::Sync,
            esr: Some(esr),
            far: Some(far),
        }
    }

    pub const fn interrupt() -> Self {
        Self {
            kind: ExceptionKind::Interrupt,
            esr: None,
            far: None,
        }
    }

    pub const fn trap(trap: Trap) -> Self {
        let (kind, esr) = match trap {
            Trap::Syscall => (ExceptionKind::Syscall, EC_SVC),
            Trap::Exception(esr) => (ExceptionKind::Sync, esr),
        };
        Self {
            kind,
            esr: Some(esr),
            far: None,
        }
    }
}

/// Takes an exception with the present program counter as the return address.
pub fn enter<D>(
    uc: &mut Unicorn<'_, D>,
    handle: &Handle<Aarch64>,
    entry: Entry,
) -> Result<(), RunError> {
    let from = Aarch64::privilege(uc);
    handle.with(|vcpu, shared| {
        shared.system.exception_entry(vcpu.core, entry.kind, from);
        vcpu.exceptions.push(entry.kind);
        vcpu.privilege = Privilege::Supervisor;
    });
    write_state(uc, entry).map_err(RunError::Engine)
}

fn write_state<D>(uc: &mut Unicorn<'_, D>, entry: Entry) -> Result<(), uc_error> {
    let pstate = uc.reg_read(RegisterARM64::PSTATE)?;
    let pc = uc.reg_read(RegisterARM64::PC)?;
    uc.reg_write(RegisterARM64::ELR_EL1, pc)?;
    if let Some(esr) = entry.esr {
        uc.reg_write(RegisterARM64::ESR_EL1, esr)?;
    }
    if let Some(far) = entry.far {
        uc.reg_write(RegisterARM64::FAR_EL1, far)?;
    }
    let from_el0 = pstate >> 2 & 3 == 0;
    let own_stack = pstate & 1 == 1;
    let group = match (from_el0, own_stack) {
        (true, _) => 0x400,
        (false, true) => 0x200,
        (false, false) => 0,
    };
    if from_el0 || !own_stack {
        // The engine does not bank SP when PSTATE is written from outside.
        let sp = uc.reg_read(RegisterARM64::SP)?;
        uc.reg_write(RegisterARM64::SP_EL0, sp)?;
        let sp = uc.reg_read(RegisterARM64::SP_EL1)?;
        uc.reg_write(RegisterARM64::SP, sp)?;
    }
    let interrupt = if entry.esr.is_none() { 0x80 } else { 0 };
    uc.reg_write(RegisterARM64::PSTATE, PSTATE_ENTRY)?;
    let vbar = uc.reg_read(RegisterARM64::VBAR_EL1)?;
    uc.reg_write(RegisterARM64::PC, vbar.wrapping_add(group + interrupt))?;
    // Last, because it also makes the engine take note of the new PSTATE.
    SPSR.write(uc, pstate)
}

/// The engine met an exception of its own.
pub fn on_exception<D>(
    uc: &Unicorn<'_, D>,
    vcpu: &Vcpu<Aarch64>,
    shared: &Shared<Aarch64>,
    number: u32,
) -> Exit<Aarch64> {
    let pc = match uc.reg_read(RegisterARM64::PC) {
        Ok(pc) => pc,
        Err(error) => return refused(error),
    };
    match number {
        SUPERVISOR_CALL => Exit::Trap(Trap::Syscall),
        BREAKPOINT => Exit::Trap(Trap::Exception(
            EC_BRK | immediate(instruction_at(vcpu, shared, pc)),
        )),
        UNDEFINED => undefined(instruction_at(vcpu, shared, pc)),
        _ => Exit::Unexpected(number),
    }
}

/// Without EL2, HVC is undefined: that is how hypercalls arrive.
fn undefined(word: Option<u32>) -> Exit<Aarch64> {
    let is_hvc = word.is_some_and(|word| word & 0xffe0_001f == 0xd400_0002);
    if is_hvc {
        Exit::Hypercall(u16::try_from(immediate(word)).unwrap_or(u16::MAX))
    } else {
        Exit::Trap(Trap::Exception(EC_UNKNOWN))
    }
}

/// The 16-bit immediate of an exception-generating instruction.
fn immediate(word: Option<u32>) -> u64 {
    word.map_or(0, |word| u64::from(word >> 5 & 0xffff))
}
