//! AArch64: `AT S1E0/S1E1{R,W}`, with PAN `AT S1E1{RP,WP}`, executed at EL3, and PAR_EL1.
//!
//! At EL3 the engine fetches untranslated, so the tables under test need not map the code.
//! QEMU 5.0 has neither hardware access flags nor LPA, LPA2, E0PD, EPAN or small tables: their
//! control bits stay clear and TxSZ stays within 16 to 39.

use fastrand::Rng;
use mmuscope_models::aarch64::{
    Aarch64, Context, Fault, FaultKind, Implementation, MemoryType, PaRange, Shareability,
};
use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::{Level, Pa, Va};
use mmuscope_models::arch::{Arch, Half, Leaf, Step, WalkVisitor};
use mmuscope_models::memory::{Peek, TableMemory};
use unicorn_engine::{
    Arch as EngineArch, Arm64CpuModel, Mode, Prot, RegisterARM64, RegisterARM64CP, TlbType, Unicorn,
};

use crate::random::{chance, pick, sprinkle};
use crate::tally::{Tally, Verdict};

/// What a run must have covered.
pub const REQUIRED: &[&str] = &[
    "4K granule",
    "16K granule",
    "64K granule",
    "root at level 0",
    "root at level 1",
    "root at level 2",
    "root at level 3",
    "translated at level 1",
    "translated at level 2",
    "translated at level 3",
    "contiguous bit",
    "hierarchical permissions",
    "hierarchical permissions off (HPD)",
    "PAN",
    "tagged addresses",
    "EPD",
    "big-endian tables",
    "a table outside memory",
    "translation fault",
    "access flag fault",
    "permission fault",
    "address size fault",
];

/// The rules from which QEMU 5.0 deviates.
const OUTPUT_SIZE: &str = "TCR_EL1.IPS and PARange bound the addresses of tables and pages (Arm \
    ARM D8.2.3); QEMU does not check them";
const LOW_ADDRESS_BITS: &str = "address bits of a block descriptor below the block's size are \
    RES0; QEMU takes them into the address";
const BLOCK_WHERE_NONE: &str = "a block at a level that has none is an invalid descriptor (Arm \
    ARM D8.3.1); QEMU takes it as a block";
const DEVICE_SHARING: &str = "PAR_EL1.SH is 0b10 for Device and Non-cacheable memory (Arm ARM, \
    PAR_EL1); QEMU gives the descriptor's field";

const NOTHING_THERE: &str = "where nothing answers, a descriptor read gives an external abort (Arm \
    ARM D8.2.12); Unicorn reads zero";

/// Where the tables are. The lowest addresses hold the code.
const RAM: u64 = 0x10_0000;
const RAM_BYTES: u64 = 0x10_0000;
const CODE: u64 = 0x1000;

/// The bits of an address that a descriptor can hold without FEAT_LPA.
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

/// An address translation instruction.
#[derive(Copy, Clone, Debug)]
struct Question {
    context: Context,
    access: Access,
    /// Which of the instructions: its `op2`, and whether it obeys PSTATE.PAN.
    op2: u32,
}

