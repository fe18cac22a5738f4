//! x86-64: classes and the instructions that the engine has no hook for.

use capstone::arch::x86::{ArchMode, X86InsnGroup, X86OperandType, X86Prefix, X86Reg};
use capstone::arch::{BuildsCapstone, DetailsArchInsn};
use capstone::{Capstone, Insn, InsnDetail, RegId};
use mmuscope_models::system::Barrier;

use super::{Block, Class, Decoded, Mark};

/// A general-purpose register by its number in the encoding (0 = RAX, 1 = RCX, 4 = RSP, 15 = R15).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Gpr(u8);

impl Gpr {
    /// 0 to 15.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }
}

/// The address of a memory operand: `segment base + base + index * scale + displacement`.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub struct MemoryOperand {
    /// Base register.
    pub base: Option<Gpr>,
    /// Index register.
    pub index: Option<Gpr>,
    /// 1, 2, 4 or 8.
    pub scale: u8,
    /// Displacement.
    pub displacement: i64,
    /// Whether the address of the next instruction is added.
    pub rip_relative: bool,
    /// Whether the FS base is added.
    pub fs: bool,
    /// Whether the GS base is added.
    pub gs: bool,
}

impl MemoryOperand {
    /// The linear address, given the registers and the segment bases (FS, GS); without the
    /// address of the next instruction.
    #[must_use]
    pub fn address(&self, mut gpr: impl FnMut(Gpr) -> u64, fs_base: u64, gs_base: u64) -> u64 {
        let mut address = self.displacement.cast_unsigned();
        if let Some(base) = self.base {
            address = address.wrapping_add(gpr(base));
        }
        if let Some(index) = self.index {
            address = address.wrapping_add(gpr(index).wrapping_mul(u64::from(self.scale)));
        }
        if self.fs {
            address = address.wrapping_add(fs_base);
        }
        if self.gs {
            address = address.wrapping_add(gs_base);
        }
        address
    }
}

/// x86-64 instructions that must be seen when they execute.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum X86Site {
    /// INVLPG of this address.
    Invlpg(MemoryOperand),
    /// INVPCID: type in the register, 16-byte descriptor in memory.
    Invpcid(Gpr, MemoryOperand),
    /// MOV to CR0, CR2, CR3, CR4 or CR8 (the number) from a register.
    MovToCr(u8, Gpr),
    /// MOV from CR0, CR2, CR3, CR4 or CR8 (the number) to a register.
    MovFromCr(u8, Gpr),
    /// WRMSR.
    Wrmsr,
    /// RDMSR.
    Rdmsr,
    /// RDTSC, RDTSCP.
    Rdtsc,
    /// OUT.
    Out,
    /// HLT.
    Hlt,
    /// PAUSE: the body of a spin loop.
    Pause,
    /// MFENCE, LFENCE, SFENCE.
    Fence,
    /// IRETQ.
    Iret,
    /// SYSCALL.
    Syscall,
    /// SYSRETQ.
    Sysret,
    /// STI.
    Sti,
    /// CLI.
    Cli,
    /// POPFQ: may change IF and AC.
    Popf,
    /// STAC, CLAC: RFLAGS.AC becomes this.
    SetAc(bool),
    /// WRPKRU.
    Wrpkru,
    /// WBINVD, INVD.
    Wbinvd,
    /// A locked access or XCHG with memory: other cores may observe it.
    Shared,
    /// A repeated string instruction: the engine announces one block per element.
    RepString,
}

/// One decoded instruction.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct X86Insn {
    /// Its length in bytes.
    pub len: u8,
    /// Its class.
    pub class: Class,
    /// What it is, if it must be seen when it executes.
    pub site: Option<X86Site>,
    /// It may make more than one access.
    pub multiple: bool,
}

/// Decodes x86-64.
#[derive(Debug)]
pub struct X86Decoder {
    capstone: Capstone,
}

