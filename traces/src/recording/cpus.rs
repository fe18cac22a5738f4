//! The state of each CPU, followed along a recording.

use mmuscope_models::access::{Access, AccessKind, Privilege};
use mmuscope_models::addr::Va;

use super::arch::{RecordedArch, UnusableRecord};
use super::record::{Event, Record};

/// The translation registers of every CPU, and whether it runs user or kernel code.
#[derive(Clone, Debug)]
pub struct RecordedCpus<A: RecordedArch> {
    /// What the first CPU began with. A recording gives the state of the CPU that makes the
    /// call; the others run threads of the same process, so they begin with the same.
    initial: A::Context,
    began: bool,
    cpus: Vec<Cpu<A>>,
}

#[derive(Clone, Debug)]
struct Cpu<A: RecordedArch> {
    context: A::Context,
    privilege: Privilege,
}

impl<A: RecordedArch> Default for RecordedCpus<A> {
    fn default() -> Self {
        Self {
            initial: A::unrecorded(),
            began: false,
            cpus: Vec::new(),
        }
    }
}

impl<A: RecordedArch> RecordedCpus<A> {
    /// Before the first record.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a record. If it writes a register, says what that removes from the TLBs of its
    /// CPU.
    ///
    /// # Errors
    /// A register that the architecture does not have.
    pub fn apply(&mut self, record: &Record) -> Result<Option<A::Invalidation>, UnusableRecord> {
        match record.event {
            Event::Context { register, value } => {
                if !self.began {
                    A::write(&mut self.initial, register, value)?;
                }
                A::write(&mut self.cpu(record.cpu).context, register, value)
            }
            Event::Exec { privilege, .. } => {
                self.cpu(record.cpu).privilege = privilege;
                Ok(None)
            }
            Event::Table(_) => {
                self.began = true;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// The translation registers of `cpu`.
    pub fn context(&mut self, cpu: u8) -> &A::Context {
        &self.cpu(cpu).context
    }

    /// An access of the code that `cpu` runs.
    pub fn access(&mut self, cpu: u8, va: Va, kind: AccessKind) -> Access {
        Access::new(va, kind, self.cpu(cpu).privilege)
    }

    fn cpu(&mut self, cpu: u8) -> &mut Cpu<A> {
        let index = usize::from(cpu);
        while self.cpus.len() <= index {
            self.cpus.push(Cpu {
                context: self.initial.clone(),
                privilege: Privilege::Supervisor,
            });
        }
        &mut self.cpus[index]
    }
}
