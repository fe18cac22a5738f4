//! A table walk, step by step, for every kind of access at both privileges.
//!
//! The explaining walk is a visitor of the one walker: it adds words, no rules of its own.

mod aarch64;
mod x86;

use serde::Serialize;

use super::field::Field;
use crate::access::{Access, AccessKind, Privilege};
use crate::addr::{Level, Pa, PageSize, Va};
use crate::arch::{Arch, Half, Leaf, Lookup, Step, TablePointer, WalkVisitor};
use crate::memory::{Peek, TableMemory};

/// What an architecture adds to an explanation: its names for things.
pub trait Explain: Arch {
    /// The registers that a walk of `half` uses, field by field.
    fn registers(context: &Self::Context, half: Half) -> Vec<Register>;
    /// Which half of the address space `va` lies in.
    fn half(va: Va) -> Half;
    /// What software calls a table at `level`.
    fn table_name(level: Level) -> &'static str;
    /// The fields of a table entry, topmost first. `raw` is as memory holds it.
    fn entry(context: &Self::Context, half: Half, level: Level, raw: u64) -> Vec<Field>;
    /// What the tables so far take away from the leaves below.
    fn taken_away(attrs: Self::TableAttrs) -> String;
    /// What a leaf's attributes are, in a few words.
    fn attributes(leaf: &Leaf<Self>) -> String;
    /// How the processor reports a fault: register values and error codes.
    fn reported(fault: &Self::Fault, access: &Access) -> String;
    /// The same registers with everything off that stops the supervisor from reading what is
    /// mapped: PAN, SMAP, protection keys.
    fn permissive(context: &Self::Context) -> Self::Context;
    /// Whether the valid or present bit of `raw` is set.
    fn is_present(context: &Self::Context, raw: u64) -> bool;
    /// The size of contiguous groups at `level`.
    fn group_size(context: &Self::Context, half: Half, level: Level) -> Option<PageSize>;
    /// A leaf entry without the bits that hardware may change.
    fn without_status(context: &Self::Context, raw: u64) -> u64;
    /// The memory type of a leaf, as the architecture numbers it.
    fn memory_type(leaf: &Leaf<Self>) -> u8;
}

/// A register and what is in it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Register {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// The fields that matter here.
    pub fields: Vec<Field>,
}

/// One descriptor that the walk read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WalkStep {
    /// The level's number, -1 to 3.
    pub level: i8,
    /// What software calls the table.
    pub table: &'static str,
    /// Topmost address bit of the index.
    pub index_high: u32,
    /// Lowest address bit of the index.
    pub index_low: u32,
    /// The index.
    pub index: u64,
    /// Where the descriptor lies.
    pub at: u64,
    /// What is there.
    pub raw: u64,
    /// Its fields.
    pub fields: Vec<Field>,
    /// The next table, if the walk goes on.
    pub next: Option<u64>,
    /// What this table and those above it take away from what is below.
    pub taken_away: String,
}

/// What one kind of access gets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Outcome {
    /// `user` or `supervisor`.
    pub privilege: &'static str,
    /// `read`, `write` or `execute`.
    pub access: &'static str,
    /// The physical address, if it is allowed.
    pub pa: Option<u64>,
    /// The fault in words, if it is not.
    pub fault: Option<String>,
    /// How the processor reports the fault.
    pub reported: Option<String>,
    /// Descriptors that hardware changes for this access: address, old value, new value.
    pub updates: Vec<(u64, u64, u64)>,
}

/// A whole walk.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Walked {
    /// The address.
    pub va: u64,
    /// The registers it depends on.
    pub registers: Vec<Register>,
    /// The descriptors, root first.
    pub steps: Vec<WalkStep>,
    /// The page or block, if a leaf was reached: size and attributes.
    pub leaf: Option<String>,
    /// What each access gets.
    pub outcomes: Vec<Outcome>,
}

/// Keeps what a walk shows.
struct Seen<A: Arch> {
    steps: Vec<(Step<A>, Option<TablePointer<A>>)>,
    updates: Vec<(u64, u64, u64)>,
}

impl<A: Arch> WalkVisitor<A> for Seen<A> {
    fn step(&mut self, step: &Step<A>) {
        self.steps.push((*step, step.next));
    }

    fn update(&mut self, _level: Level, at: Pa, old: u64, new: u64) {
        self.updates.push((at.raw(), old, new));
    }
}

