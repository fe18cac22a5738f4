//! x86-64: the engine's translation call at CPL 0 and CPL 3, for reads, writes and fetches.
//!
//! The call runs the engine's walker as an access does: it sets accessed and dirty flags, and CR2
//! when the access ends in a page fault. It gives no error code. CR4.PKE stays clear, for the
//! engine offers no way to set PKRU.

use fastrand::Rng;
use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::{Level, Pa, Va};
use mmuscope_models::arch::{Arch, Leaf, Step, WalkVisitor};
use mmuscope_models::memory::{Peek, TableMemory};
use mmuscope_models::x86::{Context, Fault, PhysicalBits, X86_64};
use unicorn_engine::{Arch as EngineArch, Mode, Prot, RegisterX86, TlbType, Unicorn};

use crate::random::{chance, pick, sprinkle};
use crate::tally::{Tally, Verdict};

/// What a run must have covered.
pub const REQUIRED: &[&str] = &[
    "4 levels",
    "5 levels",
    "CPL 0",
    "CPL 3",
    "read",
    "write",
    "fetch",
    "4K page",
    "2M page",
    "1G page",
    "WP clear",
    "NXE clear",
    "SMEP",
    "SMAP",
    "SMAP with AC",
    "not present",
    "not permitted",
    "reserved bits",
    "not canonical",
];

const RAM: u64 = 0x10_0000;
const RAM_BYTES: u64 = 0x10_0000;
const GDT: u64 = 0x1000;
const CODE: u64 = 0x2000;
const TARGET: u64 = 0x3000;
const STACK: u64 = 0x4000;
/// What CR2 holds before a question: no address that is asked about.
const UNTOUCHED: u64 = 0x5a5a_5a5a_5a5a_5a5a;

/// UC_CPU_X86_ICELAKE_SERVER: five levels, SMEP, SMAP, 1 GiB pages.
const ICELAKE_SERVER: i32 = 26;

const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LA57: u64 = 1 << 12;

/// An engine that stays at one privilege level.
pub struct Engine {
    uc: Unicorn<'static, ()>,
    cpl: u64,
}

impl Engine {
    /// An engine at `cpl`, 0 or 3.
    pub fn new(cpl: u64) -> Self {
        let mut uc = Unicorn::new(EngineArch::X86, Mode::MODE_64).unwrap();
        uc.ctl_set_cpu_model(ICELAKE_SERVER).unwrap();
        uc.ctl_set_tlb_type(TlbType::CPU).unwrap();
        uc.mem_map(0, 0x1_0000, Prot::ALL).unwrap();
        uc.mem_map(RAM, RAM_BYTES, Prot::READ | Prot::WRITE)
            .unwrap();
        // Null, 64-bit code and data of the level.
        let gdt = [
            0,
            0x00af_9b00_0000_ffff | cpl << 45,
            0x00cf_9300_0000_ffff | cpl << 45,
        ];
        let bytes: Vec<u8> = gdt.into_iter().flat_map(u64::to_le_bytes).collect();
        uc.mem_write(GDT, &bytes).unwrap();
        // Selector, base at byte 8, limit at byte 16.
        let mut gdtr = [0; 24];
        gdtr[8..16].copy_from_slice(&GDT.to_le_bytes());
        gdtr[16] = 23;
        uc.reg_write_long(RegisterX86::GDTR, &gdtr).unwrap();
        // IRETQ to the level, to a NOP, while paging is off.
        let frame = [TARGET, 0x08 | cpl, 2, 0, 0x10 | cpl];
        let bytes: Vec<u8> = frame.into_iter().flat_map(u64::to_le_bytes).collect();
        uc.mem_write(STACK, &bytes).unwrap();
        uc.mem_write(CODE, &[0x48, 0xcf]).unwrap();
        uc.mem_write(TARGET, &[0x90]).unwrap();
        uc.reg_write(RegisterX86::RSP, STACK).unwrap();
        uc.emu_start(CODE, TARGET, 0, 0).unwrap();
        assert_eq!(uc.reg_read(RegisterX86::CS).unwrap(), 0x08 | cpl);
        Self { uc, cpl }
    }

    fn install(&mut self, context: &Context) {
        let mut efer = [0; 16];
        efer[..4].copy_from_slice(&0xc000_0080_u32.to_le_bytes());
        efer[8..].copy_from_slice(&context.efer.to_le_bytes());
        self.uc.reg_write_long(RegisterX86::MSR, &efer).unwrap();
        let rflags = 2 | u64::from(context.ac) << 18;
        for (register, value) in [
            (RegisterX86::CR4, context.cr4),
            (RegisterX86::CR3, context.cr3),
            (RegisterX86::CR0, context.cr0),
            (RegisterX86::RFLAGS, rflags),
        ] {
            self.uc.reg_write(register, value).unwrap();
        }
    }

