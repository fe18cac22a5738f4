//! INVLPGB and TLBSYNC: invalidation that AMD processors broadcast themselves (APM vol. 3,
//! INVLPGB; vol. 2, 5.5.3).
//!
//! INVLPGB names what goes by three optional keys: addresses, a PCID, an ASID. A key that is not
//! given matches everything. It reaches every processor, and TLBSYNC waits until all that its
//! processor has sent are done; like a barrier, TLBSYNC itself removes nothing.

use std::fmt;

use thiserror::Error;

use super::registers::Pcid;
use super::walk::is_canonical;
use super::{Context, X86_64};
use crate::addr::{PageSize, Va};
use crate::arch::{Footprint, Leaf, Scope};

/// RAX of INVLPGB, bits 5:0.
mod flags {
    pub(super) const VA: u64 = 1 << 0;
    pub(super) const PCID: u64 = 1 << 1;
    pub(super) const ASID: u64 = 1 << 2;
    pub(super) const GLOBAL: u64 = 1 << 3;
    pub(super) const FINAL_ONLY: u64 = 1 << 4;
    pub(super) const NESTED: u64 = 1 << 5;
    /// Bits 11:6.
    pub(super) const RESERVED: u64 = 0xfc0;
}

/// An address-space identifier of a virtual machine (APM vol. 2, 15.5.1); 0 is the host.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Asid(u16);

impl Asid {
    /// The host's.
    pub const HOST: Self = Self(0);

    /// The ASID with this number.
    #[must_use]
    pub const fn new(number: u16) -> Self {
        Self(number)
    }

    /// Its number.
    #[must_use]
    pub const fn raw(self) -> u16 {
        self.0
    }
}

/// The distance between the addresses of one INVLPGB (ECX bit 31).
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Stride {
    /// 4 KiB.
    Page,
    /// 2 MiB.
    Directory,
}

impl Stride {
    const fn bytes(self) -> u64 {
        match self {
            Self::Page => PageSize::Size4K.bytes(),
            Self::Directory => PageSize::Size2M.bytes(),
        }
    }
}

/// The addresses that one INVLPGB names.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Run {
    /// The first, a multiple of 4 KiB.
    pub first: Va,
    /// How many follow it (ECX bits 15:0).
    pub further: u16,
    /// How far each is from the one before.
    pub stride: Stride,
}

impl Run {
    /// The last address.
    const fn last(&self) -> Va {
        let distance = self.further as u64 * self.stride.bytes();
        Va::new(self.first.raw().saturating_add(distance))
    }

    /// Whether one of the addresses lies in the `size` bytes at `base`.
    const fn meets(&self, base: Va, size: PageSize) -> bool {
        let (first, base, end) = (
            self.first.raw(),
            base.raw(),
            base.raw() | (size.bytes() - 1),
        );
        if first >= base {
            return first <= end;
        }
        let steps = (base - first).div_ceil(self.stride.bytes());
        steps <= self.further as u64
            && match steps.checked_mul(self.stride.bytes()) {
                Some(distance) => first + distance <= end,
                None => false,
            }
    }
}

/// One INVLPGB, operands decoded.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub struct Invlpgb {
    /// The addresses; all if not given.
    pub addresses: Option<Run>,
    /// The PCID; any if not given.
    pub pcid: Option<Pcid>,
    /// The ASID; any if not given.
    pub asid: Option<Asid>,
    /// Global translations go too.
    pub include_global: bool,
    /// Cached pointers to tables stay.
    pub final_only: bool,
    /// Translations of guest-physical addresses go too.
    pub include_nested: bool,
}

/// INVLPGB was given an operand that raises #GP(0).
#[derive(Copy, Clone, PartialEq, Eq, Debug, Error)]
pub enum InvlpgbError {
    /// A reserved bit of RAX, ECX or EDX is set.
    #[error("INVLPGB operand {register} = {value:#x} has reserved bits set")]
    Reserved {
        /// RAX, ECX or EDX.
        register: &'static str,
        /// What it holds.
        value: u64,
    },
    /// More addresses than the processor takes at once (CPUID 80000008H, EDX bits 15:0).
    #[error("INVLPGB names {found} further addresses, the processor takes {most}")]
    Count {
        /// ECX bits 15:0.
        found: u16,
        /// The limit.
        most: u16,
    },
    /// The address is not canonical.
    #[error("INVLPGB names {0}, which is not canonical")]
    Address(Va),
}

