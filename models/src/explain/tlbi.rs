//! TLBI instructions: what a form and its operand remove, and the inverse: the instructions that
//! remove a range (Arm ARM D8.17.5 and the pages of the instructions).

use thiserror::Error;

use super::field::{Explanation, Field, extract};
use crate::aarch64::{Operation, RegimeLevel, SysEncoding, TlbiForm};
use crate::addr::{Granule, Level};
use crate::arch::Reach;

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

/// What an operand is to say.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// First address: VA, or IPA for stage 2 forms. Aligned down to the unit.
    pub address: Option<u64>,
    /// Bytes of a range; 0 for the page at `address`.
    pub bytes: u64,
    /// The ASID.
    pub asid: Option<u16>,
    /// The granule of the tables.
    pub granule: Granule,
    /// The level of the leaves, for the TTL field.
    pub level: Option<Level>,
    /// TCR_ELx.DS.
    pub lpa2: bool,
}

/// One instruction and its operand registers (the second is used by TLBIP alone).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Encoded {
    /// The form.
    pub form: TlbiForm,
    /// Xt, and the second register.
    pub operand: (u64, u64),
}

/// A request that a form cannot express.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum CannotEncode {
    /// The form has no such operand.
    #[error("`{form}` takes no {what}")]
    NotTaken {
        /// The form.
        form: TlbiForm,
        /// What was given.
        what: &'static str,
    },
    /// The form needs an operand that was not given.
    #[error("`{form}` needs {what}")]
    Missing {
        /// The form.
        form: TlbiForm,
        /// What is missing.
        what: &'static str,
    },
    /// An address that the operand cannot hold.
    #[error("{address:#x} does not fit `{form}`: expected {expected}")]
    Address {
        /// The form.
        form: TlbiForm,
        /// The address.
        address: u64,
        /// What would fit.
        expected: &'static str,
    },
    /// A level at which the granule has no leaves.
    #[error("level {0} cannot be a TTL hint: expected 1, 2 or 3 (0 with 4K and --lpa2)")]
    Level(i8),
    /// A range that is not made of whole pages.
    #[error("a range of {bytes:#x} bytes is no whole number of {granule} pages")]
    Length {
        /// The length.
        bytes: u64,
        /// The granule.
        granule: &'static str,
    },
    /// A range that would take more than [`MOST_INSTRUCTIONS`].
    #[error(
        "the range would take more than {MOST_INSTRUCTIONS} instructions: use a form without an address"
    )]
    TooLong,
}

/// A longer sequence is refused: nobody would run it.
pub const MOST_INSTRUCTIONS: usize = 64;

/// The instructions of `form` that do what `request` says: one, or for a range as many as its
/// length takes. A single page that no range form can express (its count is even) is removed by
/// the form without range.
///
/// # Errors
/// [`CannotEncode`].
pub fn encode(form: &TlbiForm, request: &Request) -> Result<Vec<Encoded>, CannotEncode> {
    let layout = Layout::of(form);
    let form = *form;
    let takes_asid = matches!(
        layout,
        Layout::Asid | Layout::Address { asid: true } | Layout::Range { asid: true, .. }
    );
    let takes_address = !matches!(layout, Layout::None | Layout::Asid);
    let is_range = matches!(layout, Layout::Range { .. });
    let refuse = |what| Err(CannotEncode::NotTaken { form, what });
    match request {
        Request { asid: Some(_), .. } if !takes_asid => return refuse("ASID"),
        Request {
            address: Some(_), ..
        } if !takes_address => return refuse("address"),
        Request { level: Some(_), .. } if !takes_address || layout == Layout::PhysicalRange => {
            return refuse("TTL");
        }
        Request { bytes: 1.., .. } if !is_range && layout != Layout::PhysicalRange => {
            return refuse("length");
        }
        Request { asid: None, .. } if takes_asid => {
            return Err(CannotEncode::Missing {
                form,
                what: "an ASID (--asid)",
            });
        }
        Request { address: None, .. } if takes_address => {
            return Err(CannotEncode::Missing {
                form,
                what: "an address (--va)",
            });
        }
        _ => {}
    }
    let asid = u64::from(request.asid.unwrap_or(0)) << 48;
    let address = request.address.unwrap_or(0);
    match layout {
        Layout::None => Ok(vec![Encoded {
            form,
            operand: (0, 0),
        }]),
        Layout::Asid => Ok(vec![Encoded {
            form,
            operand: (asid, 0),
        }]),
        Layout::Address { .. } | Layout::Ipa => Ok(vec![single(form, request, address, asid)?]),
        Layout::Range { .. } => sequence(form, request, address, asid),
        Layout::PhysicalRange => physical_operand(form, request, address),
    }
}

