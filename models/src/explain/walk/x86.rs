//! x86's names.

use super::aarch64::names;
use super::{Access, Explain, Field, Half, Leaf, Level, PageSize, Register, Va};
use crate::arch::{Arch, Descriptor};
use crate::x86::{Context, Fault, TableAttrs, X86_64};

impl Explain for X86_64 {
    fn registers(context: &Context, _half: Half) -> Vec<Register> {
        let (cr0, cr3, cr4) = (context.cr0, context.cr3, context.cr4);
        let pkru = u64::from(context.pkru);
        vec![
            Register {
                name: "CR0",
                value: cr0,
                fields: vec![
                    Field::flag(cr0, "PG", 31, "paging is off", "paging is on"),
                    Field::flag(
                        cr0,
                        "WP",
                        16,
                        "supervisor writes ignore read-only",
                        "supervisor writes obey read-only",
                    ),
                ],
            },
            Register {
                name: "CR3",
                value: cr3,
                fields: vec![
                    Field::of(cr3, "base", 51, 12, |it| {
                        format!("root table at {:#x}", it << 12)
                    }),
                    Field::of(cr3, "PCID", 11, 0, |it| format!("{it} (with CR4.PCIDE)")),
                ],
            },
            Register {
                name: "CR4",
                value: cr4,
                fields: vec![
                    Field::flag(
                        cr4,
                        "PKS",
                        24,
                        "no supervisor protection keys",
                        "supervisor protection keys",
                    ),
                    Field::flag(
                        cr4,
                        "PKE",
                        22,
                        "no user protection keys",
                        "user protection keys",
                    ),
                    Field::flag(
                        cr4,
                        "SMAP",
                        21,
                        "supervisor data access to user pages",
                        "no supervisor data access to user pages",
                    ),
                    Field::flag(
                        cr4,
                        "SMEP",
                        20,
                        "supervisor fetch from user pages",
                        "no supervisor fetch from user pages",
                    ),
                    Field::flag(cr4, "PCIDE", 17, "no PCIDs", "PCIDs"),
                    Field::flag(cr4, "LA57", 12, "four levels", "five levels"),
                    Field::flag(cr4, "PGE", 7, "no global pages", "global pages"),
                ],
            },
            Register {
                name: "EFER",
                value: context.efer,
                fields: vec![Field::flag(
                    context.efer,
                    "NXE",
                    11,
                    "XD is reserved",
                    "XD forbids execution",
                )],
            },
            Register {
                name: "PKRU",
                value: pkru,
                fields: Vec::new(),
            },
        ]
    }

    fn half(va: Va) -> Half {
        if va.raw() >> 63 == 0 {
            Half::Lower
        } else {
            Half::Upper
        }
    }

    fn table_name(level: Level) -> &'static str {
        match level {
            Level::Minus1 => "PML5",
            Level::L0 => "PML4",
            Level::L1 => "PDPT",
            Level::L2 => "PD",
            Level::L3 => "PT",
        }
    }

    fn entry(context: &Context, half: Half, level: Level, raw: u64) -> Vec<Field> {
        let decoded = Self::descriptor(context, half, level, raw);
        if decoded == Descriptor::Invalid {
            let why = if raw & 1 == 0 {
                "not present"
            } else {
                "present, but a reserved bit is set"
            };
            return vec![Field::of(raw, "P", 0, 0, |_| why)];
        }
        let mut fields = vec![Field::flag(raw, "XD", 63, "executable", "not executable")];
        if let Descriptor::Leaf { .. } = decoded {
            fields.push(Field::of(raw, "key", 62, 59, |it| {
                format!("protection key {it}")
            }));
        }
        fields.push(Field::of(raw, "address", 51, 12, |_| match decoded {
            Descriptor::Leaf { pa, size, .. } => format!("{size} at {:#x}", pa.raw()),
            Descriptor::Table(base) => format!("next table at {:#x}", base.raw()),
            Descriptor::Invalid => String::new(),
        }));
        if let Descriptor::Leaf { .. } = decoded {
            fields.push(Field::flag(
                raw,
                "G",
                8,
                "of one address space",
                "global (with CR4.PGE)",
            ));
            fields.push(Field::flag(raw, "D", 6, "clean", "dirty"));
        }
        if matches!(level, Level::L1 | Level::L2) {
            fields.push(Field::flag(
                raw,
                "PS",
                7,
                "points to a table",
                "maps a large page",
            ));
        }
        fields.extend([
            Field::flag(raw, "A", 5, "not accessed yet", "accessed"),
            Field::flag(raw, "PCD", 4, "cacheable", "caching disabled"),
            Field::flag(raw, "PWT", 3, "write-back", "write-through"),
            Field::flag(raw, "U/S", 2, "supervisor only", "user"),
            Field::flag(raw, "R/W", 1, "read-only", "writable"),
            Field::flag(raw, "P", 0, "not present", "present"),
        ]);
        fields
    }

    fn taken_away(attrs: TableAttrs) -> String {
        names(&[
            (attrs.contains(TableAttrs::SUPERVISOR), "user access"),
            (attrs.contains(TableAttrs::READ_ONLY), "writes"),
            (attrs.contains(TableAttrs::NO_EXECUTE), "execution"),
        ])
    }

    fn attributes(leaf: &Leaf<Self>) -> String {
        let denied = leaf.attrs.denied;
        format!(
            "{}, {}, {}, key {}, PAT entry {}",
            if denied.contains(TableAttrs::SUPERVISOR) {
                "supervisor"
            } else {
                "user"
            },
            if denied.contains(TableAttrs::READ_ONLY) {
                "read-only"
            } else {
                "writable"
            },
            if denied.contains(TableAttrs::NO_EXECUTE) {
                "not executable"
            } else {
                "executable"
            },
            leaf.attrs.key,
            leaf.attrs.pat_index,
        )
    }

    fn reported(fault: &Fault, access: &Access) -> String {
        match fault {
            Fault::PageFault { code } => format!(
                "vector 14, error code {:#x}, CR2 = {:#x}",
                code.bits(),
                access.va.raw()
            ),
            other => format!(
                "vector {}, error code {:#x}",
                other.vector(),
                other.error_code()
            ),
        }
    }

    fn permissive(context: &Context) -> Context {
        Context {
            ac: true,
            pkru: 0,
            pkrs: 0,
            ..*context
        }
    }

    fn is_present(_context: &Context, raw: u64) -> bool {
        raw & 1 == 1
    }

    fn group_size(_context: &Context, _half: Half, _level: Level) -> Option<PageSize> {
        None
    }

    fn without_status(_context: &Context, raw: u64) -> u64 {
        // Accessed and dirty.
        raw & !(1 << 5 | 1 << 6)
    }

    fn memory_type(leaf: &Leaf<Self>) -> u8 {
        leaf.attrs.pat_index
    }
}