    fn ask(&mut self, context: &Context, access: &Access) -> Outcome {
        self.install(context);
        self.uc.reg_write(RegisterX86::CR2, UNTOUCHED).unwrap();
        self.uc.ctl_flush_tlb().unwrap();
        let prot = match access.kind {
            AccessKind::Load => Prot::READ,
            AccessKind::Store => Prot::WRITE,
            AccessKind::Fetch => Prot::EXEC,
        };
        let va = access.va.raw();
        match self.uc.vmem_translate(va, prot) {
            Ok(pa) => Outcome::Translated(pa),
            Err(_) => match self.uc.reg_read(RegisterX86::CR2).unwrap() {
                UNTOUCHED => Outcome::GeneralProtection,
                cr2 => Outcome::PageFault { cr2 },
            },
        }
    }
}

impl TableMemory for Engine {
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        if !(RAM..RAM + RAM_BYTES).contains(&pa.raw()) {
            return None;
        }
        let mut word = [0; 8];
        self.uc.mem_read(pa.raw(), &mut word).ok()?;
        Some(u64::from_le_bytes(word))
    }

    fn exchange_descriptor(&mut self, _: Pa, _: u64, _: u64) -> Option<u64> {
        None
    }
}

/// What can be seen of a translation from outside.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Outcome {
    Translated(u64),
    PageFault { cr2: u64 },
    GeneralProtection,
}

fn random_context(rng: &mut Rng) -> Context {
    let levels = if chance(rng, 30) { LA57 } else { 0 };
    Context {
        // PE and PG; WP mostly.
        cr0: 0x8000_0011 | sprinkle(rng, 1 << 16, 60),
        cr3: 0,
        // PAE, OSFXSR; PGE, SMEP, SMAP.
        cr4: 0x220 | levels | sprinkle(rng, 1 << 7 | 1 << 20 | 1 << 21, 50),
        // LME and LMA; NXE mostly.
        efer: 0x500 | sprinkle(rng, 1 << 11, 80),
        ac: chance(rng, 40),
        physical_bits: PhysicalBits::new(40).unwrap(),
        ..Context::default()
    }
}

/// An address; seldom not canonical.
fn address(rng: &mut Rng, context: &Context) -> u64 {
    let unused = if context.cr4 & LA57 != 0 { 7 } else { 16 };
    let va = ((rng.u64(..) << unused).cast_signed() >> unused).cast_unsigned();
    if chance(rng, 3) {
        va ^ 1 << rng.u32(64 - unused..64)
    } else {
        va
    }
}

/// An entry of a table whose entries span `2^shift` bytes.
fn entry(rng: &mut Rng, context: &Context, shift: u32, next: Option<u64>) -> u64 {
    let present = if chance(rng, 97) { PRESENT } else { 0 };
    // Rights: mostly given. Flags, cacheability, ignored bits, the key: anything.
    let rights = !sprinkle(rng, 0b110, 15) & 0b110;
    let free = rng.u64(..) & (0x7f << 56 | 7 << 53 | 1 << 52 | 0b1111 << 8 | 0b1111 << 3);
    let no_execute = if context.efer >> 11 & 1 != 0 {
        sprinkle(rng, 1 << 63, 15)
    } else {
        sprinkle(rng, 1 << 63, 2)
    };
    // Reserved above MAXPHYADDR, and bit 7 where no page can be.
    let stray = if chance(rng, 4) {
        1 << pick(rng, &[7, 40, 45, 51])
    } else {
        0
    };
    let low = present | rights | free & !0b1111 << 60 | no_execute | stray;
    if let Some(next) = next {
        return low | next;
    }
    let aligned = if chance(rng, 95) { shift } else { 13 };
    let address = (rng.u64(..) & 0xff_ffff_f000) >> aligned << aligned;
    let large = if shift > 12 { LARGE } else { 0 };
    // The PAT bit: 7 in a page table entry, 12 in a large page.
    let pat = sprinkle(rng, if shift > 12 { 1 << 12 } else { 1 << 7 }, 30);
    low | address | large | pat
}

/// Tables for `va`, down to a page.
fn build(engine: &mut Engine, rng: &mut Rng, context: &mut Context, va: u64) {
    let place = |rng: &mut Rng| RAM + rng.u64(..RAM_BYTES / 4096) * 4096;
    let mut table = place(rng);
    context.cr3 = table | rng.u64(..) & 0x18;
    let top = if context.cr4 & LA57 != 0 { 48 } else { 39 };
    let mut shift = top;
    loop {
        let page = shift == 12 || shift <= 30 && chance(rng, 20);
        let next = (!page).then(|| place(rng));
        let word = entry(rng, context, shift, next);
        let at = table + (va >> shift & 0x1ff) * 8;
        engine.uc.mem_write(at, &word.to_le_bytes()).unwrap();
        match next {
            Some(next) => table = next,
            None => return,
        }
        shift -= 9;
    }
}