/// The engine with one code sequence for each instruction.
pub struct Engine(Unicorn<'static, ()>);

const fn register(op1: u32, crn: u32, crm: u32, op2: u32, val: u64) -> RegisterARM64CP {
    RegisterARM64CP {
        op0: 3,
        op1,
        crn,
        crm,
        op2,
        val,
    }
}

impl Engine {
    /// An engine at EL3, with EL1 in AArch64 state and Non-secure.
    pub fn new() -> Self {
        let mut uc = Unicorn::new(EngineArch::ARM64, Mode::LITTLE_ENDIAN).unwrap();
        uc.ctl_set_cpu_model(Arm64CpuModel::MAX as i32).unwrap();
        uc.ctl_set_page_size(4096).unwrap();
        uc.ctl_set_tlb_type(TlbType::CPU).unwrap();
        uc.mem_map(0, 0x1_0000, Prot::READ | Prot::EXEC).unwrap();
        uc.mem_map(RAM, RAM_BYTES, Prot::READ | Prot::WRITE)
            .unwrap();
        for pan in 0..2 {
            for op2 in 0..4 {
                // AT <op>, X0; ISB; MRS X1, PAR_EL1; NOP
                let at = 0xd508_7800 | pan << 8 | op2 << 5;
                let code = [at, 0xd503_3fdf_u32, 0xd538_7401, 0xd503_201f];
                let bytes: Vec<u8> = code.into_iter().flat_map(u32::to_le_bytes).collect();
                uc.mem_write(Self::code(pan != 0, op2), &bytes).unwrap();
            }
        }
        let mut engine = Self(uc);
        engine.set(register(6, 1, 1, 0, 0x431)); // SCR_EL3: NS, RES1, RW
        engine.set(register(4, 1, 1, 0, 1 << 31)); // HCR_EL2: RW
        engine
    }

    fn code(pan: bool, op2: u32) -> u64 {
        CODE + u64::from(pan) * 0x100 + u64::from(op2) * 0x20
    }

    fn set(&mut self, register: RegisterARM64CP) {
        self.0.reg_write_arm64_coproc(&register).unwrap();
    }

    fn install(&mut self, context: &Context) {
        // EL3h, interrupts masked; the write of a system register makes it effective.
        let pstate = 0x3cd | u64::from(context.pan) << 22;
        self.0.reg_write(RegisterARM64::PSTATE, pstate).unwrap();
        self.set(register(0, 2, 0, 0, context.ttbr0));
        self.set(register(0, 2, 0, 1, context.ttbr1));
        self.set(register(0, 2, 0, 2, context.tcr));
        self.set(register(0, 10, 2, 0, context.mair));
        self.set(register(0, 1, 0, 0, context.sctlr));
    }

    /// PAR_EL1, or `None` if the walk ended in an exception, as external aborts do.
    fn ask(&mut self, question: &Question) -> Option<u64> {
        self.install(&question.context);
        let va = question.access.va.raw();
        self.0.reg_write(RegisterARM64::X0, va).unwrap();
        self.0.reg_write(RegisterARM64::X1, u64::MAX).unwrap();
        let code = Self::code(question.context.pan, question.op2);
        self.0.emu_start(code, code + 12, 0, 0).ok()?;
        Some(self.0.reg_read(RegisterARM64::X1).unwrap())
    }

    fn write(&mut self, at: u64, word: u64) {
        self.0.mem_write(at, &word.to_le_bytes()).unwrap();
    }
}

impl TableMemory for Engine {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        if !(RAM..RAM + RAM_BYTES).contains(&pa.raw()) {
            return None;
        }
        let mut word = [0; 8];
        self.0.mem_read(pa.raw(), &mut word).ok()?;
        Some(u64::from_le_bytes(word))
    }

    fn exchange_descriptor(&mut self, _: Pa, _: u64, _: u64) -> Option<u64> {
        None
    }
}

/// log2 of the granule, and of the span of an entry at a level.
const fn span(grain: u32, level: u32) -> u32 {
    grain + (grain - 3) * (3 - level)
}

/// Registers, with the granule and the start level of the half that is asked about.
struct World {
    context: Context,
    upper: bool,
    grain: u32,
    /// Bits of an input address.
    input: u32,
    start: u32,
}

impl World {
    fn random(rng: &mut Rng) -> Self {
        let upper = rng.bool();
        let grain = pick(rng, &[12, 12, 14, 16]);
        let size_offset = if chance(rng, 30) { 16 } else { rng.u32(16..40) };
        let input = 64 - size_offset;
        let start = 4 - (input - grain).div_ceil(grain - 3);
        let granule_field = match (upper, grain) {
            (false, 12) => 0,
            (false, 14) | (true, 12) => 2,
            (false, _) | (true, 14) => 1,
            (true, _) => 3,
        };
        let shift = if upper { 16 } else { 0 };
        let ips = if chance(rng, 80) { 5 } else { rng.u64(0..5) };
        let mut tcr = u64::from(size_offset) << shift | granule_field << (14 + shift) | ips << 32;
        // The other half, 4K with 48 bits.
        tcr |= if upper { 16 } else { 16 << 16 | 2 << 30 };
        // SH, ORGN, IRGN, A1, AS, TBI and HPD of both halves; EPD seldom.
        tcr |= rng.u64(..) & (0x3f00_3f00 | 1 << 22 | 1 << 36 | 3 << 37 | 3 << 41);
        tcr |= sprinkle(rng, 1 << 7 | 1 << 23, 4);
        // MMU on, most RES1 bits; WXN, EE seldom.
        let sctlr = 0x30d0_0801 | sprinkle(rng, 1 << 19, 30) | sprinkle(rng, 1 << 25, 20);
        let context = Context {
            sctlr,
            tcr,
            ttbr0: RAM | rng.u64(..) << 48,
            ttbr1: RAM | rng.u64(..) << 48,
            mair: rng.u64(..),
            pan: chance(rng, 30),
            implementation: Implementation {
                pa_range: PaRange::Bits48,
                ..Implementation::default()
            },
            ..Context::default()
        };
        Self {
            context,
            upper,
            grain,
            input,
            start,
        }
    }

