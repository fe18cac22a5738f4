//! The arguments of commands that look into memory images.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use mmuscope_emu::inspect::{ArchName, Given, Image};

use super::facts;

/// An image, and the registers to walk it with.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Memory: a raw file (QEMU pmemsave), an ELF core (dump-guest-memory, vmcore), or a
    /// recording (.trc.zst)
    #[arg(long, value_name = "FILE")]
    pub image: PathBuf,
    /// aarch64 or x86_64; cores and recordings say it themselves
    #[arg(long, value_parser = arch)]
    pub arch: Option<ArchName>,
    /// Physical address of a raw image's first byte [default: 0]
    #[arg(long, value_name = "PA", value_parser = facts::number)]
    base: Option<u64>,
    /// In a recording: the moment after this many records [default: the end]
    #[arg(long, value_name = "RECORD")]
    at: Option<u64>,
    /// In a recording: the CPU whose registers count
    #[arg(long, default_value_t = 0)]
    cpu: u8,
    /// TTBR0_EL1
    #[arg(long, value_parser = facts::number, help_heading = "AArch64 registers")]
    ttbr0: Option<u64>,
    /// TTBR1_EL1
    #[arg(long, value_parser = facts::number, help_heading = "AArch64 registers")]
    ttbr1: Option<u64>,
    /// TCR_EL1
    #[arg(long, value_parser = facts::number, help_heading = "AArch64 registers")]
    tcr: Option<u64>,
    /// SCTLR_EL1 [default: the image's, or translation on]
    #[arg(long, value_parser = facts::number, help_heading = "AArch64 registers")]
    sctlr: Option<u64>,
    /// MAIR_EL1 [default: the image's, or Linux's]
    #[arg(long, value_parser = facts::number, help_heading = "AArch64 registers")]
    mair: Option<u64>,
    /// PSTATE.PAN is set
    #[arg(long, help_heading = "AArch64 registers")]
    pan: bool,
    /// CR3
    #[arg(long, value_parser = facts::number, help_heading = "x86-64 registers")]
    cr3: Option<u64>,
    /// CR0 [default: the image's, or paging with WP]
    #[arg(long, value_parser = facts::number, help_heading = "x86-64 registers")]
    cr0: Option<u64>,
    /// CR4 [default: the image's, or PAE and PGE]
    #[arg(long, value_parser = facts::number, help_heading = "x86-64 registers")]
    cr4: Option<u64>,
    /// EFER [default: long mode with NX]
    #[arg(long, value_parser = facts::number, help_heading = "x86-64 registers")]
    efer: Option<u64>,
    /// PKRU [default: 0]
    #[arg(long, value_parser = facts::number32, help_heading = "x86-64 registers")]
    pkru: Option<u32>,
    /// RFLAGS.AC is set
    #[arg(long, help_heading = "x86-64 registers")]
    ac: bool,
}

fn arch(text: &str) -> Result<ArchName, String> {
    match text {
        "aarch64" | "arm64" => Ok(ArchName::Aarch64),
        "x86_64" | "amd64" => Ok(ArchName::X86_64),
        _ => Err("expected aarch64 or x86_64".to_owned()),
    }
}

/// An opened image and what is known about its registers.
pub struct Opened {
    pub image: Image,
    pub given: Given,
    pub arch: ArchName,
}

impl Arguments {
    /// Opens the image and settles the architecture.
    pub fn open(&self) -> anyhow::Result<Opened> {
        let name = self.image.display().to_string();
        let image = Image::open(&self.image, self.base, self.at, self.cpu)
            .with_context(|| format!("`{name}`"))?;
        let arch = match (self.arch, image.arch()) {
            (Some(asked), Some(found)) if asked != found => bail!(
                "--arch: `{name}` is of {}, found {}",
                found.name(),
                asked.name()
            ),
            (Some(arch), _) | (None, Some(arch)) => arch,
            (None, None) => bail!(
                "`{name}` does not say its architecture: expected --arch aarch64 or --arch x86_64"
            ),
        };
        let arm = [
            ("--ttbr0", self.ttbr0),
            ("--ttbr1", self.ttbr1),
            ("--tcr", self.tcr),
            ("--sctlr", self.sctlr),
            ("--mair", self.mair),
            ("--pan", self.pan.then_some(1)),
        ];
        let x86 = [
            ("--cr3", self.cr3),
            ("--cr0", self.cr0),
            ("--cr4", self.cr4),
            ("--efer", self.efer),
            ("--pkru", self.pkru.map(u64::from)),
            ("--ac", self.ac.then_some(1)),
        ];
        let foreign = match arch {
            ArchName::Aarch64 => x86,
            ArchName::X86_64 => arm,
        };
        if let Some((option, _)) = foreign.iter().find(|(_, value)| value.is_some()) {
            bail!(
                "{option}: no register of {}, which `{name}` is of",
                arch.name()
            );
        }
        let own = Given {
            arch: Some(arch),
            sctlr: self.sctlr,
            tcr: self.tcr,
            ttbr0: self.ttbr0,
            ttbr1: self.ttbr1,
            mair: self.mair,
            pan: self.pan.then_some(true),
            cr0: self.cr0,
            cr3: self.cr3,
            cr4: self.cr4,
            efer: self.efer,
            pkru: self.pkru.map(u64::from),
            ac: self.ac.then_some(true),
        };
        let given = own.or(image.given());
        Ok(Opened { image, given, arch })
    }
}
