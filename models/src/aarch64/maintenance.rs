//! TLB maintenance as values: what a TLBI of the EL1&0 regime, of either stage, must remove.
//!
//! Rules: Arm ARM D8.17.5. Where the architecture lets hardware remove more (R_MMZTY), these
//! values remove what they must and no more, so that software that relies on luck is found out:
//!
//! * a wrong TTL hint or a wrong TG removes nothing (R_SQXYZ);
//! * a last-level form leaves cached table pointers alone, and so does one with a TTL hint, which
//!   names the level of a leaf;
//! * an entry that covers a named address goes as a whole, the other entries of a contiguous
//!   group stay (R_LQLSD); all pieces of a splintered block go (R_LGSCG);
//! * a form for an IPA removes entries that hold stage 2 alone, of which this model has none:
//!   entries of both stages stay until a stage 1 form follows (D8.17.6.1).

use std::fmt;

use thiserror::Error;

use super::registers::{Asid, Tag, Tcr, bits};
use super::stage2::Stage2;
use super::tlbi::{Operation, RegimeLevel, SysEncoding, TlbiForm, Unallocated};
use super::{Aarch64, Context};
use crate::addr::{Granule, Level, Pa, PageSize, Va};
use crate::arch::{Footprint, Leaf, MachineId, Reach, Scope, TablePointer};

/// The level that a TTL field says the leaf is at.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct LeafHint {
    /// The granule of its table.
    pub granule: Granule,
    /// Its level.
    pub level: Level,
}

/// What a TLBI names, operand decoded.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum TlbiOp {
    /// Everything of the current machine.
    All,
    /// The same, stage 2 included (VMALLS12).
    BothStages,
    /// Everything of every machine (ALLE1).
    EveryMachine,
    /// Stage 2 entries of the current machine for intermediate physical addresses.
    Ipa {
        /// First address.
        ipa: Pa,
        /// How many bytes.
        bytes: u64,
        /// It was a range form.
        range: bool,
        /// Only leaf entries.
        last_level: bool,
    },
    /// The entries of one address space, global ones excepted.
    Asid(Asid),
    /// The entries that translate one address.
    Address {
        /// The address space, or `None` for all of them.
        asid: Option<Asid>,
        /// First address of the 4 KiB unit that is named.
        va: Va,
        /// Only leaf entries.
        last_level: bool,
        /// The TTL hint, if there is one.
        hint: Option<LeafHint>,
    },
    /// The entries that translate any address of a range.
    Range {
        /// The address space, or `None` for all of them.
        asid: Option<Asid>,
        /// First address.
        first: Va,
        /// How many pages of the granule.
        pages: u64,
        /// The granule (TG), or `None` for the reserved encoding, which names nothing.
        granule: Option<Granule>,
        /// Only leaf entries.
        last_level: bool,
        /// The level of the leaves (TTL), if it is given.
        level: Option<Level>,
    },
}

/// One TLBI of the EL1&0 regime.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Tlbi {
    /// What it names.
    pub op: TlbiOp,
    /// The VMID current where it is executed: entries of other machines stay (R_NWYRD).
    pub vmid: MachineId,
    /// Which cores it reaches.
    pub reach: Reach,
    /// Whether it need not wait for accesses with the XS attribute.
    pub nxs: bool,
}

/// The kinds of TLBI that are counted apart.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum TlbiKind {
    /// VMALLE1.
    All,
    /// ASIDE1.
    Asid,
    /// VAE1, VALE1.
    Va,
    /// VAAE1, VAALE1.
    Vaa,
    /// Every range form of stage 1.
    Range,
    /// IPAS2E1, IPAS2LE1 and their ranges.
    Ipa,
}

/// The instruction is no TLBI that can be executed here.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
pub enum UnknownTlbi {
    /// No form has this encoding.
    #[error(transparent)]
    Unallocated(#[from] Unallocated),
    /// The form exists, but concerns a translation regime or an operand format that is not
    /// modelled.
    #[error("`{0}` is not executed: only 64-bit forms for the EL1&0 regime are modelled")]
    NotExecuted(TlbiForm),
}

impl Tlbi {
    /// Decodes `SYS #op1, C8, Ccrm, #op2, Xt`: the forms without nXS. `context` gives the ASID
    /// size and TCR.DS.
    ///
    /// # Errors
    /// [`UnknownTlbi`] if the encoding is unallocated or its form is not executed.
    pub fn from_sys(
        op1: u8,
        crm: u8,
        op2: u8,
        xt: u64,
        context: &Context,
    ) -> Result<Self, UnknownTlbi> {
        let encoding = SysEncoding {
            op1,
            crn: 8,
            crm,
            op2,
        };
        Self::new(TlbiForm::decode(encoding, false)?, xt, context)
    }

