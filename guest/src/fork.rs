//! The `fork` scenario: what copying an address space costs, and what is paid later.
//!
//! One anonymous area is filled, marked and copied to a child; the region of interest `fork` is the
//! copy. With `touch=shared` the parent then writes to every page while the child has them too
//! (region `retouch`), with `touch=alone` after the child's mapping has ended (region `exit`). Parent
//! and child check their data.

use crate::image::{ArchName, Image, image};
use crate::scenario::{Axis, AxisKind, Scenario, number};

const AXES: &[Axis] = &[
    Axis {
        key: "wrprotect",
        about: "how the parent's entries lose write access",
        kind: AxisKind::Choice(&[
            ("none", "no contiguous groups anywhere: entries one by one"),
            (
                "per_pte",
                "each entry for itself: its group is unfolded, and folded again behind the last",
            ),
            (
                "per_pte_no_refold",
                "as per_pte, but groups are not folded again",
            ),
            (
                "whole_range",
                "whole groups keep their bit, only parts are unfolded; single pages as in per_pte",
            ),
            (
                "whole_range_uniform",
                "as whole_range, without a case for single pages",
            ),
        ]),
        default: "whole_range",
        arch: Some(ArchName::Aarch64),
    },
    Axis {
        key: "size",
        about: "bytes of the area, whole pages",
        kind: AxisKind::Size {
            min: 4096,
            max: 128 << 30,
            unit: 4096,
        },
        default: "128M",
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
        key: "touch",
        about: "who writes to the pages after the copy",
        kind: AxisKind::Choice(&[
            ("none", "nobody"),
            (
                "shared",
                "the parent, every page, while the child has them too",
            ),
            (
                "alone",
                "the parent, every page, after the child's are gone",
            ),
        ]),
        default: "none",
        arch: None,
    },
    Axis {
        key: "threads",
        about: "what the other CPUs do",
        kind: AxisKind::Choice(&[
            ("none", "nothing; they never saw the address space"),
            ("spin", "run user code of the parent"),
            ("lazy", "idle with the parent's address space still loaded"),
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

const IMAGE: Image = image!("fork");

/// Copying an address space: `wrprotect=per_pte,whole_range` and what surrounds it.
pub const FORK: Scenario = Scenario {
    name: "fork",
    about: "copy an address space, with and without contiguous groups",
    axes: AXES,
    features: &["tlbirange", "ttl", "repeat_tlbi", "bbml2_noabort", "pcid"],
    elf: |arch| IMAGE.elf(arch),
    regions: &["fork", "retouch", "exit"],
    // The area, and copies of its pages.
    data: |params| number(params, "size", 128 << 20).saturating_mul(2),
};
