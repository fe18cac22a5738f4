//! What the virtual CPUs of one machine share.

use mmuscope_models::addr::Pa;
use mmuscope_models::cost::Cycles;
use mmuscope_models::system::{CoreId, System, Timing};

use super::lines::Lines;
use crate::arch::EmuArch;
use crate::decode::BlockCache;
use crate::machine::Account;
use crate::ram::Ram;

/// The model, the memory and the decoded code.
#[derive(Debug)]
pub struct Shared<A: EmuArch> {
    /// The modelled cores and interconnect.
    pub system: System<A>,
    /// Guest RAM.
    pub ram: Ram,
    /// Decoded blocks.
    pub blocks: BlockCache,
    /// Counts changes of decoded code.
    pub code_epoch: u64,
    /// Which lines several cores use; only with more than one core.
    pub lines: Option<Lines>,
    /// Interrupts sent and not yet handed to their receivers.
    pub outbox: Vec<Sent>,
    /// Features that the guest sees, as bits of the guest ABI.
    pub features: u64,
}

/// An interrupt that has been sent.
#[derive(Copy, Clone, Debug)]
pub struct Sent {
    /// Who gets it.
    pub to: CoreId,
    /// INTID or vector.
    pub number: u32,
    /// When it arrives.
    pub arrival: Cycles,
}

impl<A: EmuArch> Shared<A> {
    /// A store of `size` bytes to `pa` is about to happen: table stores are classified, and code
    /// that is overwritten is noted.
    #[inline]
    pub fn stored(&mut self, core: CoreId, pa: Pa, size: u32, value: u64) {
        if self.system.is_table(pa) {
            self.table_store(core, pa, size, value);
        }
        if self
            .ram
            .slot(pa)
            .is_some_and(|slot| self.blocks.holds_code(slot))
        {
            self.blocks.forget();
            self.code_epoch += 1;
        }
    }

    /// The time by which cores are scheduled: their clock, or, while time is switched off, the
    /// instructions they have executed (one a cycle) on top of it.
    #[inline]
    #[must_use]
    pub fn now(&self, core: CoreId) -> Cycles {
        let clock = self.system.clock(core);
        match self.system.timing() {
            Timing::Full => clock,
            Timing::Off => clock + self.executed(core),
        }
    }

    fn executed(&self, core: CoreId) -> Cycles {
        Cycles::new(self.system.counters(core).instructions.total())
    }

    /// What a core has counted and taken so far.
    pub fn account(&self, core: CoreId) -> Account {
        let system = &self.system;
        Account {
            counters: system.counters(core).clone(),
            attribution: system.attribution(core).clone(),
            ledger: system.ledger(core).clone(),
            interrupted: system.interrupted(core),
        }
    }

    /// The core waits until `when`.
    pub fn wait_until(&mut self, core: CoreId, when: Cycles) {
        let clock = match self.system.timing() {
            Timing::Full => when,
            Timing::Off => when.saturating_sub(self.executed(core)),
        };
        self.system.wait_until(core, clock);
    }

    /// Sends an interrupt.
    pub fn send(&mut self, from: CoreId, to: CoreId, number: u32) {
        let arrival = self.system.ipi_send(from, to);
        let arrival = match self.system.timing() {
            Timing::Full => arrival,
            Timing::Off => self.now(from),
        };
        self.outbox.push(Sent {
            to,
            number,
            arrival,
        });
    }

    /// An interrupt that was sent is taken.
    pub fn receive(&mut self, core: CoreId, arrival: Cycles) {
        let arrival = match self.system.timing() {
            Timing::Full => arrival,
            Timing::Off => self.system.clock(core),
        };
        self.system.ipi_receive(core, arrival);
    }

    /// The aligned words that a store of at most 8 bytes changes.
    fn table_store(&mut self, core: CoreId, pa: Pa, size: u32, value: u64) {
        let offset = pa.raw() & 7;
        let word = Pa::new(pa.raw() - offset);
        let bits = u64::from(size.min(8)) * 8;
        let mask = if bits == 64 {
            u64::MAX
        } else {
            (1 << bits) - 1
        };
        let Some(old) = self.ram.read_u64(word) else {
            return;
        };
        let shift = offset * 8;
        let new = (old & !(mask << shift)) | (value & mask) << shift;
        self.system.table_store(core, word, old, new, &self.ram);
        if shift + bits > 64 {
            let word = Pa::new(word.raw() + 8);
            let Some(old) = self.ram.read_u64(word) else {
                return;
            };
            let spilled = 64 - shift;
            let new = (old & !(mask >> spilled)) | (value & mask) >> spilled;
            self.system.table_store(core, word, old, new, &self.ram);
        }
    }
}
