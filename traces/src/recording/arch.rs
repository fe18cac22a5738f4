//! What the models need to know about a recording's architecture.

use mmuscope_models::arch::Arch;
use mmuscope_models::{aarch64, x86};

use super::header::Isa;
use super::record::{ContextRegister, Maintenance};

/// A record that cannot be put into the models' terms.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UnusableRecord {
    /// A register of another architecture.
    #[error("{register:?} is no register of {isa:?}")]
    Register {
        /// The register.
        register: ContextRegister,
        /// The architecture.
        isa: Isa,
    },
    /// A maintenance instruction of another architecture.
    #[error("{maintenance:?} is no instruction of {isa:?}")]
    Instruction {
        /// The instruction.
        maintenance: Maintenance,
        /// The architecture.
        isa: Isa,
    },
    /// A TLBI that the models do not execute, or that does not exist.
    #[error(transparent)]
    Tlbi(#[from] aarch64::UnknownTlbi),
    /// A TLB maintenance instruction outside the TLBI space (CRn other than 8).
    #[error("a SYS instruction with CRn = {0} is no TLBI")]
    NotTlbi(u8),
    /// A CPU that the replaying system does not have.
    #[error("the recording has a CPU {0}, the system has not")]
    Cpu(u8),
    /// An INVPCID whose effect depends on its descriptor, which is not recorded.
    #[error("the descriptor of an INVPCID of type {0} is not recorded")]
    InvpcidOperand(u8),
}

/// An architecture of which there are recordings.
pub trait RecordedArch: Arch {
    /// How headers name it.
    const ISA: Isa;

    /// The registers that a recording does not show, as a Linux kernel that runs sets them.
    ///
    /// What lets the kernel past user-access protection is switched off (AArch64 PAN, x86 SMAP):
    /// a recording tells neither LDTR from LDR nor where STAC was executed.
    fn unrecorded() -> Self::Context;

    /// Writes a register, and says what the write removes from the core's TLBs.
    ///
    /// # Errors
    /// [`UnusableRecord::Register`].
    fn write(
        context: &mut Self::Context,
        register: ContextRegister,
        value: u64,
    ) -> Result<Option<Self::Invalidation>, UnusableRecord>;

    /// Decodes a maintenance instruction executed under `context`.
    ///
    /// # Errors
    /// Any [`UnusableRecord`] but [`UnusableRecord::Register`].
    fn maintenance(
        context: &Self::Context,
        maintenance: &Maintenance,
    ) -> Result<Self::Invalidation, UnusableRecord>;
}

impl RecordedArch for aarch64::Aarch64 {
    const ISA: Isa = Isa::Aarch64;

    fn unrecorded() -> aarch64::Context {
        aarch64::Context {
            // SCTLR_EL1.M.
            sctlr: 1,
            ..aarch64::Context::default()
        }
    }

    fn write(
        context: &mut aarch64::Context,
        register: ContextRegister,
        value: u64,
    ) -> Result<Option<aarch64::Tlbi>, UnusableRecord> {
        match register {
            ContextRegister::Ttbr0 => context.ttbr0 = value,
            ContextRegister::Ttbr1 => context.ttbr1 = value,
            ContextRegister::Tcr => context.tcr = value,
            ContextRegister::Cr3 => {
                let isa = Self::ISA;
                return Err(UnusableRecord::Register { register, isa });
            }
        }
        Ok(None)
    }

    fn maintenance(
        context: &aarch64::Context,
        maintenance: &Maintenance,
    ) -> Result<aarch64::Tlbi, UnusableRecord> {
        match *maintenance {
            Maintenance::Tlbi {
                instruction: it,
                operand,
            } => {
                if it.crn != 8 {
                    return Err(UnusableRecord::NotTlbi(it.crn));
                }
                let tlbi = aarch64::Tlbi::from_sys(it.op1, it.crm, it.op2, operand, context)?;
                Ok(tlbi)
            }
            other => Err(UnusableRecord::Instruction {
                maintenance: other,
                isa: Self::ISA,
            }),
        }
    }
}

