//! AArch64's names.

use super::{Access, Explain, Field, Half, Leaf, Level, PageSize, Register, Va};
use crate::aarch64::{
    Aarch64, Context, Fault, FaultStage, Format, Geometry, Permissions, Sctlr, TableAttrs, Tcr,
};
use crate::access::Privilege;
use crate::arch::{Arch, Descriptor};
use crate::explain::field::extract;

impl Explain for Aarch64 {
    fn registers(context: &Context, half: Half) -> Vec<Register> {
        let tcr = Tcr::new(context.tcr);
        let lower = half == Half::Lower;
        let pick = |low, high| if lower { low } else { high };
        let raw = context.tcr;
        let geometry = Geometry::new(context, half);
        let size = geometry.map_or_else(
            || "out of range: every access faults".to_owned(),
            |it| {
                format!(
                    "{} address bits, walk begins at level {}",
                    it.input_bits(),
                    it.start().number()
                )
            },
        );
        let base = geometry.map_or(0, |it| it.root_base(context.ttbr(half)).raw());
        let size_low = pick(0, 16);
        let ttbr = context.ttbr(half);
        vec![
            Register {
                name: "SCTLR_EL1",
                value: context.sctlr,
                fields: vec![
                    Field::flag(
                        context.sctlr,
                        "EE",
                        25,
                        "tables are little-endian",
                        "tables are big-endian",
                    ),
                    Field::flag(
                        context.sctlr,
                        "WXN",
                        19,
                        "writable pages can be executable",
                        "writable pages are not executable",
                    ),
                    Field::flag(
                        context.sctlr,
                        "M",
                        0,
                        "translation is off",
                        "translation is on",
                    ),
                ],
            },
            Register {
                name: "TCR_EL1",
                value: raw,
                fields: vec![
                    Field::flag(
                        raw,
                        "DS",
                        59,
                        "48-bit addresses (4K, 16K granules)",
                        "52-bit addresses (LPA2)",
                    ),
                    Field::flag(
                        raw,
                        pick_name(lower, "HPD0", "HPD1"),
                        pick(41, 42),
                        "table permissions count",
                        "table permissions are ignored",
                    ),
                    Field::flag(
                        raw,
                        "HD",
                        40,
                        "software manages dirty state",
                        "hardware manages dirty state (with HA)",
                    ),
                    Field::flag(
                        raw,
                        "HA",
                        39,
                        "software manages the access flag",
                        "hardware sets the access flag",
                    ),
                    Field::flag(
                        raw,
                        pick_name(lower, "TBI0", "TBI1"),
                        pick(37, 38),
                        "the top byte counts",
                        "the top byte is ignored",
                    ),
                    Field::of(raw, "IPS", 34, 32, |_| {
                        format!(
                            "{}-bit output addresses",
                            Format::new(context, half).output_bits()
                        )
                    }),
                    Field::of(
                        raw,
                        pick_name(lower, "TG0", "TG1"),
                        pick(15, 31),
                        pick(14, 30),
                        |_| format!("granule of {}K", 1_u64 << (tcr.granule(half).shift() - 10)),
                    ),
                    Field::flag(raw, "A1", 22, "ASID from TTBR0_EL1", "ASID from TTBR1_EL1"),
                    Field::flag(
                        raw,
                        pick_name(lower, "EPD0", "EPD1"),
                        pick(7, 23),
                        "walks are made",
                        "no walk: a TLB miss faults",
                    ),
                    Field::of(
                        raw,
                        pick_name(lower, "T0SZ", "T1SZ"),
                        size_low + 5,
                        size_low,
                        |_| size,
                    ),
                ],
            },
            Register {
                name: pick_name(lower, "TTBR0_EL1", "TTBR1_EL1"),
                value: ttbr,
                fields: vec![
                    Field::of(ttbr, "ASID", 63, 48, |it| it.to_string()),
                    Field::of(ttbr, "BADDR", 47, 1, |_| format!("root table at {base:#x}")),
                    Field::flag(
                        ttbr,
                        "CnP",
                        0,
                        "not common to cores",
                        "common to the cores of the domain",
                    ),
                ],
            },
            Register {
                name: "MAIR_EL1",
                value: context.mair,
                fields: Vec::new(),
            },
        ]
    }

    fn half(va: Va) -> Half {
        if va.raw() >> 55 & 1 == 0 {
            Half::Lower
        } else {
            Half::Upper
        }
    }

