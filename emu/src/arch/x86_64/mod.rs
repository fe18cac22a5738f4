//! x86-64 in long mode, CPL 0 and 3.
//!
//! ```text
//! exception     entering the guest's handlers through the IDT; SYSCALL
//! system        the instructions that only a hook on their address can intercept
//! apic          a local APIC in x2APIC mode: interrupts between processors only
//! ```
//!
//! Sources: Intel SDM volume 3A (chapters 4 paging, 6 interrupts, 11 APIC), volume 2.
//!
//! # Limits
//! - RFLAGS.AC is followed through STAC and CLAC, not through POPF.
//! - The engine executes user code at its level 0. Of the privileged instructions, those that are
//!   intercepted raise #GP at level 3; the others (CLI, HLT, LGDT, ...) are executed.

mod apic;
mod exception;
mod system;

use mmuscope_models::access::{Access, Privilege};
use mmuscope_models::x86::{Context, X86_64};
use unicorn_engine::{Mode, RegisterX86, Unicorn, X86Insn, uc_error};

use super::{EmuArch, Trap};
use crate::decode::{Block, Gpr, X86Decoder};
use crate::plugin::{Exit, Handle, RunError, abort, stop};

/// What the emulator keeps of a virtual CPU.
#[derive(Debug, Default)]
pub struct Cpu {
    /// Opened when it is first needed.
    decoder: Option<X86Decoder>,
    /// IA32_STAR, IA32_LSTAR, IA32_FMASK.
    star: u64,
    lstar: u64,
    fmask: u64,
}

impl Cpu {
    fn decoder(&mut self) -> Option<&X86Decoder> {
        if self.decoder.is_none() {
            self.decoder = X86Decoder::new().ok();
        }
        self.decoder.as_ref()
    }
}

/// The general-purpose registers in the order of their encoding.
const GPRS: [RegisterX86; 16] = [
    RegisterX86::RAX,
    RegisterX86::RCX,
    RegisterX86::RDX,
    RegisterX86::RBX,
    RegisterX86::RSP,
    RegisterX86::RBP,
    RegisterX86::RSI,
    RegisterX86::RDI,
    RegisterX86::R8,
    RegisterX86::R9,
    RegisterX86::R10,
    RegisterX86::R11,
    RegisterX86::R12,
    RegisterX86::R13,
    RegisterX86::R14,
    RegisterX86::R15,
];

fn register(gpr: Gpr) -> RegisterX86 {
    GPRS[usize::from(gpr.number() & 15)]
}

/// RFLAGS.IF.
const RFLAGS_IF: u64 = 1 << 9;
/// The first I/O port of hypercalls.
const HYPERCALL_PORT: u32 = 0x4d00;

impl EmuArch for X86_64 {
    type Cpu = Cpu;

    const ENGINE: (unicorn_engine::Arch, Mode) = (unicorn_engine::Arch::X86, Mode::MODE_64);
    const PC: i32 = RegisterX86::RIP as i32;
    const ELF_MACHINE: u16 = 62;
    // OUT to the port in DX.
    const HYPERCALL_LEN: u64 = 1;
    const RAM_BASE: u64 = 0;

    fn prepare<D>(_uc: &mut Unicorn<'_, D>) -> Result<(), uc_error> {
        Ok(())
    }

    fn read_context<D>(uc: &Unicorn<'_, D>, context: &mut Context) -> Result<(), uc_error> {
        context.cr0 = uc.reg_read(RegisterX86::CR0)?;
        context.cr3 = uc.reg_read(RegisterX86::CR3)?;
        context.cr4 = uc.reg_read(RegisterX86::CR4)?;
        // Long mode is where the engine starts.
        context.efer = system::EFER_LME | system::EFER_LMA;
        Ok(())
    }