fn single(
    form: TlbiForm,
    request: &Request,
    address: u64,
    asid: u64,
) -> Result<Encoded, CannotEncode> {
    fits(form, address)?;
    let width = if matches!(form.operation, Operation::Ipa | Operation::IpaLast) {
        39
    } else {
        43
    };
    let page = extract(address >> 12, width, 0);
    let ttl = match request.level {
        None => 0,
        Some(level) => level_field(request, level)? | tg(request.granule) << 2,
    };
    let low = asid | ttl << 44;
    let operand = if form.pair {
        (low, page)
    } else {
        (low | page, 0)
    };
    Ok(Encoded { form, operand })
}

/// An address must be canonical as the form's operand sees it.
fn fits(form: TlbiForm, address: u64) -> Result<(), CannotEncode> {
    let is_ipa = matches!(form.operation, Operation::Ipa | Operation::IpaLast);
    if is_ipa && address >> 52 != 0 {
        return Err(CannotEncode::Address {
            form,
            address,
            expected: "an IPA below 2^52",
        });
    }
    if !is_ipa && sign_extend(address, 56) != address {
        return Err(CannotEncode::Address {
            form,
            address,
            expected: "bits 63:56 equal to bit 55",
        });
    }
    Ok(())
}

const fn tg(granule: Granule) -> u64 {
    match granule {
        Granule::K4 => 1,
        Granule::K16 => 2,
        Granule::K64 => 3,
    }
}

fn level_field(request: &Request, level: Level) -> Result<u64, CannotEncode> {
    match (level, request.granule) {
        (Level::L1, Granule::K4 | Granule::K64) => Ok(1),
        (Level::L1, Granule::K16) if request.lpa2 => Ok(1),
        (Level::L2, _) => Ok(2),
        (Level::L3, _) => Ok(3),
        (Level::L0, Granule::K4) if request.lpa2 => Ok(0),
        _ => Err(CannotEncode::Level(level.number())),
    }
}

/// Splits a range into operands, largest first, as their base's unit allows.
fn sequence(
    form: TlbiForm,
    request: &Request,
    address: u64,
    asid: u64,
) -> Result<Vec<Encoded>, CannotEncode> {
    let shift = request.granule.shift();
    let name = granule_name(request.granule);
    let bytes = if request.bytes == 0 {
        1 << shift
    } else {
        request.bytes
    };
    if bytes & ((1 << shift) - 1) != 0 {
        return Err(CannotEncode::Length {
            bytes,
            granule: name,
        });
    }
    fits(form, address)?;
    let level = request
        .level
        .map_or(Ok(0), |level| level_field(request, level))?;
    let mut at = address >> shift << shift;
    let mut pages = bytes >> shift;
    let mut out = Vec::new();
    // The base counts 64 KiB units with DS: only then can a range begin where no operand can.
    let unit = if request.lpa2 && !form.pair {
        16
    } else {
        shift
    };
    let one = TlbiForm {
        range: false,
        ..form
    };
    while pages > 0 {
        if out.len() == MOST_INSTRUCTIONS {
            return Err(CannotEncode::TooLong);
        }
        let aligned = at & ((1 << unit) - 1) == 0;
        let step = if pages == 1 || !aligned {
            out.push(single(one, request, at, asid)?);
            1
        } else {
            let scale = (0..4_u32)
                .rev()
                .find(|it| pages >> (5 * it + 1) != 0)
                .unwrap_or(0);
            let units = (pages >> (5 * scale + 1)).min(32);
            let low = asid
                | tg(request.granule) << 46
                | u64::from(scale) << 44
                | (units - 1) << 39
                | level << 37;
            let operand = if form.pair {
                (low, extract(at >> 12, 43, 0))
            } else {
                (low | extract(at >> unit, 36, 0), 0)
            };
            out.push(Encoded { form, operand });
            units << (5 * scale + 1)
        };
        pages -= step;
        at = at.wrapping_add(step << shift);
    }
    Ok(out)
}

