//! The records, decoded and checked.

use mmuscope_models::access::Privilege;
use mmuscope_models::addr::{Level, Pa, Va};

use super::header::Isa;
use crate::error::ReadError;

/// Bytes of a record, without the table contents that follow a table record.
pub(super) const LENGTH: usize = 32;
/// 8-byte words of a recorded table.
pub(super) const TABLE_WORDS: usize = 512;

/// In a data access's physical address: the access went to a device.
const DEVICE_BIT: u64 = 1 << 63;
/// The largest recorded access is 64 bytes.
const MAX_SIZE_LOG2: u8 = 6;

/// One record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The CPU it happened on.
    pub cpu: u8,
    /// What happened.
    pub event: Event,
}

/// What a record says happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Consecutive instructions were executed.
    Exec {
        /// Address of the first.
        start: Va,
        /// How many.
        instructions: u32,
        /// Their length in bytes.
        bytes: u64,
        /// User or kernel code.
        privilege: Privilege,
    },
    /// A data read.
    Load(DataAccess),
    /// A data write.
    Store(DataAccess),
    /// A TLB maintenance instruction.
    Tlbi(Maintenance),
    /// A translation register was written, or (before the first other event that depends on it)
    /// held this value when the recording began.
    Context {
        /// The register.
        register: ContextRegister,
        /// Its new value.
        value: u64,
    },
    /// A barrier that matters to TLB maintenance.
    Barrier(Barrier),
    /// An inter-processor interrupt was sent: the raw value written to the x2APIC ICR or to
    /// ICC_SGI1R_EL1.
    Ipi(u64),
    /// A page of translation tables, as it was at this moment.
    Table(Box<Table>),
}

/// A data access.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct DataAccess {
    /// The first byte.
    pub va: Va,
    /// Where the recorded machine's MMU sent it.
    pub pa: Pa,
    /// Whether a device answered, not RAM.
    pub device: bool,
    /// Bytes accessed: a power of two, at most 64.
    pub size: u8,
    /// The value read or written; the low 8 bytes of it when `size` is larger.
    pub value: u64,
    /// Set if the address lies in a user translation table that the recorder knew: the table's
    /// level.
    pub table: Option<Level>,
}

/// A TLB maintenance instruction.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Maintenance {
    /// AArch64 `TLBI`.
    Tlbi {
        /// Which one.
        instruction: SystemInstruction,
        /// Xt; 0 for the forms without an operand.
        operand: u64,
    },
    /// x86 `INVLPG`.
    Invlpg(Va),
    /// x86 `INVPCID`; the descriptor is not recorded.
    Invpcid {
        /// The type operand, 0 to 3.
        kind: u8,
    },
}

/// The encoding of an AArch64 SYS instruction with op0 = 1.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct SystemInstruction {
    /// op1, 0 to 7.
    pub op1: u8,
    /// CRn, 0 to 15.
    pub crn: u8,
    /// CRm, 0 to 15.
    pub crm: u8,
    /// op2, 0 to 7.
    pub op2: u8,
}

/// A register that translation depends on.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum ContextRegister {
    /// TTBR0_EL1.
    Ttbr0,
    /// TTBR1_EL1.
    Ttbr1,
    /// TCR_EL1.
    Tcr,
    /// CR3.
    Cr3,
}

/// An AArch64 barrier.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Barrier {
    /// `DSB` with this CRm: domain in bits 3:2, access types in bits 1:0.
    Dsb(u8),
    /// `ISB`.
    Isb,
}

/// Which root a recorded table was reached from.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum TableRoot {
    /// The user root: TTBR0, or CR3.
    User,
    /// TTBR1.
    Kernel,
}

/// A page of translation tables.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Where it lies; 4 KiB aligned.
    pub pa: Pa,
    /// The level of its entries.
    pub level: Level,
    /// Which root it was reached from.
    pub root: TableRoot,
    /// Its entries.
    pub words: [u64; TABLE_WORDS],
}

/// A record's fields before they are given a meaning.
#[derive(Copy, Clone, Debug)]
pub(super) struct Raw {
    at: u64,
    pub kind: u8,
    cpu: u8,
    size: u8,
    aux: u8,
    aux32: u32,
    va: u64,
    pa: u64,
    value: u64,
}

/// The type of a table record: the only one that is followed by more data.
pub(super) const TABLE: u8 = 10;