    fn table_name(level: Level) -> &'static str {
        match level {
            Level::Minus1 => "level -1 table",
            Level::L0 => "level 0 table",
            Level::L1 => "level 1 table",
            Level::L2 => "level 2 table",
            Level::L3 => "level 3 table",
        }
    }

    fn entry(context: &Context, half: Half, level: Level, raw: u64) -> Vec<Field> {
        let decoded = Self::descriptor(context, half, level, raw);
        let raw = if Sctlr::new(context.sctlr).big_endian() {
            raw.swap_bytes()
        } else {
            raw
        };
        match decoded {
            Descriptor::Invalid => {
                let why = if raw & 1 == 0 {
                    "invalid"
                } else {
                    "reserved at this level: counts as invalid"
                };
                vec![Field::of(raw, "type", 1, 0, |_| why)]
            }
            Descriptor::Table(base) => vec![
                Field::flag(
                    raw,
                    "NSTable",
                    63,
                    "secure, where the state has one",
                    "non-secure",
                ),
                Field::of(raw, "APTable", 62, 61, |it| {
                    [
                        "no change",
                        "no EL0 access below",
                        "read-only below",
                        "read-only and no EL0 access below",
                    ][(it & 3) as usize]
                }),
                Field::flag(
                    raw,
                    "UXNTable",
                    60,
                    "no change",
                    "not executable at EL0 below",
                ),
                Field::flag(
                    raw,
                    "PXNTable",
                    59,
                    "no change",
                    "not executable at EL1 below",
                ),
                Field::of(raw, "address", 47, 12, |_| {
                    format!("next table at {:#x}", base.raw())
                }),
                Field::of(raw, "type", 1, 0, |_| "table"),
            ],
            Descriptor::Leaf { pa, size, .. } => leaf(context, raw, pa.raw(), size),
        }
    }

    fn taken_away(attrs: TableAttrs) -> String {
        names(&[
            (attrs.contains(TableAttrs::NO_EL0), "EL0 access"),
            (attrs.contains(TableAttrs::READ_ONLY), "writes"),
            (attrs.contains(TableAttrs::UXN), "execution at EL0"),
            (attrs.contains(TableAttrs::PXN), "execution at EL1"),
        ])
    }

    fn attributes(leaf: &Leaf<Self>) -> String {
        let it = leaf.attrs;
        let has = |flag| it.permissions.contains(flag);
        format!(
            "{}, {:?} shareable, {}{}{}{}",
            it.memory,
            it.shareability,
            if has(Permissions::EL0) {
                "EL0 and EL1"
            } else {
                "EL1 only"
            },
            if has(Permissions::CLEAN) {
                ", writable (clean)"
            } else if has(Permissions::WRITE) {
                ", writable"
            } else {
                ", read-only"
            },
            if has(Permissions::UXN) { ", UXN" } else { "" },
            if has(Permissions::PXN) { ", PXN" } else { "" },
        )
    }

    fn reported(fault: &Fault, access: &Access) -> String {
        let esr = fault.esr(access, access.privilege == Privilege::User);
        let far = access.va.raw();
        match (fault.stage, fault.hpfar()) {
            (FaultStage::One, _) => format!("ESR_EL1 = {esr:#x}, FAR_EL1 = {far:#x}"),
            (_, None) => format!("ESR_EL2 = {esr:#x}, FAR_EL2 = {far:#x}"),
            (_, Some(hpfar)) => {
                format!("ESR_EL2 = {esr:#x}, FAR_EL2 = {far:#x}, HPFAR_EL2 = {hpfar:#x}")
            }
        }
    }

    fn permissive(context: &Context) -> Context {
        Context {
            pan: false,
            ..*context
        }
    }

    fn is_present(context: &Context, raw: u64) -> bool {
        in_order(context, raw) & 1 == 1
    }

    fn group_size(context: &Context, half: Half, level: Level) -> Option<PageSize> {
        Format::new(context, half).group_size(level)
    }

    fn without_status(context: &Context, raw: u64) -> u64 {
        // The access flag, and AP[2] where hardware may clear it (DBM).
        let raw = in_order(context, raw) & !(1 << 10);
        if raw >> 51 & 1 == 1 {
            raw & !(1 << 7)
        } else {
            raw
        }
    }

    fn memory_type(leaf: &Leaf<Self>) -> u8 {
        leaf.attrs.memory.raw()
    }
}

fn in_order(context: &Context, raw: u64) -> u64 {
    if Sctlr::new(context.sctlr).big_endian() {
        raw.swap_bytes()
    } else {
        raw
    }
}

fn leaf(context: &Context, raw: u64, pa: u64, size: PageSize) -> Vec<Field> {
    let memory = crate::aarch64::MemoryType::from_mair(context.mair, extract(raw, 4, 2));
    vec![
        Field::flag(raw, "UXN", 54, "EL0 may execute", "not executable at EL0"),
        Field::flag(raw, "PXN", 53, "EL1 may execute", "not executable at EL1"),
        Field::flag(
            raw,
            "Contiguous",
            52,
            "by itself",
            "one of a contiguous group",
        ),
        Field::flag(
            raw,
            "DBM",
            51,
            "dirty state by software",
            "hardware may clear AP[2]",
        ),
        Field::flag(raw, "GP", 50, "not guarded", "guarded (BTI)"),
        Field::of(raw, "address", 47, 12, |_| format!("{size} at {pa:#x}")),
        Field::flag(raw, "nG", 11, "global", "of one ASID"),
        Field::flag(raw, "AF", 10, "not accessed yet", "accessed"),
        Field::of(raw, "SH", 9, 8, |it| {
            [
                "non-shareable",
                "reserved",
                "outer shareable",
                "inner shareable",
            ][(it & 3) as usize]
        }),
        Field::of(raw, "AP", 7, 6, |it| {
            [
                "read-write at EL1",
                "read-write at EL1 and EL0",
                "read-only at EL1",
                "read-only at EL1 and EL0",
            ][(it & 3) as usize]
        }),
        Field::of(raw, "AttrIndx", 4, 2, |_| memory.to_string()),
        Field::of(
            raw,
            "type",
            1,
            0,
            |it| if it == 3 { "page" } else { "block" },
        ),
    ]
}

const fn pick_name(lower: bool, low: &'static str, high: &'static str) -> &'static str {
    if lower { low } else { high }
}

pub(super) fn names(all: &[(bool, &str)]) -> String {
    let named: Vec<_> = all
        .iter()
        .filter(|(set, _)| *set)
        .map(|(_, name)| *name)
        .collect();
    if named.is_empty() {
        "nothing".to_owned()
    } else {
        named.join(", ")
    }
}
