//! A whole address space: merged ranges, and what is wrong with the tables.
//!
//! Tables are found through [`Arch::descriptor`](crate::arch::Arch::descriptor), and each leaf is
//! translated by the walker from its own table on, so the dump has no rules of its own. A table
//! is expanded once for each level at which it is met, so cyclic and hostile tables end, and the
//! answer is bounded by [`Limits`].

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use serde::Serialize;

use super::walk::Explain;
use crate::access::{Access, AccessKind, Privilege};
use crate::addr::{Level, Pa, PageSize, Va};
use crate::arch::{Arch, Descriptor, Half, Leaf, Root, Step, TablePointer, WalkVisitor};
use crate::memory::{Peek, TableMemory};

/// How much is kept.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Ranges; the dump stops behind them.
    pub ranges: usize,
    /// Findings; further ones are only counted.
    pub findings: usize,
}

/// Neighbouring pages with the same attributes, virtually and physically contiguous.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Range {
    /// First address.
    pub va: u64,
    /// First physical address.
    pub pa: u64,
    /// Bytes.
    pub bytes: u64,
    /// Level of the leaves.
    pub level: i8,
    /// Bytes of a leaf.
    pub page: u64,
    /// Bytes of the contiguous groups that they form, if they do.
    pub group: Option<u64>,
    /// What user code may do: `rwx`.
    pub user: String,
    /// What the kernel may do.
    pub supervisor: String,
    /// Memory type and the other attributes.
    pub attributes: String,
    /// The memory type alone, as the architecture numbers it.
    pub memory_type: u8,
}

/// Something wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// `contiguous`, `writable-executable`, `mismatched`, `reserved`, `faults`, `shared` or
    /// `outside`.
    pub kind: &'static str,
    /// The address that shows it.
    pub va: u64,
    /// In words.
    pub text: String,
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Dump {
    /// Ranges by address, user half first.
    pub ranges: Vec<Range>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// How many findings there were; more than are listed if the limit was reached.
    pub findings_total: u64,
    /// Tables expanded.
    pub tables: u64,
    /// Whether the limit of ranges cut the dump short.
    pub truncated: bool,
}

/// A table that is being read.
struct Frame<A: Arch> {
    pointer: Option<TablePointer<A>>,
    base: Pa,
    level: Level,
    va: u64,
    index: u64,
    end: u64,
}

/// The next table of the first step.
struct First<A: Arch>(Option<Option<TablePointer<A>>>);

impl<A: Arch> WalkVisitor<A> for First<A> {
    fn step(&mut self, step: &Step<A>) {
        self.0.get_or_insert(step.next);
    }
}

/// A range that may still grow.
struct Open<A: Arch> {
    first: Leaf<A>,
    pointer: Option<TablePointer<A>>,
    bytes: u64,
}

struct Dumper<'a, A: Explain, M> {
    context: A::Context,
    memory: &'a M,
    limits: Limits,
    /// Levels at which a table was expanded, one bit each, by its address.
    seen: HashMap<u64, u8, FxBuildHasher>,
    open: Option<Open<A>>,
    /// The first entry of the contiguous group checked last.
    group: Option<Pa>,
    dump: Dump,
}

/// Dumps everything that `context` makes reachable in `memory`.
pub fn dump<A: Explain, M: TableMemory>(context: &A::Context, memory: &M, limits: Limits) -> Dump {
    let mut dumper = Dumper::<A, M> {
        context: A::permissive(context),
        memory,
        limits,
        seen: HashMap::default(),
        open: None,
        group: None,
        dump: Dump::default(),
    };
    for root in A::roots(context).into_iter().flatten() {
        dumper.root(&root);
        dumper.close();
    }
    let mut dump = dumper.dump;
    mismatched(&mut dump, limits);
    dump
}

