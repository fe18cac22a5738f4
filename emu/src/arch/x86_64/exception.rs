//! Entering the guest's handlers (Intel SDM volume 3A, 6.12 and 6.14; SYSCALL: volume 2B).
//!
//! What the processor reads and writes on the way (IDT gate, TSS, descriptors, stack frame) goes
//! through the model like any other access.
//!
//! The engine cannot be told to change its privilege level from outside, so it always executes at
//! level 0. The guest's level is that of the CS selector, which is all that the model, and what
//! this module emulates, look at; IRETQ and SYSRET are emulated for that reason.

use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::{Pa, Va};
use mmuscope_models::system::ExceptionKind;
use mmuscope_models::x86::X86_64;
use unicorn_engine::{RegisterX86, Unicorn, uc_error};

use super::system::Native;
use crate::arch::EmuArch;
use crate::plugin::{Exit, Handle, RunError, Shared, Vcpu};

/// RFLAGS.TF, IF, NT and RF.
const TF: u64 = 1 << 8;
const IF: u64 = 1 << 9;
const NT: u64 = 1 << 14;
const RF: u64 = 1 << 16;
/// RFLAGS.VM.
const VM: u64 = 1 << 17;

const INTERRUPT_GATE: u64 = 0xe;
const TRAP_GATE: u64 = 0xf;

/// What enters the handler.
#[derive(Copy, Clone, Debug)]
pub struct Event {
    vector: u8,
    error_code: Option<u32>,
    kind: ExceptionKind,
}

impl Event {
    pub const fn fault(vector: u8, error_code: u32) -> Self {
        Self {
            vector,
            error_code: Some(error_code),
            kind: ExceptionKind::Sync,
        }
    }

    pub const fn interrupt(vector: u8) -> Self {
        Self {
            vector,
            error_code: None,
            kind: ExceptionKind::Interrupt,
        }
    }

    /// An exception that the engine found. Those with an error code get zero: the engine does not
    /// tell it.
    pub fn trap(vector: u64) -> Self {
        let vector = u8::try_from(vector).unwrap_or(u8::MAX);
        Self {
            vector,
            error_code: matches!(vector, 8 | 10..=14 | 17).then_some(0),
            kind: ExceptionKind::Sync,
        }
    }
}

/// A system table register as the engine's C interface has it.
#[repr(C)]
#[derive(Copy, Clone, Default)]
struct TableRegister {
    selector: u16,
    base: u64,
    limit: u32,
    flags: u32,
}

fn table_register<D>(
    uc: &Unicorn<'_, D>,
    register: RegisterX86,
) -> Result<TableRegister, uc_error> {
    let mut value = TableRegister::default();
    // SAFETY: for GDTR, IDTR and TR the engine writes a `uc_x86_mmr`, whose layout
    // `TableRegister` has; the handle is that of a live engine.
    let error = unsafe {
        unicorn_engine::uc_reg_read(
            uc.get_handle(),
            register as i32,
            std::ptr::from_mut(&mut value).cast(),
        )
    };
    if error == uc_error::OK {
        Ok(value)
    } else {
        Err(error)
    }
}

/// An IDT gate.
struct Gate {
    offset: u64,
    selector: u64,
    stack_table: u64,
    masks: bool,
}

impl Gate {
    fn decode(low: u64, high: u64) -> Option<Self> {
        let kind = low >> 40 & 0xf;
        let present = low >> 47 & 1 == 1;
        (present && matches!(kind, INTERRUPT_GATE | TRAP_GATE)).then_some(Self {
            offset: low & 0xffff | low >> 32 & 0xffff_0000 | high << 32,
            selector: low >> 16 & 0xffff,
            stack_table: low >> 32 & 7,
            masks: kind == INTERRUPT_GATE,
        })
    }
}

/// Accesses that the processor makes by itself: as supervisor.
struct Implicit<'h> {
    handle: &'h Handle<X86_64>,
    pc: u64,
    vector: u8,
}

