//! The `memmap` scenario: what the descriptors of physical pages cost at boot.
//!
//! The machine that is described (`memory`, `hole`) is not the one that runs: only its descriptors
//! exist. The region of interest `boot` is all of it, and its stages are regions too: `populate` maps
//! the descriptors' memory, and zeroes it when that comes early; `init` writes first contents; `free`
//! hands pages to free lists. One CPU does all of it.

use crate::image::{Image, image};
use crate::scenario::{Axis, AxisKind, Scenario, number};

const AXES: &[Axis] = &[
    Axis {
        key: "zeroing",
        about: "when descriptors become zero",
        kind: AxisKind::Choice(&[
            (
                "early_memset",
                "all of them at once, when their memory is allocated",
            ),
            (
                "in_init_memset",
                "each by a call, right before its first contents",
            ),
            (
                "in_init_stores",
                "each by stores in line, right before its first contents",
            ),
            (
                "none",
                "never: only right when memory is zero from the start",
            ),
        ]),
        default: "in_init_memset",
        arch: None,
    },
    Axis {
        key: "store",
        about: "stores that early_memset and in_init_stores zero with",
        kind: AxisKind::Choice(&[
            ("8", "8 bytes"),
            ("16", "16 bytes: STP, MOVUPS"),
            ("line", "64 bytes by one instruction: DC ZVA, REP STOS"),
        ]),
        default: "8",
        arch: None,
    },
    Axis {
        key: "memory",
        about: "bytes of the described machine, without its hole",
        kind: AxisKind::Size {
            min: 64 << 20,
            max: 16 << 30,
            unit: 4096,
        },
        default: "1G",
        arch: None,
    },
    Axis {
        key: "hole",
        about: "bytes in the middle that have descriptors but no memory",
        kind: AxisKind::Size {
            min: 0,
            max: 1 << 30,
            unit: 4096,
        },
        default: "0K",
        arch: None,
    },
    Axis {
        key: "unavailable",
        about: "descriptors of the hole",
        kind: AxisKind::Choice(&[
            ("zeroed", "become zero behind the others"),
            ("left", "stay as they are: a fault when memory was not zero"),
        ]),
        default: "zeroed",
        arch: None,
    },
    Axis {
        key: "mapping",
        about: "leaves that map the descriptors",
        kind: AxisKind::Choice(&[("2M", "2 MiB"), ("4K", "single pages")]),
        default: "2M",
        arch: None,
    },
    Axis {
        key: "struct_page",
        about: "bytes of a descriptor",
        kind: AxisKind::Choice(&[("56", ""), ("64", "one line"), ("72", ""), ("80", "")]),
        default: "64",
        arch: None,
    },
    Axis {
        key: "fill",
        about: "what memory holds before",
        kind: AxisKind::Choice(&[("zero", "zero"), ("poison", "other bytes everywhere")]),
        default: "zero",
        arch: None,
    },
];

const IMAGE: Image = image!("memmap");

/// Page descriptors at boot: `zeroing=early_memset,in_init_memset`, `memory=`, `mapping=2M,4K`.
pub const MEMMAP: Scenario = Scenario {
    name: "memmap",
    about: "initialise the descriptors of physical pages, as at boot",
    axes: AXES,
    features: &[],
    elf: |arch| IMAGE.elf(arch),
    regions: &["boot", "populate", "init", "free"],
    // Descriptors and the rounding to 2 MiB at either end.
    data: |params| {
        let pages = (number(params, "memory", 1 << 30) + number(params, "hole", 0)) / 4096;
        pages * number(params, "struct_page", 64) + (4 << 20)
    },
};
