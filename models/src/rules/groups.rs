//! Contiguous groups: whether the members of each agree.

use std::collections::BTreeMap;

use super::TableRules;
use super::history::Cacheable;
use crate::addr::{Pa, Va};
use crate::arch::Leaf;
use crate::memory::TableMemory;
use crate::observer::TableStore;
use crate::tables::EntryPlace;

/// What the valid members of a group look like together.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Shape {
    /// No valid member, or all of them consistent.
    Sound,
    /// They differ in the contiguous bit.
    Mixed,
    /// All are contiguous, and they do not describe one mapping.
    Uneven,
}

/// A group that is not sound.
#[derive(Clone, Debug)]
struct Unsound<A: TableRules> {
    place: EntryPlace,
    shape: Shape,
    /// The valid members: leaves that an invalidation may find.
    members: Vec<(u64, Leaf<A>)>,
}

/// The groups that are not sound, by the address of their first entry.
#[derive(Clone, Debug)]
pub(super) struct Groups<A: TableRules> {
    unsound: BTreeMap<u64, Unsound<A>>,
}

impl<A: TableRules> Default for Groups<A> {
    fn default() -> Self {
        Self {
            unsound: BTreeMap::new(),
        }
    }
}

impl<A: TableRules> Groups<A> {
    /// Looks at the group of a stored entry. Gives the group's first entry if the store has made
    /// its members differ in the contiguous bit.
    pub(super) fn store<M: TableMemory>(
        &mut self,
        context: &A::Context,
        store: &TableStore,
        place: &EntryPlace,
        tag: A::Tag,
        memory: &M,
    ) -> Option<(Pa, EntryPlace)> {
        let count = u64::from(A::group_members(context, place)?);
        let first = store.pa.raw() & !(count * 8 - 1);
        let span = A::span_shift(context, place.half, place.level);
        let place = EntryPlace {
            va: Va::new(place.va.raw() & !((count << span) - 1)),
            ..*place
        };
        let leaf_at = |index: u64| {
            let at = Pa::new(first + index * 8);
            let raw = if at == store.pa {
                store.new
            } else {
                memory.read_descriptor(at)?
            };
            let own = EntryPlace {
                va: place.va.wrapping_add(index << span),
                ..place
            };
            match A::cacheable(context, &own, raw, tag)? {
                Cacheable::Leaf(leaf) => Some((raw, leaf)),
                Cacheable::Pointer { .. } => None,
            }
        };
        let members: Vec<_> = (0..count).filter_map(leaf_at).collect();
        let shape = shape_of(&members);
        if shape == Shape::Sound {
            self.unsound.remove(&first);
            return None;
        }
        let group = Unsound {
            place,
            shape,
            members,
        };
        let before = self.unsound.insert(first, group);
        let fresh = before.is_none_or(|old| old.shape != Shape::Mixed);
        (shape == Shape::Mixed && fresh).then_some((Pa::new(first), place))
    }

    /// The groups, all contiguous, of which `op` names a member while they are uneven: first
    /// entry, its place, and the first member's value.
    pub(super) fn invalidated(&self, op: &A::Invalidation) -> Vec<(Pa, EntryPlace, u64)> {
        let struck = self.unsound.iter().filter(|(_, group)| {
            let named = |(_, leaf): &(u64, Leaf<A>)| A::removes(op, leaf, leaf.size);
            group.shape == Shape::Uneven && group.members.iter().any(named)
        });
        struck
            .map(|(pa, group)| {
                let raw = group.members.first().map_or(0, |(raw, _)| *raw);
                (Pa::new(*pa), group.place, raw)
            })
            .collect()
    }
}

fn shape_of<A: TableRules>(members: &[(u64, Leaf<A>)]) -> Shape {
    let grouped = |leaf: &Leaf<A>| leaf.group.is_some();
    let Some((_, first)) = members.first() else {
        return Shape::Sound;
    };
    let mut rest = members.iter().map(|(_, leaf)| leaf);
    if rest.clone().any(|leaf| grouped(leaf) != grouped(first)) {
        return Shape::Mixed;
    }
    let uneven = grouped(first) && rest.any(|leaf| !A::in_sequence(first, leaf));
    if uneven { Shape::Uneven } else { Shape::Sound }
}