struct Trail(Vec<Step<X86_64>>);

impl WalkVisitor<X86_64> for Trail {
    fn step(&mut self, step: &Step<X86_64>) {
        self.0.push(*step);
    }
}

/// Asks some questions of one set of registers.
pub fn round(engine: &mut Engine, rng: &mut Rng, tally: &mut Tally) {
    let mut context = random_context(rng);
    let privilege = if engine.cpl == 3 {
        Privilege::User
    } else {
        Privilege::Supervisor
    };
    for _ in 0..8 {
        let va = address(rng, &context);
        build(engine, rng, &mut context, va);
        let kind = pick(
            rng,
            &[AccessKind::Load, AccessKind::Store, AccessKind::Fetch],
        );
        let access = Access::new(Va::new(va), kind, privilege);
        let mut trail = Trail(Vec::new());
        let result = X86_64::walk(&context, &access, None, &mut Peek(&*engine), &mut trail);
        if result == Err(Fault::MachineCheck) {
            // A stray bit made a table pointer leave memory.
            continue;
        }
        let expected = match &result {
            Ok(leaf) => Outcome::Translated(leaf.pa.raw() | va & (leaf.size.bytes() - 1)),
            Err(Fault::PageFault { .. }) => Outcome::PageFault { cr2: va },
            Err(_) => Outcome::GeneralProtection,
        };
        cover(&context, &access, &result, tally);
        let answer = engine.ask(&context, &access);
        let verdict = if answer == expected {
            flags(engine, &access, &trail.0, &result)
        } else {
            Verdict::Differs(match answer {
                Outcome::Translated(_) => "translated".to_owned(),
                Outcome::PageFault { .. } => "a page fault".to_owned(),
                Outcome::GeneralProtection => "a general protection fault".to_owned(),
            })
        };
        tally.judge(verdict, || {
            format!(
                "Unicorn says {answer:x?}\n{context:x?} {access:x?}\n{:x?}\n{result:x?}",
                trail.0
            )
        });
    }
}

/// Judges the entries after the question. A permitted access sets accessed flags in all, and the
/// dirty flag of the leaf if it writes. One that is refused may set accessed flags of tables
/// (SDM 3A 4.8 leaves it open), but changes nothing else.
fn flags(
    engine: &Engine,
    access: &Access,
    steps: &[Step<X86_64>],
    result: &Result<Leaf<X86_64>, Fault>,
) -> Verdict {
    let leaf_level = result.as_ref().map_or(Level::L3, |leaf| leaf.level);
    for step in steps {
        let after = engine.read_descriptor(step.at).unwrap();
        let mut flagged = step.raw | ACCESSED;
        if access.kind.is_write() && result.is_ok() && step.level == leaf_level {
            flagged |= DIRTY;
        }
        let refused = result.is_err() && after == step.raw;
        // One table may serve two levels of the same walk.
        let twice = steps.iter().filter(|other| other.at == step.at).count() > 1;
        if after != flagged && !refused && !twice {
            return Verdict::Differs("an entry becomes another".to_owned());
        }
    }
    Verdict::Agrees
}

/// Counts what was made use of.
fn cover(
    context: &Context,
    access: &Access,
    result: &Result<Leaf<X86_64>, Fault>,
    tally: &mut Tally,
) {
    let supervisor = access.privilege == Privilege::Supervisor;
    let smap = supervisor && context.cr4 >> 21 & 1 != 0;
    for (used, feature) in [
        (context.cr4 & LA57 == 0, "4 levels"),
        (context.cr4 & LA57 != 0, "5 levels"),
        (supervisor, "CPL 0"),
        (!supervisor, "CPL 3"),
        (access.kind == AccessKind::Load, "read"),
        (access.kind == AccessKind::Store, "write"),
        (access.kind == AccessKind::Fetch, "fetch"),
        (context.cr0 >> 16 & 1 == 0, "WP clear"),
        (context.efer >> 11 & 1 == 0, "NXE clear"),
        (supervisor && context.cr4 >> 20 & 1 != 0, "SMEP"),
        (smap && !context.ac, "SMAP"),
        (smap && context.ac, "SMAP with AC"),
    ] {
        if used {
            tally.cover(feature);
        }
    }
    tally.cover(match result {
        Ok(leaf) => match leaf.level {
            Level::L3 => "4K page",
            Level::L2 => "2M page",
            _ => "1G page",
        },
        Err(fault @ Fault::PageFault { .. }) => match fault.error_code() & 0b1001 {
            0 => "not present",
            1 => "not permitted",
            _ => "reserved bits",
        },
        Err(_) => "not canonical",
    });
}
