//! Builds the guest programs: each file of `kernel/programs` is linked with the
//! kernel into one ELF an architecture, and so is the server of `walkserver`, which
//! the long test of the walkers runs under QEMU. Needs clang and ld.lld, nothing else.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// One target of the C sources.
struct Target {
    /// Directory below `kernel/arch` and `walkserver`.
    name: &'static str,
    triple: &'static str,
    flags: &'static [&'static str],
}

const TARGETS: [Target; 2] = [
    Target {
        name: "aarch64",
        triple: "aarch64-none-elf",
        flags: &[
            "-march=armv8.2-a",
            "-mgeneral-regs-only",
            "-mstrict-align",
            "-fno-pic",
        ],
    },
    Target {
        name: "x86",
        triple: "x86_64-none-elf",
        // Position independent, so that the early code also runs untranslated.
        flags: &[
            "-mno-red-zone",
            "-mno-sse",
            "-mno-mmx",
            "-mgeneral-regs-only",
            "-fpie",
            "-fdirect-access-external-data",
        ],
    },
];

const COMMON_FLAGS: [&str; 13] = [
    "-std=gnu11",
    "-O2",
    "-g",
    "-ffreestanding",
    "-fno-builtin",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fno-strict-aliasing",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unused-parameter",
    "-nostdinc",
];

/// Directories of sources that every program contains.
const KERNEL_DIRS: [&str; 3] = ["core", "mm", "mremap"];

/// Directories of mechanisms, each with one for the architecture below it where they differ. A program contains the
/// files that it uses, so that a new mechanism does not move the code of the others.
const MECHANISM_DIRS: [&str; 3] = ["fork", "memmap", "mprotect"];

fn main() {
    let root = PathBuf::from(var("CARGO_MANIFEST_DIR"));
    println!("cargo::rerun-if-changed=kernel");
    println!("cargo::rerun-if-changed=walkserver");
    println!("cargo::rerun-if-env-changed=CLANG");
    println!("cargo::rerun-if-env-changed=LD_LLD");
    let tools = Tools::find();
    let out = PathBuf::from(var("OUT_DIR"));
    for target in &TARGETS {
        let build = Build {
            target,
            root: &root,
            out: out.join(target.name),
            tools: &tools,
        };
        build.programs();
        build.walk_server();
    }
}

/// Names (or paths) of the two programs this needs.
struct Tools {
    clang: String,
    linker: String,
}

impl Tools {
    fn find() -> Self {
        Tools {
            clang: Self::pick(
                "CLANG",
                &["clang", "clang-19", "clang-16", "clang-14"],
                "clang",
            ),
            linker: Self::pick(
                "LD_LLD",
                &["ld.lld", "ld.lld-19", "ld.lld-16", "ld.lld-14"],
                "lld",
            ),
        }
    }

    fn pick(variable: &str, names: &[&str], package: &str) -> String {
        if let Ok(name) = env::var(variable) {
            return name;
        }
        let works = |name: &&&str| Command::new(name).arg("--version").output().is_ok();
        match names.iter().find(works) {
            Some(name) => (*name).to_owned(),
            None => fail(&format!(
                "{} not found: install the package `{package}` (apt-get install {package}) or set {variable}",
                names[0]
            )),
        }
    }
}

struct Build<'a> {
    target: &'a Target,
    root: &'a Path,
    out: PathBuf,
    tools: &'a Tools,
}

impl Build<'_> {
    fn programs(&self) {
        if let Err(error) = fs::create_dir_all(&self.out) {
            fail(&format!("{}: {error}", self.out.display()));
        }
        let kernel = self.root.join("kernel");
        let arch = kernel.join("arch").join(self.target.name);
        let includes = [kernel.join("include"), arch.join("include")];
        let script = arch.join("link.ld");
        let mut objects = Vec::new();
        for dir in KERNEL_DIRS
            .map(|dir| kernel.join(dir))
            .iter()
            .chain([&arch])
        {
            for source in sources(dir) {
                objects.push(self.compile(&source, &includes));
            }
        }
        let mut library = Vec::new();
        for dir in MECHANISM_DIRS.map(|dir| kernel.join(dir)) {
            let arch = dir.join(self.target.name);
            let more = if arch.is_dir() {
                sources(&arch)
            } else {
                Vec::new()
            };
            for source in sources(&dir).iter().chain(&more) {
                library.push(self.compile(source, &includes));
            }
        }
        for source in sources(&kernel.join("programs")) {
            let mut objects = objects.clone();
            objects.push(self.compile(&source, &includes));
            self.link(
                source.file_stem().unwrap_or_default(),
                &script,
                &objects,
                &library,
            );
        }
    }

    fn walk_server(&self) {
        let dir = self.root.join("walkserver").join(self.target.name);
        let objects: Vec<PathBuf> = sources(&dir)
            .iter()
            .map(|source| self.compile(source, &[]))
            .collect();
        self.link(
            OsStr::new("walkserver"),
            &dir.join("link.ld"),
            &objects,
            &[],
        );
    }

    fn compile(&self, source: &Path, includes: &[PathBuf]) -> PathBuf {
        let relative = source.strip_prefix(self.root).unwrap_or(source);
        let object = relative.to_string_lossy().replace(['/', '.'], "_") + ".o";
        let object = self.out.join(object);
        let mut command = Command::new(&self.tools.clang);
        command
            .arg(format!("--target={}", self.target.triple))
            .args(COMMON_FLAGS)
            .args(self.target.flags);
        for include in includes {
            command.arg("-I").arg(include);
        }
        command
            // Paths in debug information do not depend on where this was built.
            .arg(format!("-ffile-prefix-map={}/=", self.root.display()))
            .arg("-c")
            .arg(source)
            .arg("-o")
            .arg(&object);
        run(&mut command);
        object
    }

    /// Links `objects`, and those of `library` that they need.
    fn link(&self, name: &OsStr, script: &Path, objects: &[PathBuf], library: &[PathBuf]) {
        let mut command = Command::new(&self.tools.linker);
        command
            .args([
                "-static",
                "--build-id=none",
                "-z",
                "max-page-size=4096",
                "-T",
            ])
            .arg(script)
            .args(objects)
            .arg("--start-lib")
            .args(library)
            .arg("--end-lib")
            .arg("-o")
            .arg(self.out.join(name).with_extension("elf"));
        run(&mut command);
    }
}

/// C and assembly files of a directory, by name.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => fail(&format!("{}: {error}", dir.display())),
    };
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "c" || e == "S"))
        .collect();
    files.sort();
    files
}

fn run(command: &mut Command) {
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => fail(&format!(
            "{command:?}\n{}",
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(error) => fail(&format!("{:?}: {error}", command.get_program())),
    }
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| fail(&format!("cargo sets no {name}")))
}

fn fail(message: &str) -> ! {
    for line in message.lines() {
        println!("cargo::error={line}");
    }
    exit(1);
}
