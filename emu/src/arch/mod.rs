//! The two architectures, as far as emulating them differs.
//!
//! [`EmuArch`] extends the models' [`Arch`] by what the engine does not do by itself: deliver
//! faults, interrupts and system calls into the guest's own vectors, and intercept the
//! instructions that act on the MMU, on interrupts and on time.

pub mod aarch64;
pub mod x86_64;

use std::fmt::Debug;

use mmuscope_models::access::{Access, Privilege};
use mmuscope_models::arch::Arch;
use unicorn_engine::{Mode, Unicorn, uc_error};

use crate::decode::Block;
use crate::plugin::{Handle, RunError};

/// An exception that an instruction raises by itself, as opposed to a translation fault.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Trap {
    /// SVC, SYSCALL.
    Syscall,
    /// Another one: AArch64's ESR_EL1 value, or the x86 vector.
    Exception(u64),
}

/// What the emulator needs to know about an architecture.
pub trait EmuArch: Arch {
    /// Registers of a virtual CPU that the emulator keeps itself.
    type Cpu: Debug + Default;

    /// The engine's architecture and mode.
    const ENGINE: (unicorn_engine::Arch, Mode);
    /// The engine's number of the program counter.
    const PC: i32;
    /// ELF `e_machine`.
    const ELF_MACHINE: u16;
    /// The length of the hypercall instruction, in bytes, if the program counter still points at
    /// it when the call is noticed; else 0.
    const HYPERCALL_LEN: u64;
    /// Where RAM starts in a machine of this architecture.
    const RAM_BASE: u64;

    /// Settings that must be made before the engine is first used.
    ///
    /// # Errors
    /// What the engine says.
    fn prepare<D>(uc: &mut Unicorn<'_, D>) -> Result<(), uc_error>;

    /// Sets the registers of translation as they are in the engine now.
    ///
    /// # Errors
    /// What the engine says.
    fn read_context<D>(uc: &Unicorn<'_, D>, context: &mut Self::Context) -> Result<(), uc_error>;

    /// Adds the hooks of this architecture's instructions.
    ///
    /// # Errors
    /// What the engine says.
    fn install<'a, D: 'a>(uc: &mut Unicorn<'a, D>, handle: &Handle<Self>) -> Result<(), uc_error>;

    /// Adds a hook for the instruction at one address.
    ///
    /// # Errors
    /// What the engine says.
    fn hook_address<'a, D: 'a>(
        uc: &mut Unicorn<'a, D>,
        handle: &Handle<Self>,
        va: u64,
    ) -> Result<(), uc_error>;

    /// The offsets in executable `code` of instructions that need [`EmuArch::hook_address`].
    fn scan(code: &[u8]) -> Vec<u64>;

    /// The privilege of the engine's present state.
    fn privilege<D>(uc: &Unicorn<'_, D>) -> Privilege;

    /// Whether interrupts are unmasked.
    fn interruptible<D>(uc: &Unicorn<'_, D>) -> bool;

    /// How many elements an instruction that repeats itself has still to do, the present one
    /// included.
    fn elements_left<D>(uc: &Unicorn<'_, D>) -> u64 {
        let _ = uc;
        0
    }

    /// Decodes a block.
    fn decode(cpu: &mut Self::Cpu, code: &[u8]) -> Block;

    /// Enters the guest's handler for a translation fault of the instruction at the program
    /// counter.
    ///
    /// # Errors
    /// When the guest has no handler that can be entered.
    fn deliver_fault<D>(
        uc: &mut Unicorn<'_, D>,
        handle: &Handle<Self>,
        access: &Access,
        fault: &Self::Fault,
    ) -> Result<(), RunError>;

    /// Enters the guest's handler for the first pending interrupt.
    ///
    /// # Errors
    /// As for faults.
    fn deliver_interrupt<D>(uc: &mut Unicorn<'_, D>, handle: &Handle<Self>)
    -> Result<(), RunError>;

    /// Enters the guest's handler for a trap.
    ///
    /// # Errors
    /// As for faults.
    fn deliver_trap<D>(
        uc: &mut Unicorn<'_, D>,
        handle: &Handle<Self>,
        trap: Trap,
    ) -> Result<(), RunError>;

    /// The arguments of a hypercall.
    ///
    /// # Errors
    /// What the engine says.
    fn arguments<D>(uc: &Unicorn<'_, D>) -> Result<[u64; 4], uc_error>;

    /// The general-purpose registers, flags and program counter: two equal values mean that a loop
    /// that touched no vector registers is where it was.
    ///
    /// # Errors
    /// What the engine says.
    fn registers<D>(uc: &Unicorn<'_, D>) -> Result<Vec<u64>, uc_error>;

    /// Puts a virtual CPU into its start state, about to execute with `argument` in the first
    /// argument register.
    ///
    /// # Errors
    /// What the engine says.
    fn start<D>(uc: &mut Unicorn<'_, D>, argument: u64) -> Result<(), uc_error>;
}
