//! The same loop under the MMU plugin.

use mmuscope_emu::arch::EmuArch;
use mmuscope_emu::plugin::{Attached, Config, Stop, attach};
use mmuscope_emu::ram::Ram;
use mmuscope_models::addr::Pa;
use mmuscope_models::profile::Profile;
use mmuscope_models::system::Timing;
use unicorn_engine::Unicorn;

use super::Target;
use super::guest::{Guest, RAM_SIZE};

/// An engine with the plugin attached and the guest loaded, translation on.
pub struct Modelled<A: EmuArch + 'static> {
    attached: Attached<'static, A, ()>,
    guest: Guest,
}

impl<A: Target> Modelled<A> {
    /// Sets the engine up.
    pub fn new(timing: Timing) -> Self {
        let guest = A::GUEST;
        let ram = Ram::new(Pa::new(guest.base), RAM_SIZE).unwrap();
        for (at, bytes) in guest.image() {
            ram.write(Pa::new(at), &bytes).unwrap();
        }
        let mut engine = Unicorn::new(guest.arch, guest.mode).unwrap();
        A::prepare(&mut engine).unwrap();
        A::translate(&mut engine, guest.root());
        let profile = Profile::builtin(A::PROFILE).unwrap();
        let mut config = Config::new(&profile);
        config.timing = timing;
        let attached = attach(&mut engine, ram, &config).unwrap();
        Self { attached, guest }
    }

    /// Runs the loop and says how many accesses the model counted.
    pub fn run(&mut self, rounds: u64) -> u64 {
        let before = self.attached.counters();
        self.guest.prepare(self.attached.engine(), rounds);
        let stop = self
            .attached
            .run(self.guest.start(), Some(self.guest.end()));
        assert_eq!(stop.unwrap(), Stop::Until);
        let counted = self.attached.counters().since(&before);
        counted.loads + counted.stores
    }
}
