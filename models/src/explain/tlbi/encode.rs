//! The instructions that remove what is asked for.

use thiserror::Error;

use super::super::field::extract;
use super::{Layout, granule_name, sign_extend};
use crate::aarch64::{Operation, TlbiForm};
use crate::addr::{Granule, Level};

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