impl<A: Explain, M: TableMemory> Dumper<'_, A, M> {
    fn root(&mut self, root: &Root) {
        let shift = A::span_shift(&self.context, root.half, root.level);
        let top = shift + root.end.next_power_of_two().trailing_zeros();
        let upper = match root.half {
            Half::Upper if top < 64 => u64::MAX << top,
            _ => 0,
        };
        *self.seen.entry(root.base.raw()).or_insert(0) |= 1 << root.level.index();
        self.dump.tables += 1;
        let mut stack = vec![Frame::<A> {
            pointer: None,
            base: root.base,
            level: root.level,
            va: upper,
            index: root.first as u64,
            end: root.end as u64,
        }];
        while let Some(frame) = stack.last_mut() {
            if frame.index >= frame.end || self.dump.truncated {
                stack.pop();
                continue;
            }
            let index = frame.index;
            frame.index += 1;
            let shift = A::span_shift(&self.context, root.half, frame.level);
            let va = Va::new(frame.va | index << shift);
            let at = frame.base.wrapping_add(index * 8);
            let Some(raw) = self.memory.read_descriptor(at) else {
                // The rest of the table is as likely to be missing: one finding is enough.
                frame.index = frame.end;
                self.find("outside", va, || {
                    format!("the entry at {at} is not in the image")
                });
                continue;
            };
            if raw == 0 {
                continue;
            }
            let (level, pointer, base, end) = (frame.level, frame.pointer, frame.base, frame.end);
            match A::descriptor(&self.context, root.half, level, raw) {
                Descriptor::Invalid => {
                    if A::is_present(&self.context, raw) {
                        self.find("reserved", va, || format!("the entry {raw:#x} at {at} is valid but malformed: every access faults"));
                    }
                }
                Descriptor::Table(_) => {
                    let child = self.child(va, pointer, at, raw);
                    stack.extend(child.map(|child| self.frame(root.half, level, va, child)));
                }
                Descriptor::Leaf {
                    contiguous, size, ..
                } => {
                    self.leaf(va, pointer, at);
                    if contiguous {
                        self.check_group(root.half, level, va, base, index, end, size);
                    }
                }
            }
        }
    }

    fn frame(&self, half: Half, parent: Level, va: Va, pointer: TablePointer<A>) -> Frame<A> {
        let bits = A::span_shift(&self.context, half, parent)
            - A::span_shift(&self.context, half, pointer.level);
        Frame {
            pointer: Some(pointer),
            base: pointer.base,
            level: pointer.level,
            va: va.raw(),
            index: 0,
            end: 1 << bits,
        }
    }

    /// The table below, if it is not expanded at its level yet.
    fn child(
        &mut self,
        va: Va,
        from: Option<TablePointer<A>>,
        at: Pa,
        raw: u64,
    ) -> Option<TablePointer<A>> {
        let mut first = First::<A>(None);
        let access = Access::new(va, AccessKind::Load, Privilege::Supervisor);
        // Only the first step matters; whether the address itself is mapped does not.
        let _ = A::walk(
            &self.context,
            &access,
            from,
            &mut Peek(self.memory),
            &mut first,
        );
        let Some(pointer) = first.0.flatten() else {
            self.find("faults", va, || {
                format!("the table entry {raw:#x} at {at} leads nowhere: its address is too wide")
            });
            return None;
        };
        let seen = self.seen.entry(pointer.base.raw()).or_insert(0);
        let bit = 1 << pointer.level.index();
        let (again, expanded) = (*seen != 0, *seen & bit != 0);
        *seen |= bit;
        if again {
            let base = pointer.base;
            self.find("shared", va, || {
                format!("the table at {base} is reached a second time, from the entry at {at}")
            });
        }
        if expanded {
            return None;
        }
        self.dump.tables += 1;
        Some(pointer)
    }

    /// Translates a leaf and joins it to the range before it.
    fn leaf(&mut self, va: Va, from: Option<TablePointer<A>>, at: Pa) {
        let access = Access::new(va, AccessKind::Load, Privilege::Supervisor);
        let leaf = match A::walk(
            &self.context,
            &access,
            from,
            &mut Peek(self.memory),
            &mut (),
        ) {
            Ok(leaf) => leaf,
            Err(fault) => {
                self.find("faults", va, || format!("the leaf at {at}: {fault}"));
                return;
            }
        };
        let size = leaf.size.bytes();
        if let Some(open) = &mut self.open {
            let first = &open.first;
            let same = (first.level, first.group, first.scope, first.attrs)
                == (leaf.level, leaf.group, leaf.scope, leaf.attrs);
            let follows = first.va.wrapping_add(open.bytes) == leaf.va
                && first.pa.wrapping_add(open.bytes) == leaf.pa;
            if same && follows {
                open.bytes += size;
                return;
            }
        }
        self.close();
        self.open = Some(Open {
            first: leaf,
            pointer: from,
            bytes: size,
        });
    }

    /// Ends the range that is open and describes it.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        if self.dump.ranges.len() >= self.limits.ranges {
            self.dump.truncated = true;
            return;
        }
        let leaf = &open.first;
        let user = self.rights(&open, Privilege::User);
        let supervisor = self.rights(&open, Privilege::Supervisor);
        for (who, rights) in [("user", &user), ("supervisor", &supervisor)] {
            if rights.contains('w') && rights.contains('x') {
                self.find("writable-executable", leaf.va, || {
                    format!(
                        "{:#x} bytes are writable and executable for {who}",
                        open.bytes
                    )
                });
            }
        }
        self.dump.ranges.push(Range {
            va: leaf.va.raw(),
            pa: leaf.pa.raw(),
            bytes: open.bytes,
            level: leaf.level.number(),
            page: leaf.size.bytes(),
            group: leaf.group.map(PageSize::bytes),
            user,
            supervisor,
            attributes: A::attributes(leaf),
            memory_type: A::memory_type(leaf),
        });
    }

    /// What `privilege` may do in a range, by asking the walker.
    fn rights(&self, open: &Open<A>, privilege: Privilege) -> String {
        [
            (AccessKind::Load, 'r'),
            (AccessKind::Store, 'w'),
            (AccessKind::Fetch, 'x'),
        ]
        .into_iter()
        .map(|(kind, letter)| {
            let access = Access::new(open.first.va, kind, privilege);
            let walked = A::walk(
                &self.context,
                &access,
                open.pointer,
                &mut Peek(self.memory),
                &mut (),
            );
            if walked.is_ok() { letter } else { '-' }
        })
        .collect()
    }

    /// All entries of a contiguous group must be alike and map consecutive, aligned memory.
    #[allow(clippy::too_many_arguments, reason = "one entry's place in its table")]
    fn check_group(
        &mut self,
        half: Half,
        level: Level,
        va: Va,
        base: Pa,
        index: u64,
        end: u64,
        size: PageSize,
    ) {
        let Some(group) = A::group_size(&self.context, half, level) else {
            return;
        };
        let count = group.bytes() / size.bytes();
        let first = index & !(count - 1);
        let start = base.wrapping_add(first * 8);
        if self.group == Some(start) || first + count > end {
            return;
        }
        self.group = Some(start);
        let entry = |index: u64| {
            let raw = self.memory.read_descriptor(base.wrapping_add(index * 8))?;
            match A::descriptor(&self.context, half, level, raw) {
                Descriptor::Leaf {
                    pa,
                    contiguous: true,
                    ..
                } => Some((pa, A::without_status(&self.context, raw))),
                _ => None,
            }
        };
        let expected = entry(first).filter(|(pa, _)| pa.is_aligned(group));
        let wrong = match expected {
            None => Some(first),
            Some((pa, bits)) => (first..first + count).find(|&index| {
                let offset = (index - first) * size.bytes();
                entry(index) != Some((pa.wrapping_add(offset), bits.wrapping_add(offset)))
            }),
        };
        if let Some(wrong) = wrong {
            let at = base.wrapping_add(wrong * 8);
            self.find("contiguous", va, || format!("the {group} group of the entries from {start} is misprogrammed: the one at {at} does not fit"));
        }
    }

    fn find(&mut self, kind: &'static str, va: Va, text: impl FnOnce() -> String) {
        find(&mut self.dump, self.limits, kind, va, text);
    }
}

