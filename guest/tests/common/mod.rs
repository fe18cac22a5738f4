//! The kernel's mechanisms built for the host.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What a run reports, by name.
pub type Counts = BTreeMap<String, u64>;

/// An executable that carries out one move and reports what it did.
pub struct HostKernel {
    program: &'static Path,
}

impl HostKernel {
    /// The mechanisms with aarch64 descriptors and maintenance.
    pub fn aarch64() -> Self {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        let program = PROGRAM.get_or_init(|| build("aarch64", &["contpte.c", "tlb.c"]));
        HostKernel { program }
    }

    /// The mechanisms with x86 entries and maintenance.
    pub fn x86() -> Self {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        let program = PROGRAM.get_or_init(|| build("x86", &["tlb.c"]));
        HostKernel { program }
    }

    /// Runs it with `key=value` words.
    pub fn run<S: AsRef<OsStr>>(&self, words: &[S]) -> Counts {
        let output = Command::new(self.program).args(words).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        text.lines()
            .map(|line| {
                let (name, value) = line.split_once(' ').unwrap();
                (name.to_owned(), value.parse().unwrap())
            })
            .collect()
    }
}

fn build(arch: &str, arch_sources: &[&str]) -> PathBuf {
    let kernel = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("host-kernel-{arch}"));
    let mut sources = vec![
        kernel.join("core/smp.c"),
        kernel.join("host/main.c"),
        kernel.join("host/record.c"),
        kernel.join(format!("host/{arch}.c")),
    ];
    for dir in ["mm", "mremap"] {
        for entry in kernel.join(dir).read_dir().unwrap() {
            sources.push(entry.unwrap().path());
        }
    }
    sources.extend(
        arch_sources
            .iter()
            .map(|name| kernel.join("arch").join(arch).join(name)),
    );
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let output = Command::new(clang)
        .args(["-std=gnu11", "-O1", "-DHOST", "-ffreestanding"])
        .args(["-fno-builtin", "-fno-strict-aliasing", "-w"])
        // The host's headers stand before the architecture's of the same name.
        .arg("-I")
        .arg(kernel.join("host/include"))
        .arg("-I")
        .arg(kernel.join("include"))
        .arg("-I")
        .arg(kernel.join("arch").join(arch).join("include"))
        .args(sources)
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}
