//! Instructions that the engine has no hook for: each is intercepted at its address.

use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::Va;
use mmuscope_models::system::ContextRegister;
use mmuscope_models::x86::{Context, Flush, X86_64, mov_cr0, mov_cr3, mov_cr4};
use unicorn_engine::{RegisterX86, Unicorn, uc_error};

use super::{apic, exception, register};
use crate::arch::Trap;
use crate::decode::{Gpr, MemoryOperand, X86Site};
use crate::plugin::{Exit, Shared, Vcpu, flush, stop};

pub const EFER_LME: u64 = 1 << 8;
pub const EFER_LMA: u64 = 1 << 10;

const MSR_TSC: u32 = 0x10;
const MSR_EFER: u32 = 0xc000_0080;
const MSR_STAR: u32 = 0xc000_0081;
const MSR_LSTAR: u32 = 0xc000_0082;
const MSR_FMASK: u32 = 0xc000_0084;

/// Vector of #GP.
const GENERAL_PROTECTION: u64 = 13;

/// The longest instruction, in bytes.
const LONGEST: usize = 15;

/// Whether the engine still has to execute the instruction.
pub enum Native {
    /// It has.
    Execute,
    /// It was done here.
    Skip,
    /// It was done here, and goes on elsewhere.
    Jump(u64),
    /// It raises this exit instead.
    Raise(Exit<X86_64>),
}

/// The instruction at `pc`, which has a hook, is about to be executed.
pub fn on_site<D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<X86_64>,
    shared: &mut Shared<X86_64>,
    pc: u64,
) {
    let mut bytes = [0; LONGEST];
    let Some(len) = code_at(vcpu, shared, pc, &mut bytes) else {
        return;
    };
    let Some(insn) = vcpu
        .cpu
        .decoder()
        .and_then(|decoder| decoder.one(pc, &bytes[..len]))
    else {
        return;
    };
    // Another program may have another instruction at an address that was hooked for one.
    let Some(site) = insn.site else {
        return;
    };
    if vcpu.privilege == Privilege::User && site.is_privileged() {
        vcpu.exit = Some(Exit::Trap(Trap::Exception(GENERAL_PROTECTION)));
        stop(uc, vcpu);
        return;
    }
    vcpu.retire_to(shared, pc);
    let next = pc.wrapping_add(u64::from(insn.len));
    let done = execute(uc, vcpu, shared, site, next).and_then(|native| match native {
        Native::Execute => Ok(()),
        Native::Skip => {
            vcpu.abandon_at(shared, next);
            uc.reg_write(RegisterX86::RIP, next)
        }
        Native::Jump(target) => {
            vcpu.abandon_at(shared, next);
            uc.reg_write(RegisterX86::RIP, target)
        }
        Native::Raise(exit) => {
            vcpu.exit = Some(exit);
            stop(uc, vcpu);
            Ok(())
        }
    });
    if let Err(error) = done {
        vcpu.exit = Some(Exit::Engine(error));
        stop(uc, vcpu);
    }
}

/// Copies the code at `pc`, up to the end of the next page, and says how much there is.
fn code_at(
    vcpu: &Vcpu<X86_64>,
    shared: &Shared<X86_64>,
    pc: u64,
    into: &mut [u8; LONGEST],
) -> Option<usize> {
    let mut have = 0;
    while have < LONGEST {
        let va = Va::new(pc.wrapping_add(have as u64));
        let Some(slot) = vcpu.soft.code_slot(va) else {
            break;
        };
        let in_page = usize::try_from(0x1000 - (slot & 0xfff)).unwrap_or(0);
        let end = LONGEST.min(have + in_page);
        shared.ram.read(shared.ram.pa(slot), &mut into[have..end])?;
        have = end;
    }
    (have > 0).then_some(have)
}

fn execute<D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<X86_64>,
    shared: &mut Shared<X86_64>,
    site: X86Site,
    next: u64,
) -> Result<Native, uc_error> {
    match site {
        X86Site::Invlpg(operand) => {
            let va = Va::new(address(uc, &operand, next)?);
            let op = Flush::invlpg(shared.system.context(vcpu.core), va);
            shared.system.invalidate(vcpu.core, &op);
            Ok(Native::Execute)
        }
        X86Site::Invpcid(kind, operand) => {
            let kind = uc.reg_read(register(kind))?;
            let at = address(uc, &operand, next)?;
            Ok(invpcid(vcpu, shared, kind, at))
        }
        X86Site::MovToCr(number, source) => {
            let value = uc.reg_read(register(source))?;
            Ok(mov_to_cr(uc, vcpu, shared, number, value))
        }
        X86Site::MovFromCr(number, destination) => {
            let context = shared.system.context(vcpu.core);
            let value = match number {
                0 => context.cr0,
                3 => context.cr3,
                4 => context.cr4,
                _ => return Ok(Native::Execute),
            };
            uc.reg_write(register(destination), value)?;
            Ok(Native::Skip)
        }
        X86Site::Wrmsr => wrmsr(uc, vcpu, shared),
        X86Site::Rdmsr => rdmsr(uc, vcpu, shared),
        X86Site::Rdtsc => {
            write_pair(uc, shared.system.clock(vcpu.core).millis() / 1000)?;
            Ok(Native::Skip)
        }
        X86Site::Iret => exception::iret(uc, vcpu, shared),
        X86Site::Sysret => exception::sysret(uc, vcpu),
        X86Site::SetAc(ac) => {
            let context = *shared.system.context(vcpu.core);
            shared
                .system
                .set_context(vcpu.core, Context { ac, ..context }, &shared.ram);
            Ok(Native::Execute)
        }
        X86Site::Wrpkru => {
            let context = *shared.system.context(vcpu.core);
            let pkru = low_half(uc.reg_read(RegisterX86::RAX)?);
            shared
                .system
                .set_context(vcpu.core, Context { pkru, ..context }, &shared.ram);
            Ok(Native::Skip)
        }
        _ => Ok(Native::Execute),
    }
}