impl Implicit<'_> {
    fn error(&self, reason: String) -> RunError {
        RunError::NoHandler {
            pc: Va::new(self.pc),
            reason: format!("vector {}: {reason}", self.vector),
        }
    }

    fn translate(&self, va: u64, kind: AccessKind) -> Result<Pa, RunError> {
        let access = Access::new(Va::new(va), kind, Privilege::Supervisor);
        let answer = self
            .handle
            .with(|vcpu, shared| shared.system.access(vcpu.core, &access, 8, &mut shared.ram));
        match answer {
            Ok(found) => Ok(found.pa),
            Err(fault) => Err(self.error(format!(
                "{fault} at {} while entering the handler",
                access.va
            ))),
        }
    }

    fn load(&self, va: u64) -> Result<u64, RunError> {
        let pa = self.translate(va, AccessKind::Load)?;
        let word = self.handle.with(|_, shared| shared.ram.read_u64(pa));
        word.ok_or_else(|| self.error(format!("{pa} is not RAM")))
    }

    fn store(&self, va: u64, value: u64) -> Result<(), RunError> {
        let pa = self.translate(va, AccessKind::Store)?;
        let written = self.handle.with(|vcpu, shared| {
            shared.stored(vcpu.core, pa, 8, value);
            shared.ram.write_u64(pa, value)
        });
        written.ok_or_else(|| self.error(format!("{pa} is not RAM")))
    }
}

/// Enters the handler of `event`, with the present program counter as the return address.
pub fn enter<D>(
    uc: &mut Unicorn<'_, D>,
    handle: &Handle<X86_64>,
    event: Event,
) -> Result<(), RunError> {
    let rip = uc.reg_read(RegisterX86::RIP)?;
    let rsp = uc.reg_read(RegisterX86::RSP)?;
    let rflags = uc.reg_read(RegisterX86::RFLAGS)?;
    let cs = uc.reg_read(RegisterX86::CS)?;
    let ss = uc.reg_read(RegisterX86::SS)?;
    let from = X86_64::privilege(uc);
    let from_user = from == Privilege::User;
    handle.with(|vcpu, shared| {
        shared.system.exception_entry(vcpu.core, event.kind, from);
        vcpu.exceptions.push(event.kind);
        vcpu.privilege = Privilege::Supervisor;
    });
    let implicit = Implicit {
        handle,
        pc: rip,
        vector: event.vector,
    };
    let idtr = table_register(uc, RegisterX86::IDTR)?;
    let at = u64::from(event.vector) * 16;
    if at + 15 > u64::from(idtr.limit) {
        return Err(implicit.error("it is beyond the limit of the IDT".to_owned()));
    }
    let low = implicit.load(idtr.base.wrapping_add(at))?;
    let high = implicit.load(idtr.base.wrapping_add(at + 8))?;
    let Some(gate) = Gate::decode(low, high) else {
        return Err(implicit.error("its IDT entry is no 64-bit gate".to_owned()));
    };
    let stack = if gate.stack_table != 0 || from_user {
        let tr = table_register(uc, RegisterX86::TR)?;
        let slot = if gate.stack_table == 0 {
            4
        } else {
            0x24 + (gate.stack_table - 1) * 8
        };
        implicit.load(tr.base.wrapping_add(slot))?
    } else {
        rsp
    };
    let mut top = stack & !15;
    let frame = [ss, rsp, rflags, cs, rip];
    for value in frame.into_iter().chain(event.error_code.map(u64::from)) {
        top = top.wrapping_sub(8);
        implicit.store(top, value)?;
    }
    let mut cleared = TF | NT | RF;
    if gate.masks {
        cleared |= IF;
    }
    // The new code segment; the new stack segment is null.
    let gdtr = table_register(uc, RegisterX86::GDTR)?;
    implicit.load(gdtr.base.wrapping_add(gate.selector & !7))?;
    uc.reg_write(RegisterX86::CS, gate.selector & !3)?;
    if from_user {
        uc.reg_write(RegisterX86::SS, 0)?;
    }
    uc.reg_write(RegisterX86::RFLAGS, rflags & !cleared)?;
    uc.reg_write(RegisterX86::RSP, top)?;
    uc.reg_write(RegisterX86::RIP, gate.offset)?;
    Ok(())
}

