//! What a recording holds, counted.

use std::path::Path;

use mmuscope_models::access::Privilege;

use super::Recording;
use super::header::Header;
use super::record::Event;
use crate::error::ReadError;

/// Counts over a whole recording, of every CPU together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// What the file says about itself.
    pub header: Header,
    /// CPUs that have records: the highest number and one.
    pub cpus: usize,
    /// The CPU that makes the system call: the only one whose user code is recorded.
    pub caller: usize,
    /// Records.
    pub records: u64,
    /// Instructions.
    pub instructions: u64,
    /// Data accesses.
    pub accesses: u64,
    /// Records before the first table, which cannot be replayed.
    pub before_tables: u64,
    /// TLB maintenance instructions.
    pub maintenance: u64,
    /// Barriers.
    pub barriers: u64,
    /// Inter-processor interrupts.
    pub ipis: u64,
}

impl Summary {
    /// Reads the recording at `path` from its first byte to its last.
    ///
    /// # Errors
    /// A file that cannot be read, or is no recording, or is broken.
    pub fn of(path: &Path) -> Result<Self, ReadError> {
        let reader = crate::open::<Recording>(path)?;
        let mut summary = Self {
            header: reader.header().clone(),
            cpus: 1,
            caller: 0,
            records: 0,
            instructions: 0,
            accesses: 0,
            before_tables: 0,
            maintenance: 0,
            barriers: 0,
            ipis: 0,
        };
        let (mut tables, mut caller) = (false, None);
        for record in reader {
            let record = record?;
            summary.records += 1;
            let cpu = usize::from(record.cpu);
            match &record.event {
                Event::Table(_) => {
                    tables = true;
                    continue;
                }
                Event::Exec {
                    instructions,
                    privilege,
                    ..
                } => {
                    summary.instructions += u64::from(*instructions);
                    if *privilege == Privilege::User {
                        caller.get_or_insert(cpu);
                    }
                }
                Event::Load(_) | Event::Store(_) => summary.accesses += 1,
                Event::Tlbi(_) => summary.maintenance += 1,
                Event::Barrier(_) => summary.barriers += 1,
                Event::Ipi(_) => summary.ipis += 1,
                Event::Context { .. } => {}
            }
            summary.cpus = summary.cpus.max(cpu + 1);
            summary.before_tables += u64::from(!tables);
        }
        summary.caller = caller.unwrap_or(0);
        Ok(summary)
    }
}
