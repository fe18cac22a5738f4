//! What the tests over recordings share: finding the files, and turning records into the models'
//! terms.

// Each test binary uses a part of this module.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

use mmuscope_models::access::Privilege;
use mmuscope_models::arch::Arch;
use mmuscope_models::{aarch64, x86};
use mmuscope_traces::recording::{ContextRegister, Event, Isa, Recording};

/// The directory with the recordings that belong to the crate.
pub fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/linux")
}

/// Every recording to test, sorted: those of the crate, and those in the directory that
/// `MMUSCOPE_RECORDINGS` names, if it is set.
pub fn recordings() -> Vec<PathBuf> {
    let more = std::env::var_os("MMUSCOPE_RECORDINGS").map(PathBuf::from);
    let mut found: Vec<_> = [Some(data()), more]
        .into_iter()
        .flatten()
        .flat_map(|directory| std::fs::read_dir(directory).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "zst"))
        .collect();
    found.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    found.dedup_by(|a, b| a.file_name() == b.file_name());
    assert!(found.len() >= 11, "recordings are missing: {found:?}");
    found
}

/// The file's name without its extensions, for messages.
pub fn name(path: &Path) -> &str {
    let name = path.file_name().unwrap().to_str().unwrap();
    name.trim_end_matches(".trc.zst")
}

/// The instruction set a file was recorded on.
pub fn isa(path: &Path) -> Isa {
    let reader = mmuscope_traces::open::<Recording>(path).unwrap();
    reader.header().isa
}

/// What a test has to know about an architecture: its registers as a recording shows them.
pub trait RecordedArch: Arch {
    /// The registers that a recording does not show, as Linux sets them, for what the recordings
    /// can test: addresses, and the rights of user code.
    fn assumed() -> Self::Context;

    /// Takes in a recorded register.
    fn set(context: &mut Self::Context, register: ContextRegister, value: u64);
}

impl RecordedArch for aarch64::Aarch64 {
    fn assumed() -> aarch64::Context {
        aarch64::Context {
            // SCTLR_EL1.M: translation on.
            sctlr: 1,
            // PSTATE.PAN would forbid the kernel's LDTR and STTR, which a recording does not tell
            // from LDR and STR.
            pan: false,
            ..aarch64::Context::default()
        }
    }

    fn set(context: &mut aarch64::Context, register: ContextRegister, value: u64) {
        match register {
            ContextRegister::Ttbr0 => context.ttbr0 = value,
            ContextRegister::Ttbr1 => context.ttbr1 = value,
            ContextRegister::Tcr => context.tcr = value,
            ContextRegister::Cr3 => unreachable!("the reader refuses CR3 on arm64"),
        }
    }
}

impl RecordedArch for x86::X86_64 {
    fn assumed() -> x86::Context {
        x86::Context {
            // PG, WP, PE.
            cr0: 0x8001_0001,
            // PGE, PAE. SMAP stays off: STAC and CLAC are not recorded.
            cr4: 0xa0,
            // NXE, LMA, LME, SCE.
            efer: 0xd01,
            ..x86::Context::default()
        }
    }

    fn set(context: &mut x86::Context, register: ContextRegister, value: u64) {
        assert_eq!(register, ContextRegister::Cr3);
        context.cr3 = value;
    }
}

/// The state of each CPU, followed along the records.
#[derive(Debug)]
pub struct Cpus<A: RecordedArch> {
    initial: A::Context,
    cpus: Vec<(A::Context, Privilege)>,
}

impl<A: RecordedArch> Cpus<A> {
    pub fn new() -> Self {
        Self {
            initial: A::assumed(),
            cpus: Vec::new(),
        }
    }

    /// Takes in a record, if it concerns the state of a CPU. True if a translation register
    /// changed.
    pub fn apply(&mut self, cpu: u8, event: &Event) -> bool {
        match event {
            Event::Context { register, value } => {
                // A recording begins with the state of the CPU that makes the call. The others
                // run threads of the same process.
                if self.cpus.len() <= 1 {
                    A::set(&mut self.initial, *register, *value);
                }
                A::set(&mut self.cpu(cpu).0, *register, *value);
                true
            }
            Event::Exec { privilege, .. } => {
                self.cpu(cpu).1 = *privilege;
                false
            }
            _ => false,
        }
    }

    /// The registers of a CPU, and the privilege of the code it runs.
    pub fn cpu(&mut self, cpu: u8) -> &mut (A::Context, Privilege) {
        let index = usize::from(cpu);
        while self.cpus.len() <= index {
            self.cpus
                .push((self.initial.clone(), Privilege::Supervisor));
        }
        &mut self.cpus[index]
    }
}