    /// A place for a table of `bytes`, mostly in memory.
    fn place(rng: &mut Rng, bytes: u64) -> u64 {
        if chance(rng, 1) {
            return rng.u64(..) & ADDRESS & !(bytes - 1);
        }
        RAM + rng.u64(..RAM_BYTES / bytes) * bytes
    }

    /// A descriptor for `level`: a table at `next`, or a leaf, or what is neither.
    fn descriptor(&self, rng: &mut Rng, level: u32, next: Option<u64>) -> u64 {
        let upper_bits = rng.u64(..) & 0x0780_0000_0000_0000;
        if let Some(next) = next {
            return next | 0b11 | upper_bits | sprinkle(rng, 0xf8 << 56 | 0x4ff << 2, 10);
        }
        let lowest = span(self.grain, level);
        let aligned = if chance(rng, 90) { lowest } else { self.grain };
        let mut address = rng.u64(..) & ADDRESS >> aligned << aligned;
        if chance(rng, 50) {
            address &= 0xff_ffff_ffff;
        }
        let kind = match level {
            3 if chance(rng, 96) => 0b11,
            3 => 0b01,
            _ if chance(rng, 92) => 0b01,
            _ => rng.u64(..4) & 0b10,
        };
        let access_flag = if chance(rng, 92) { 1 << 10 } else { 0 };
        let attributes = rng.u64(..) & (0x3ff << 2) & !(1 << 10) | rng.u64(..) & (0x7f << 52);
        // nT, GP, nG and DBM mean nothing to a walk without hardware updates.
        let quiet = sprinkle(rng, 1 << 11 | 1 << 50 | 1 << 51, 20);
        address | kind | access_flag | attributes | quiet | upper_bits
    }

    /// Tables for `va`, down to a leaf at some level.
    fn build(&mut self, engine: &mut Engine, rng: &mut Rng, va: u64) {
        let root_bits = self.input - span(self.grain, self.start);
        let mut table = Self::place(rng, (8 << root_bits).max(64));
        let root = table | rng.u64(..) & 0xffff << 48 | rng.u64(..2);
        if self.upper {
            self.context.ttbr1 = root;
        } else {
            self.context.ttbr0 = root;
        }
        let big_endian = self.context.sctlr >> 25 & 1 != 0;
        for level in self.start..4 {
            let width = if level == self.start {
                root_bits
            } else {
                self.grain - 3
            };
            let index = va >> span(self.grain, level) & ((1 << width) - 1);
            let ends = level == 3 || chance(rng, 15);
            let next = (!ends).then(|| Self::place(rng, 1 << self.grain));
            let descriptor = self.descriptor(rng, level, next);
            let at = table + index * 8;
            if engine.read_descriptor(Pa::new(at)).is_none() {
                return;
            }
            let stored = if big_endian {
                descriptor.swap_bytes()
            } else {
                descriptor
            };
            engine.write(at, stored);
            match next {
                Some(next) => table = next,
                None => return,
            }
        }
    }

    /// An address of the half; seldom out of range or with a tag.
    fn address(&self, rng: &mut Rng) -> u64 {
        let inside = rng.u64(..) & ((1 << self.input) - 1);
        let mut va = if self.upper {
            inside | u64::MAX << self.input
        } else {
            inside
        };
        if chance(rng, 10) {
            va = va & !(0xff << 56) | rng.u64(..) & 0xff << 56;
        }
        if chance(rng, 3) {
            va ^= 1 << rng.u32(self.input..64);
        }
        va
    }
}

