//! What an experiment offers: its axes, and the guest that carries it out.

use crate::image::ArchName;

/// A guest program and the choices it understands.
///
/// Each axis becomes one guest parameter of the same name; sizes and counts are
/// passed as decimal text, choices as they are written.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// The word that names it on the command line.
    pub name: &'static str,
    /// One line for lists.
    pub about: &'static str,
    /// What can be varied, in the order in which it is shown.
    pub axes: &'static [Axis],
    /// Optional features of the machine that the guest acts on, by the names that profiles use.
    /// Any other leaves what it does unchanged.
    pub features: &'static [&'static str],
    /// The ELF image for an architecture.
    pub elf: fn(ArchName) -> &'static [u8],
    /// Names of the regions of interest that the guest marks.
    pub regions: &'static [&'static str],
    /// Bytes of RAM a run needs beside what the kernel itself takes.
    pub(crate) data: fn(&[(String, String)]) -> u64,
}

/// RAM that a kernel with its stacks and per-CPU data takes at most, in bytes.
const KERNEL_RAM: u64 = 64 << 20;

impl Scenario {
    /// The axis called `key`.
    pub fn axis(&self, key: &str) -> Option<&'static Axis> {
        self.axes.iter().find(|axis| axis.key == key)
    }

    /// RAM in bytes that a run with these parameters needs: a multiple of 2 MiB.
    /// Parameters that are absent or no numbers count with their defaults.
    pub fn ram(&self, params: &[(String, String)]) -> u64 {
        let data = (self.data)(params);
        // Frame descriptors take 16 bytes a page, tables 8 on either side.
        data.saturating_add(data / 64)
            .saturating_add(KERNEL_RAM)
            .next_multiple_of(2 << 20)
    }
}

/// One thing that can be varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Axis {
    /// Its name, and that of the guest parameter.
    pub key: &'static str,
    /// One line for lists.
    pub about: &'static str,
    /// Which values there are.
    pub kind: AxisKind,
    /// The value when none is given, as it would be written.
    pub default: &'static str,
    /// The only architecture that has it; `None` for all.
    pub arch: Option<ArchName>,
}

/// Which values an axis has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisKind {
    /// One of these words, each with what it means.
    Choice(&'static [(&'static str, &'static str)]),
    /// Bytes, within the limits.
    Size {
        /// Smallest value in bytes.
        min: u64,
        /// Largest value in bytes.
        max: u64,
        /// Bytes that every value is a multiple of; not 0.
        unit: u64,
    },
    /// A number, within the limits.
    Count {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
    },
}

/// Looks a scenario up by name.
pub fn find(name: &str) -> Option<&'static Scenario> {
    ALL.iter().copied().find(|it| it.name == name)
}

/// Every scenario.
pub const ALL: &[&Scenario] = &[
    &crate::chase::CHASE,
    &crate::fork::FORK,
    &crate::memmap::MEMMAP,
    &crate::mprotect::MPROTECT,
    &crate::mremap::MREMAP,
    &crate::munmap::MUNMAP,
];

/// The number a parameter holds, or `default`.
pub(crate) fn number(params: &[(String, String)], key: &str, default: u64) -> u64 {
    params
        .iter()
        .find(|(name, _)| name == key)
        .and_then(|(_, text)| text.parse().ok())
        .unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_of_its_axis() {
        for scenario in ALL {
            for axis in scenario.axes {
                let known = match axis.kind {
                    AxisKind::Choice(choices) => choices.iter().any(|(it, _)| *it == axis.default),
                    AxisKind::Count { min, max } => axis
                        .default
                        .parse::<u64>()
                        .is_ok_and(|it| (min..=max).contains(&it)),
                    AxisKind::Size { min, max, unit } => {
                        assert!(min.is_multiple_of(unit) && max.is_multiple_of(unit));
                        axis.default.ends_with(['K', 'M', 'G'])
                    }
                };
                assert!(known, "{} {}={}", scenario.name, axis.key, axis.default);
            }
        }
    }

    #[test]
    fn values_fit_the_parameter_block() {
        // 24 bytes of key and 40 of text, both with a NUL.
        for axis in ALL.iter().flat_map(|it| it.axes) {
            assert!(axis.key.len() < 24, "{}", axis.key);
            if let AxisKind::Choice(choices) = axis.kind {
                for (value, _) in choices {
                    assert!(value.len() < 40, "{}={value}", axis.key);
                }
            }
        }
    }

    #[test]
    fn ram_grows_with_the_size_that_is_moved() {
        let one = [("size".to_owned(), (1u64 << 30).to_string())];
        let ram = crate::mremap::MREMAP.ram(&one);
        assert!(ram > 1 << 30 && ram < (1 << 30) + (128 << 20));
        assert_eq!(ram % (2 << 20), 0);
    }
}
