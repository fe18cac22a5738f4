//! TLBI instructions: what a form and its operand remove, and the inverse: the instructions that
//! remove a range (Arm ARM D8.17.5 and the pages of the instructions).

mod encode;
#[cfg(test)]
mod tests;

use super::field::{Explanation, Field, extract};
use crate::aarch64::{Operation, RegimeLevel, SysEncoding, TlbiForm};
use crate::addr::Granule;
use crate::arch::Reach;

pub use encode::{CannotEncode, Encoded, MOST_INSTRUCTIONS, Request, encode};

/// How the operand of a form is laid out.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Layout {
    None,
    Asid,
    Address { asid: bool },
    Ipa,
    Range { asid: bool, ipa: bool },
    PhysicalRange,
}

impl Layout {
    const fn of(form: &TlbiForm) -> Self {
        let asid = matches!(form.operation, Operation::Va | Operation::VaLast)
            && !matches!(form.regime, RegimeLevel::El3);
        let ipa = matches!(form.operation, Operation::Ipa | Operation::IpaLast);
        match form.operation {
            Operation::Vmall | Operation::VmallS12 | Operation::All | Operation::PaAll => {
                Self::None
            }
            Operation::Asid => Self::Asid,
            Operation::Pa | Operation::PaLast => Self::PhysicalRange,
            _ if form.range => Self::Range { asid, ipa },
            _ if ipa => Self::Ipa,
            _ => Self::Address { asid },
        }
    }
}

/// The instruction word of `encoding` with operand register `register` (31 for none).
#[must_use]
pub fn instruction(encoding: SysEncoding, pair: bool, register: u8) -> u32 {
    let base: u32 = if pair { 0xd548_0000 } else { 0xd508_0000 };
    base | u32::from(encoding.op1) << 16
        | u32::from(encoding.crn) << 12
        | u32::from(encoding.crm) << 8
        | u32::from(encoding.op2) << 5
        | u32::from(register & 31)
}

/// The instruction as an assembler writes it.
#[must_use]
pub fn assembly(form: &TlbiForm, register: u8) -> String {
    let name = |number: u8| {
        if number == 31 {
            "xzr".to_owned()
        } else {
            format!("x{number}")
        }
    };
    if !form.takes_operand() {
        return form.to_string();
    }
    let second = if register == 31 { 31 } else { register + 1 };
    if form.pair {
        format!("{form}, {}, {}", name(register), name(second))
    } else {
        format!("{form}, {}", name(register))
    }
}

/// Explains `form`, and its operand if there is one: `low` is Xt, `high` the second register of
/// a TLBIP. `lpa2` is TCR_ELx.DS (VTCR_EL2.DS), which changes the unit of range bases.
#[must_use]
pub fn explain(form: &TlbiForm, operand: Option<(u64, u64)>, lpa2: bool) -> Explanation {
    let mut summary = format!(
        "removes {} {}, {}{}",
        what(form),
        regime(form),
        reach(form.reach),
        if form.nxs {
            "; its completion does not wait for accesses with the XS attribute (FEAT_XS)"
        } else {
            ""
        },
    );
    let Some((low, high)) = operand else {
        return Explanation {
            raw: 0,
            summary,
            fields: Vec::new(),
        };
    };
    let (fields, named) = decode(form, low, high, lpa2);
    if !named.is_empty() {
        summary = format!("{summary}: {named}");
    }
    Explanation {
        raw: low,
        summary,
        fields,
    }
}

const fn reach(reach: Reach) -> &'static str {
    match reach {
        Reach::Local => "on this core",
        Reach::InnerShareable => "on every core of the inner shareable domain",
        Reach::OuterShareable => "on every core of the outer shareable domain",
    }
}

