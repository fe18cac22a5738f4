//! The error code of an x86 page fault (Intel SDM vol. 3A 4.7; AMD64 APM vol. 2 8.4.2).

use super::field::{Explanation, Field};
use crate::x86::ErrorCode;

/// Explains `code`. `cr2` is the linear address that faulted, where it is known.
#[must_use]
pub fn page_fault(code: u32, cr2: Option<u64>) -> Explanation {
    let raw = u64::from(code);
    let known = ErrorCode::from_bits_truncate(code);
    let mut fields = vec![
        Field::flag(
            raw,
            "P",
            0,
            "an entry was not present",
            "every entry was present: a protection violation",
        ),
        Field::flag(
            raw,
            "W/R",
            1,
            "the access was a read or a fetch",
            "the access was a write",
        ),
        Field::flag(
            raw,
            "U/S",
            2,
            "made as a supervisor (CPL 0-2, or an implicit system access)",
            "made at CPL 3",
        ),
        Field::flag(
            raw,
            "RSVD",
            3,
            "no reserved bit",
            "a reserved bit is set in a paging-structure entry",
        ),
        Field::flag(
            raw,
            "I/D",
            4,
            "a data access (or neither NX nor SMEP is on)",
            "an instruction fetch",
        ),
        Field::flag(
            raw,
            "PK",
            5,
            "not a protection key",
            "the page's protection key forbids it (PKRU or IA32_PKRS)",
        ),
        Field::flag(
            raw,
            "SS",
            6,
            "not a shadow-stack access",
            "a shadow-stack access",
        ),
        Field::flag(raw, "HLAT", 7, "ordinary paging", "during HLAT paging"),
        Field::flag(raw, "SGX", 15, "not SGX", "a violation of SGX's own rules"),
        Field::flag(
            raw,
            "RMP",
            31,
            "not the reverse map",
            "a violation of the reverse map (AMD SNP)",
        ),
    ];
    fields.reverse();
    fields.retain(|it| it.value != 0 || it.low <= 4);
    let unknown = code & !(known.bits() | 1 << 7);
    if unknown != 0 {
        let text = format!("bits {unknown:#x} are reserved: hardware does not set them");
        fields.insert(
            0,
            Field {
                name: "reserved",
                high: 31,
                low: 8,
                value: raw >> 8,
                meaning: text,
            },
        );
    }
    let mut summary = format!("page fault: {known}: {}", cause(known));
    if let Some(contradiction) = contradiction(known) {
        summary = format!("{summary}; {contradiction}");
    }
    if let Some(cr2) = cr2 {
        summary = format!("{summary} (address {cr2:#018x})");
    }
    Explanation {
        raw,
        summary,
        fields,
    }
}

/// What leads to this combination.
fn cause(code: ErrorCode) -> &'static str {
    let has = |flag| code.contains(flag);
    if has(ErrorCode::RMP) {
        "the page's state in the reverse map does not allow it"
    } else if has(ErrorCode::SGX) {
        "the enclave page map does not allow it"
    } else if has(ErrorCode::RESERVED) {
        "the tables are corrupt, or written for wider physical addresses or for NX"
    } else if !has(ErrorCode::PRESENT) {
        "nothing is mapped there (a demand fault, a swapped page, or a wild pointer)"
    } else if has(ErrorCode::KEY) {
        "the entries allow it, the protection key does not"
    } else if has(ErrorCode::SHADOW_STACK) {
        "the page is no shadow-stack page, or cannot be one for this access"
    } else {
        match (
            has(ErrorCode::FETCH),
            has(ErrorCode::WRITE),
            has(ErrorCode::USER),
        ) {
            (true, _, true) => "the page is not executable (XD), or not a user page",
            (true, _, false) => {
                "the page is not executable (XD), or SMEP forbids code in a user page"
            }
            (_, true, true) => "the page is read-only (copy on write?), or not a user page",
            (_, true, false) => "the page is read-only with CR0.WP, or SMAP forbids the user page",
            (_, false, true) => "the page is not a user page",
            (_, false, false) => "SMAP forbids data access to a user page (RFLAGS.AC clear)",
        }
    }
}

/// Combinations that no processor reports.
fn contradiction(code: ErrorCode) -> Option<&'static str> {
    let has = |flag| code.contains(flag);
    if has(ErrorCode::RESERVED) && !has(ErrorCode::PRESENT) {
        Some("no processor sets RSVD without P: reserved bits are looked at in present entries")
    } else if has(ErrorCode::FETCH) && has(ErrorCode::WRITE) {
        Some("no processor sets I/D and W/R together: a fetch is no write")
    } else if has(ErrorCode::KEY) && has(ErrorCode::FETCH) {
        Some("no processor sets PK with I/D: protection keys do not concern fetches")
    } else if has(ErrorCode::KEY) && !has(ErrorCode::PRESENT) {
        Some("no processor sets PK without P: the key stands in a present entry")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_are_told_apart() {
        let says = |code| page_fault(code, None).summary;
        assert!(says(7).contains("user write"), "{}", says(7));
        assert!(says(7).contains("read-only"));
        assert!(says(0).contains("nothing is mapped"));
        assert!(says(0x11).contains("SMEP"));
        assert!(says(1).contains("SMAP"));
        assert!(says(0x25).contains("protection key"));
        assert!(says(9).contains("reserved bit"));
        assert!(says(8).contains("no processor"));
        assert!(
            page_fault(6, Some(0x1000))
                .summary
                .contains("0x0000000000001000")
        );
    }

    #[test]
    fn reserved_bits_are_named() {
        let it = page_fault(0x107, None);
        assert_eq!(it.fields[0].name, "reserved");
    }
}
