//! The models' walkers against the MMU of a recorded machine: every data access of every
//! recording is walked through the tables as they are at that moment, and must arrive at the
//! recorded physical address. Instruction runs must lie in executable pages.
//!
//! Set `MMUSCOPE_RECORDINGS` to a directory to run over more recordings.

#![allow(clippy::print_stdout, reason = "the test reports what it compared")]

mod common;

use std::path::Path;

use common::{name, recordings};
use mmuscope_models::access::AccessKind;
use mmuscope_models::addr::Va;
use mmuscope_models::arch::Leaf;
use mmuscope_models::{aarch64::Aarch64, x86::X86_64};
use mmuscope_traces::recording::{
    DataAccess, Event, Isa, RecordedArch, RecordedCpus, RecordedTables, Recording,
};

/// What came of one recording.
#[derive(Default, Debug)]
struct Tally {
    /// Accesses before the first table was recorded: they cannot be walked.
    before_tables: u64,
    /// Data accesses that arrived at the recorded address.
    equal: u64,
    /// Instruction runs whose first page is executable.
    executable: u64,
    /// The rest, described.
    wrong: Vec<String>,
}

fn walk<A: RecordedArch>(
    cpus: &mut RecordedCpus<A>,
    cpu: u8,
    va: Va,
    kind: AccessKind,
    tables: &mut RecordedTables,
) -> Result<Leaf<A>, A::Fault> {
    let access = cpus.access(cpu, va, kind);
    A::walk(cpus.context(cpu), &access, None, tables, &mut ())
}

fn check_access<A: RecordedArch>(
    tally: &mut Tally,
    leaf: Result<Leaf<A>, A::Fault>,
    access: &DataAccess,
) {
    match leaf {
        Ok(leaf) => {
            let pa = leaf.pa.wrapping_add(access.va.offset_in(leaf.size));
            if pa == access.pa {
                tally.equal += 1;
            } else {
                tally.wrong.push(format!("{access:?}: walked to {pa}"));
            }
        }
        Err(fault) => tally.wrong.push(format!("{access:?}: {fault}")),
    }
}

fn run<A: RecordedArch>(path: &Path) -> Tally {
    let reader = mmuscope_traces::open::<Recording>(path).unwrap();
    let mut tables = RecordedTables::new(reader.header().isa);
    let mut cpus = RecordedCpus::<A>::new();
    let mut tally = Tally::default();
    for record in reader {
        let record = record.unwrap();
        cpus.apply(&record).unwrap();
        match &record.event {
            Event::Load(_) | Event::Store(_) if tables.is_empty() => tally.before_tables += 1,
            Event::Load(access) => {
                let leaf = walk(
                    &mut cpus,
                    record.cpu,
                    access.va,
                    AccessKind::Load,
                    &mut tables,
                );
                check_access(&mut tally, leaf, access);
            }
            Event::Store(access) => {
                let leaf = walk(
                    &mut cpus,
                    record.cpu,
                    access.va,
                    AccessKind::Store,
                    &mut tables,
                );
                check_access(&mut tally, leaf, access);
            }
            Event::Exec { start, .. } if !tables.is_empty() => {
                match walk(
                    &mut cpus,
                    record.cpu,
                    *start,
                    AccessKind::Fetch,
                    &mut tables,
                ) {
                    Ok(_) => tally.executable += 1,
                    Err(fault) => tally.wrong.push(format!("fetch at {start}: {fault}")),
                }
            }
            _ => {}
        }
        tables.apply(&record.event);
    }
    tally
}

#[test]
fn walk_real_kernels() {
    let mut equal = 0;
    for path in recordings() {
        let (tally, not_walkable) = match common::isa(&path) {
            // The tables are dumped when the kernel is entered for the first time; the entry
            // code's own stores come before that.
            Isa::Aarch64 => (run::<Aarch64>(&path), 22..=23),
            Isa::X86_64 => (run::<X86_64>(&path), 0..=0),
        };
        println!(
            "{:44} {:7} equal, {:6} runs executable, {:2} before the tables, {} wrong",
            name(&path),
            tally.equal,
            tally.executable,
            tally.before_tables,
            tally.wrong.len()
        );
        let first = &tally.wrong[..tally.wrong.len().min(5)];
        assert!(first.is_empty(), "{}: {first:#?}", name(&path));
        assert!(not_walkable.contains(&tally.before_tables), "{tally:?}");
        assert!(tally.equal > 1000, "{tally:?}");
        equal += tally.equal;
    }
    println!("{equal} accesses walked, all equal to the recorded addresses");
}
