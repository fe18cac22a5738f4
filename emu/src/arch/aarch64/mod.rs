//! AArch64 at EL1 and EL0.
//!
//! ```text
//! exception     entering the guest's vectors
//! sysreg        MRS, MSR
//! maintenance   TLBI, DC ZVA
//! gic           the CPU interface of a GICv3: software-generated interrupts only
//! ```
//!
//! Sources: Arm ARM DDI 0487 (D1 exceptions, D8 translation, C5 system instructions), GICv3
//! architecture specification IHI 0069.

mod exception;
mod gic;
mod maintenance;
mod sysreg;

use mmuscope_models::aarch64::{Aarch64, Context};
use mmuscope_models::access::{Access, Privilege};
use unicorn_engine::{
    Arm64CpuModel, Arm64Insn, Mode, RegisterARM64, RegisterARM64CP, Unicorn, uc_error,
};

use super::{EmuArch, Trap};
use crate::decode::{Block, decode_aarch64};
use crate::plugin::{Exit, Handle, RunError, stop};

pub use gic::Gic;

/// What the emulator keeps of a virtual CPU.
#[derive(Debug, Default)]
pub struct Cpu {
    /// The interrupt controller's CPU interface.
    pub gic: Gic,
}

/// A system register by its encoding: op0, op1, CRn, CRm, op2.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
struct SysReg(u32, u32, u32, u32, u32);

const SCTLR: SysReg = SysReg(3, 0, 1, 0, 0);
const TTBR0: SysReg = SysReg(3, 0, 2, 0, 0);
const TTBR1: SysReg = SysReg(3, 0, 2, 0, 1);
const TCR: SysReg = SysReg(3, 0, 2, 0, 2);
const MAIR: SysReg = SysReg(3, 0, 10, 2, 0);
const SPSR: SysReg = SysReg(3, 0, 4, 0, 0);

impl SysReg {
    const fn of(reg: &RegisterARM64CP) -> Self {
        Self(reg.op0, reg.op1, reg.crn, reg.crm, reg.op2)
    }

    const fn value(self, val: u64) -> RegisterARM64CP {
        let Self(op0, op1, crn, crm, op2) = self;
        RegisterARM64CP {
            op0,
            op1,
            crn,
            crm,
            op2,
            val,
        }
    }

    fn read<D>(self, uc: &Unicorn<'_, D>) -> Result<u64, uc_error> {
        let mut reg = self.value(0);
        uc.reg_read_arm64_coproc(&mut reg)?;
        Ok(reg.val)
    }

    fn write<D>(self, uc: &mut Unicorn<'_, D>, val: u64) -> Result<(), uc_error> {
        uc.reg_write_arm64_coproc(&self.value(val))
    }
}

/// PSTATE.I.
const PSTATE_I: u64 = 1 << 7;
/// PSTATE for entry: EL1h, DAIF masked.
const PSTATE_ENTRY: u64 = 0x3c5;

impl EmuArch for Aarch64 {
    type Cpu = Cpu;

    const ENGINE: (unicorn_engine::Arch, Mode) = (unicorn_engine::Arch::ARM64, Mode::LITTLE_ENDIAN);
    const PC: i32 = RegisterARM64::PC as i32;
    const ELF_MACHINE: u16 = 183;
    const HYPERCALL_LEN: u64 = 4;
    const RAM_BASE: u64 = 0x4000_0000;

    fn prepare<D>(uc: &mut Unicorn<'_, D>) -> Result<(), uc_error> {
        uc.ctl_set_cpu_model(Arm64CpuModel::MAX as i32)?;
        uc.ctl_set_page_size(4096)
    }

    fn read_context<D>(uc: &Unicorn<'_, D>, context: &mut Context) -> Result<(), uc_error> {
        context.sctlr = SCTLR.read(uc)?;
        context.tcr = TCR.read(uc)?;
        context.ttbr0 = TTBR0.read(uc)?;
        context.ttbr1 = TTBR1.read(uc)?;
        context.mair = MAIR.read(uc)?;
        Ok(())
    }