impl Raw {
    /// Splits the record that begins at byte `at` of the stream.
    pub fn split(at: u64, bytes: &[u8; LENGTH]) -> Self {
        let word = |from: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[from..from + 8]);
            u64::from_le_bytes(word)
        };
        Self {
            at,
            kind: bytes[0],
            cpu: bytes[1],
            size: bytes[2],
            aux: bytes[3],
            aux32: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            va: word(8),
            pa: word(16),
            value: word(24),
        }
    }

    /// Gives the fields their meaning. Table records go through [`Raw::table`].
    pub fn decode(&self, isa: Isa) -> Result<Record, ReadError> {
        let event = match self.kind {
            1 => Event::Exec {
                start: Va::new(self.va),
                instructions: self.aux32,
                bytes: self.value,
                privilege: match self.size {
                    0 => Privilege::User,
                    1 => Privilege::Supervisor,
                    other => return Err(self.bad("privilege", other.into())),
                },
            },
            2 => Event::Load(self.access()?),
            3 => Event::Store(self.access()?),
            4 => Event::Tlbi(self.maintenance(isa)?),
            5 => Event::Context {
                register: match (self.size, isa) {
                    (0, Isa::Aarch64) => ContextRegister::Ttbr0,
                    (1, Isa::Aarch64) => ContextRegister::Ttbr1,
                    (2, Isa::Aarch64) => ContextRegister::Tcr,
                    (3, Isa::X86_64) => ContextRegister::Cr3,
                    (other, _) => return Err(self.bad("register number", other.into())),
                },
                value: self.value,
            },
            6 => Event::Barrier(Barrier::Dsb(match self.aux32 {
                crm @ 0..=15 => crm.to_le_bytes()[0],
                other => return Err(self.bad("barrier option", other.into())),
            })),
            7 => Event::Barrier(Barrier::Isb),
            8 => Event::Ipi(self.value),
            kind => return Err(ReadError::UnknownType { at: self.at, kind }),
        };
        Ok(Record {
            cpu: self.cpu,
            event,
        })
    }

    /// The length check of a table record, before its contents are read.
    pub fn check_table(&self) -> Result<(), ReadError> {
        let length = (TABLE_WORDS * 8) as u64;
        if u64::from(self.aux32) != length {
            return Err(self.bad("table length", self.aux32.into()));
        }
        Ok(())
    }

    /// A table record and the contents that follow it.
    pub fn table(&self, words: [u64; TABLE_WORDS]) -> Result<Record, ReadError> {
        let level = match self.size {
            0 => Level::L0,
            1 => Level::L1,
            2 => Level::L2,
            3 => Level::L3,
            other => return Err(self.bad("table level", other.into())),
        };
        // A table record keeps the root where other records keep the CPU.
        let root = match self.cpu {
            0 => TableRoot::User,
            1 => TableRoot::Kernel,
            other => return Err(self.bad("table root", other.into())),
        };
        if !self.pa.is_multiple_of(4096) {
            return Err(self.bad("table address", self.pa));
        }
        let table = Table {
            pa: Pa::new(self.pa),
            level,
            root,
            words,
        };
        Ok(Record {
            cpu: 0,
            event: Event::Table(Box::new(table)),
        })
    }

    fn access(&self) -> Result<DataAccess, ReadError> {
        if self.size > MAX_SIZE_LOG2 {
            return Err(self.bad("access size", self.size.into()));
        }
        let table = match self.aux {
            0 => None,
            1 => Some(Level::L0),
            2 => Some(Level::L1),
            3 => Some(Level::L2),
            4 => Some(Level::L3),
            other => return Err(self.bad("table level", other.into())),
        };
        Ok(DataAccess {
            va: Va::new(self.va),
            pa: Pa::new(self.pa & !DEVICE_BIT),
            device: self.pa & DEVICE_BIT != 0,
            size: 1 << self.size,
            value: self.value,
            table,
        })
    }

    fn maintenance(&self, isa: Isa) -> Result<Maintenance, ReadError> {
        match (isa, self.aux32) {
            // op0 in bits 15:14, then op1, CRn, CRm and op2 packed as in the instruction.
            (Isa::Aarch64, code) if code >> 14 == 1 => {
                let field = |shift: u32, mask: u8| (code >> shift).to_le_bytes()[0] & mask;
                Ok(Maintenance::Tlbi {
                    instruction: SystemInstruction {
                        op1: field(11, 7),
                        crn: field(7, 15),
                        crm: field(3, 15),
                        op2: field(0, 7),
                    },
                    operand: self.value,
                })
            }
            (Isa::X86_64, 1) => Ok(Maintenance::Invlpg(Va::new(self.va))),
            (Isa::X86_64, 2) if self.size <= 3 => Ok(Maintenance::Invpcid { kind: self.size }),
            (Isa::X86_64, 2) => Err(self.bad("INVPCID type", self.size.into())),
            (_, code) => Err(self.bad("maintenance code", code.into())),
        }
    }

    fn bad(&self, what: &'static str, value: u64) -> ReadError {
        ReadError::BadField {
            at: self.at,
            what,
            value,
        }
    }
}