/// Asks some questions of one set of registers.
pub fn round(engine: &mut Engine, rng: &mut Rng, tally: &mut Tally) {
    let mut world = World::random(rng);
    for _ in 0..8 {
        let va = world.address(rng);
        world.build(engine, rng, va);
        let op2 = rng.u32(..4);
        // PAN concerns EL1 only; AT S1E0 has no form with it.
        let mut context = world.context;
        context.pan &= op2 < 2;
        let kind = [AccessKind::Load, AccessKind::Store][op2 as usize & 1];
        let privilege = [Privilege::Supervisor, Privilege::User][op2 as usize >> 1];
        let question = Question {
            context,
            access: Access::new(Va::new(va), kind, privilege),
            op2,
        };
        let expected = Expected::new(engine, &question);
        cover(&world, &question, &expected, tally);
        let answer = engine.ask(&question);
        tally.judge(judge(engine, &question, &expected, answer), || {
            format!("Unicorn says {answer:x?}\n{question:x?}\n{expected:x?}")
        });
    }
}

/// The last descriptor of a walk, and the result.
#[derive(Debug)]
struct Expected {
    steps: Vec<Step<Aarch64>>,
    result: Result<Leaf<Aarch64>, Fault>,
    /// PAR_EL1; `None` for an exception.
    par: Option<u64>,
}

struct Trail(Vec<Step<Aarch64>>);

impl WalkVisitor<Aarch64> for Trail {
    fn step(&mut self, step: &Step<Aarch64>) {
        self.0.push(*step);
    }
}

impl Expected {
    fn new(engine: &Engine, question: &Question) -> Self {
        let mut trail = Trail(Vec::new());
        let (context, access) = (&question.context, &question.access);
        let result = Aarch64::walk(context, access, None, &mut Peek(engine), &mut trail);
        let par = match &result {
            Ok(leaf) => Some(translated(leaf, access.va.raw())),
            Err(fault) if fault.kind == FaultKind::ExternalOnWalk => None,
            Err(fault) => Some(faulted(*fault)),
        };
        Self {
            steps: trail.0,
            result,
            par,
        }
    }

    /// The last descriptor in the byte order of the tables.
    fn last(&self, question: &Question) -> Option<(Level, u64)> {
        let last = self.steps.last()?;
        let big_endian = question.context.sctlr >> 25 & 1 != 0;
        let raw = if big_endian {
            last.raw.swap_bytes()
        } else {
            last.raw
        };
        Some((last.level, raw))
    }
}

/// PAR_EL1 of a fault: F, FST and the RES1 bit 11.
fn faulted(fault: Fault) -> u64 {
    1 | u64::from(fault.fsc()) << 1 | 1 << 11
}

/// PAR_EL1 of a translation: ATTR, PA, RES1, NS, SH.
fn translated(leaf: &Leaf<Aarch64>, va: u64) -> u64 {
    let pa = leaf.pa.raw() | va & (leaf.size.bytes() - 1);
    let memory = leaf.attrs.memory;
    let uncached = memory.is_device() || memory == MemoryType::new(0x44);
    let shareability = match leaf.attrs.shareability {
        _ if uncached => 0b10,
        Shareability::Non => 0b00,
        Shareability::Outer => 0b10,
        Shareability::Inner => 0b11,
    };
    u64::from(memory.raw()) << 56 | pa & !0xfff | 1 << 11 | 1 << 9 | shareability << 7
}

