//! A user of the plugin: an own Unicorn instance, page tables that the host builds, and a few
//! instructions.

#![allow(dead_code, reason = "not every test uses everything")]

use mmuscope_emu::arch::EmuArch;
use mmuscope_emu::plugin::{Attached, Config, attach};
use mmuscope_emu::ram::Ram;
use mmuscope_models::aarch64::Aarch64;
use mmuscope_models::addr::Pa;
use mmuscope_models::profile::Profile;
use mmuscope_models::system::{Timing, TranslationMode};
use mmuscope_models::x86::X86_64;
use unicorn_engine::{RegisterARM64CP, RegisterX86, Unicorn};

pub const RAM_BASE: u64 = 0x4000_0000;
pub const RAM_SIZE: u64 = 32 << 20;
/// Where the code lies and, mapped to itself, runs.
pub const CODE: u64 = RAM_BASE + 0x10_0000;
/// Frames for data; frame `n` is filled with words of value `n`.
pub const DATA: u64 = RAM_BASE + 0x40_0000;
/// Where tables are allocated from.
const TABLES: u64 = RAM_BASE + 0x20_0000;
/// A user-half address with nothing mapped near it.
pub const VA: u64 = 0x7f00_0000_0000;

/// How the architecture's tables and registers are written.
pub trait Target: EmuArch + 'static {
    const PROFILE: &'static str;
    const TABLE: u64;
    const PAGE: u64;
    const READ_ONLY: u64;

    /// Turns translation on, with the root at `root`.
    fn translate(uc: &mut Unicorn<'_, Seen>, root: u64);
    fn set<D>(uc: &mut Unicorn<'_, D>, register: &str, value: u64);
    fn get<D>(uc: &Unicorn<'_, D>, register: &str) -> u64;
}

/// The user's own data in the engine.
#[derive(Debug, Default)]
pub struct Seen {
    pub blocks: u64,
    pub stores: u64,
}

impl Target for Aarch64 {
    const PROFILE: &'static str = "cortex-a76";
    const TABLE: u64 = 3;
    // Access flag, inner shareable, EL1 only.
    const PAGE: u64 = 3 | 1 << 10 | 3 << 8;
    const READ_ONLY: u64 = Self::PAGE | 1 << 7;

    fn translate(uc: &mut Unicorn<'_, Seen>, root: u64) {
        let mut write = |op1, crn, crm, op2, val| {
            let (op0, op1) = (3, op1);
            let register = RegisterARM64CP {
                op0,
                op1,
                crn,
                crm,
                op2,
                val,
            };
            uc.reg_write_arm64_coproc(&register).unwrap();
        };
        write(0, 10, 2, 0, 0xff);
        write(0, 2, 0, 2, 0x15_b550_3510);
        write(0, 2, 0, 0, root);
        write(0, 2, 0, 1, root);
        write(0, 1, 0, 0, 0x30d5_199d);
    }

    fn set<D>(uc: &mut Unicorn<'_, D>, register: &str, value: u64) {
        uc.reg_write(arm(register), value).unwrap();
    }

    fn get<D>(uc: &Unicorn<'_, D>, register: &str) -> u64 {
        uc.reg_read(arm(register)).unwrap()
    }
}

fn arm(register: &str) -> i32 {
    use unicorn_engine::RegisterARM64 as R;
    let all = [
        R::X0,
        R::X1,
        R::X2,
        R::X3,
        R::X4,
        R::X5,
        R::X6,
        R::X7,
        R::X8,
        R::X9,
    ];
    let number = register
        .strip_prefix('x')
        .and_then(|digits| digits.parse::<usize>().ok());
    number.map_or(R::VBAR_EL1 as i32, |number| all[number] as i32)
}

impl Target for X86_64 {
    const PROFILE: &'static str = "skylake-sp";
    const TABLE: u64 = 7;
    // Present, writable, accessed, dirty.
    const PAGE: u64 = 0x63;
    const READ_ONLY: u64 = 0x61;

    fn translate(uc: &mut Unicorn<'_, Seen>, root: u64) {
        uc.reg_write(RegisterX86::CR4, 0x20).unwrap();
        uc.reg_write(RegisterX86::CR3, root).unwrap();
        uc.reg_write(RegisterX86::CR0, 0x8001_0011).unwrap();
    }

    fn set<D>(uc: &mut Unicorn<'_, D>, register: &str, value: u64) {
        uc.reg_write(x86(register), value).unwrap();
    }

    fn get<D>(uc: &Unicorn<'_, D>, register: &str) -> u64 {
        uc.reg_read(x86(register)).unwrap()
    }
}

fn x86(register: &str) -> RegisterX86 {
    match register {
        "rax" => RegisterX86::RAX,
        "rbx" => RegisterX86::RBX,
        "rcx" => RegisterX86::RCX,
        "rdx" => RegisterX86::RDX,
        "rsi" => RegisterX86::RSI,
        "rdi" => RegisterX86::RDI,
        "r8" => RegisterX86::R8,
        "r9" => RegisterX86::R9,
        _ => RegisterX86::R10,
    }
}

/// Page tables that the host writes.
pub struct Tables {
    ram: Ram,
    pub root: u64,
    next: u64,
}

impl Tables {
    fn new(ram: &Ram) -> Self {
        Self {
            ram: ram.clone(),
            root: TABLES,
            next: TABLES + 0x1000,
        }
    }

    /// An empty table.
    pub fn table(&mut self) -> u64 {
        self.next += 0x1000;
        self.next - 0x1000
    }

    /// The physical address of the entry of `va` at `level` (0 to 3); tables above it are made.
    pub fn entry<A: Target>(&mut self, va: u64, level: u32) -> u64 {
        let mut table = self.root;
        for above in 0..=level {
            let at = table + (va >> (39 - 9 * above) & 0x1ff) * 8;
            if above == level {
                return at;
            }
            let mut entry = self.ram.read_u64(Pa::new(at)).unwrap();
            if entry == 0 {
                entry = self.table() | A::TABLE;
                self.ram.write_u64(Pa::new(at), entry).unwrap();
            }
            table = entry & 0xffff_ffff_f000;
        }
        table
    }

    pub fn map<A: Target>(&mut self, va: u64, pa: u64, attributes: u64) {
        let at = self.entry::<A>(va, 3);
        self.ram.write_u64(Pa::new(at), pa | attributes).unwrap();
    }
}

/// A machine under test: code and RAM mapped to themselves, translation on.
pub struct Bench<A: Target> {
    pub guest: Attached<'static, A, Seen>,
    pub tables: Tables,
    pub ram: Ram,
    end: u64,
}

/// The frame `n` of the data area.
pub const fn frame(n: u64) -> u64 {
    DATA + n * 0x1000
}

impl<A: Target> Bench<A> {
    /// Maps what is common, lets `prepare` map more, and attaches the plugin.
    pub fn new(code: &[u8], mode: TranslationMode, prepare: impl FnOnce(&mut Tables)) -> Self {
        Self::with(code, mode, Timing::Full, prepare)
    }

    /// The same with or without time.
    pub fn with(
        code: &[u8],
        mode: TranslationMode,
        timing: Timing,
        prepare: impl FnOnce(&mut Tables),
    ) -> Self {
        let ram = Ram::new(Pa::new(RAM_BASE), RAM_SIZE).unwrap();
        ram.write(Pa::new(CODE), code).unwrap();
        for n in 0..16 {
            for word in 0..512 {
                ram.write_u64(Pa::new(frame(n) + word * 8), n).unwrap();
            }
        }
        let mut tables = Tables::new(&ram);
        // One 4 KiB entry a page, also for the tables themselves, so that code can change them.
        for page in 0..RAM_SIZE / 0x1000 {
            let pa = RAM_BASE + page * 0x1000;
            tables.map::<A>(pa, pa, A::PAGE);
        }
        prepare(&mut tables);
        let (arch, engine_mode) = A::ENGINE;
        let mut uc = Unicorn::new_with_data(arch, engine_mode, Seen::default()).unwrap();
        A::prepare(&mut uc).unwrap();
        A::translate(&mut uc, tables.root);
        let profile = Profile::builtin(A::PROFILE).unwrap();
        let mut config = Config::new(&profile);
        config.mode = mode;
        config.timing = timing;
        let guest = attach(&mut uc, ram.clone(), &config).unwrap();
        let end = CODE + code.len() as u64;
        Self {
            guest,
            tables,
            ram,
            end,
        }
    }

    pub fn set(&mut self, register: &str, value: u64) {
        A::set(self.guest.engine(), register, value);
    }

    pub fn get(&mut self, register: &str) -> u64 {
        A::get(self.guest.engine(), register)
    }

    /// Runs the code from its start to its end.
    pub fn run(&mut self) {
        let stop = self.guest.run(CODE, Some(self.end)).unwrap();
        assert_eq!(stop, mmuscope_emu::plugin::Stop::Until);
    }

    pub fn word(&self, pa: u64) -> u64 {
        self.ram.read_u64(Pa::new(pa)).unwrap()
    }
}

/// The bytes of A64 instructions.
pub fn a64(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