impl Invlpgb {
    /// Decodes the operands. `most` is the processor's limit of further addresses.
    ///
    /// # Errors
    /// [`InvlpgbError`] where the instruction raises #GP(0).
    pub fn decode(
        context: &Context,
        rax: u64,
        ecx: u32,
        edx: u32,
        most: u16,
    ) -> Result<Self, InvlpgbError> {
        let reserved = |register, value| Err(InvlpgbError::Reserved { register, value });
        if rax & flags::RESERVED != 0 {
            return reserved("RAX", rax);
        }
        if ecx & 0x7fff_0000 != 0 {
            return reserved("ECX", ecx.into());
        }
        if edx >> 28 != 0 {
            return reserved("EDX", edx.into());
        }
        let [low, high, ..] = ecx.to_le_bytes();
        let further = u16::from_le_bytes([low, high]);
        if further > most {
            return Err(InvlpgbError::Count {
                found: further,
                most,
            });
        }
        let first = Va::new(rax).page_base(PageSize::Size4K);
        if rax & flags::VA != 0 && !is_canonical(context, first) {
            return Err(InvlpgbError::Address(first));
        }
        let stride = if ecx >> 31 == 0 {
            Stride::Page
        } else {
            Stride::Directory
        };
        let [asid_low, asid_high, ..] = edx.to_le_bytes();
        let given = |flag: u64| rax & flag != 0;
        Ok(Self {
            addresses: given(flags::VA).then_some(Run {
                first,
                further,
                stride,
            }),
            pcid: given(flags::PCID).then(|| Pcid::from_low_bits(u64::from(edx >> 16))),
            asid: given(flags::ASID).then(|| Asid::new(u16::from_le_bytes([asid_low, asid_high]))),
            include_global: given(flags::GLOBAL),
            final_only: given(flags::FINAL_ONLY),
            include_nested: given(flags::NESTED),
        })
    }
}

impl Invlpgb {
    /// Whether translations of the processor's own ASID are concerned. Entries carry no ASID:
    /// all of them belong to [`Asid::HOST`].
    fn names_host(&self) -> bool {
        self.asid.is_none_or(|asid| asid == Asid::HOST)
    }

    /// See [`crate::arch::Arch::footprint`].
    pub(super) fn footprint(&self) -> Footprint {
        match self.addresses {
            Some(run) => Footprint::Addresses {
                first: run.first,
                last: run.last(),
            },
            None => Footprint::Everywhere,
        }
    }

    /// See [`crate::arch::Arch::removes`].
    pub(super) fn removes(&self, leaf: &Leaf<X86_64>, held: PageSize) -> bool {
        let size = held.max(leaf.size);
        let in_scope = match leaf.scope {
            Scope::Global(_) => self.include_global,
            Scope::Tagged(pcid) => self.pcid.is_none_or(|named| named == pcid),
        };
        self.names_host()
            && in_scope
            && self
                .addresses
                .is_none_or(|run| run.meets(leaf.va.page_base(size), size))
    }

    /// See [`crate::arch::Arch::removes_pointer`]. With EFER.TCE clear, as it is here, the pointers
    /// go whatever addresses they lead to (APM vol. 2, 3.1.7).
    pub(super) fn removes_pointer(&self, tag: Pcid) -> bool {
        !self.final_only && self.names_host() && self.pcid.is_none_or(|named| named == tag)
    }
}

