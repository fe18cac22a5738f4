//! The `mremap` scenario: what moving a mapping costs at each table level.
//!
//! One anonymous area is filled, marked, moved by one call and checked; the
//! region of interest `mremap` is the call. Offsets are from a 1 GiB boundary:
//! `pud` 0, `pmd` 2 MiB, `pte` one page, and `+N` that many pages more. So
//! `src=pte dst=pte+1` moves between different offsets and only single entries
//! can move, `src=pte dst=pte` is what `level=realign` can extend.

use crate::image::{ArchName, Image, image};
use crate::scenario::{Axis, AxisKind, Scenario, number};

const OFFSETS: AxisKind = AxisKind::Choice(&[
    ("pud", "on a 1 GiB boundary"),
    ("pmd", "2 MiB behind a 1 GiB boundary"),
    ("pmd+1", "2 MiB and one page behind it"),
    ("pte", "one page behind it"),
    ("pte+1", "two pages behind it"),
    ("pte+2", "three pages behind it"),
]);

const AXES: &[Axis] = &[
    Axis {
        key: "level",
        about: "highest table level whose entries are moved",
        kind: AxisKind::Choice(&[
            ("pte", "pages one by one; 2 MiB leaves are split first"),
            (
                "hpage_pmd",
                "2 MiB leaves as a whole, pages one by one (before Linux 5.0)",
            ),
            (
                "pmd",
                "2 MiB leaves and tables of pages as a whole (HAVE_MOVE_PMD)",
            ),
            (
                "pud",
                "also tables of 2 MiB entries as a whole (HAVE_MOVE_PUD)",
            ),
            (
                "realign",
                "as pud, and extended down to whole tables (Linux 6.7 and later)",
            ),
        ]),
        default: "pud",
        arch: None,
    },
    Axis {
        key: "size",
        about: "bytes moved, whole pages",
        kind: AxisKind::Size {
            min: 4096,
            max: 127 << 30,
            unit: 4096,
        },
        default: "1G",
        arch: None,
    },
    Axis {
        key: "src",
        about: "offset of the old address",
        kind: OFFSETS,
        default: "pud",
        arch: None,
    },
    Axis {
        key: "dst",
        about: "offset of the new address",
        kind: OFFSETS,
        default: "pud",
        arch: None,
    },
    Axis {
        key: "flush",
        about: "when old translations are removed",
        kind: AxisKind::Choice(&[
            (
                "extent",
                "behind every extent, with the architecture's threshold (Linux)",
            ),
            ("end", "once, for the whole range, at the end"),
            (
                "extent_no_threshold",
                "behind every extent, page by page whatever its length",
            ),
        ]),
        default: "extent",
        arch: None,
    },
    Axis {
        key: "map",
        about: "kind of anonymous memory",
        kind: AxisKind::Choice(&[
            ("private", "pages belong to the mapping"),
            ("shared", "pages belong to an object that outlives it"),
        ]),
        default: "private",
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
        key: "levels",
        about: "table levels of user addresses",
        kind: AxisKind::Count { min: 3, max: 4 },
        default: "4",
        arch: Some(ArchName::Aarch64),
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
        key: "repeat",
        about: "calls, there and back: the first is cold, others find the tables of the one before",
        kind: AxisKind::Count { min: 1, max: 64 },
        default: "1",
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

const IMAGE: Image = image!("mremap");

/// Moving a mapping: `level=pte,pmd,pud` and what surrounds it.
pub const MREMAP: Scenario = Scenario {
    name: "mremap",
    about: "move a mapping by table entries of different levels",
    axes: AXES,
    features: &["tlbirange", "ttl", "repeat_tlbi", "bbml2_noabort", "pcid"],
    elf: |arch| IMAGE.elf(arch),
    regions: &["mremap"],
    data: |params| number(params, "size", 1 << 30),
};