    fn install<'a, D: 'a>(uc: &mut Unicorn<'a, D>, handle: &Handle<Self>) -> Result<(), uc_error> {
        let own = handle.clone();
        uc.add_insn_sys_hook_arm64(Arm64Insn::UC_ARM64_INS_SYS, 1, 0, move |uc, _, reg| {
            own.with(|vcpu, shared| maintenance::on_sys(uc, vcpu, shared, reg))
        })?;
        let own = handle.clone();
        uc.add_insn_sys_hook_arm64(Arm64Insn::UC_ARM64_INS_MSR, 1, 0, move |uc, _, reg| {
            own.with(|vcpu, shared| sysreg::on_msr(uc, vcpu, shared, reg))
        })?;
        let own = handle.clone();
        uc.add_insn_sys_hook_arm64(Arm64Insn::UC_ARM64_INS_MRS, 1, 0, move |uc, rt, reg| {
            own.with(|vcpu, shared| sysreg::on_mrs(uc, vcpu, shared, rt, reg))
        })?;
        let own = handle.clone();
        uc.add_intr_hook(move |uc, number| {
            own.with(|vcpu, shared| {
                if !vcpu.stopping() {
                    vcpu.exit = Some(exception::on_exception(uc, vcpu, shared, number));
                    stop(uc, vcpu);
                }
            });
        })?;
        Ok(())
    }

    fn hook_address<'a, D: 'a>(
        _uc: &mut Unicorn<'a, D>,
        _handle: &Handle<Self>,
        _va: u64,
    ) -> Result<(), uc_error> {
        Ok(())
    }

    fn scan(_code: &[u8]) -> Vec<u64> {
        Vec::new()
    }

    fn privilege<D>(uc: &Unicorn<'_, D>) -> Privilege {
        match uc.reg_read(RegisterARM64::PSTATE) {
            Ok(pstate) if pstate >> 2 & 3 == 0 => Privilege::User,
            _ => Privilege::Supervisor,
        }
    }

    fn interruptible<D>(uc: &Unicorn<'_, D>) -> bool {
        uc.reg_read(RegisterARM64::PSTATE)
            .is_ok_and(|pstate| pstate & PSTATE_I == 0)
    }

    fn decode(_cpu: &mut Cpu, code: &[u8]) -> Block {
        decode_aarch64(code)
    }

    fn deliver_fault<D>(
        uc: &mut Unicorn<'_, D>,
        handle: &Handle<Self>,
        access: &Access,
        fault: &Self::Fault,
    ) -> Result<(), RunError> {
        let esr = fault.esr(access, access.privilege == Privilege::User);
        exception::enter(uc, handle, exception::Entry::fault(esr, access.va.raw()))
    }

    fn deliver_interrupt<D>(
        uc: &mut Unicorn<'_, D>,
        handle: &Handle<Self>,
    ) -> Result<(), RunError> {
        handle.with(gic::signal);
        exception::enter(uc, handle, exception::Entry::interrupt())
    }

    fn deliver_trap<D>(
        uc: &mut Unicorn<'_, D>,
        handle: &Handle<Self>,
        trap: Trap,
    ) -> Result<(), RunError> {
        exception::enter(uc, handle, exception::Entry::trap(trap))
    }

    fn arguments<D>(uc: &Unicorn<'_, D>) -> Result<[u64; 4], uc_error> {
        Ok([
            uc.reg_read(RegisterARM64::X0)?,
            uc.reg_read(RegisterARM64::X1)?,
            uc.reg_read(RegisterARM64::X2)?,
            uc.reg_read(RegisterARM64::X3)?,
        ])
    }

    fn registers<D>(uc: &Unicorn<'_, D>) -> Result<Vec<u64>, uc_error> {
        let (first, last) = (RegisterARM64::X0 as i32, RegisterARM64::X28 as i32);
        let named = [
            RegisterARM64::X29,
            RegisterARM64::X30,
            RegisterARM64::SP,
            RegisterARM64::PC,
            RegisterARM64::NZCV,
        ];
        let all = (first..=last).chain(named.map(|register| register as i32));
        all.map(|register| uc.reg_read(register)).collect()
    }

    fn start<D>(uc: &mut Unicorn<'_, D>, argument: u64) -> Result<(), uc_error> {
        uc.reg_write(RegisterARM64::PSTATE, PSTATE_ENTRY)?;
        // Any write of a coprocessor register makes the engine take note of the new PSTATE.
        SPSR.write(uc, 0)?;
        // CPACR_EL1.FPEN: floating point usable at EL1 and EL0.
        SysReg(3, 0, 1, 0, 2).write(uc, 3 << 20)?;
        uc.reg_write(RegisterARM64::X0, argument)
    }
}

/// The instruction at `pc`, if it lies in RAM and has been fetched.
fn instruction_at(
    vcpu: &crate::plugin::Vcpu<Aarch64>,
    shared: &crate::plugin::Shared<Aarch64>,
    pc: u64,
) -> Option<u32> {
    let slot = vcpu.soft.code_slot(mmuscope_models::addr::Va::new(pc))?;
    let mut word = [0; 4];
    shared.ram.read(shared.ram.pa(slot), &mut word)?;
    Some(u32::from_le_bytes(word))
}

/// The exit for what the engine refuses.
fn refused(error: uc_error) -> Exit<Aarch64> {
    Exit::Engine(error)
}
