//! MRS and MSR: the registers that the model, the interrupt controller or simulated time own.

use mmuscope_models::aarch64::{Aarch64, Context};
use mmuscope_models::system::ContextRegister;
use unicorn_engine::{RegisterARM64, RegisterARM64CP, Unicorn};

use super::maintenance::{ZVA_SHIFT, skip};
use super::{MAIR, SCTLR, SysReg, TCR, TTBR0, TTBR1, gic, refused};
use crate::machine::Feature;
use crate::plugin::{Shared, Vcpu, flush, stop};

const MPIDR: SysReg = SysReg(3, 0, 0, 0, 5);
const ISAR0: SysReg = SysReg(3, 0, 0, 6, 0);
const MMFR1: SysReg = SysReg(3, 0, 0, 7, 1);
const MMFR2: SysReg = SysReg(3, 0, 0, 7, 2);
const DCZID: SysReg = SysReg(3, 3, 0, 0, 7);
const CNTFRQ: SysReg = SysReg(3, 3, 14, 0, 0);
const CNTPCT: SysReg = SysReg(3, 3, 14, 0, 1);
const CNTVCT: SysReg = SysReg(3, 3, 14, 0, 2);
const PMCCNTR: SysReg = SysReg(3, 3, 9, 13, 0);

/// An MSR is about to be executed. True if that has been done here.
pub fn on_msr<D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<Aarch64>,
    shared: &mut Shared<Aarch64>,
    reg: &RegisterARM64CP,
) -> bool {
    if vcpu.stopping() {
        return true;
    }
    let Ok(pc) = uc.reg_read(RegisterARM64::PC) else {
        return false;
    };
    let named = SysReg::of(reg);
    if let Some((register, context)) =
        context_register(shared.system.context(vcpu.core), named, reg.val)
    {
        vcpu.retire_to(shared, pc);
        shared.system.context_write(vcpu.core, register);
        shared.system.set_context(vcpu.core, context, &shared.ram);
        // The engine's entries of the old context would each cost a retry.
        flush(uc, vcpu);
        return false;
    }
    match named {
        gic::SGI1R => {
            vcpu.retire_to(shared, pc);
            gic::send(vcpu, shared, reg.val);
        }
        gic::EOIR1 => {}
        other if gic::is_accepted(other) => {}
        _ => return false,
    }
    skip(uc, vcpu, shared, pc);
    true
}

/// The register of translation that is written, and the context with the new value.
fn context_register(old: &Context, reg: SysReg, value: u64) -> Option<(ContextRegister, Context)> {
    let mut new = *old;
    let (register, field) = match reg {
        SCTLR => (ContextRegister::Sctlr, &mut new.sctlr),
        TTBR0 => (ContextRegister::Ttbr0, &mut new.ttbr0),
        TTBR1 => (ContextRegister::Ttbr1, &mut new.ttbr1),
        TCR => (ContextRegister::Tcr, &mut new.tcr),
        MAIR => (ContextRegister::Mair, &mut new.mair),
        _ => return None,
    };
    *field = value;
    Some((register, new))
}

/// An MRS is about to be executed. True if that has been done here.
pub fn on_mrs<D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<Aarch64>,
    shared: &mut Shared<Aarch64>,
    rt: RegisterARM64,
    reg: &RegisterARM64CP,
) -> bool {
    if vcpu.stopping() {
        return true;
    }
    let Ok(pc) = uc.reg_read(RegisterARM64::PC) else {
        return false;
    };
    let named = SysReg::of(reg);
    let value = match named {
        gic::IAR1 => {
            vcpu.retire_to(shared, pc);
            gic::acknowledge(vcpu, shared)
        }
        other if gic::is_accepted(other) => 0,
        CNTVCT | CNTPCT | PMCCNTR => {
            vcpu.retire_to(shared, pc);
            shared.system.clock(vcpu.core).millis() / 1000
        }
        MPIDR => 1 << 31 | gic::affinity(vcpu.core.index()),
        DCZID => u64::from(ZVA_SHIFT - 2),
        CNTFRQ => 1_000_000_000,
        ISAR0 | MMFR1 | MMFR2 => match named.read(uc) {
            Ok(native) => feature_fields(named, native, shared.features),
            Err(_) => return false,
        },
        _ => return false,
    };
    if let Err(error) = uc.reg_write(rt, value) {
        vcpu.exit = Some(refused(error));
        stop(uc, vcpu);
        return true;
    }
    if crosses_engine(named) {
        skip(uc, vcpu, shared, pc);
    }
    true
}

/// Registers that the engine does not know: their instruction must be stepped over by hand.
fn crosses_engine(reg: SysReg) -> bool {
    reg == gic::IAR1 || gic::is_accepted(reg)
}

/// The identification register with the features of the machine in it.
fn feature_fields(reg: SysReg, native: u64, features: u64) -> u64 {
    let field = |value: u64, shift: u32, content: u64| (value & !(0xf << shift)) | content << shift;
    let has = |feature: Feature| features & feature.bit() != 0;
    let choose = |feature, content| if has(feature) { content } else { 0 };
    match reg {
        // TLB: 2 is TLBI range and outer-shareable forms.
        ISAR0 => field(native, 56, choose(Feature::TlbiRange, 2)),
        // HAFDBS: 2 is access flag and dirty state.
        MMFR1 => field(native, 0, choose(Feature::HardwareDirty, 2)),
        // TTL, BBM.
        MMFR2 => {
            let ttl = field(native, 48, choose(Feature::LevelHint, 1));
            field(ttl, 52, choose(Feature::BbmNoAbort, 2))
        }
        _ => native,
    }
}