/// The entries that the operation names.
const fn what(form: &TlbiForm) -> &'static str {
    match (form.operation, form.range) {
        (Operation::Vmall, _) => "all stage 1 entries of the current VMID",
        (Operation::VmallS12, _) => "all stage 1 and stage 2 entries of the current VMID",
        (Operation::All, _) => "all entries of any VMID",
        (Operation::Asid, _) => "the non-global entries of an ASID",
        (Operation::Va, false) => {
            "the entries that translate an address under an ASID, and its cached table pointers,"
        }
        (Operation::VaLast, false) => {
            "the last-level entries that translate an address under an ASID"
        }
        (Operation::VaAll, false) => {
            "the entries that translate an address under any ASID, and its cached table pointers,"
        }
        (Operation::VaAllLast, false) => {
            "the last-level entries that translate an address under any ASID"
        }
        (Operation::Va, true) => {
            "the entries that translate a range under an ASID, and its cached table pointers,"
        }
        (Operation::VaLast, true) => "the last-level entries that translate a range under an ASID",
        (Operation::VaAll, true) => {
            "the entries that translate a range under any ASID, and its cached table pointers,"
        }
        (Operation::VaAllLast, true) => {
            "the last-level entries that translate a range under any ASID"
        }
        (Operation::Ipa, false) => {
            "the stage 2 entries of an intermediate physical address, any level,"
        }
        (Operation::IpaLast, false) => {
            "the last-level stage 2 entries of an intermediate physical address"
        }
        (Operation::Ipa, true) => {
            "the stage 2 entries of a range of intermediate physical addresses, any level,"
        }
        (Operation::IpaLast, true) => {
            "the last-level stage 2 entries of a range of intermediate physical addresses"
        }
        (Operation::PaAll, _) => "all cached granule protection information",
        (Operation::Pa, _) => "the granule protection information of a physical range, any level,",
        (Operation::PaLast, _) => {
            "the last-level granule protection information of a physical range"
        }
    }
}

const fn regime(form: &TlbiForm) -> &'static str {
    match (form.operation, form.regime) {
        (Operation::PaAll | Operation::Pa | Operation::PaLast, _) => {
            "(granule protection tables, RME)"
        }
        (Operation::All, RegimeLevel::El1) => "of the EL1&0 regime, both stages",
        (_, RegimeLevel::El1) => "of the EL1&0 regime",
        (_, RegimeLevel::El2) => "of the EL2 regime (EL2&0 with HCR_EL2.E2H)",
        (_, RegimeLevel::El3) => "of the EL3 regime",
    }
}

/// The operand's fields, and what they name in a few words.
fn decode(form: &TlbiForm, low: u64, high: u64, lpa2: bool) -> (Vec<Field>, String) {
    let asid_field = || Field::of(low, "ASID", 63, 48, |it| format!("ASID {it}"));
    let under = |asid: bool| {
        if asid {
            format!(" under ASID {}", extract(low, 63, 48))
        } else {
            String::new()
        }
    };
    match Layout::of(form) {
        Layout::None => (Vec::new(), String::new()),
        Layout::Asid => (vec![asid_field()], format!("ASID {}", extract(low, 63, 48))),
        Layout::Address { asid } => {
            let mut fields = if asid { vec![asid_field()] } else { Vec::new() };
            fields.push(hint(low));
            let (field, address) = address(form, low, high, "VA[55:12]", 43);
            fields.push(field);
            let named = format!(
                "{:#018x}{}{}",
                sign_extend(address, 56),
                under(asid),
                hint_text(low)
            );
            (fields, named)
        }
        Layout::Ipa => {
            let (field, address) = address(form, low, high, "IPA[51:12]", 39);
            (
                vec![security(low), hint(low), field],
                format!("IPA {address:#x}{}", hint_text(low)),
            )
        }
        Layout::Range { asid, ipa } => range(form, low, high, lpa2, asid, ipa),
        Layout::PhysicalRange => physical(low),
    }
}

/// The address of a single-address form: in Xt, or for TLBIP in the second register.
fn address(form: &TlbiForm, low: u64, high: u64, name: &'static str, top: u32) -> (Field, u64) {
    let from = if form.pair { high } else { low };
    let field = Field::of(from, name, top, 0, |it| format!("{:#x}", it << 12));
    (field, extract(from, top, 0) << 12)
}

fn security(low: u64) -> Field {
    Field::flag(
        low,
        "NS",
        63,
        "IPA space: secure, where the state has one",
        "IPA space: non-secure",
    )
}

/// The granule of a two-bit TG field, `None` for the reserved value.
const fn granule(field: u64) -> Option<Granule> {
    match field {
        1 => Some(Granule::K4),
        2 => Some(Granule::K16),
        3 => Some(Granule::K64),
        _ => None,
    }
}

const fn granule_name(granule: Granule) -> &'static str {
    match granule {
        Granule::K4 => "4K",
        Granule::K16 => "16K",
        Granule::K64 => "64K",
    }
}

