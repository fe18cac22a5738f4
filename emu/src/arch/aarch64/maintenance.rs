//! SYS instructions: TLB maintenance, and DC ZVA.

use mmuscope_models::aarch64::{Aarch64, Tlbi, TlbiKind};
use mmuscope_models::access::{Access, AccessKind};
use mmuscope_models::addr::{Pa, Va};
use unicorn_engine::{RegisterARM64, RegisterARM64CP, Unicorn};

use super::refused;
use crate::plugin::{Shared, Vcpu, abort, flush, piece, stop};

/// log2 of the bytes that DC ZVA clears.
pub const ZVA_SHIFT: u32 = 6;

/// A SYS instruction is about to be executed. True if that has been done here.
pub fn on_sys<D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<Aarch64>,
    shared: &mut Shared<Aarch64>,
    reg: &RegisterARM64CP,
) -> bool {
    if vcpu.stopping() {
        return true;
    }
    match (reg.op1, reg.crn, reg.crm, reg.op2) {
        (_, 8, _, _) => tlbi(uc, vcpu, shared, reg),
        (3, 7, 4, 1) => {
            zero_line(uc, vcpu, shared, reg.val);
            true
        }
        // AT has a result; it is left to the engine.
        (0, 7, 8, _) => false,
        // Cache maintenance: data and instructions are always coherent here.
        (_, 7, _, _) => true,
        _ => false,
    }
}

fn tlbi<D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<Aarch64>,
    shared: &mut Shared<Aarch64>,
    reg: &RegisterARM64CP,
) -> bool {
    let pc = match uc.reg_read(RegisterARM64::PC) {
        Ok(pc) => pc,
        Err(error) => {
            vcpu.exit = Some(refused(error));
            stop(uc, vcpu);
            return true;
        }
    };
    let field = |value: u32| u8::try_from(value).unwrap_or(u8::MAX);
    let (op1, crm, op2) = (field(reg.op1), field(reg.crm), field(reg.op2));
    if op1 != 0 {
        // Forms for EL2 and stage 2 are undefined at EL1, as the engine will find for itself.
        return false;
    }
    let Ok(op) = Tlbi::from_sys(op1, crm, op2, reg.val, shared.system.context(vcpu.core)) else {
        // Undefined, as the engine will find for itself.
        return false;
    };
    vcpu.retire_to(shared, pc);
    shared.system.invalidate(vcpu.core, &op);
    match op.kind() {
        // The engine's entries are checked at every access, so that dropping them is only a
        // question of speed. For single pages the engine knows how.
        TlbiKind::Va | TlbiKind::Vaa if reg.crm != 1 => return false,
        TlbiKind::Va | TlbiKind::Vaa | TlbiKind::Range | TlbiKind::Ipa => {}
        TlbiKind::All | TlbiKind::Asid => flush(uc, vcpu),
    }
    // The engine does not know every form, and would execute one it does not know for ever.
    skip(uc, vcpu, shared, pc);
    true
}

/// Goes on after the instruction at `pc`, which has been executed here.
pub fn skip<D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<Aarch64>,
    shared: &mut Shared<Aarch64>,
    pc: u64,
) {
    let next = pc.wrapping_add(4);
    vcpu.abandon_at(shared, next);
    if let Err(error) = uc.reg_write(RegisterARM64::PC, next) {
        vcpu.exit = Some(refused(error));
        stop(uc, vcpu);
    }
}

/// DC ZVA: one store of a whole line.
fn zero_line<D>(
    uc: &mut Unicorn<'_, D>,
    vcpu: &mut Vcpu<Aarch64>,
    shared: &mut Shared<Aarch64>,
    address: u64,
) {
    let line = Va::new(address & !((1 << ZVA_SHIFT) - 1));
    let Ok(pc) = uc.reg_read(RegisterARM64::PC) else {
        return;
    };
    if vcpu.current.pc != Some(pc) {
        vcpu.current.begin(Some(pc));
    }
    let access = Access::new(line, AccessKind::Store, vcpu.privilege);
    if let Some(exit) = piece(vcpu, shared, &access, 1 << ZVA_SHIFT, None) {
        abort(uc, vcpu, exit);
        return;
    }
    let Some(pa) = vcpu.current.counted.last().map(|counted| counted.pa) else {
        return;
    };
    vcpu.current.begin(None);
    for word in 0..1 << (ZVA_SHIFT - 3) {
        let pa = Pa::new(pa.raw() + word * 8);
        shared.stored(vcpu.core, pa, 8, 0);
        // Outside RAM nothing answers, and nothing is lost.
        let _ = shared.ram.write_u64(pa, 0);
    }
}
