//! A64: instructions of four bytes, classified from their encoding groups (Arm ARM DDI 0487,
//! C4.1).

use mmuscope_models::system::{Barrier, Domain, OrderedAccesses};

use super::{Block, Class, Decoded, Mark};

/// Decodes the instructions of `code`, which holds whole instructions.
#[must_use]
pub fn decode(code: &[u8]) -> Block {
    let mut block = Block::default();
    for (index, word) in code.chunks_exact(4).enumerate() {
        let word = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
        let Ok(offset) = u16::try_from(index * 4) else {
            break;
        };
        block.push(offset, instruction(word));
    }
    block
}

const fn bits(word: u32, high: u32, low: u32) -> u32 {
    (word >> low) & ((1 << (high - low + 1)) - 1)
}

const fn bit(word: u32, at: u32) -> bool {
    (word >> at) & 1 == 1
}

fn instruction(word: u32) -> Decoded {
    match bits(word, 28, 25) {
        0b1010 | 0b1011 => branch_or_system(word),
        0b0100 | 0b0110 | 0b1100 | 0b1110 => load_or_store(word),
        0b0111 | 0b1111 | 0b0010 => Decoded::plain(Class::Other),
        _ => Decoded::plain(Class::Integer),
    }
}

fn branch_or_system(word: u32) -> Decoded {
    const ERET: u32 = 0xd69f_03e0;
    match word >> 24 {
        // SVC, HVC, SMC, BRK. Hypercalls are seen by the host, so all cores must have come as far.
        0xd4 => Decoded::marked(Class::System, Mark::Plain, bits(word, 1, 0) == 2),
        0xd5 => system(word),
        0xd6 if word == ERET => Decoded::marked(Class::System, Mark::Return, false),
        _ => Decoded::plain(Class::Branch),
    }
}

fn system(word: u32) -> Decoded {
    match word & 0xffff_f01f {
        0xd503_201f => hint(bits(word, 11, 5)),
        0xd503_301f => barrier(bits(word, 11, 8), bits(word, 7, 5)),
        _ => {
            // TLB maintenance (SYS, CRn 8) and interrupts sent (ICC_SGI*R_EL1: S3_0_C12_C11_5..7)
            // reach other cores.
            let maintenance = word & 0xfff8_f000 == 0xd508_8000;
            let sends = word & 0xffff_ff00 == 0xd518_cb00 && bits(word, 7, 5) >= 5;
            Decoded::marked(Class::System, Mark::Plain, maintenance || sends)
        }
    }
}

fn hint(number: u32) -> Decoded {
    match number {
        1 | 2 => Decoded::marked(Class::System, Mark::Spin, true),
        3 => Decoded::marked(Class::System, Mark::Idle, true),
        4 | 5 => Decoded::marked(Class::System, Mark::Plain, true),
        _ => Decoded::plain(Class::Integer),
    }
}

fn barrier(option: u32, op2: u32) -> Decoded {
    let domain = match option >> 2 {
        0 => Domain::Outer,
        1 => Domain::Non,
        2 => Domain::Inner,
        _ => Domain::Full,
    };
    let kind = match option & 3 {
        1 => OrderedAccesses::Loads,
        2 => OrderedAccesses::Stores,
        _ => OrderedAccesses::All,
    };
    let marked =
        |barrier, ordered| Decoded::marked(Class::Barrier, Mark::Barrier(barrier), ordered);
    match op2 {
        // Options 0 and 4 of DSB are SSBB and PSSBB: speculation only.
        4 if option & 0b1011 != 0 => marked(Barrier::Dsb { domain, kind }, true),
        5 => marked(Barrier::Dmb, true),
        6 => marked(Barrier::Isb, false),
        2 => Decoded::plain(Class::System),
        _ => Decoded::plain(Class::Barrier),
    }
}

fn load_or_store(word: u32) -> Decoded {
    let vector = bit(word, 26);
    let load = bit(word, 22);
    let several = |class| Decoded {
        multiple: true,
        ..Decoded::plain(class)
    };
    match bits(word, 29, 28) {
        // SIMD structures; exclusives, ordered accesses, compare-and-swap.
        0b00 if vector => several(direction(load)),
        0b00 => {
            let ordered = bit(word, 23) && !bit(word, 21);
            Decoded {
                multiple: !ordered,
                ordered: true,
                ..Decoded::plain(if ordered {
                    direction(load)
                } else {
                    Class::Atomic
                })
            }
        }
        // LDAPUR, STLUR; literals.
        0b01 if bit(word, 24) && !vector => Decoded {
            ordered: true,
            ..Decoded::plain(direction(bits(word, 23, 22) != 0))
        },
        0b01 => Decoded::plain(Class::Load),
        0b10 => several(direction(load)),
        _ => single_register(word, vector),
    }
}

const fn direction(load: bool) -> Class {
    if load { Class::Load } else { Class::Store }
}