/// Compares, and explains a difference by the rules above.
fn judge(
    engine: &Engine,
    question: &Question,
    expected: &Expected,
    answer: Option<u64>,
) -> Verdict {
    if answer == expected.par {
        return Verdict::Agrees;
    }
    // What QEMU sees: every output address has 48 bits.
    let mut seen = *question;
    seen.context.tcr |= 5 << 32;
    seen.context.tcr &= !(2 << 32);
    let mut by_qemu = Expected::new(engine, &seen);
    let mut rule = None;
    if by_qemu.par != expected.par {
        rule = Some(OUTPUT_SIZE);
    }
    if let Err(fault) = by_qemu.result
        && fault.kind == FaultKind::ExternalOnWalk
    {
        by_qemu.par = Some(faulted(Fault::new(FaultKind::Translation, fault.level)));
        return explained(rule.or(Some(NOTHING_THERE)), answer, by_qemu.par);
    }
    let Some((level, raw)) = by_qemu.last(&seen) else {
        return explained(rule, answer, by_qemu.par);
    };
    let (pages, sharing) = (ADDRESS, 3 << 7);
    if let (Ok(leaf), Some(par)) = (by_qemu.result, &mut by_qemu.par) {
        let within = leaf.size.bytes() - 1;
        let address = (raw | question.access.va.raw() & within) & pages;
        if address != *par & pages && raw & within & pages != 0 {
            *par = *par & !pages | address;
            rule = rule.or(Some(LOW_ADDRESS_BITS));
        }
        if answer == Some(*par) {
            return explained(rule, answer, Some(*par));
        }
        let field = *par & !sharing | raw >> 8 << 7 & sharing;
        if field != *par {
            *par = field;
            rule = rule.or(Some(DEVICE_SHARING));
        }
    }
    let refused = by_qemu.result == Err(Fault::new(FaultKind::Translation, level));
    if refused && raw & 3 == 1 && level != Level::L3 {
        let grain = Aarch64::span_shift(&seen.context, half(question), Level::L3);
        let within = (1_u64 << (grain + (grain - 3) * level.height())) - 1;
        let address = (raw & (u64::MAX << grain) | question.access.va.raw() & within) & pages;
        let fault = |kind| answer == Some(faulted(Fault::new(kind, level)));
        let taken = answer.is_some_and(|par| par & 1 == 0 && par & pages == address);
        if taken || fault(FaultKind::AccessFlag) || fault(FaultKind::Permission) {
            return Verdict::Deviates(BLOCK_WHERE_NONE);
        }
    }
    explained(rule, answer, by_qemu.par)
}

fn half(question: &Question) -> Half {
    if question.access.va.raw() >> 55 & 1 == 0 {
        Half::Lower
    } else {
        Half::Upper
    }
}

fn explained(rule: Option<&'static str>, answer: Option<u64>, predicted: Option<u64>) -> Verdict {
    match rule {
        Some(rule) if answer == predicted => Verdict::Deviates(rule),
        _ => Verdict::Differs(match (answer, predicted) {
            (None, _) => "an exception".to_owned(),
            (Some(a), Some(b)) if a & 1 != b & 1 => format!("F is {}", a & 1),
            (Some(a), Some(_)) if a & 1 == 1 => format!("fault status {:#x}", a >> 1 & 0x3f),
            (Some(_), None) => "no exception".to_owned(),
            _ => "another translation".to_owned(),
        }),
    }
}

/// Counts what `question` made use of.
fn cover(world: &World, question: &Question, expected: &Expected, tally: &mut Tally) {
    tally.cover(match world.grain {
        12 => "4K granule",
        14 => "16K granule",
        _ => "64K granule",
    });
    tally.cover(
        [
            "root at level 0",
            "root at level 1",
            "root at level 2",
            "root at level 3",
        ][world.start as usize],
    );
    let tcr = question.context.tcr;
    let bit = |lower: u32, upper: u32| tcr >> if world.upper { upper } else { lower } & 1 != 0;
    let last = expected.last(question).map_or(0, |(_, raw)| raw);
    let ok = expected.result.is_ok();
    let order = question.context.sctlr >> 25 & 1 != 0;
    let count = expected.steps.len().saturating_sub(1);
    let hierarchy = expected.steps[..count].iter().any(|step| {
        let raw = if order {
            step.raw.swap_bytes()
        } else {
            step.raw
        };
        raw >> 59 & 0xf != 0
    });
    for (used, feature) in [
        (ok && last >> 52 & 1 != 0, "contiguous bit"),
        (hierarchy && !bit(41, 42), "hierarchical permissions"),
        (
            hierarchy && bit(41, 42),
            "hierarchical permissions off (HPD)",
        ),
        (question.context.pan, "PAN"),
        (ok && bit(37, 38), "tagged addresses"),
        (bit(7, 23), "EPD"),
        (ok && order, "big-endian tables"),
    ] {
        if used {
            tally.cover(feature);
        }
    }
    tally.cover(match &expected.result {
        Ok(leaf) => match leaf.level {
            Level::L1 => "translated at level 1",
            Level::L2 => "translated at level 2",
            _ => "translated at level 3",
        },
        Err(fault) => match fault.kind {
            FaultKind::Translation => "translation fault",
            FaultKind::AccessFlag => "access flag fault",
            FaultKind::Permission => "permission fault",
            FaultKind::AddressSize => "address size fault",
            _ => "a table outside memory",
        },
    });
}