fn find(
    dump: &mut Dump,
    limits: Limits,
    kind: &'static str,
    va: Va,
    text: impl FnOnce() -> String,
) {
    dump.findings_total += 1;
    if dump.findings.len() < limits.findings {
        dump.findings.push(Finding {
            kind,
            va: va.raw(),
            text: text(),
        });
    }
}

/// The same memory under different memory types: a sweep over the ranges by physical address.
fn mismatched(dump: &mut Dump, limits: Limits) {
    let mut order: Vec<_> = dump
        .ranges
        .iter()
        .map(|it| (it.pa, it.bytes, it.memory_type, it.va))
        .collect();
    order.sort_unstable();
    // The range that reaches furthest, and the one of another type that does.
    let mut furthest: Option<(u64, u8, u64)> = None;
    let mut other: Option<(u64, u8, u64)> = None;
    for (pa, bytes, kind, va) in order {
        let clash = [furthest, other]
            .into_iter()
            .flatten()
            .find(|(end, own, _)| *own != kind && *end > pa);
        if let Some((_, _, at)) = clash {
            find(dump, limits, "mismatched", Va::new(va), || {
                format!("{pa:#x} is also mapped at {at:#018x} with another memory type")
            });
        }
        let end = pa.saturating_add(bytes);
        match furthest {
            Some((_, own, _)) if own == kind => furthest = furthest.max(Some((end, kind, va))),
            Some((reach, _, _)) if end <= reach => other = other.max(Some((end, kind, va))),
            _ => {
                other = furthest;
                furthest = Some((end, kind, va));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aarch64::{Aarch64, Context};
    use crate::memory::SparseMemory;
    use crate::x86::X86_64;

    const LIMITS: Limits = Limits {
        ranges: 1000,
        findings: 100,
    };

    fn arm() -> Context {
        Context {
            sctlr: 1,
            tcr: 25 | 1 << 23 | 5 << 32,
            ttbr0: 0x1000,
            mair: 0x00ff,
            ..Context::default()
        }
    }

    fn kinds(dump: &Dump) -> Vec<&'static str> {
        dump.findings.iter().map(|it| it.kind).collect()
    }

    /// 39-bit tables with the last level at 0x3000.
    fn arm_memory() -> SparseMemory {
        let mut memory = SparseMemory::new();
        for frame in [0x1000, 0x2000, 0x3000] {
            memory.add_frame(Pa::new(frame));
        }
        memory.write(Pa::new(0x1000), 0x2003);
        memory.write(Pa::new(0x2000), 0x3003);
        memory
    }

    /// A read-only page that nothing executes.
    const PAGE: u64 = 0x403 | 1 << 7 | 3 << 53;

    #[test]
    fn neighbours_are_merged_and_groups_are_checked() {
        let mut memory = arm_memory();
        for index in 0..16 {
            memory.write(
                Pa::new(0x3000 + index * 8),
                (0x8000_0000 + index * 0x1000) | PAGE | 1 << 52,
            );
        }
        let dumped = dump::<Aarch64, _>(&arm(), &memory, LIMITS);
        assert_eq!(kinds(&dumped), [""; 0]);
        assert_eq!(dumped.ranges.len(), 1);
        assert_eq!(
            (dumped.ranges[0].bytes, dumped.ranges[0].group),
            (0x1_0000, Some(0x1_0000))
        );
        memory.write(Pa::new(0x3000 + 5 * 8), 0x9000_0000 | PAGE | 1 << 52);
        assert_eq!(
            kinds(&dump::<Aarch64, _>(&arm(), &memory, LIMITS)),
            ["contiguous"]
        );
    }

    #[test]
    fn each_kind_of_mistake_is_found() {
        let mut memory = arm_memory();
        memory.write(Pa::new(0x3000), 0x8000_0000 | PAGE & !(1 << 7 | 3 << 53));
        memory.write(Pa::new(0x3008), 0x8000_0000 | PAGE | 1 << 2);
        memory.write(Pa::new(0x3010), 0x8000_1000 | PAGE & !(1 << 10));
        memory.write(Pa::new(0x3018), 0x1);
        memory.write(Pa::new(0x2008), 0x3003);
        memory.write(Pa::new(0x2010), 0x7_0003);
        let mut found = kinds(&dump::<Aarch64, _>(&arm(), &memory, LIMITS));
        found.sort_unstable();
        assert_eq!(
            found,
            [
                "faults",
                "mismatched",
                "outside",
                "reserved",
                "shared",
                "writable-executable"
            ]
        );
    }

    #[test]
    fn a_table_full_of_itself_ends() {
        let mut memory = SparseMemory::new();
        for index in 0..512 {
            memory.write(Pa::new(0x1000 + index * 8), 0x1067);
        }
        let context = crate::x86::Context {
            cr0: 0x8001_0001,
            cr3: 0x1000,
            cr4: 0xa0,
            efer: 0xd01,
            ..Default::default()
        };
        let dumped = dump::<X86_64, _>(
            &context,
            &memory,
            Limits {
                ranges: 10,
                findings: 5,
            },
        );
        assert!(dumped.truncated || dumped.ranges.len() <= 10);
        assert_eq!(dumped.findings.len(), 5);
        assert!(dumped.findings_total > 5);
        assert!(dumped.tables <= 10);
    }
}
