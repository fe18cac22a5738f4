//! The x86-64 walker, under EPT and nested paging too, over arbitrary registers and memory: it
//! ends within the architected number of reads, and its address is within MAXPHYADDR.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use mmuscope_fuzz::{AnyAccess, Behaviour, Words};
use mmuscope_models::addr::Va;
use mmuscope_models::arch::Arch;
use mmuscope_models::explain;
use mmuscope_models::x86::{Context, Ept, GigabytePages, Nesting, Npt, PhysicalBits, X86_64};

#[derive(Debug, Arbitrary)]
enum AnyNesting {
    Off,
    Ept(u64, bool, bool),
    Npt(u64, u64, u64),
}

#[derive(Debug, Arbitrary)]
struct Input {
    registers: [u64; 4],
    ac: bool,
    keys: [u32; 2],
    bits: u8,
    gigabyte_pages: bool,
    nesting: AnyNesting,
    access: AnyAccess,
    behaviour: Behaviour,
    words: Vec<u64>,
}

/// Guest levels times the entry and its own host walk, and the host walk of the page (5 levels
/// each), with at most eight tries for each entry whose flags are set.
const MOST_READS: usize = (5 * (1 + 5) + 5) * 8;

fuzz_target!(|input: Input| {
    let [cr0, cr3, cr4, efer] = input.registers;
    let Some(physical_bits) = PhysicalBits::new(input.bits.into()) else {
        return;
    };
    let nesting = match input.nesting {
        AnyNesting::Off => Nesting::Off,
        AnyNesting::Ept(eptp, mode_based_execute, execute_only) => Nesting::Ept(Ept {
            eptp,
            mode_based_execute,
            execute_only,
        }),
        AnyNesting::Npt(cr3, cr4, efer) => Nesting::Npt(Npt { cr3, cr4, efer }),
    };
    let context = Context {
        cr0,
        cr3,
        cr4,
        efer,
        ac: input.ac,
        pkru: input.keys[0],
        pkrs: input.keys[1],
        physical_bits,
        gigabyte_pages: if input.gigabyte_pages {
            GigabytePages::Supported
        } else {
            GigabytePages::Absent
        },
        nesting,
    };
    let access = input.access.access();
    let mut memory = Words::new(input.words, input.behaviour);
    let result = X86_64::walk(&context, &access, None, &mut memory, &mut ());
    assert!(memory.reads.get() <= MOST_READS, "{}", memory.reads.get());
    if let Ok(leaf) = result {
        let paging = cr0 >> 31 & 1 != 0;
        assert!(!paging || leaf.pa.raw() >> physical_bits.bits() == 0);
        assert!(leaf.va.is_aligned(leaf.size) && leaf.pa.is_aligned(leaf.size));
    }
    // The explaining walk adds words to the same steps.
    let va = Va::new(access.va.raw());
    let _ = explain::walk::<X86_64, _>(&context, va, &memory);
});
