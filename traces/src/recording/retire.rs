//! Instructions of a recording as classes.
//!
//! A recording tells how many instructions ran and what they accessed, not which they were. The
//! total is exact. Of it, each recorded access is taken for a load or a store (one of a pair, or of a
//! repeated string instruction, for one more than there was, as far as the total allows), each TLB
//! maintenance instruction, register write and IPI for a system instruction, each barrier for a
//! barrier, and the rest for integer instructions. What they cost is therefore an estimate.

use mmuscope_models::system::InstructionMix;

/// What a CPU has executed and not yet retired.
#[derive(Copy, Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Unretired {
    instructions: u32,
    loads: u32,
    stores: u32,
    system: u32,
    barriers: u32,
}

impl Unretired {
    pub(super) const fn run(&mut self, instructions: u32) {
        self.instructions = self.instructions.saturating_add(instructions);
    }

    pub(super) const fn load(&mut self) {
        self.loads = self.loads.saturating_add(1);
    }

    pub(super) const fn store(&mut self) {
        self.stores = self.stores.saturating_add(1);
    }

    pub(super) const fn system(&mut self) {
        self.system = self.system.saturating_add(1);
    }

    pub(super) const fn barrier(&mut self) {
        self.barriers = self.barriers.saturating_add(1);
    }

    /// The instructions by class, as many as were run; nothing is left.
    pub(super) fn take(&mut self) -> InstructionMix {
        let mut left = self.instructions;
        let mut of = |wanted: u32| {
            let taken = wanted.min(left);
            left -= taken;
            taken
        };
        let (barrier, system) = (of(self.barriers), of(self.system));
        let (store, load) = (of(self.stores), of(self.loads));
        *self = Self::default();
        InstructionMix {
            integer: left,
            load,
            store,
            barrier,
            system,
            ..InstructionMix::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_what_was_run_whatever_was_accessed() {
        let mut unretired = Unretired::default();
        unretired.run(10);
        unretired.load();
        unretired.store();
        unretired.barrier();
        let mix = unretired.take();
        assert_eq!(
            (mix.integer, mix.load, mix.store, mix.barrier),
            (7, 1, 1, 1)
        );
        assert_eq!(unretired.take().total(), 0, "nothing is retired twice");
        // One instruction that stores repeatedly.
        unretired.run(1);
        for _ in 0..64 {
            unretired.load();
            unretired.store();
        }
        assert_eq!(unretired.take().total(), 1);
    }
}