fn single_register(word: u32, vector: bool) -> Decoded {
    let opc = bits(word, 23, 22);
    let unsigned_offset = bit(word, 24);
    if !unsigned_offset && bit(word, 21) && bits(word, 11, 10) == 0 {
        // LSE atomics; LDAPR shares their encoding.
        let acquire_load = word & 0x00bf_fc00 == 0x00bf_c000;
        return Decoded {
            class: if acquire_load {
                Class::Load
            } else {
                Class::Atomic
            },
            mark: Mark::Plain,
            multiple: !acquire_load,
            ordered: true,
            hooked: false,
        };
    }
    if vector {
        return Decoded {
            multiple: true,
            ..Decoded::plain(direction(opc & 1 == 1))
        };
    }
    let prefetch = bits(word, 31, 30) == 3 && opc == 2;
    let class = if prefetch {
        Class::Integer
    } else {
        direction(opc != 0)
    };
    let unprivileged = !unsigned_offset && !bit(word, 21) && bits(word, 11, 10) == 2;
    if unprivileged {
        Decoded::marked(class, Mark::Unprivileged, false)
    } else {
        Decoded::plain(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let cases = [
            (0xd503_201f, Class::Integer), // nop
            (0x8b01_0000, Class::Integer), // add x0, x0, x1
            (0xf940_0020, Class::Load),    // ldr x0, [x1]
            (0xf900_0020, Class::Store),   // str x0, [x1]
            (0xb840_4420, Class::Load),    // ldr w0, [x1], #4
            (0x3880_0020, Class::Load),    // ldursb x0, [x1]
            (0x5800_0040, Class::Load),    // ldr x0, literal
            (0xa9bf_7bfd, Class::Store),   // stp x29, x30, [sp, #-16]!
            (0xa8c1_7bfd, Class::Load),    // ldp x29, x30, [sp], #16
            (0x3dc0_0020, Class::Load),    // ldr q0, [x1]
            (0x3d80_0020, Class::Store),   // str q0, [x1]
            (0x4c40_2c20, Class::Load),    // ld1 {v0.2d-v3.2d}, [x1]
            (0xc85f_7c20, Class::Atomic),  // ldxr x0, [x1]
            (0xc802_7c20, Class::Atomic),  // stxr w2, x0, [x1]
            (0xc8df_fc20, Class::Load),    // ldar x0, [x1]
            (0xc89f_fc20, Class::Store),   // stlr x0, [x1]
            (0xc8a0_7c41, Class::Atomic),  // cas x0, x1, [x2]
            (0xf820_0041, Class::Atomic),  // ldadd x0, x1, [x2]
            (0xf8bf_c020, Class::Load),    // ldapr x0, [x1]
            (0xf980_0020, Class::Integer), // prfm pldl1keep, [x1]
            (0x1400_0001, Class::Branch),  // b
            (0x5400_0021, Class::Branch),  // b.ne
            (0xb400_0020, Class::Branch),  // cbz
            (0x3600_0020, Class::Branch),  // tbz
            (0xd65f_03c0, Class::Branch),  // ret
            (0xd69f_03e0, Class::System),  // eret
            (0xd400_0001, Class::System),  // svc #0
            (0xd508_831f, Class::System),  // tlbi vmalle1is
            (0xd538_1000, Class::System),  // mrs x0, sctlr_el1
            (0xd503_3b9f, Class::Barrier), // dsb ish
            (0xd503_3fdf, Class::Barrier), // isb
            (0x1e61_2800, Class::Other),   // fadd d0, d0, d1
        ];
        for (word, class) in cases {
            assert_eq!(instruction(word).class, class, "{word:#x}");
        }
    }

    #[test]
    fn marks() {
        let inner = Barrier::Dsb {
            domain: Domain::Inner,
            kind: OrderedAccesses::Stores,
        };
        let cases = [
            (0xd503_3a9f, Mark::Barrier(inner)), // dsb ishst
            (0xd503_3fdf, Mark::Barrier(Barrier::Isb)),
            (0xd503_203f, Mark::Spin), // yield
            (0xd503_205f, Mark::Spin), // wfe
            (0xd503_207f, Mark::Idle), // wfi
            (0xd69f_03e0, Mark::Return),
            (0xf840_0820, Mark::Unprivileged), // ldtr x0, [x1]
            (0xd503_309f, Mark::Plain),        // ssbb
        ];
        for (word, mark) in cases {
            assert_eq!(instruction(word).mark, mark, "{word:#x}");
        }
    }

    #[test]
    fn what_other_cores_can_observe() {
        for word in [
            0xd508_831f,
            0xd518_cba0,
            0xd503_3b9f,
            0xf820_0041,
            0xd400_0002,
        ] {
            assert!(instruction(word).ordered, "{word:#x}");
        }
        for word in [0xd518_2000, 0xf940_0020, 0xd400_0001, 0xd50b_7420] {
            assert!(!instruction(word).ordered, "{word:#x}");
        }
    }

    #[test]
    fn prefixes_of_a_block() {
        let words = [0xf940_0020_u32, 0x8b01_0000, 0xd503_3b9f, 0xd65f_03c0];
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let block = decode(&code);
        assert_eq!(block.count_before(8), 2);
        assert_eq!(block.at(8).unwrap().class, Class::Barrier);
        assert!(block.at(9).is_none());
        assert_eq!(block.mix_of(0, 2).load, 1);
        assert_eq!(block.mix_of(0, 4), block.mix);
        assert!(block.marked && block.ordered && !block.multiple);
    }
}