impl X86Decoder {
    /// A decoder for 64-bit mode.
    ///
    /// # Errors
    /// When the disassembler library cannot be set up.
    pub fn new() -> Result<Self, capstone::Error> {
        let capstone = Capstone::new()
            .x86()
            .mode(ArchMode::Mode64)
            .detail(true)
            .build()?;
        Ok(Self { capstone })
    }

    /// Decodes the first instruction of `bytes`, which runs at `pc`. Bytes that are no
    /// instruction count as one of one byte; `None` if there are none.
    #[must_use]
    pub fn one(&self, pc: u64, bytes: &[u8]) -> Option<X86Insn> {
        if bytes.is_empty() {
            return None;
        }
        let unknown = X86Insn {
            len: 1,
            class: Class::Other,
            site: None,
            multiple: true,
        };
        let window = &bytes[..bytes.len().min(15)];
        let Ok(instructions) = self.capstone.disasm_count(window, pc, 1) else {
            return Some(unknown);
        };
        let Some(insn) = instructions.iter().next() else {
            return Some(unknown);
        };
        let Ok(detail) = self.capstone.insn_detail(insn) else {
            return Some(unknown);
        };
        let site = site(insn, &detail);
        Some(X86Insn {
            len: u8::try_from(insn.len()).unwrap_or(15).max(1),
            class: class(insn, &detail, site),
            site,
            multiple: multiple(&detail),
        })
    }

    /// Decodes the instructions of `code`.
    #[must_use]
    pub fn block(&self, code: &[u8]) -> Block {
        let mut block = Block::default();
        let mut at = 0;
        while let Some(insn) = code.get(at..).and_then(|rest| self.one(0, rest)) {
            let Ok(offset) = u16::try_from(at) else {
                break;
            };
            block.push(offset, decoded(&insn));
            at += usize::from(insn.len);
        }
        block
    }

    /// The offsets in `code` of instructions that need a hook on their address. The sweep is
    /// linear: data between functions cost at most a hook that never fires.
    #[must_use]
    pub fn scan(&self, code: &[u8]) -> Vec<u64> {
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(insn) = code.get(at..).and_then(|rest| self.one(0, rest)) {
            if insn.site.is_some_and(needs_hook) {
                found.push(at as u64);
            }
            at += usize::from(insn.len);
        }
        found
    }
}

impl X86Site {
    /// Whether it may be executed at CPL 0 only.
    #[must_use]
    pub const fn is_privileged(self) -> bool {
        matches!(
            self,
            Self::Invlpg(_)
                | Self::Invpcid(..)
                | Self::MovToCr(..)
                | Self::MovFromCr(..)
                | Self::Wrmsr
                | Self::Rdmsr
                | Self::Sysret
                | Self::SetAc(_)
        )
    }
}

/// Whether only a hook on its address can intercept an instruction.
#[must_use]
pub const fn needs_hook(site: X86Site) -> bool {
    matches!(
        site,
        X86Site::Invlpg(_)
            | X86Site::Invpcid(..)
            | X86Site::MovToCr(..)
            | X86Site::MovFromCr(..)
            | X86Site::Wrmsr
            | X86Site::Rdmsr
            | X86Site::Rdtsc
            | X86Site::Iret
            | X86Site::Sysret
            | X86Site::SetAc(_)
            | X86Site::Wrpkru
    )
}

fn decoded(insn: &X86Insn) -> Decoded {
    let (mark, ordered) = match insn.site {
        Some(X86Site::Fence) => (Mark::Barrier(Barrier::Fence), true),
        Some(X86Site::Iret | X86Site::Sysret) => (Mark::Return, false),
        Some(X86Site::Pause) => (Mark::Spin, true),
        Some(X86Site::Hlt) => (Mark::Idle, true),
        // An x2APIC interrupt command is a WRMSR; OUT calls the host.
        Some(X86Site::Wrmsr | X86Site::Out | X86Site::Shared) => (Mark::Plain, true),
        Some(X86Site::RepString) => (Mark::Repeat, false),
        _ => (Mark::Plain, false),
    };
    Decoded {
        class: insn.class,
        mark,
        multiple: insn.multiple,
        ordered,
        hooked: insn.site.is_some_and(needs_hook),
    }
}