    /// The operation of `form` with operand `xt`. A form without an operand ignores `xt`.
    ///
    /// # Errors
    /// [`UnknownTlbi::NotExecuted`] for another regime and for TLBIP.
    pub fn new(form: TlbiForm, xt: u64, context: &Context) -> Result<Self, UnknownTlbi> {
        if form.pair || form.regime != RegimeLevel::El1 {
            return Err(UnknownTlbi::NotExecuted(form));
        }
        let tcr = Tcr::new(context.tcr);
        let asid = Asid::from_bits_63_48(xt, tcr.wide_asids());
        let address = |asid, last_level| {
            if form.range {
                range(xt, asid, last_level, tcr.lpa2())
            } else {
                TlbiOp::Address {
                    asid,
                    va: Va::new(sign_extend(bits(xt, 0, 44) << 12, 56)),
                    last_level,
                    hint: leaf_hint(bits(xt, 44, 4), tcr.lpa2()),
                }
            }
        };
        let op = match form.operation {
            Operation::Vmall => TlbiOp::All,
            Operation::Asid => TlbiOp::Asid(asid),
            Operation::Va => address(Some(asid), false),
            Operation::VaLast => address(Some(asid), true),
            Operation::VaAll => address(None, false),
            Operation::VaAllLast => address(None, true),
            Operation::VmallS12 => TlbiOp::BothStages,
            Operation::All => TlbiOp::EveryMachine,
            Operation::Ipa => ipa(xt, form.range, false, &context.stage2),
            Operation::IpaLast => ipa(xt, form.range, true, &context.stage2),
            Operation::PaAll | Operation::Pa | Operation::PaLast => {
                return Err(UnknownTlbi::NotExecuted(form));
            }
        };
        Ok(Self {
            op,
            vmid: context.vmid(),
            reach: form.reach,
            nxs: form.nxs,
        })
    }

    /// The kind under which it is counted.
    #[must_use]
    pub const fn kind(&self) -> TlbiKind {
        match self.op {
            TlbiOp::All | TlbiOp::BothStages | TlbiOp::EveryMachine => TlbiKind::All,
            TlbiOp::Ipa { .. } => TlbiKind::Ipa,
            TlbiOp::Asid(_) => TlbiKind::Asid,
            TlbiOp::Address { asid: Some(_), .. } => TlbiKind::Va,
            TlbiOp::Address { asid: None, .. } => TlbiKind::Vaa,
            TlbiOp::Range { .. } => TlbiKind::Range,
        }
    }

    /// How many pages a range form names, in units of its granule; `None` for other forms.
    #[must_use]
    pub const fn pages(&self) -> Option<u64> {
        match self.op {
            TlbiOp::Range { pages, .. } => Some(pages),
            _ => None,
        }
    }

    /// Whether it concerns leaf entries only.
    #[must_use]
    pub const fn last_level(&self) -> bool {
        matches!(
            self.op,
            TlbiOp::Address {
                last_level: true,
                ..
            } | TlbiOp::Range {
                last_level: true,
                ..
            } | TlbiOp::Ipa {
                last_level: true,
                ..
            }
        )
    }

    /// The form of the instruction.
    #[must_use]
    pub const fn form(&self) -> TlbiForm {
        let last_level = self.last_level();
        let operation = match self.op {
            TlbiOp::All => Operation::Vmall,
            TlbiOp::BothStages => Operation::VmallS12,
            TlbiOp::EveryMachine => Operation::All,
            TlbiOp::Ipa { .. } if last_level => Operation::IpaLast,
            TlbiOp::Ipa { .. } => Operation::Ipa,
            TlbiOp::Asid(_) => Operation::Asid,
            TlbiOp::Address { asid, .. } | TlbiOp::Range { asid, .. } => {
                match (asid.is_some(), last_level) {
                    (true, false) => Operation::Va,
                    (true, true) => Operation::VaLast,
                    (false, false) => Operation::VaAll,
                    (false, true) => Operation::VaAllLast,
                }
            }
        };
        TlbiForm {
            operation,
            regime: RegimeLevel::El1,
            reach: self.reach,
            range: matches!(
                self.op,
                TlbiOp::Range { .. } | TlbiOp::Ipa { range: true, .. }
            ),
            nxs: self.nxs,
            pair: false,
        }
    }

