//! ESR_ELx: exception classes and their instruction specific syndromes (Arm ARM, register
//! description of ESR_EL1).

use super::field::{Explanation, Field, extract};
use crate::aarch64::{SysEncoding, TlbiForm};

/// Explains a value of ESR_EL1, ESR_EL2 or ESR_EL3.
#[must_use]
pub fn esr(raw: u64) -> Explanation {
    let class = extract(raw, 31, 26);
    let name = class_name(class);
    let mut fields = Vec::new();
    if raw >> 32 != 0 {
        fields.push(Field::of(
            raw,
            "ISS2",
            55,
            32,
            |_| "second syndrome: see the Arm ARM for this class",
        ));
    }
    fields.push(Field::of(raw, "EC", 31, 26, |_| name));
    fields.push(Field::flag(
        raw,
        "IL",
        25,
        "a 16-bit instruction",
        "a 32-bit instruction, or no particular one",
    ));
    let (iss, what) = syndrome(raw, class);
    fields.extend(iss);
    let summary = if what.is_empty() {
        name.to_owned()
    } else {
        format!("{name}: {what}")
    };
    Explanation {
        raw,
        summary,
        fields,
    }
}

/// The exception class.
const fn class_name(class: u64) -> &'static str {
    match class {
        0x00 => "unknown reason",
        0x01 => "trapped WFI, WFE, WFIT or WFET",
        0x03 => "trapped AArch32 MCR or MRC (coproc 15)",
        0x04 => "trapped AArch32 MCRR or MRRC (coproc 15)",
        0x05 => "trapped AArch32 MCR or MRC (coproc 14)",
        0x06 => "trapped AArch32 LDC or STC",
        0x07 => "trapped access to SVE, SIMD or floating point",
        0x08 => "trapped AArch32 VMRS",
        0x09 => "trapped pointer authentication instruction",
        0x0a => "trapped instruction (LD64B, ST64B and others)",
        0x0c => "trapped AArch32 MRRC (coproc 14)",
        0x0d => "branch target exception",
        0x0e => "illegal execution state",
        0x11 => "SVC in AArch32",
        0x12 => "HVC in AArch32",
        0x13 => "SMC in AArch32",
        0x14 => "trapped MSRR, MRRS or 128-bit system instruction",
        0x15 => "SVC in AArch64",
        0x16 => "HVC in AArch64",
        0x17 => "SMC in AArch64",
        0x18 => "trapped MSR, MRS or system instruction",
        0x19 => "trapped access to SVE",
        0x1a => "trapped ERET, ERETAA or ERETAB",
        0x1b => "exception from TSTART",
        0x1c => "pointer authentication failure",
        0x1d => "trapped access to SME",
        0x1e => "granule protection check exception",
        0x1f => "implementation defined exception to EL3",
        0x20 => "instruction abort from a lower exception level",
        0x21 => "instruction abort from the same exception level",
        0x22 => "misaligned PC",
        0x24 => "data abort from a lower exception level",
        0x25 => "data abort from the same exception level",
        0x26 => "misaligned SP",
        0x27 => "memory copy or set exception",
        0x28 => "floating-point exception in AArch32",
        0x2c => "floating-point exception in AArch64",
        0x2d => "guarded control stack exception",
        0x2f => "SError",
        0x30 => "breakpoint from a lower exception level",
        0x31 => "breakpoint from the same exception level",
        0x32 => "software step from a lower exception level",
        0x33 => "software step from the same exception level",
        0x34 => "watchpoint from a lower exception level",
        0x35 => "watchpoint from the same exception level",
        0x38 => "BKPT in AArch32",
        0x3a => "vector catch from AArch32",
        0x3c => "BRK in AArch64",
        0x3d => "performance monitor exception",
        _ => "reserved exception class",
    }
}