/// Whether an instruction may make more than one access: it reads and writes memory, uses the
/// stack beside a memory operand, or moves a vector.
fn multiple(detail: &InsnDetail<'_>) -> bool {
    let arch = detail.arch_detail();
    let Some(x86) = arch.x86() else {
        return true;
    };
    let mut accesses = 0;
    for operand in x86.operands() {
        if matches!(operand.op_type, X86OperandType::Mem(_)) {
            let both = operand
                .access
                .is_none_or(|access| access.is_readable() && access.is_writable());
            accesses += if both || operand.size > 8 { 2 } else { 1 };
        }
    }
    let stack = |id: &RegId| u32::from(id.0) == X86Reg::X86_REG_RSP;
    if detail.regs_write().iter().any(stack) {
        accesses += 1;
    }
    let system = |group: u32| detail.groups().iter().any(|g| u32::from(g.0) == group);
    accesses > 1 || system(X86InsnGroup::X86_GRP_PRIVILEGE) || system(X86InsnGroup::X86_GRP_IRET)
}

fn class(insn: &Insn<'_>, detail: &InsnDetail<'_>, site: Option<X86Site>) -> Class {
    match site {
        Some(X86Site::Shared) => return Class::Atomic,
        Some(X86Site::Fence) => return Class::Barrier,
        Some(X86Site::RepString) => return memory_class(insn, detail).unwrap_or(Class::Store),
        Some(X86Site::Pause) => return Class::Integer,
        Some(X86Site::Popf) => return Class::Load,
        Some(_) => return Class::System,
        None => {}
    }
    let in_group = |group: u32| detail.groups().iter().any(|g| u32::from(g.0) == group);
    if in_group(X86InsnGroup::X86_GRP_JUMP)
        || in_group(X86InsnGroup::X86_GRP_CALL)
        || in_group(X86InsnGroup::X86_GRP_RET)
    {
        return Class::Branch;
    }
    if in_group(X86InsnGroup::X86_GRP_PRIVILEGE)
        || in_group(X86InsnGroup::X86_GRP_INT)
        || matches!(
            insn.mnemonic(),
            Some("cpuid" | "swapgs" | "in" | "sgdt" | "sidt")
        )
    {
        return Class::System;
    }
    memory_class(insn, detail).unwrap_or(Class::Integer)
}

/// Load or store, from the operands; `None` if memory is not accessed.
fn memory_class(insn: &Insn<'_>, detail: &InsnDetail<'_>) -> Option<Class> {
    let mnemonic = insn.mnemonic()?;
    match mnemonic {
        "push" | "pushfq" => return Some(Class::Store),
        "pop" => return Some(Class::Load),
        // No access although there is a memory operand.
        "lea" | "nop" | "endbr64" => return None,
        _ if mnemonic.starts_with("prefetch") => return None,
        _ => {}
    }
    let arch = detail.arch_detail();
    let x86 = arch.x86()?;
    let mut class = None;
    for operand in x86.operands() {
        if matches!(operand.op_type, X86OperandType::Mem(_)) {
            let access = operand.access;
            if access.is_none_or(|access| access.is_writable()) {
                return Some(Class::Store);
            }
            class = Some(Class::Load);
        }
    }
    class
}