    /// The first and last address named: `None` if all addresses are, or none is.
    fn span(&self) -> Option<(Va, Va)> {
        match self.op {
            TlbiOp::All
            | TlbiOp::BothStages
            | TlbiOp::EveryMachine
            | TlbiOp::Ipa { .. }
            | TlbiOp::Asid(_)
            | TlbiOp::Range { granule: None, .. } => None,
            TlbiOp::Address { va, .. } => Some((va, Va::new(va.raw() | 0xfff))),
            TlbiOp::Range {
                first,
                pages,
                granule: Some(granule),
                ..
            } => {
                // At most 2^21 pages of 64 KiB; saturation keeps a range at the top of the
                // address space from wrapping into the lower half.
                let length = pages << granule.shift();
                Some((first, Va::new(first.raw().saturating_add(length - 1))))
            }
        }
    }
}

/// Sign-extends the low `width` bits of `raw`.
const fn sign_extend(raw: u64, width: u32) -> u64 {
    let unused = 64 - width;
    ((raw << unused).cast_signed() >> unused).cast_unsigned()
}

/// The granule of a two-bit TG field.
const fn granule_of_field(field: u64) -> Option<Granule> {
    match field {
        1 => Some(Granule::K4),
        2 => Some(Granule::K16),
        3 => Some(Granule::K64),
        _ => None,
    }
}

/// Decodes the four-bit TTL field of a single-address operand. Reserved values give no hint:
/// level 0 of 16K and 64K always, 4K level 0 and 16K level 1 unless TCR.DS makes blocks there.
const fn leaf_hint(ttl: u64, lpa2: bool) -> Option<LeafHint> {
    let Some(granule) = granule_of_field(ttl >> 2) else {
        return None;
    };
    let level = match (granule, ttl & 3) {
        (Granule::K4, 0) if lpa2 => Level::L0,
        (Granule::K16, 1) if !lpa2 => return None,
        (_, 1) => Level::L1,
        (_, 2) => Level::L2,
        (_, 3) => Level::L3,
        _ => return None,
    };
    Some(LeafHint { granule, level })
}

/// Decodes a 64-bit range operand (Arm ARM D8.17.5.2): `(NUM + 1) << (5 * SCALE + 1)` pages from
/// BaseADDR, which counts pages, or 64 KiB units with TCR.DS.
fn range(xt: u64, asid: Option<Asid>, last_level: bool, lpa2: bool) -> TlbiOp {
    let granule = granule_of_field(bits(xt, 46, 2));
    let unit = match granule {
        Some(granule) if !lpa2 => granule.shift(),
        _ => 16,
    };
    let level = match (granule, bits(xt, 37, 2)) {
        (Some(Granule::K16), 1) if !lpa2 => None,
        (_, 1) => Some(Level::L1),
        (_, 2) => Some(Level::L2),
        (_, 3) => Some(Level::L3),
        _ => None,
    };
    TlbiOp::Range {
        asid,
        first: Va::new(sign_extend(bits(xt, 0, 37) << unit, 37 + unit)),
        pages: (bits(xt, 39, 5) + 1) << (5 * bits(xt, 44, 2) + 1),
        granule,
        last_level,
        level,
    }
}

/// Decodes the operand of a form for intermediate physical addresses: bits 39:0 are IPA\[51:12\],
/// or a range operand whose unit is that of VTCR_EL2.DS.
fn ipa(xt: u64, is_range: bool, last_level: bool, stage2: &Stage2) -> TlbiOp {
    let one = TlbiOp::Ipa {
        ipa: Pa::new(bits(xt, 0, 40) << 12),
        bytes: 1 << 12,
        range: false,
        last_level,
    };
    if !is_range {
        return one;
    }
    match range(xt, None, last_level, stage2.lpa2()) {
        TlbiOp::Range {
            first,
            pages,
            granule,
            ..
        } => TlbiOp::Ipa {
            // BaseADDR is unsigned here: at most 53 bits.
            ipa: Pa::new(first.raw() & 0x1f_ffff_ffff_ffff),
            bytes: granule.map_or(0, |granule| pages << granule.shift()),
            range: true,
            last_level,
        },
        _ => one,
    }
}

/// The granule of the table that holds `leaf`: the size of stage 1's page or block and the level
/// determine it.
const fn granule_of_leaf(leaf: &Leaf<Aarch64>) -> Granule {
    let size = match leaf.attrs.block {
        Some(block) => block,
        None => leaf.size,
    };
    match (leaf.level, size.shift()) {
        (Level::L3, 14) | (Level::L2, 25) | (Level::L1, 36) => Granule::K16,
        (Level::L3, 16) | (Level::L2, 29) | (Level::L1, 42) => Granule::K64,
        _ => Granule::K4,
    }
}

/// Whether a full table of `granule` at `level` spans `1 << span_shift` bytes.
const fn table_spans(granule: Granule, level: Level, span_shift: u32) -> bool {
    granule.shift() + granule.stride() * (level.height() + 1) == span_shift
}

/// Whether `asid` (`None`: every address space) of the machine `vmid` names entries of `scope`.
fn names_scope(vmid: MachineId, asid: Option<Asid>, scope: &Scope<Tag>) -> bool {
    match asid {
        None => scope.machine() == vmid,
        Some(asid) => scope.admits(&Tag::new(vmid, asid)),
    }
}

/// Whether the `1 << shift` bytes around `va` share an address with `span`.
fn overlaps(span: Option<(Va, Va)>, va: Va, shift: u32) -> bool {
    let low = va.raw() >> shift;
    span.is_some_and(|(first, last)| first.raw() >> shift <= low && low <= last.raw() >> shift)
}

/// See [`crate::arch::Arch::footprint`].
pub(super) fn footprint(op: &Tlbi) -> Footprint {
    match op.span() {
        Some((first, last)) => Footprint::Addresses { first, last },
        None => Footprint::Everywhere,
    }
}

/// See [`crate::arch::Arch::removes`].
pub(super) fn removes(op: &Tlbi, leaf: &Leaf<Aarch64>, held: PageSize) -> bool {
    let (asid, hinted) = match op.op {
        TlbiOp::EveryMachine => return true,
        TlbiOp::Ipa { .. } => return false,
        TlbiOp::All | TlbiOp::BothStages => return names_scope(op.vmid, None, &leaf.scope),
        TlbiOp::Asid(asid) => return leaf.scope == Scope::Tagged(Tag::new(op.vmid, asid)),
        TlbiOp::Address { asid, hint, .. } => (
            asid,
            hint.is_none_or(|hint| {
                hint.level == leaf.level && hint.granule == granule_of_leaf(leaf)
            }),
        ),
        TlbiOp::Range {
            asid,
            granule,
            level,
            ..
        } => (
            asid,
            granule == Some(granule_of_leaf(leaf)) && level.is_none_or(|level| level == leaf.level),
        ),
    };
    let size = held.max(leaf.attrs.block.unwrap_or(leaf.size));
    hinted && names_scope(op.vmid, asid, &leaf.scope) && overlaps(op.span(), leaf.va, size.shift())
}

/// See [`crate::arch::Arch::removes_pointer`].
pub(super) fn removes_pointer(
    op: &Tlbi,
    tag: Tag,
    va: Va,
    pointer: &TablePointer<Aarch64>,
    span_shift: u32,
) -> bool {
    if op.op == TlbiOp::EveryMachine {
        return true;
    }
    if tag.vmid() != op.vmid {
        return false;
    }
    let asid = match op.op {
        TlbiOp::All | TlbiOp::BothStages | TlbiOp::EveryMachine => return true,
        TlbiOp::Asid(asid) => return asid == tag.asid(),
        TlbiOp::Address {
            asid,
            last_level: false,
            hint: None,
            ..
        } => asid,
        TlbiOp::Range {
            asid,
            last_level: false,
            level: None,
            granule: Some(granule),
            ..
        } if table_spans(granule, pointer.level, span_shift) => asid,
        TlbiOp::Address { .. } | TlbiOp::Range { .. } | TlbiOp::Ipa { .. } => return false,
    };
    asid.is_none_or(|asid| asid == tag.asid()) && overlaps(op.span(), va, span_shift)
}

impl fmt::Display for Tlbi {
    /// The mnemonic and what the operand says: `tlbi vale1is asid 7 va 0x… L3/4K`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.form().fmt(f)?;
        match self.op {
            TlbiOp::All | TlbiOp::BothStages | TlbiOp::EveryMachine => Ok(()),
            TlbiOp::Ipa { ipa, bytes, .. } => write!(f, " ipa {ipa} {bytes} bytes"),
            TlbiOp::Asid(asid) => write!(f, " asid {asid}"),
            TlbiOp::Address { asid, va, hint, .. } => {
                fmt_asid(f, asid)?;
                write!(f, " va {va}")?;
                hint.map_or(Ok(()), |hint| {
                    write!(f, " {}/{}", hint.level, granule_name(Some(hint.granule)))
                })
            }
            TlbiOp::Range {
                asid,
                first,
                pages,
                granule,
                level,
                ..
            } => {
                fmt_asid(f, asid)?;
                write!(f, " va {first} {pages} pages of {}", granule_name(granule))?;
                level.map_or(Ok(()), |level| write!(f, " {level}"))
            }
        }
    }
}

fn fmt_asid(f: &mut fmt::Formatter<'_>, asid: Option<Asid>) -> fmt::Result {
    asid.map_or(Ok(()), |asid| write!(f, " asid {asid}"))
}

const fn granule_name(granule: Option<Granule>) -> &'static str {
    match granule {
        Some(Granule::K4) => "4K",
        Some(Granule::K16) => "16K",
        Some(Granule::K64) => "64K",
        None => "a reserved granule",
    }
}

#[cfg(test)]
mod tests;