    fn install<'a, D: 'a>(uc: &mut Unicorn<'a, D>, handle: &Handle<Self>) -> Result<(), uc_error> {
        let own = handle.clone();
        uc.add_insn_out_hook(move |uc, port, _, _| {
            let number = port.wrapping_sub(HYPERCALL_PORT);
            let Ok(number) = u16::try_from(number) else {
                return;
            };
            own.with(|vcpu, _| {
                if !vcpu.stopping() {
                    // The engine goes on to the end of the block; none of that may count.
                    abort(uc, vcpu, Exit::Hypercall(number));
                }
            });
        })?;
        let own = handle.clone();
        uc.add_insn_sys_hook(X86Insn::SYSCALL, 1, 0, move |uc| {
            own.with(|vcpu, _| {
                if !vcpu.stopping() {
                    vcpu.exit = Some(Exit::Trap(Trap::Syscall));
                    stop(uc, vcpu);
                }
            });
        })?;
        let own = handle.clone();
        uc.add_intr_hook(move |uc, number| {
            own.with(|vcpu, _| {
                if !vcpu.stopping() {
                    vcpu.exit = Some(if number < 32 {
                        Exit::Trap(Trap::Exception(u64::from(number)))
                    } else {
                        Exit::Unexpected(number)
                    });
                    stop(uc, vcpu);
                }
            });
        })?;
        Ok(())
    }

    fn hook_address<'a, D: 'a>(
        uc: &mut Unicorn<'a, D>,
        handle: &Handle<Self>,
        va: u64,
    ) -> Result<(), uc_error> {
        let own = handle.clone();
        uc.add_code_hook(va, va, move |uc, address, _| {
            own.with(|vcpu, shared| {
                if !vcpu.stopping() {
                    system::on_site(uc, vcpu, shared, address);
                }
            });
        })?;
        Ok(())
    }

    fn scan(code: &[u8]) -> Vec<u64> {
        X86Decoder::new().map_or_else(|_| Vec::new(), |decoder| decoder.scan(code))
    }

    fn privilege<D>(uc: &Unicorn<'_, D>) -> Privilege {
        match uc.reg_read(RegisterX86::CS) {
            Ok(selector) if selector & 3 == 3 => Privilege::User,
            _ => Privilege::Supervisor,
        }
    }

    fn interruptible<D>(uc: &Unicorn<'_, D>) -> bool {
        uc.reg_read(RegisterX86::RFLAGS)
            .is_ok_and(|flags| flags & RFLAGS_IF != 0)
    }

    fn elements_left<D>(uc: &Unicorn<'_, D>) -> u64 {
        uc.reg_read(RegisterX86::RCX).unwrap_or(0)
    }

    fn decode(cpu: &mut Cpu, code: &[u8]) -> Block {
        cpu.decoder()
            .map_or_else(Block::default, |decoder| decoder.block(code))
    }

    fn deliver_fault<D>(
        uc: &mut Unicorn<'_, D>,
        handle: &Handle<Self>,
        access: &Access,
        fault: &Self::Fault,
    ) -> Result<(), RunError> {
        const PAGE_FAULT: u8 = 14;
        if fault.vector() == PAGE_FAULT {
            uc.reg_write(RegisterX86::CR2, access.va.raw())?;
        }
        let event = exception::Event::fault(fault.vector(), fault.error_code());
        exception::enter(uc, handle, event)
    }

    fn deliver_interrupt<D>(
        uc: &mut Unicorn<'_, D>,
        handle: &Handle<Self>,
    ) -> Result<(), RunError> {
        match handle.with(apic::accept) {
            Some(vector) => exception::enter(uc, handle, exception::Event::interrupt(vector)),
            None => Ok(()),
        }
    }

    fn deliver_trap<D>(
        uc: &mut Unicorn<'_, D>,
        handle: &Handle<Self>,
        trap: Trap,
    ) -> Result<(), RunError> {
        match trap {
            Trap::Syscall => exception::syscall(uc, handle),
            Trap::Exception(vector) => exception::enter(uc, handle, exception::Event::trap(vector)),
        }
    }

    fn arguments<D>(uc: &Unicorn<'_, D>) -> Result<[u64; 4], uc_error> {
        Ok([
            uc.reg_read(RegisterX86::RDI)?,
            uc.reg_read(RegisterX86::RSI)?,
            uc.reg_read(RegisterX86::R8)?,
            uc.reg_read(RegisterX86::R9)?,
        ])
    }

    fn registers<D>(uc: &Unicorn<'_, D>) -> Result<Vec<u64>, uc_error> {
        let named = [RegisterX86::RIP, RegisterX86::RFLAGS];
        let all = GPRS.into_iter().chain(named);
        all.map(|register| uc.reg_read(register)).collect()
    }

    fn start<D>(uc: &mut Unicorn<'_, D>, argument: u64) -> Result<(), uc_error> {
        // Interrupts masked; bit 1 is always set.
        uc.reg_write(RegisterX86::RFLAGS, 2)?;
        uc.reg_write(RegisterX86::RDI, argument)
    }
}