/// SYSCALL: the program counter is already behind it.
pub fn syscall<D>(uc: &mut Unicorn<'_, D>, handle: &Handle<X86_64>) -> Result<(), RunError> {
    let rip = uc.reg_read(RegisterX86::RIP)?;
    let rflags = uc.reg_read(RegisterX86::RFLAGS)?;
    let (star, lstar, fmask) = handle.with(|vcpu, shared| {
        shared
            .system
            .exception_entry(vcpu.core, ExceptionKind::Syscall, Privilege::User);
        vcpu.exceptions.push(ExceptionKind::Syscall);
        vcpu.privilege = Privilege::Supervisor;
        (vcpu.cpu.star, vcpu.cpu.lstar, vcpu.cpu.fmask)
    });
    let code = star >> 32 & 0xfffc;
    uc.reg_write(RegisterX86::CS, code)?;
    uc.reg_write(RegisterX86::SS, code + 8)?;
    uc.reg_write(RegisterX86::RCX, rip)?;
    uc.reg_write(RegisterX86::R11, rflags)?;
    uc.reg_write(RegisterX86::RFLAGS, rflags & !fmask & !RF)?;
    uc.reg_write(RegisterX86::RIP, lstar)?;
    Ok(())
}

/// IRETQ. Its frame is read through the model, and so are the descriptors of CS and SS.
pub fn iret<D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &Vcpu<X86_64>,
    shared: &mut Shared<X86_64>,
) -> Result<Native, uc_error> {
    let rsp = uc.reg_read(RegisterX86::RSP)?;
    let gdt = table_register(uc, RegisterX86::GDTR)?.base;
    let mut read = |va: u64, privilege| {
        let access = Access::new(Va::new(va), AccessKind::Load, privilege);
        match shared.system.access(vcpu.core, &access, 8, &mut shared.ram) {
            Ok(found) => Ok(shared.ram.read_u64(found.pa).unwrap_or(0)),
            Err(fault) => Err(Exit::Fault(access, fault)),
        }
    };
    let mut frame = [0; 5];
    for (word, offset) in frame.iter_mut().zip((0..).step_by(8)) {
        match read(rsp.wrapping_add(offset), vcpu.privilege) {
            Ok(value) => *word = value,
            Err(exit) => return Ok(Native::Raise(exit)),
        }
    }
    let [rip, cs, rflags, new_rsp, ss] = frame;
    for selector in [cs, ss] {
        let is_null = selector & 0xfffc == 0;
        if !is_null
            && let Err(exit) = read(gdt.wrapping_add(selector & 0xfff8), Privilege::Supervisor)
        {
            return Ok(Native::Raise(exit));
        }
    }
    uc.reg_write(RegisterX86::CS, cs)?;
    uc.reg_write(RegisterX86::SS, ss)?;
    uc.reg_write(RegisterX86::RFLAGS, rflags)?;
    uc.reg_write(RegisterX86::RSP, new_rsp)?;
    Ok(Native::Jump(rip))
}

/// SYSRET to 64-bit mode.
pub fn sysret<D>(uc: &mut Unicorn<'_, D>, vcpu: &Vcpu<X86_64>) -> Result<Native, uc_error> {
    let base = vcpu.cpu.star >> 48;
    let rip = uc.reg_read(RegisterX86::RCX)?;
    let rflags = uc.reg_read(RegisterX86::R11)?;
    uc.reg_write(RegisterX86::CS, base.wrapping_add(16) | 3)?;
    uc.reg_write(RegisterX86::SS, base.wrapping_add(8) | 3)?;
    uc.reg_write(RegisterX86::RFLAGS, rflags & !(RF | VM) | 2)?;
    Ok(Native::Jump(rip))
}