/// The ISS of `class`, and what it says in a few words.
fn syndrome(raw: u64, class: u64) -> (Vec<Field>, String) {
    match class {
        0x01 => (
            conditional(
                raw,
                &[Field::of(raw, "TI", 1, 0, |it| {
                    ["WFI", "WFE", "WFIT", "WFET"][(it & 3) as usize]
                })],
            ),
            String::new(),
        ),
        0x07 | 0x19 => (conditional(raw, &[]), String::new()),
        0x0d => (
            vec![Field::of(raw, "BTYPE", 1, 0, |it| {
                format!("PSTATE.BTYPE was {it}")
            })],
            String::new(),
        ),
        0x11..=0x13 | 0x15..=0x17 | 0x3c => immediate(raw, class),
        0x18 => system_instruction(raw),
        0x1a => (
            vec![
                Field::flag(raw, "ERET", 1, "ERET", "ERETAA or ERETAB"),
                Field::flag(raw, "ERETA", 0, "ERETAA", "ERETAB"),
            ],
            String::new(),
        ),
        0x1c => (
            vec![
                Field::flag(raw, "key", 1, "an instruction key", "a data key"),
                Field::flag(raw, "key", 0, "key A", "key B"),
            ],
            String::new(),
        ),
        0x20 | 0x21 => instruction_abort(raw),
        0x24 | 0x25 => data_abort(raw),
        0x28 | 0x2c => (floating_point(raw), String::new()),
        0x2f => (serror(raw), String::new()),
        0x30..=0x33 => (
            vec![Field::of(raw, "IFSC", 5, 0, fault_status)],
            String::new(),
        ),
        0x34 | 0x35 => (
            vec![
                Field::flag(
                    raw,
                    "CM",
                    8,
                    "not a cache maintenance instruction",
                    "a cache maintenance instruction",
                ),
                Field::flag(raw, "WnR", 6, "a read", "a write"),
                Field::of(raw, "DFSC", 5, 0, fault_status),
            ],
            String::new(),
        ),
        _ => (
            vec![Field::of(raw, "ISS", 24, 0, |it| {
                if it == 0 {
                    "zero"
                } else {
                    "see the Arm ARM for this class"
                }
            })],
            String::new(),
        ),
    }
}

/// Classes of conditional instructions begin with CV and COND.
fn conditional(raw: u64, more: &[Field]) -> Vec<Field> {
    let mut fields = vec![
        Field::flag(raw, "CV", 24, "COND is not valid", "COND is valid"),
        Field::of(raw, "COND", 23, 20, |it| {
            if it == 14 {
                "always".to_owned()
            } else {
                format!("condition {it:#x}")
            }
        }),
    ];
    fields.extend_from_slice(more);
    fields
}

fn immediate(raw: u64, class: u64) -> (Vec<Field>, String) {
    let mnemonic = match class {
        0x11 | 0x15 => "svc",
        0x12 | 0x16 => "hvc",
        0x13 | 0x17 => "smc",
        _ => "brk",
    };
    let text = format!("{mnemonic} #{:#x}", extract(raw, 15, 0));
    let meaning = match (class, extract(raw, 15, 0)) {
        // The immediates that Linux gives a meaning (arch/arm64 brk-imm).
        (0x3c, 0x004..=0x006) => "Linux: kprobe or uprobe",
        (0x3c, 0x100) => "Linux: fault brk",
        (0x3c, 0x400 | 0x401) => "Linux: kgdb",
        (0x3c, 0x800) => "Linux: BUG or WARN",
        (0x3c, 0x900..=0x9ff) => "Linux: KASAN, tag-based",
        (0x3c, 0x5500..=0x55ff) => "Linux: UBSAN trap",
        (0x3c, 0x8000..=0x83ff) => "Linux: control flow integrity",
        _ => "the instruction's immediate",
    };
    (vec![Field::of(raw, "imm16", 15, 0, |_| meaning)], text)
}

/// op0, op1, CRn, CRm and op2 of a system register.
type Encoding = (u64, u64, u64, u64, u64);

