//! Which changes of stage 1 descriptors need break-before-make: Arm ARM D8.17.1.

use super::Aarch64;
use super::Context;
use super::descriptor::{Attrs, Entry, LeafBits, Permissions, TableAttrs};
use super::geometry::Format;
use super::registers::{Sctlr, Tag, Tcr};
use crate::arch::{Leaf, Scope, TablePointer};
use crate::rules::history::Cacheable;
use crate::rules::{BbmLevel, Reason, TableRules};
use crate::tables::EntryPlace;

/// The value as the regime's endianness reads it.
const fn value(context: &Context, raw: u64) -> u64 {
    if Sctlr::new(context.sctlr).big_endian() {
        raw.swap_bytes()
    } else {
        raw
    }
}

impl TableRules for Aarch64 {
    fn cacheable(
        context: &Context,
        place: &EntryPlace,
        raw: u64,
        tag: Tag,
    ) -> Option<Cacheable<Self>> {
        let format = Format::new(context, place.half);
        let raw = value(context, raw);
        match format.decode(place.level, raw) {
            Entry::Invalid => None,
            Entry::Table(base, attrs) => Some(Cacheable::Pointer {
                pointer: TablePointer {
                    level: place.level.next()?,
                    base,
                    attrs,
                },
                tag,
                span_shift: format.span_shift(place.level),
            }),
            Entry::Leaf(_, _, bits) => {
                // An entry whose access flag is clear is not cached, unless hardware may set it.
                let flagged = bits.contains(LeafBits::AF);
                if !flagged && !Tcr::new(context.tcr).hardware_access() {
                    return None;
                }
                let scope = if bits.contains(LeafBits::NOT_GLOBAL) {
                    Scope::Tagged(tag)
                } else {
                    Scope::Global(tag.vmid())
                };
                leaf(context, &format, place, raw, scope).map(Cacheable::Leaf)
            }
        }
    }

    fn must_break(
        context: &Context,
        place: &EntryPlace,
        old: u64,
        new: u64,
        bbm: BbmLevel,
    ) -> Option<Reason> {
        let format = Format::new(context, place.half);
        let (old, new) = (value(context, old), value(context, new));
        let before = format.decode(place.level, old);
        let after = format.decode(place.level, new);
        match (before, after) {
            (Entry::Invalid, _) | (_, Entry::Invalid) => None,
            (Entry::Table(a, _), Entry::Table(b, _)) => (a != b).then_some(Reason::Structure),
            (Entry::Leaf(_, _, block), Entry::Table(..))
            | (Entry::Table(..), Entry::Leaf(_, _, block)) => {
                let allowed = match bbm {
                    BbmLevel::Level0 => false,
                    BbmLevel::Level1 => block.contains(LeafBits::NT),
                    BbmLevel::Level2 => true,
                };
                (!allowed).then_some(Reason::Structure)
            }
            (Entry::Leaf(..), Entry::Leaf(..)) => leaf_break(context, place, old, new, bbm),
        }
    }

    fn group_members(context: &Context, place: &EntryPlace) -> Option<u32> {
        let format = Format::new(context, place.half);
        let group = format.group_size(place.level)?;
        Some(1 << (group.shift() - format.span_shift(place.level)))
    }

    fn in_sequence(first: &Leaf<Self>, other: &Leaf<Self>) -> bool {
        // Accessed state is not kept, and a clean entry differs from a dirty one in nothing else
        // (R_GPHKF, R_JKCXG).
        let apart = other.va.raw().wrapping_sub(first.va.raw());
        let blind = |attrs: &Attrs| Attrs {
            permissions: attrs.permissions.difference(Permissions::CLEAN),
            ..*attrs
        };
        other.pa == first.pa.wrapping_add(apart)
            && other.scope == first.scope
            && blind(&first.attrs) == blind(&other.attrs)
    }
}

/// The leaf that a descriptor gives by itself.
fn leaf(
    context: &Context,
    format: &Format,
    place: &EntryPlace,
    raw: u64,
    scope: Scope<Tag>,
) -> Option<Leaf<Aarch64>> {
    let Entry::Leaf(pa, size, bits) = format.decode(place.level, raw) else {
        return None;
    };
    let grouped = bits.contains(LeafBits::CONTIGUOUS);
    Some(Leaf {
        va: place.va,
        pa,
        size,
        level: place.level,
        group: grouped.then(|| format.group_size(place.level)).flatten(),
        scope,
        attrs: Attrs::new(context, place.half, format, raw, TableAttrs::empty()),
    })
}

/// Why leaf `new` must not follow leaf `old` without a break.
fn leaf_break(
    context: &Context,
    place: &EntryPlace,
    old: u64,
    new: u64,
    bbm: BbmLevel,
) -> Option<Reason> {
    let format = Format::new(context, place.half);
    // The scope is compared as bits, below.
    let any = Scope::Global(context.vmid());
    let (a, b) = (
        leaf(context, &format, place, old, any)?,
        leaf(context, &format, place, new, any)?,
    );
    let writable = |leaf: &Leaf<Aarch64>| leaf.attrs.permissions.contains(Permissions::WRITE);
    let global = |raw| !LeafBits::from_bits_truncate(raw).contains(LeafBits::NOT_GLOBAL);
    if (a.attrs.memory, a.attrs.shareability) != (b.attrs.memory, b.attrs.shareability) {
        Some(Reason::MemoryType)
    } else if a.pa != b.pa && (writable(&a) || writable(&b)) {
        Some(Reason::Address)
    } else if a.pa != b.pa {
        Some(Reason::ReadOnlyAddress)
    } else if global(new) && !global(old) {
        Some(Reason::Global)
    } else if a.group != b.group && bbm == BbmLevel::Level0 {
        Some(Reason::Contiguous)
    } else {
        None
    }
}
