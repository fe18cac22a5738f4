//! Runs QEMU once over a RAM file.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::ram::Ram;

/// An emulated machine: program and options. The RAM is added by [`Machine::run`].
pub struct Machine {
    /// The emulator's program.
    pub program: &'static str,
    /// The machine type and its options.
    pub machine: &'static str,
    /// The CPU model and its features.
    pub cpu: &'static str,
    /// Further options.
    pub options: &'static [&'static str],
}

impl Machine {
    /// The emulator's first line about itself.
    ///
    /// # Panics
    /// If it cannot be started: this test has no other use.
    pub fn version(&self) -> String {
        let output = Command::new(self.program)
            .arg("--version")
            .output()
            .unwrap_or_else(|error| {
                panic!("{}: {error}: `make test-long` installs it", self.program)
            });
        let text = String::from_utf8_lossy(&output.stdout);
        text.lines().next().unwrap_or_default().to_owned()
    }

    /// Boots `kernel` with `ram` and waits until it powers off.
    ///
    /// # Errors
    /// How the emulator failed, in its own words.
    pub fn run(&self, kernel: &Path, ram: &Ram) -> Result<(), String> {
        let output = Command::new(self.program)
            .args(["-nodefaults", "-no-reboot", "-display", "none"])
            .args(["-cpu", self.cpu, "-m"])
            .arg(format!("{}M", ram.size() >> 20))
            .arg("-M")
            .arg(format!("{},accel=tcg,memory-backend=ram", self.machine))
            .arg("-object")
            .arg(format!(
                "memory-backend-file,id=ram,share=on,size={},mem-path={}",
                ram.size(),
                ram.path().display()
            ))
            .arg("-kernel")
            .arg(kernel)
            .args(self.options)
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", self.program));
        if output.status.success() {
            Ok(())
        } else {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(format!("{}: {}: {text}", self.program, output.status))
        }
    }
}