fn hint(low: u64) -> Field {
    Field::of(low, "TTL", 47, 44, |it| match granule(it >> 2) {
        None => "no hint: entries of any level and granule".to_owned(),
        Some(granule) => {
            let name = granule_name(granule);
            match it & 3 {
                0 => format!("{name} granule, no level (level 0 with 4K and DS)"),
                level => format!(
                    "only a leaf at level {level} of the {name} granule; a wrong hint removes nothing"
                ),
            }
        }
    })
}

fn hint_text(low: u64) -> String {
    let field = extract(low, 47, 44);
    match (granule(field >> 2), field & 3) {
        (Some(granule), level @ 1..) => format!(
            ", if its leaf is at level {level} ({})",
            granule_name(granule)
        ),
        _ => String::new(),
    }
}

fn range(
    form: &TlbiForm,
    low: u64,
    high: u64,
    lpa2: bool,
    asid: bool,
    ipa: bool,
) -> (Vec<Field>, String) {
    let granule = granule(extract(low, 47, 46));
    let (scale, num) = (extract(low, 45, 44), extract(low, 43, 39));
    let pages = (num + 1) << (5 * scale + 1);
    let unit = match granule {
        Some(granule) if !lpa2 => granule.shift(),
        _ => 16,
    };
    let mut fields = Vec::new();
    if asid {
        fields.push(Field::of(low, "ASID", 63, 48, |it| format!("ASID {it}")));
    }
    if ipa {
        fields.push(security(low));
    }
    fields.extend([
        Field::of(low, "TG", 47, 46, |_| {
            granule.map_or_else(
                || "reserved: names nothing".to_owned(),
                |it| format!("pages of {}", granule_name(it)),
            )
        }),
        Field::of(low, "SCALE", 45, 44, |it| {
            format!("exponent: units of {} pages", 1_u64 << (5 * it + 1))
        }),
        Field::of(low, "NUM", 43, 39, |it| {
            format!("{} units: {pages} pages", it + 1)
        }),
        Field::of(low, "TTL", 38, 37, |it| match it {
            0 => "leaves of any level".to_owned(),
            level => format!("only leaves at level {level}"),
        }),
    ]);
    let (base, signed) = if form.pair {
        let top = if ipa { 39 } else { 43 };
        let name = if ipa {
            "BaseADDR[51:12]"
        } else {
            "BaseADDR[55:12]"
        };
        fields.push(Field::of(high, name, top, 0, |it| {
            format!("{:#x}", it << 12)
        }));
        (extract(high, top, 0) << 12, 56)
    } else {
        fields.push(Field::of(low, "BaseADDR", 36, 0, |it| {
            format!(
                "{:#x}, in units of {}",
                it << unit,
                granule_name(match unit {
                    12 => Granule::K4,
                    14 => Granule::K16,
                    _ => Granule::K64,
                })
            )
        }));
        (extract(low, 36, 0) << unit, 37 + unit)
    };
    let first = if ipa { base } else { sign_extend(base, signed) };
    let Some(granule) = granule else {
        return (fields, "nothing: TG is reserved".to_owned());
    };
    let last = first.saturating_add((pages << granule.shift()) - 1);
    let asid = if asid {
        format!(" under ASID {}", extract(low, 63, 48))
    } else {
        String::new()
    };
    let named = format!(
        "{first:#018x} to {last:#018x} ({pages} pages of {}){asid}",
        granule_name(granule)
    );
    (fields, named)
}

/// RPAOS and RPALOS: BaseADDR, and a size instead of a count.
fn physical(low: u64) -> (Vec<Field>, String) {
    const SIZES: [&str; 10] = [
        "4K", "16K", "64K", "2M", "32M", "512M", "1G", "16G", "64G", "512G",
    ];
    let size = usize::try_from(extract(low, 47, 44))
        .ok()
        .and_then(|it| SIZES.get(it))
        .copied();
    let base = extract(low, 39, 0) << 12;
    let fields = vec![
        Field::of(low, "SIZE", 47, 44, |_| {
            size.unwrap_or("reserved: names nothing")
        }),
        Field::of(low, "BaseADDR", 39, 0, |it| format!("{:#x}", it << 12)),
    ];
    let named = match size {
        Some(size) => format!("{size} from {base:#x}"),
        None => "nothing: SIZE is reserved".to_owned(),
    };
    (fields, named)
}

/// Sign-extends the low `width` bits.
const fn sign_extend(raw: u64, width: u32) -> u64 {
    ((raw << (64 - width)).cast_signed() >> (64 - width)).cast_unsigned()
}