impl RecordedArch for x86::X86_64 {
    const ISA: Isa = Isa::X86_64;

    fn unrecorded() -> x86::Context {
        x86::Context {
            // PG, WP, PE.
            cr0: 0x8001_0001,
            // PGE, PAE.
            cr4: 0xa0,
            // NXE, LMA, LME, SCE.
            efer: 0xd01,
            ..x86::Context::default()
        }
    }

    fn write(
        context: &mut x86::Context,
        register: ContextRegister,
        value: u64,
    ) -> Result<Option<x86::Flush>, UnusableRecord> {
        match register {
            ContextRegister::Cr3 => Ok(x86::mov_cr3(context, value)),
            _ => Err(UnusableRecord::Register {
                register,
                isa: Self::ISA,
            }),
        }
    }

    fn maintenance(
        context: &x86::Context,
        maintenance: &Maintenance,
    ) -> Result<x86::Flush, UnusableRecord> {
        match *maintenance {
            Maintenance::Invlpg(va) => Ok(x86::Flush::invlpg(context, va)),
            Maintenance::Invpcid { kind: 2 } => Ok(x86::Flush::InvpcidAll),
            Maintenance::Invpcid { kind: 3 } => Ok(x86::Flush::InvpcidAllNonGlobal),
            Maintenance::Invpcid { kind } => Err(UnusableRecord::InvpcidOperand(kind)),
            other @ Maintenance::Tlbi { .. } => Err(UnusableRecord::Instruction {
                maintenance: other,
                isa: Self::ISA,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use mmuscope_models::addr::Va;

    use super::*;
    use crate::recording::SystemInstruction;

    fn tlbi(crm: u8, op2: u8, operand: u64) -> Maintenance {
        let (op1, crn) = (0, 8);
        let instruction = SystemInstruction { op1, crn, crm, op2 };
        Maintenance::Tlbi {
            instruction,
            operand,
        }
    }

    #[test]
    fn tlbis_are_decoded_with_the_context_they_run_under() {
        let context = aarch64::Aarch64::unrecorded();
        let decoded = aarch64::Aarch64::maintenance(&context, &tlbi(3, 5, 0x1000)).unwrap();
        assert_eq!(decoded.kind(), aarch64::TlbiKind::Va);
        assert!(decoded.last_level());
        let unknown = aarch64::Aarch64::maintenance(&context, &tlbi(15, 7, 0));
        assert!(
            matches!(unknown, Err(UnusableRecord::Tlbi(_))),
            "{unknown:?}"
        );
    }

    #[test]
    fn a_cr3_write_flushes_and_a_ttbr_write_does_not() {
        let mut context = x86::X86_64::unrecorded();
        let flush = x86::X86_64::write(&mut context, ContextRegister::Cr3, 0x4062000).unwrap();
        assert!(matches!(flush, Some(x86::Flush::Cr3 { .. })));
        assert_eq!(context.cr3, 0x4062000);

        let mut context = aarch64::Aarch64::unrecorded();
        let register = ContextRegister::Ttbr0;
        let flush = aarch64::Aarch64::write(&mut context, register, 0x43ae9001);
        assert_eq!(flush, Ok(None));
        assert_eq!(context.ttbr0, 0x43ae9001);
    }

    #[test]
    fn records_of_the_other_architecture_are_refused() {
        let mut arm = aarch64::Aarch64::unrecorded();
        assert!(aarch64::Aarch64::write(&mut arm, ContextRegister::Cr3, 0).is_err());
        let invlpg = Maintenance::Invlpg(Va::new(0));
        assert!(aarch64::Aarch64::maintenance(&arm, &invlpg).is_err());
        let mut x86 = x86::X86_64::unrecorded();
        assert!(x86::X86_64::write(&mut x86, ContextRegister::Tcr, 0).is_err());
        assert!(x86::X86_64::maintenance(&x86, &tlbi(3, 5, 0)).is_err());
        assert_eq!(
            x86::X86_64::maintenance(&x86, &Maintenance::Invpcid { kind: 0 }),
            Err(UnusableRecord::InvpcidOperand(0))
        );
    }
}
