//! The `mprotect` scenario: what changing access costs.
//!
//! One anonymous area is filled; its middle becomes read only (region of interest `protect`),
//! writable again (`unprotect`), and every page of it is written (`retouch`). With a `pad`, pages on
//! either side keep their access: groups and leaves that the ends cut are taken apart.

use crate::image::{ArchName, Image, image};
use crate::scenario::{Axis, AxisKind, Scenario, number};

const AXES: &[Axis] = &[
    Axis {
        key: "change",
        about: "how entries in contiguous groups change",
        kind: AxisKind::Choice(&[
            (
                "unfold_each",
                "each entry for itself: its group is unfolded, and folded again behind the last",
            ),
            (
                "batched",
                "whole groups together, which keep their bit; only parts are unfolded",
            ),
        ]),
        default: "unfold_each",
        arch: Some(ArchName::Aarch64),
    },
    Axis {
        key: "size",
        about: "bytes that change, whole pages",
        kind: AxisKind::Size {
            min: 4096,
            max: 64 << 30,
            unit: 4096,
        },
        default: "4M",
        arch: None,
    },
    Axis {
        key: "pad",
        about: "bytes of the area that keep their access on either side, whole pages",
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
        default: "64K",
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

const IMAGE: Image = image!("mprotect");

/// Changing access: `change=unfold_each,batched`, `size=`, `folio=4K,64K,2M`.
pub const MPROTECT: Scenario = Scenario {
    name: "mprotect",
    about: "make memory read only and writable again",
    axes: AXES,
    features: &["tlbirange", "ttl", "repeat_tlbi", "bbml2_noabort", "pcid"],
    elf: |arch| IMAGE.elf(arch),
    regions: &["protect", "unprotect", "retouch"],
    data: |params| number(params, "size", 4 << 20) + 2 * number(params, "pad", 0),
};