fn site(insn: &Insn<'_>, detail: &InsnDetail<'_>) -> Option<X86Site> {
    let mnemonic = insn.mnemonic()?;
    // With detail on, a prefix is part of the mnemonic text: "lock add", "rep stosq".
    let (prefix, name) = match mnemonic.split_once(' ') {
        Some((prefix, name)) => (prefix, name),
        None => ("", mnemonic),
    };
    let operands = Operands::of(detail)?;
    Some(match name {
        "invlpg" => X86Site::Invlpg(operands.memory?),
        "invpcid" => X86Site::Invpcid(operands.register?, operands.memory?),
        "mov" => match (operands.control_written, operands.control_read) {
            (Some(number), _) => X86Site::MovToCr(number, operands.register?),
            (None, Some(number)) => X86Site::MovFromCr(number, operands.register?),
            (None, None) => return None,
        },
        "rdtsc" | "rdtscp" => X86Site::Rdtsc,
        "out" => X86Site::Out,
        "wrmsr" => X86Site::Wrmsr,
        "rdmsr" => X86Site::Rdmsr,
        "hlt" => X86Site::Hlt,
        "pause" => X86Site::Pause,
        "mfence" | "lfence" | "sfence" => X86Site::Fence,
        "iretq" | "iretd" | "iret" => X86Site::Iret,
        "syscall" => X86Site::Syscall,
        "sysretq" | "sysret" => X86Site::Sysret,
        "sti" => X86Site::Sti,
        "cli" => X86Site::Cli,
        "popfq" => X86Site::Popf,
        "stac" => X86Site::SetAc(true),
        "clac" => X86Site::SetAc(false),
        "wrpkru" => X86Site::Wrpkru,
        "wbinvd" | "invd" => X86Site::Wbinvd,
        "xchg" if operands.memory.is_some() => X86Site::Shared,
        _ if prefix == "lock" || operands.locked => X86Site::Shared,
        _ if prefix.starts_with("rep") && is_string(name) => X86Site::RepString,
        _ => return None,
    })
}

fn is_string(name: &str) -> bool {
    ["movs", "stos", "lods", "cmps", "scas", "ins", "outs"]
        .iter()
        .any(|stem| name.starts_with(stem))
}

/// The operands that sites use.
#[derive(Default)]
struct Operands {
    memory: Option<MemoryOperand>,
    register: Option<Gpr>,
    control_written: Option<u8>,
    control_read: Option<u8>,
    locked: bool,
}

impl Operands {
    fn of(detail: &InsnDetail<'_>) -> Option<Self> {
        let arch = detail.arch_detail();
        let x86 = arch.x86()?;
        let mut found = Self {
            locked: u32::from(x86.prefix()[0]) == X86Prefix::X86_PREFIX_LOCK as u32,
            ..Self::default()
        };
        for (position, operand) in x86.operands().enumerate() {
            match operand.op_type {
                X86OperandType::Reg(register) => {
                    if let Some(gpr) = gpr(register) {
                        found.register = Some(gpr);
                    } else if position == 0 {
                        found.control_written = control(register);
                    } else {
                        found.control_read = control(register);
                    }
                }
                X86OperandType::Mem(memory) => {
                    let segment = u32::from(memory.segment().0);
                    found.memory = Some(MemoryOperand {
                        base: gpr(memory.base()),
                        index: gpr(memory.index()),
                        scale: u8::try_from(memory.scale()).unwrap_or(1),
                        displacement: memory.disp(),
                        rip_relative: u32::from(memory.base().0) == X86Reg::X86_REG_RIP,
                        fs: segment == X86Reg::X86_REG_FS,
                        gs: segment == X86Reg::X86_REG_GS,
                    });
                }
                _ => {}
            }
        }
        Some(found)
    }
}

fn gpr(register: RegId) -> Option<Gpr> {
    const ORDER: [u32; 16] = [
        X86Reg::X86_REG_RAX,
        X86Reg::X86_REG_RCX,
        X86Reg::X86_REG_RDX,
        X86Reg::X86_REG_RBX,
        X86Reg::X86_REG_RSP,
        X86Reg::X86_REG_RBP,
        X86Reg::X86_REG_RSI,
        X86Reg::X86_REG_RDI,
        X86Reg::X86_REG_R8,
        X86Reg::X86_REG_R9,
        X86Reg::X86_REG_R10,
        X86Reg::X86_REG_R11,
        X86Reg::X86_REG_R12,
        X86Reg::X86_REG_R13,
        X86Reg::X86_REG_R14,
        X86Reg::X86_REG_R15,
    ];
    let number = ORDER.iter().position(|id| *id == u32::from(register.0))?;
    u8::try_from(number).ok().map(Gpr)
}