/// Registers that traps of memory management are about.
const REGISTERS: [(Encoding, &str); 26] = [
    ((3, 0, 1, 0, 0), "SCTLR_EL1"),
    ((3, 0, 1, 0, 1), "ACTLR_EL1"),
    ((3, 0, 1, 0, 2), "CPACR_EL1"),
    ((3, 0, 2, 0, 0), "TTBR0_EL1"),
    ((3, 0, 2, 0, 1), "TTBR1_EL1"),
    ((3, 0, 2, 0, 2), "TCR_EL1"),
    ((3, 0, 2, 0, 3), "TCR2_EL1"),
    ((3, 0, 5, 1, 0), "AFSR0_EL1"),
    ((3, 0, 5, 1, 1), "AFSR1_EL1"),
    ((3, 0, 5, 2, 0), "ESR_EL1"),
    ((3, 0, 6, 0, 0), "FAR_EL1"),
    ((3, 0, 7, 4, 0), "PAR_EL1"),
    ((3, 0, 10, 2, 0), "MAIR_EL1"),
    ((3, 0, 10, 2, 2), "PIRE0_EL1"),
    ((3, 0, 10, 2, 3), "PIR_EL1"),
    ((3, 0, 10, 3, 0), "AMAIR_EL1"),
    ((3, 0, 12, 11, 5), "ICC_SGI1R_EL1"),
    ((3, 0, 13, 0, 1), "CONTEXTIDR_EL1"),
    ((3, 3, 0, 0, 1), "CTR_EL0"),
    ((3, 3, 0, 0, 7), "DCZID_EL0"),
    ((3, 3, 14, 0, 1), "CNTPCT_EL0"),
    ((3, 3, 14, 0, 2), "CNTVCT_EL0"),
    ((3, 4, 1, 1, 0), "HCR_EL2"),
    ((3, 4, 2, 1, 0), "VTTBR_EL2"),
    ((3, 4, 2, 1, 2), "VTCR_EL2"),
    ((3, 4, 6, 0, 4), "HPFAR_EL2"),
];

fn system_instruction(raw: u64) -> (Vec<Field>, String) {
    let [op0, op2, op1, crn, rt, crm, read] = [
        (21, 20),
        (19, 17),
        (16, 14),
        (13, 10),
        (9, 5),
        (4, 1),
        (0, 0),
    ]
    .map(|(high, low)| extract(raw, high, low));
    let byte = |value: u64| value.to_le_bytes()[0];
    let encoding = SysEncoding {
        op1: byte(op1),
        crn: byte(crn),
        crm: byte(crm),
        op2: byte(op2),
    };
    let known = REGISTERS
        .iter()
        .find(|(fields, _)| *fields == (op0, op1, crn, crm, op2));
    let generic = format!("S{op0}_{op1}_C{crn}_C{crm}_{op2}");
    let name = known.map_or(generic, |(_, name)| (*name).to_owned());
    let text = if op0 == 1 {
        match TlbiForm::decode(encoding, false) {
            Ok(form) => format!("{form}, x{rt}"),
            Err(_) => format!("sys {encoding}, x{rt}"),
        }
    } else if read == 1 {
        format!("mrs x{rt}, {name}")
    } else {
        format!("msr {name}, x{rt}")
    };
    let part = |name, high, low| Field::of(raw, name, high, low, |it| it.to_string());
    let fields = vec![
        Field::of(raw, "Op0", 21, 20, |it| {
            if it == 1 {
                "a system instruction".to_owned()
            } else {
                it.to_string()
            }
        }),
        part("Op2", 19, 17),
        part("Op1", 16, 14),
        part("CRn", 13, 10),
        Field::of(raw, "Rt", 9, 5, |it| {
            if it == 31 {
                "xzr".to_owned()
            } else {
                format!("x{it}")
            }
        }),
        part("CRm", 4, 1),
        Field::flag(
            raw,
            "Direction",
            0,
            "a write (MSR, or a system instruction)",
            "a read (MRS)",
        ),
    ];
    (fields, text)
}

fn instruction_abort(raw: u64) -> (Vec<Field>, String) {
    let mut fields = abort_head(raw);
    fields.push(stage1_walk(raw));
    fields.push(Field::of(raw, "IFSC", 5, 0, fault_status));
    (
        fields,
        format!(
            "{}{}",
            fault_status(extract(raw, 5, 0)),
            on_stage1_walk(raw)
        ),
    )
}

