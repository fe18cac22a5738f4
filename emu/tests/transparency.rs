//! The model changes what things cost, not what they do: a guest without exceptions leaves the
//! same RAM behind under the model as under Unicorn's own MMU, which shares no code with it.

#[path = "common/guests.rs"]
mod guests;

use mmuscope_emu::arch::EmuArch;
use mmuscope_emu::loader::{BootInfo, GuestImage};
use mmuscope_emu::ram::Ram;
use mmuscope_guest::{ArchName, tests};
use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::addr::Pa;
use mmuscope_models::x86::X86_64;
use unicorn_engine::{Prot, RegisterARM64, RegisterARM64CP, RegisterX86, TlbType, Unicorn};

/// Loads the guest and starts an engine that translates by itself.
fn native<A: EmuArch>(elf: &[u8], size: u64) -> (Unicorn<'static, ()>, Ram, u64, u64) {
    let image = GuestImage::parse(elf).unwrap();
    let ram = Ram::new(Pa::new(A::RAM_BASE), size).unwrap();
    let free_start = image.load(&ram).unwrap();
    let info = BootInfo {
        cpus: 1,
        features: 0,
        free_start,
        params: &[],
    };
    let info = info.write(&ram).unwrap();
    let (arch, mode) = A::ENGINE;
    let mut uc = Unicorn::new(arch, mode).unwrap();
    A::prepare(&mut uc).unwrap();
    uc.ctl_set_tlb_type(TlbType::CPU).unwrap();
    // SAFETY: the pointer is to `size` bytes, and the caller keeps `ram` longer than the engine.
    unsafe {
        uc.mem_map_ptr(A::RAM_BASE, size, Prot::ALL, ram.as_mut_ptr().cast())
            .unwrap();
    }
    (uc, ram, image.entry().raw(), info.raw())
}

fn native_aarch64(elf: &[u8], size: u64) -> Ram {
    let (mut uc, ram, entry, info) = native::<Aarch64>(elf, size);
    let mut write = |op1, crn, crm, op2, val| {
        let register = RegisterARM64CP {
            op0: 3,
            op1,
            crn,
            crm,
            op2,
            val,
        };
        uc.reg_write_arm64_coproc(&register).unwrap();
    };
    // The engine starts in secure state; SCR_EL3.NS and RW, HCR_EL2.RW.
    write(6, 1, 1, 0, 0x431);
    write(4, 1, 1, 0, 1 << 31);
    Aarch64::start(&mut uc, info).unwrap();
    uc.add_intr_hook(|uc, number| {
        let pc = uc.reg_read(RegisterARM64::PC).unwrap();
        let mut word = [0; 4];
        let read = uc.vmem_read(pc, Prot::EXEC, &mut word);
        // Undefined instructions are the hypercalls (0 ends the guest) and the interrupt
        // controller's registers.
        assert!(number == 1 && read.is_ok(), "exception {number} at {pc:#x}");
        if u32::from_le_bytes(word) == 0xd400_0002 {
            uc.emu_stop().unwrap();
        } else {
            uc.set_pc(pc + 4).unwrap();
        }
    })
    .unwrap();
    uc.emu_start(entry, 0, 0, 0).unwrap();
    ram
}

fn native_x86(elf: &[u8], size: u64) -> Ram {
    let (mut uc, ram, entry, info) = native::<X86_64>(elf, size);
    X86_64::start(&mut uc, info).unwrap();
    uc.add_intr_hook(|uc, number| {
        panic!(
            "exception {number} at {:#x}",
            uc.reg_read(RegisterX86::RIP).unwrap()
        )
    })
    .unwrap();
    uc.add_insn_out_hook(|uc, port, _, _| {
        if port == 0x4d00 {
            uc.emu_stop().unwrap();
        }
    })
    .unwrap();
    uc.emu_start(entry, 0, 0, 0).unwrap();
    ram
}

#[test]
fn memory_ends_as_under_the_engines_own_mmu() {
    for arch in ArchName::ALL {
        let config = guests::config(arch, 1);
        let elf = tests::TRANSPARENCY.elf(arch);
        let (_, modelled) = guests::run_elf(&config, elf, arch, &[]);
        let native = match arch {
            ArchName::Aarch64 => native_aarch64(elf, config.ram),
            ArchName::X86_64 => native_x86(elf, config.ram),
        };
        if let Some((pa, ours, theirs)) = first_difference(&modelled, &native) {
            panic!("{arch:?}: {pa}: {ours:#x} under the model, {theirs:#x} without");
        }
    }
}

fn first_difference(a: &Ram, b: &Ram) -> Option<(Pa, u64, u64)> {
    (0..a.size() / 8).find_map(|word| {
        let pa = a.pa(word * 8);
        let (ours, theirs) = (a.read_u64(pa)?, b.read_u64(pa)?);
        (ours != theirs).then_some((pa, ours, theirs))
    })
}
