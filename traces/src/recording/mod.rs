//! MMTRC001: a real kernel's work during one system call.
//!
//! A recording holds every instruction run, data access, TLB maintenance operation, barrier,
//! translation-register write and IPI of one system call, and the translation tables that were
//! in force when it began. Physical addresses are recorded beside virtual ones, so a recording
//! is an oracle for a walker and for a TLB model: [`RecordedTables`] keeps the tables and
//! [`RecordedCpus`] the registers up to date while the records go by, and [`Replay`] drives a whole modelled system.
//! `docs/recordings.md` has the format and its blind spots.

mod arch;
mod compare;
mod cpus;
mod header;
mod reader;
mod record;
mod replay;
mod retire;
mod sections;
mod summary;
mod tables;

pub use arch::{RecordedArch, UnusableRecord};
pub use compare::Compared;
pub use cpus::RecordedCpus;
pub use header::{Header, Isa};
pub use reader::Reader;
pub use record::{
    Barrier, ContextRegister, DataAccess, Event, Maintenance, Record, SystemInstruction, Table,
    TableRoot,
};
pub use replay::{Answer, Replay};
pub use sections::Section;
pub use summary::Summary;
pub use tables::RecordedTables;

use std::io::BufRead;

use crate::error::ReadError;
use crate::format::Format;

/// The format itself.
#[derive(Copy, Clone, Debug)]
pub struct Recording;

impl Format for Recording {
    const NAME: &'static str = "MMTRC001 recording";

    type Record = Record;
    type Reader<R: BufRead> = Reader<R>;

    fn recognises(start: &[u8]) -> bool {
        start.starts_with(&header::MAGIC)
    }

    fn reader<R: BufRead>(input: R) -> Result<Reader<R>, ReadError> {
        Reader::new(input)
    }
}