fn data_abort(raw: u64) -> (Vec<Field>, String) {
    let mut fields = vec![Field::flag(
        raw,
        "ISV",
        24,
        "bits 23:14 say nothing",
        "bits 23:14 describe the instruction",
    )];
    if extract(raw, 24, 24) == 1 {
        fields.extend([
            Field::of(raw, "SAS", 23, 22, |it| {
                ["a byte", "a halfword", "a word", "a doubleword"][(it & 3) as usize]
            }),
            Field::flag(raw, "SSE", 21, "zero-extended", "sign-extended"),
            Field::of(raw, "SRT", 20, 16, |it| format!("register {it}")),
            Field::flag(raw, "SF", 15, "a 32-bit register", "a 64-bit register"),
            Field::flag(raw, "AR", 14, "no acquire or release", "acquire or release"),
        ]);
    }
    fields.push(Field::flag(
        raw,
        "VNCR",
        13,
        "an ordinary access",
        "through VNCR_EL2",
    ));
    fields.extend(abort_head(raw));
    fields.extend([
        Field::flag(
            raw,
            "CM",
            8,
            "not cache maintenance",
            "a cache maintenance or address translation instruction",
        ),
        stage1_walk(raw),
        Field::flag(raw, "WnR", 6, "a read", "a write (or cache maintenance)"),
        Field::of(raw, "DFSC", 5, 0, fault_status),
    ]);
    let what = match (extract(raw, 8, 8), extract(raw, 6, 6)) {
        (1, _) => "cache maintenance",
        (_, 1) => "write",
        _ => "read",
    };
    (
        fields,
        format!(
            "{what}, {}{}",
            fault_status(extract(raw, 5, 0)),
            on_stage1_walk(raw)
        ),
    )
}

/// What instruction and data aborts share above S1PTW.
fn abort_head(raw: u64) -> Vec<Field> {
    let mut fields = Vec::new();
    // SET has a meaning for synchronous external aborts only (FEAT_RAS).
    if extract(raw, 5, 0) == 0x10 {
        fields.push(Field::of(raw, "SET", 12, 11, |it| match it {
            0 => "recoverable",
            2 => "uncontainable",
            3 => "restartable",
            _ => "reserved",
        }));
    }
    fields.push(Field::flag(
        raw,
        "FnV",
        10,
        "FAR holds the address",
        "FAR does not hold the address",
    ));
    fields.push(Field::flag(
        raw,
        "EA",
        9,
        "external aborts: type 0",
        "external aborts: type 1 (implementation defined)",
    ));
    fields
}

fn stage1_walk(raw: u64) -> Field {
    Field::flag(
        raw,
        "S1PTW",
        7,
        "not a stage 2 fault on a stage 1 walk",
        "a stage 2 fault on a stage 1 table walk",
    )
}

const fn on_stage1_walk(raw: u64) -> &'static str {
    if extract(raw, 7, 7) == 1 {
        ", stage 2, on a stage 1 table walk"
    } else {
        ""
    }
}

/// The fault status code (DFSC, IFSC).
fn fault_status(code: u64) -> String {
    let low = code & 3;
    match code {
        0x00..=0x03 => format!("address size fault, level {low}"),
        0x04..=0x07 => format!("translation fault, level {low}"),
        0x08..=0x0b => format!("access flag fault, level {low}"),
        0x0c..=0x0f => format!("permission fault, level {low}"),
        0x10 => "synchronous external abort, not on a table walk".to_owned(),
        0x11 => "synchronous tag check fault".to_owned(),
        0x12 => "synchronous external abort on table walk, level -2".to_owned(),
        0x13 => "synchronous external abort on table walk, level -1".to_owned(),
        0x14..=0x17 => format!("synchronous external abort on table walk, level {low}"),
        0x18 => "synchronous parity or ECC error, not on a table walk".to_owned(),
        0x1b => "synchronous parity or ECC error on table walk, level -1".to_owned(),
        0x1c..=0x1f => format!("synchronous parity or ECC error on table walk, level {low}"),
        0x21 => "alignment fault".to_owned(),
        0x22 => "granule protection fault on table walk, level -2".to_owned(),
        0x23 => "granule protection fault on table walk, level -1".to_owned(),
        0x24..=0x27 => format!("granule protection fault on table walk, level {low}"),
        0x28 => "granule protection fault, not on a table walk".to_owned(),
        0x29 => "address size fault, level -1".to_owned(),
        0x2a => "translation fault, level -2".to_owned(),
        0x2b => "translation fault, level -1".to_owned(),
        0x2c => "address size fault, level -2".to_owned(),
        0x30 => "TLB conflict abort".to_owned(),
        0x31 => "unsupported atomic hardware update of a descriptor".to_owned(),
        0x34 => "implementation defined fault (lockdown)".to_owned(),
        0x35 => "implementation defined fault (unsupported exclusive or atomic access)".to_owned(),
        _ => format!("reserved fault status {code:#04x}"),
    }
}