/// Every access in the order of the answer.
const ACCESSES: [(Privilege, AccessKind); 6] = [
    (Privilege::User, AccessKind::Load),
    (Privilege::User, AccessKind::Store),
    (Privilege::User, AccessKind::Fetch),
    (Privilege::Supervisor, AccessKind::Load),
    (Privilege::Supervisor, AccessKind::Store),
    (Privilege::Supervisor, AccessKind::Fetch),
];

/// Walks `memory` for `va` with every kind of access. Memory is not changed.
pub fn walk<A: Explain, M: TableMemory>(context: &A::Context, va: Va, memory: &M) -> Walked {
    let half = A::half(va);
    let mut longest: Vec<(Step<A>, Option<TablePointer<A>>)> = Vec::new();
    let mut leaf = None;
    let mut outcomes = Vec::new();
    for (privilege, kind) in ACCESSES {
        let access = Access::new(va, kind, privilege);
        let mut seen = Seen {
            steps: Vec::new(),
            updates: Vec::new(),
        };
        let result = A::walk(context, &access, None, &mut Peek(memory), &mut seen);
        outcomes.push(outcome::<A>(context, &access, &result, seen.updates));
        if let Ok(found) = result {
            leaf.get_or_insert_with(|| describe(&found));
        }
        if seen.steps.len() > longest.len() {
            longest = seen.steps;
        }
    }
    Walked {
        va: va.raw(),
        registers: A::registers(context, half),
        steps: steps::<A>(context, half, &longest),
        leaf,
        outcomes,
    }
}

fn describe<A: Explain>(leaf: &Leaf<A>) -> String {
    let group = leaf.group.map_or_else(String::new, |size| {
        format!(", in a contiguous group of {size}")
    });
    let scope = match leaf.scope {
        crate::arch::Scope::Global(_) => "global".to_owned(),
        crate::arch::Scope::Tagged(tag) => format!("address space {tag:?}"),
    };
    format!(
        "{} page at {} (level {}{group}), {scope}, {}",
        leaf.size,
        leaf.pa,
        leaf.level.number(),
        A::attributes(leaf)
    )
}

fn outcome<A: Explain>(
    context: &A::Context,
    access: &Access,
    result: &Result<Leaf<A>, A::Fault>,
    updates: Vec<(u64, u64, u64)>,
) -> Outcome {
    let (pa, fault) = match result {
        Ok(leaf) => {
            let offset = A::canonical(context, access.va).offset_in(leaf.size);
            // With translation off, the address is the access's own.
            let pa = match A::before_lookup(context, access) {
                Ok(Lookup::Off(pa)) => pa,
                _ => leaf.pa.wrapping_add(offset),
            };
            (Some(pa.raw()), None)
        }
        Err(fault) => (None, Some(fault)),
    };
    Outcome {
        privilege: match access.privilege {
            Privilege::User => "user",
            Privilege::Supervisor => "supervisor",
        },
        access: match access.kind {
            AccessKind::Load => "read",
            AccessKind::Store => "write",
            AccessKind::Fetch => "execute",
        },
        pa,
        fault: fault.map(ToString::to_string),
        reported: fault.map(|it| A::reported(it, access)),
        updates,
    }
}

fn steps<A: Explain>(
    context: &A::Context,
    half: Half,
    seen: &[(Step<A>, Option<TablePointer<A>>)],
) -> Vec<WalkStep> {
    let root = A::roots(context)
        .into_iter()
        .flatten()
        .find(|it| it.half == half);
    let mut base = root.map_or(0, |it| it.base.raw());
    // The two halves of an x86 root share a table: the index has the bits of both.
    let entries = A::roots(context)
        .into_iter()
        .flatten()
        .filter(|it| root.is_some_and(|root| it.base == root.base && it.first == root.end))
        .chain(root)
        .map(|it| it.end)
        .max();
    let mut width = entries.map_or(9, |it| it.trailing_zeros().max(1));
    let mut out = Vec::new();
    for (step, next) in seen {
        let low = A::span_shift(context, half, step.level);
        out.push(WalkStep {
            level: step.level.number(),
            table: A::table_name(step.level),
            index_high: low + width - 1,
            index_low: low,
            index: step.at.raw().wrapping_sub(base) / 8,
            at: step.at.raw(),
            raw: step.raw,
            fields: A::entry(context, half, step.level, step.raw),
            next: next.map(|it| it.base.raw()),
            taken_away: next.map_or_else(String::new, |it| A::taken_away(it.attrs)),
        });
        if let Some(pointer) = next {
            base = pointer.base.raw();
            width = low - A::span_shift(context, half, pointer.level);
        }
    }
    out
}
