//! The `chase` scenario: what one access takes when each depends on the one before.
//!
//! The guest links the slots of an area into one random ring and follows it; the region of
//! interest `chase` is `loads` links, after a lap that warms TLBs and caches up. The same ring is
//! followed natively by the bench `native`.

use crate::image::{Image, image};
use crate::scenario::{Axis, AxisKind, Scenario, number};

const AXES: &[Axis] = &[
    Axis {
        key: "footprint",
        about: "bytes of the area, whole pages",
        kind: AxisKind::Size {
            min: 4096,
            max: 64 << 30,
            unit: 4096,
        },
        default: "1M",
        arch: None,
    },
    Axis {
        key: "folio",
        about: "memory comes in pieces of",
        kind: AxisKind::Choice(&[
            ("4K", "single pages"),
            ("64K", "16 pages; a contiguous group on aarch64"),
            ("2M", "2 MiB leaves"),
        ]),
        default: "4K",
        arch: None,
    },
    Axis {
        key: "touch",
        about: "what is linked",
        kind: AxisKind::Choice(&[
            ("page", "one line of each 4 KiB: the TLB fills up"),
            ("line", "every line of 64 bytes: the caches fill up"),
        ]),
        default: "page",
        arch: None,
    },
    Axis {
        key: "loads",
        about: "links followed in the region of interest, rounded up to 16",
        kind: AxisKind::Count {
            min: 1,
            max: 1 << 40,
        },
        default: "16384",
        arch: None,
    },
    Axis {
        key: "seed",
        about: "which random ring",
        kind: AxisKind::Count {
            min: 0,
            max: u64::MAX,
        },
        default: "1",
        arch: None,
    },
];

const IMAGE: Image = image!("chase");

/// The pointer chase: `footprint=`, `folio=4K,64K,2M`.
pub const CHASE: Scenario = Scenario {
    name: "chase",
    about: "follow a random ring of dependent loads through an area",
    axes: AXES,
    features: &[],
    elf: |arch| IMAGE.elf(arch),
    regions: &["chase"],
    data: |params| number(params, "footprint", 1 << 20).next_multiple_of(2 << 20),
};