impl fmt::Display for Invlpgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invlpgb")?;
        if let Some(run) = self.addresses {
            write!(f, " {}", run.first)?;
            if run.further > 0 {
                let size = match run.stride {
                    Stride::Page => PageSize::Size4K,
                    Stride::Directory => PageSize::Size2M,
                };
                write!(f, " and {} further {size} on", run.further)?;
            }
        }
        if let Some(pcid) = self.pcid {
            write!(f, " pcid {pcid}")?;
        }
        if let Some(asid) = self.asid {
            write!(f, " asid {}", asid.raw())?;
        }
        for (given, word) in [
            (self.include_global, "global"),
            (self.final_only, "final-only"),
            (self.include_nested, "nested"),
        ] {
            if given {
                write!(f, " {word}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::{Level, Pa};
    use crate::arch::MachineId;
    use crate::x86::{Attrs, TableAttrs};

    const VA: u64 = 0x7f00_1234_5000;

    fn leaf(va: u64, size: PageSize, scope: Scope<Pcid>) -> Leaf<X86_64> {
        Leaf {
            va: Va::new(va).page_base(size),
            pa: Pa::new(0x4000_0000),
            size,
            level: Level::L3,
            group: None,
            scope,
            attrs: Attrs {
                denied: TableAttrs::empty(),
                dirty: false,
                key: 0,
                pat_index: 0,
            },
        }
    }

    fn decode(rax: u64, ecx: u32, edx: u32) -> Invlpgb {
        Invlpgb::decode(&Context::default(), rax, ecx, edx, 7).unwrap()
    }

    /// Every combination of the five bits that a host uses, against leaves and pointers.
    #[test]
    fn each_key_that_is_given_has_to_match() {
        let (five, six) = (Pcid::from_low_bits(5), Pcid::from_low_bits(6));
        for flags in 0..64 {
            let given = |bit: u64| flags >> bit & 1 != 0;
            for (asid, own_asid) in [(0, true), (9, !given(2))] {
                let op = decode(VA | flags, 0, 5 << 16 | asid);
                for (va, pcid) in [(VA, five), (VA, six), (VA + 0x1000, five)] {
                    let place = !given(0) || va == VA;
                    let space = !given(1) || pcid == five;
                    let tagged = leaf(va, PageSize::Size4K, Scope::Tagged(pcid));
                    let global = leaf(va, PageSize::Size4K, Scope::Global(MachineId::ZERO));
                    let removes = |leaf: &Leaf<X86_64>| op.removes(leaf, leaf.size);
                    assert_eq!(removes(&tagged), place && space && own_asid, "{op}");
                    assert_eq!(removes(&global), place && given(3) && own_asid, "{op}");
                    let pointer = space && own_asid && !given(4);
                    assert_eq!(op.removes_pointer(pcid), pointer, "{op}");
                }
                assert_eq!(op.include_nested, given(5));
            }
        }
    }

    #[test]
    fn a_run_meets_the_pages_that_it_names_and_no_others() {
        let own = Scope::Tagged(Pcid::ZERO);
        for (ecx, stride) in [(3, 0x1000), (1 << 31 | 3, 0x20_0000)] {
            let op = decode(VA | 1, ecx, 0);
            for size in [PageSize::Size4K, PageSize::Size2M, PageSize::Size1G] {
                for step in 0..6_i64 {
                    let va = VA.wrapping_add_signed((step - 1) * stride);
                    // By the definition: one of the four addresses lies in the page.
                    let named = (0..4).any(|n| {
                        let address = Va::new(VA.wrapping_add_signed(n * stride));
                        address.page_base(size) == Va::new(va).page_base(size)
                    });
                    let held = leaf(va, size, own);
                    assert_eq!(op.removes(&held, size), named, "{op}: {size} {step}");
                }
            }
        }
        // Between two addresses of a stride of 2 MiB lie pages that are not named.
        let op = decode(VA | 1, 1 << 31 | 1, 0);
        let between = leaf(VA + 0x1000, PageSize::Size4K, own);
        assert!(!op.removes(&between, PageSize::Size4K));
        // A run that reaches the end of the address space ends there.
        let op = decode(!0xfff | 1, 7, 0);
        let low = leaf(0, PageSize::Size4K, own);
        assert!(!op.removes(&low, PageSize::Size4K));
    }

    #[test]
    fn bad_operands_are_refused() {
        let refuse = |rax, ecx, edx| {
            Invlpgb::decode(&Context::default(), rax, ecx, edx, 7)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refuse(0x41, 0, 0),
            "INVLPGB operand RAX = 0x41 has reserved bits set"
        );
        assert!(refuse(1, 1 << 16, 0).contains("ECX = 0x10000"));
        assert!(refuse(1, 0, 1 << 28).contains("EDX = 0x10000000"));
        assert!(refuse(1, 8, 0).contains("8 further addresses, the processor takes 7"));
        assert!(refuse(0x8000_0000_0001, 0, 0).contains("not canonical"));
        // Without the valid bit the address does not count.
        assert_eq!(decode(0x8000_0000_0000, 0, 0).addresses, None);
        let op = decode(VA | 0b01_1111, 1 << 31 | 2, 3 << 16 | 4);
        assert_eq!(
            op.to_string(),
            "invlpgb 0x00007f0012345000 and 2 further 2M on pcid 3 asid 4 global final-only"
        );
    }
}
