//! The yardstick: Unicorn with nothing but a memory hook that counts.
//!
//! It is as fast as a memory hook allows: a virtual TLB that maps RAM onto itself, and data pages
//! that are not executable (Unicorn stores to executable pages on a slow path).

use std::cell::Cell;
use std::rc::Rc;

use unicorn_engine::{HookType, MemType, Prot, TlbEntry, TlbType, Unicorn};

use super::guest::{Guest, RAM_SIZE};

/// An engine with the guest loaded.
pub struct Bare {
    engine: Unicorn<'static, ()>,
    guest: Guest,
    accesses: Rc<Cell<u64>>,
}

impl Bare {
    /// Sets the engine up.
    pub fn new(guest: Guest) -> Self {
        let mut engine = Unicorn::new(guest.arch, guest.mode).unwrap();
        if guest.name == "aarch64" {
            engine.ctl_set_page_size(4096).unwrap();
        }
        engine.ctl_set_tlb_type(TlbType::VIRTUAL).unwrap();
        engine.mem_map(guest.base, RAM_SIZE, Prot::ALL).unwrap();
        for (at, bytes) in guest.image() {
            engine.mem_write(at, &bytes).unwrap();
        }
        engine
            .add_tlb_hook(1, 0, |_, va, access| {
                let perms = match access {
                    MemType::FETCH => Prot::READ | Prot::EXEC,
                    _ => Prot::READ | Prot::WRITE,
                };
                Some(TlbEntry { paddr: va, perms })
            })
            .unwrap();
        let accesses = Rc::new(Cell::new(0));
        let counter = Rc::clone(&accesses);
        engine
            .add_mem_hook(
                HookType::MEM_READ | HookType::MEM_WRITE,
                1,
                0,
                move |_, _, _, _, _| {
                    counter.set(counter.get() + 1);
                    true
                },
            )
            .unwrap();
        Self {
            engine,
            guest,
            accesses,
        }
    }

    /// Runs the loop and says how many accesses the hook saw.
    pub fn run(&mut self, rounds: u64) -> u64 {
        let before = self.accesses.get();
        self.guest.prepare(&mut self.engine, rounds);
        self.engine
            .emu_start(self.guest.start(), self.guest.end(), 0, 0)
            .unwrap();
        self.accesses.get() - before
    }
}