fn address<D>(uc: &Unicorn<'_, D>, operand: &MemoryOperand, next: u64) -> Result<u64, uc_error> {
    let mut failed = None;
    let mut read = |register: RegisterX86| {
        uc.reg_read(register).unwrap_or_else(|error| {
            failed = Some(error);
            0
        })
    };
    let fs = if operand.fs {
        read(RegisterX86::FS_BASE)
    } else {
        0
    };
    let gs = if operand.gs {
        read(RegisterX86::GS_BASE)
    } else {
        0
    };
    let mut address = operand.address(|gpr: Gpr| read(register(gpr)), fs, gs);
    if operand.rip_relative {
        address = address.wrapping_add(next);
    }
    failed.map_or(Ok(address), Err)
}

/// INVPCID, which the engine does not know. Its descriptor is read through the model.
fn invpcid(vcpu: &Vcpu<X86_64>, shared: &mut Shared<X86_64>, kind: u64, at: u64) -> Native {
    let mut descriptor = [0; 2];
    for (word, va) in descriptor.iter_mut().zip([at, at.wrapping_add(8)]) {
        let access = Access::new(Va::new(va), AccessKind::Load, vcpu.privilege);
        match shared.system.access(vcpu.core, &access, 8, &mut shared.ram) {
            Ok(found) => *word = shared.ram.read_u64(found.pa).unwrap_or(0),
            Err(fault) => return Native::Raise(Exit::Fault(access, fault)),
        }
    }
    match Flush::invpcid(shared.system.context(vcpu.core), kind, descriptor) {
        Ok(op) => {
            shared.system.invalidate(vcpu.core, &op);
            Native::Skip
        }
        Err(_) => Native::Raise(Exit::Trap(Trap::Exception(GENERAL_PROTECTION))),
    }
}

fn mov_to_cr<D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<X86_64>,
    shared: &mut Shared<X86_64>,
    number: u8,
    value: u64,
) -> Native {
    let mut context = *shared.system.context(vcpu.core);
    let (register, removed) = match number {
        0 => (ContextRegister::Cr0, mov_cr0(&mut context, value)),
        3 => {
            let removed = mov_cr3(&mut context, value);
            let flushes = removed.is_some();
            (ContextRegister::Cr3 { flushes }, removed)
        }
        4 => (ContextRegister::Cr4, mov_cr4(&mut context, value)),
        _ => return Native::Execute,
    };
    shared.system.context_write(vcpu.core, register);
    shared.system.set_context(vcpu.core, context, &shared.ram);
    if let Some(op) = removed {
        shared.system.invalidate(vcpu.core, &op);
    }
    // The engine's entries of the old context would each cost a retry.
    flush(uc, vcpu);
    Native::Execute
}

fn wrmsr<D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<X86_64>,
    shared: &mut Shared<X86_64>,
) -> Result<Native, uc_error> {
    let msr = low_half(uc.reg_read(RegisterX86::RCX)?);
    let low = u64::from(low_half(uc.reg_read(RegisterX86::RAX)?));
    let value = uc.reg_read(RegisterX86::RDX)? << 32 | low;
    match msr {
        apic::ICR => apic::send(vcpu, shared, value),
        msr if apic::MSRS.contains(&msr) => {}
        MSR_EFER => {
            let context = *shared.system.context(vcpu.core);
            // LMA is set by the processor and cannot be written.
            let efer = value & !EFER_LMA | context.efer & EFER_LMA;
            shared
                .system
                .context_write(vcpu.core, ContextRegister::Efer);
            shared
                .system
                .set_context(vcpu.core, Context { efer, ..context }, &shared.ram);
            flush(uc, vcpu);
            return Ok(Native::Execute);
        }
        // The engine needs them for SYSRET.
        MSR_STAR => vcpu.cpu.star = value,
        MSR_LSTAR => vcpu.cpu.lstar = value,
        MSR_FMASK => vcpu.cpu.fmask = value,
        _ => {}
    }
    Ok(if apic::MSRS.contains(&msr) {
        Native::Skip
    } else {
        Native::Execute
    })
}

fn rdmsr<D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &Vcpu<X86_64>,
    shared: &Shared<X86_64>,
) -> Result<Native, uc_error> {
    let msr = low_half(uc.reg_read(RegisterX86::RCX)?);
    let value = match msr {
        apic::ID => vcpu.core.index() as u64,
        msr if apic::MSRS.contains(&msr) => 0,
        MSR_TSC => shared.system.clock(vcpu.core).millis() / 1000,
        MSR_EFER => shared.system.context(vcpu.core).efer,
        _ => return Ok(Native::Execute),
    };
    write_pair(uc, value)?;
    Ok(Native::Skip)
}

/// EDX:EAX.
fn write_pair<D>(uc: &mut Unicorn<'_, D>, value: u64) -> Result<(), uc_error> {
    uc.reg_write(RegisterX86::RAX, value & 0xffff_ffff)?;
    uc.reg_write(RegisterX86::RDX, value >> 32)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the half is what is wanted"
)]
const fn low_half(value: u64) -> u32 {
    value as u32
}