fn serror(raw: u64) -> Vec<Field> {
    if extract(raw, 24, 24) == 1 {
        return vec![
            Field::of(
                raw,
                "IDS",
                24,
                24,
                |_| "bits 23:0 are implementation defined",
            ),
            Field::of(raw, "ISS", 23, 0, |_| "see the processor's manual"),
        ];
    }
    vec![
        Field::of(raw, "IDS", 24, 24, |_| "architected syndrome"),
        Field::flag(
            raw,
            "IESB",
            13,
            "not synchronised by an implicit barrier",
            "synchronised by an implicit barrier",
        ),
        Field::of(raw, "AET", 12, 10, |it| match it {
            0 => "uncontainable",
            1 => "unrecoverable",
            2 => "restartable",
            3 => "recoverable",
            6 => "corrected",
            _ => "reserved",
        }),
        Field::flag(raw, "EA", 9, "type 0", "type 1 (implementation defined)"),
        Field::of(raw, "DFSC", 5, 0, |it| match it {
            0 => "uncategorised",
            0x11 => "asynchronous SError",
            _ => "reserved",
        }),
    ]
}

fn floating_point(raw: u64) -> Vec<Field> {
    let mut fields = vec![Field::flag(
        raw,
        "TFV",
        23,
        "the flags below say nothing",
        "the flags below are valid",
    )];
    for (name, bit, set) in [
        ("IDF", 7, "input denormal"),
        ("IXF", 4, "inexact"),
        ("UFF", 3, "underflow"),
        ("OFF", 2, "overflow"),
        ("DZF", 1, "divide by zero"),
        ("IOF", 0, "invalid operation"),
    ] {
        fields.push(Field::flag(raw, name, bit, "no", set));
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aarch64::{Fault, FaultKind};
    use crate::access::{Access, AccessKind, Privilege};
    use crate::addr::{Level, Va};

    #[test]
    fn an_abort_says_class_access_and_fault() {
        let it = esr(0x9600_004f);
        assert_eq!(
            it.summary,
            "data abort from the same exception level: write, permission fault, level 3"
        );
        assert_eq!(
            esr(0x8200_0006).summary,
            "instruction abort from a lower exception level: translation fault, level 2"
        );
    }

    /// The walker's own faults read back as the walker prints them.
    #[test]
    fn every_fault_of_the_walker_is_read_back() {
        let access = Access::new(Va::new(0), AccessKind::Store, Privilege::User);
        for kind in [
            FaultKind::AddressSize,
            FaultKind::Translation,
            FaultKind::AccessFlag,
            FaultKind::Permission,
            FaultKind::ExternalOnWalk,
        ] {
            for level in [Level::L0, Level::L1, Level::L2, Level::L3] {
                let fault = Fault::new(kind, level);
                let summary = esr(fault.esr(&access, true)).summary;
                assert!(
                    summary.ends_with(&format!("write, {fault}")),
                    "{summary} / {fault}"
                );
            }
        }
    }

    #[test]
    fn instructions_that_trap_are_named() {
        assert!(esr(0x5600_0000).summary.ends_with("svc #0x0"));
        assert!(esr(0xf200_0800).summary.ends_with("brk #0x800"));
        // MSR TTBR0_EL1, x3 and TLBI VALE1IS, x5.
        let trap = |op0: u64, op2: u64, op1: u64, crn: u64, rt: u64, crm: u64, read: u64| {
            0x18 << 26
                | 1 << 25
                | op0 << 20
                | op2 << 17
                | op1 << 14
                | crn << 10
                | rt << 5
                | crm << 1
                | read
        };
        assert!(
            esr(trap(3, 0, 0, 2, 3, 0, 0))
                .summary
                .ends_with("msr TTBR0_EL1, x3")
        );
        assert!(
            esr(trap(1, 5, 0, 8, 5, 3, 0))
                .summary
                .ends_with("tlbi vale1is, x5")
        );
    }

    #[test]
    fn all_values_of_class_and_status_are_explained() {
        for class in 0..64 {
            for status in 0..64 {
                let it = esr(class << 26 | status);
                assert!(!it.summary.is_empty());
                assert!(
                    it.fields.iter().all(|field| !field.meaning.is_empty()),
                    "{it:?}"
                );
            }
        }
    }
}
