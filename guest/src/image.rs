//! The built ELF images.

/// The architectures every guest is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArchName {
    /// AArch64 (ELF machine 183).
    Aarch64,
    /// x86-64 (ELF machine 62).
    X86_64,
}

impl ArchName {
    /// Both architectures.
    pub const ALL: [ArchName; 2] = [ArchName::Aarch64, ArchName::X86_64];

    /// The name used in profiles and axes.
    pub fn name(self) -> &'static str {
        match self {
            ArchName::Aarch64 => "aarch64",
            ArchName::X86_64 => "x86_64",
        }
    }
}

/// One program, for both architectures.
#[derive(Debug, Clone, Copy)]
pub struct Image {
    /// Name of the source file under `kernel/programs`.
    pub name: &'static str,
    aarch64: &'static [u8],
    x86_64: &'static [u8],
}

impl Image {
    /// The ELF file for `arch`.
    pub fn elf(&self, arch: ArchName) -> &'static [u8] {
        match arch {
            ArchName::Aarch64 => self.aarch64,
            ArchName::X86_64 => self.x86_64,
        }
    }
}

macro_rules! image {
    ($name:literal) => {
        $crate::image::Image::new(
            $name,
            include_bytes!(concat!(env!("OUT_DIR"), "/aarch64/", $name, ".elf")),
            include_bytes!(concat!(env!("OUT_DIR"), "/x86/", $name, ".elf")),
        )
    };
}
pub(crate) use image;

impl Image {
    pub(crate) const fn new(
        name: &'static str,
        aarch64: &'static [u8],
        x86_64: &'static [u8],
    ) -> Self {
        Image {
            name,
            aarch64,
            x86_64,
        }
    }
}