fn control(register: RegId) -> Option<u8> {
    let offset = u32::from(register.0).checked_sub(X86Reg::X86_REG_CR0)?;
    u8::try_from(offset).ok().filter(|number| *number <= 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> X86Insn {
        X86Decoder::new().unwrap().one(0x1000, bytes).unwrap()
    }

    /// Encodings as an assembler gives them for the text beside them.
    #[test]
    fn classes_follow_the_operands() {
        for (bytes, text, class) in [
            (&[0x48, 0x01, 0xd8][..], "add rax, rbx", Class::Integer),
            (&[0x48, 0x8b, 0x03], "mov rax, [rbx]", Class::Load),
            (&[0x48, 0x89, 0x03], "mov [rbx], rax", Class::Store),
            (&[0x48, 0x01, 0x03], "add [rbx], rax", Class::Store),
            (&[0x48, 0x3b, 0x03], "cmp rax, [rbx]", Class::Load),
            (&[0x48, 0x8d, 0x03], "lea rax, [rbx]", Class::Integer),
            (&[0x50], "push rax", Class::Store),
            (&[0x58], "pop rax", Class::Load),
            (&[0xc3], "ret", Class::Branch),
            (&[0xe8, 0, 0, 0, 0], "call .+5", Class::Branch),
            (&[0x74, 0x00], "je .+2", Class::Branch),
            (
                &[0xf0, 0x48, 0x0f, 0xc1, 0x03],
                "lock xadd [rbx], rax",
                Class::Atomic,
            ),
            (&[0x48, 0x87, 0x03], "xchg [rbx], rax", Class::Atomic),
            (&[0x48, 0x87, 0xc3], "xchg rbx, rax", Class::Integer),
            (&[0x0f, 0xae, 0xf0], "mfence", Class::Barrier),
            (&[0x0f, 0x30], "wrmsr", Class::System),
            (&[0x0f, 0xa2], "cpuid", Class::System),
            (&[0xf3, 0x48, 0xab], "rep stosq", Class::Store),
        ] {
            let decoded = decode(bytes);
            assert_eq!(decoded.class, class, "{text}");
            assert_eq!(usize::from(decoded.len), bytes.len(), "{text}");
        }
    }

    #[test]
    fn operands_of_sites_are_kept() {
        let Some(X86Site::Invlpg(memory)) = decode(&[0x0f, 0x01, 0x7c, 0x8b, 0x10]).site else {
            panic!("invlpg [rbx + rcx*4 + 16]");
        };
        let value = |gpr: Gpr| if gpr.number() == 3 { 0x1000 } else { 2 };
        assert_eq!(memory.address(value, 0, 0), 0x1018);
        assert_eq!(
            decode(&[0x0f, 0x22, 0xd8]).site,
            Some(X86Site::MovToCr(3, Gpr(0)))
        );
        assert_eq!(
            decode(&[0x41, 0x0f, 0x22, 0xe7]).site,
            Some(X86Site::MovToCr(4, Gpr(15)))
        );
        assert_eq!(
            decode(&[0x0f, 0x20, 0xd8]).site,
            Some(X86Site::MovFromCr(3, Gpr(0)))
        );
        let Some(X86Site::Invpcid(kind, memory)) = decode(&[0x66, 0x0f, 0x38, 0x82, 0x07]).site
        else {
            panic!("invpcid rax, [rdi]");
        };
        assert_eq!((kind, memory.base), (Gpr(0), Some(Gpr(7))));
        assert_eq!(decode(&[0xf3, 0x90]).site, Some(X86Site::Pause));
        assert_eq!(decode(&[0x0f, 0x01, 0xcb]).site, Some(X86Site::SetAc(true)));
    }

    #[test]
    fn bytes_that_are_no_instruction_take_one_byte() {
        assert_eq!(decode(&[0x06]).len, 1);
        assert_eq!(X86Decoder::new().unwrap().one(0, &[]), None);
    }
}
