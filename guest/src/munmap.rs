//! The `munmap` scenario: what taking a mapping away costs.
//!
//! One anonymous area is filled, and its middle taken away by one call; the region of interest
//! `munmap` is the call. With a `pad`, pages of the same area stay mapped on either side: then tables
//! stay, and groups and leaves that the ends cut are taken apart.

use crate::image::{Image, image};
use crate::scenario::{Axis, AxisKind, Scenario, number};

const AXES: &[Axis] = &[
    Axis {
        key: "size",
        about: "bytes taken away, whole pages",
        kind: AxisKind::Size {
            min: 4096,
            max: 64 << 30,
            unit: 4096,
        },
        default: "256K",
        arch: None,
    },
    Axis {
        key: "pad",
        about: "bytes of the area that stay mapped on either side, whole pages",
        kind: AxisKind::Size {
            min: 0,
            max: 1 << 30,
            unit: 4096,
        },
        default: "0K",
        arch: None,
    },
    Axis {
        key: "folio",
        about: "memory comes in pieces of",
        kind: AxisKind::Choice(&[
            ("4K", "single pages"),
            ("64K", "16 pages; a contiguous group on aarch64"),
            ("2M", "2 MiB leaves where they fit"),
        ]),
        default: "4K",
        arch: None,
    },
    Axis {
        key: "threads",
        about: "what the other CPUs do",
        kind: AxisKind::Choice(&[
            ("none", "nothing; they never saw the address space"),
            ("spin", "run user code of the same address space"),
            ("lazy", "idle with the address space still loaded"),
        ]),
        default: "none",
        arch: None,
    },
    Axis {
        key: "cpus",
        about: "CPUs of the machine",
        kind: AxisKind::Count { min: 1, max: 256 },
        default: "1",
        arch: None,
    },
];

const IMAGE: Image = image!("munmap");

/// Taking a mapping away: `size=`, `folio=4K,64K,2M`, `threads=none,spin`.
pub const MUNMAP: Scenario = Scenario {
    name: "munmap",
    about: "take a mapping away, and the tables that become empty",
    axes: AXES,
    features: &["tlbirange", "ttl", "repeat_tlbi", "bbml2_noabort", "pcid"],
    elf: |arch| IMAGE.elf(arch),
    regions: &["munmap"],
    data: |params| number(params, "size", 256 << 10) + 2 * number(params, "pad", 0),
};