fn physical_operand(
    form: TlbiForm,
    request: &Request,
    address: u64,
) -> Result<Vec<Encoded>, CannotEncode> {
    const SHIFTS: [u32; 10] = [12, 14, 16, 21, 25, 29, 30, 34, 36, 39];
    let bytes = if request.bytes == 0 {
        4096
    } else {
        request.bytes
    };
    let size = SHIFTS
        .iter()
        .zip(0_u64..)
        .find(|(shift, _)| 1_u64 << **shift == bytes);
    let Some((&shift, size)) = size else {
        return Err(CannotEncode::Length {
            bytes,
            granule: "4K, 16K, 64K, 2M, 32M, 512M, 1G, 16G, 64G or 512G",
        });
    };
    if address >> 52 != 0 || address & ((1 << shift) - 1) != 0 {
        return Err(CannotEncode::Address {
            form,
            address,
            expected: "a physical address below 2^52, aligned to the size",
        });
    }
    Ok(vec![Encoded {
        form,
        operand: (size << 44 | address >> 12, 0),
    }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aarch64::{Context, Tlbi, TlbiOp};

    fn request() -> Request {
        Request {
            address: None,
            bytes: 0,
            asid: None,
            granule: Granule::K4,
            level: None,
            lpa2: false,
        }
    }

    fn form(text: &str) -> TlbiForm {
        text.parse().unwrap()
    }

    #[test]
    fn every_form_is_explained_and_assembles_to_its_word() {
        let mut count = 0;
        for (form, encoding) in TlbiForm::all() {
            let word = instruction(encoding, form.pair, 5);
            let (decoded, register) = TlbiForm::from_instruction(word).unwrap();
            assert_eq!((decoded, register), (Ok(form), 5));
            for operand in [(0, 0), (u64::MAX, u64::MAX), (0x1234_5678_9abc_def0, 7)] {
                let it = explain(&form, Some(operand), false);
                assert_eq!(it.fields.is_empty(), !form.takes_operand(), "{form}");
            }
            count += 1;
        }
        assert_eq!(count, TlbiForm::all().count());
        assert!(count > 200, "{count}");
    }

    /// What is encoded is what the models decode, for every page of the range exactly once.
    #[test]
    fn ranges_are_covered_exactly() {
        let context = Context {
            tcr: 1 << 36,
            ..Context::default()
        };
        for granule in [Granule::K4, Granule::K16, Granule::K64] {
            for pages in [1_u64, 2, 3, 63, 64, 65, 1000, 4097, 1 << 20, 5_000_000] {
                let base = 0xffff_8000_0000_0000;
                let bytes = pages << granule.shift();
                let request = Request {
                    address: Some(base),
                    bytes,
                    asid: Some(7),
                    granule,
                    ..request()
                };
                let mut next = base;
                for it in encode(&form("rvae1is"), &request).unwrap() {
                    let tlbi = Tlbi::new(it.form, it.operand.0, &context).unwrap();
                    let (first, count) = match tlbi.op {
                        TlbiOp::Range {
                            first,
                            pages,
                            asid: Some(asid),
                            ..
                        } if asid.raw() == 7 => (first, pages),
                        TlbiOp::Address {
                            va,
                            asid: Some(asid),
                            ..
                        } if asid.raw() == 7 => (va, 1),
                        other => panic!("{other:?}"),
                    };
                    assert_eq!(first.raw(), next);
                    next += count << granule.shift();
                }
                assert_eq!(next, base + bytes, "{granule:?} {pages}");
            }
        }
    }

    #[test]
    fn a_request_must_suit_the_form() {
        let asid = Request {
            asid: Some(1),
            ..request()
        };
        assert!(encode(&form("vmalle1is"), &asid).is_err());
        assert!(encode(&form("vae1is"), &asid).is_err(), "no address");
        let address = Request {
            address: Some(0x1000),
            ..request()
        };
        assert!(encode(&form("vae1is"), &address).is_err(), "no ASID");
        assert!(
            encode(
                &form("vaae1is"),
                &Request {
                    bytes: 8192,
                    ..address
                }
            )
            .is_err()
        );
        assert!(
            encode(
                &form("vaae1is"),
                &Request {
                    address: Some(1 << 60),
                    ..request()
                }
            )
            .is_err()
        );
        assert!(
            encode(
                &form("rvaae1is"),
                &Request {
                    bytes: 100,
                    ..address
                }
            )
            .is_err()
        );
    }
}
