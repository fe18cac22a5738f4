//! Guest RAM: one host mapping that every virtual CPU of a machine shares.
//!
//! The mapping is anonymous and reserved, not committed: only the frames that a guest touches take
//! host memory. A [`Ram`] is a handle; clones name the same memory. All users of one `Ram` belong
//! to one host thread while a guest runs: the engine's stores are plain stores.
//!
//! A *slot* is an offset into the mapping: `slot = pa - base`.

use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};
use mmuscope_models::addr::Pa;
use mmuscope_models::memory::TableMemory;
use thiserror::Error;

/// Guest RAM that cannot be made.
#[derive(Debug, Error)]
pub enum RamError {
    /// A size that is zero, or not a multiple of 4 KiB, or does not fit an alias window.
    #[error(
        "RAM of {size} bytes at {base}: size and base must be non-zero multiples of 4 KiB, and the size at most 1 TiB"
    )]
    Shape {
        /// The base that was asked for.
        base: Pa,
        /// The size that was asked for.
        size: u64,
    },
    /// The host has no address space for it.
    #[error("the host cannot reserve {size} bytes of guest RAM: {source}")]
    Host {
        /// The size that was asked for.
        size: u64,
        /// What the host said.
        source: std::io::Error,
    },
}

/// The largest RAM: one alias window of the soft TLB.
pub const MAX_RAM: u64 = 1 << 40;

/// A handle to guest RAM.
#[derive(Clone, Debug)]
pub struct Ram {
    map: Arc<MmapRaw>,
    base: u64,
    size: u64,
}

impl Ram {
    /// Reserves `size` bytes of RAM, zeroed, at physical address `base`.
    ///
    /// # Errors
    /// When size or base are not multiples of 4 KiB or too large, or the host refuses.
    pub fn new(base: Pa, size: u64) -> Result<Self, RamError> {
        let shape = RamError::Shape { base, size };
        let aligned = (base.raw() | size).is_multiple_of(0x1000);
        if !aligned || size == 0 || size > MAX_RAM || base.checked_add(size).is_none() {
            return Err(shape);
        }
        let Ok(len) = usize::try_from(size) else {
            return Err(shape);
        };
        let map = MmapOptions::new()
            .len(len)
            .no_reserve_swap()
            .map_anon()
            .map_err(|source| RamError::Host { size, source })?;
        Ok(Self {
            map: Arc::new(MmapRaw::from(map)),
            base: base.raw(),
            size,
        })
    }

    /// The first physical address.
    #[must_use]
    pub const fn base(&self) -> Pa {
        Pa::new(self.base)
    }

    /// The size in bytes.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The host address of slot 0, to map into an engine.
    #[must_use]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// The slot of `pa`, if RAM answers there.
    #[inline]
    #[must_use]
    pub const fn slot(&self, pa: Pa) -> Option<u64> {
        let slot = pa.raw().wrapping_sub(self.base);
        if slot < self.size { Some(slot) } else { None }
    }

    /// The physical address of a slot.
    #[inline]
    #[must_use]
    pub const fn pa(&self, slot: u64) -> Pa {
        Pa::new(self.base.wrapping_add(slot))
    }

    /// The host address of `len` bytes at `pa`, if all of them are RAM.
    #[inline]
    fn host(&self, pa: Pa, len: usize) -> Option<*mut u8> {
        let slot = self.slot(pa)?;
        if len as u64 > self.size - slot {
            return None;
        }
        let offset = usize::try_from(slot).ok()?;
        // SAFETY: `offset` is below the length of the mapping, checked by `slot`.
        Some(unsafe { self.map.as_mut_ptr().add(offset) })
    }

    /// Reads the little-endian 8-byte word at `pa`, of any alignment.
    #[inline]
    #[must_use]
    pub fn read_u64(&self, pa: Pa) -> Option<u64> {
        let host = self.host(pa, 8)?.cast::<u64>();
        // SAFETY: `host` checked that all 8 bytes lie in the mapping, which lives as long as
        // `self`. Nothing holds a reference into it; guest stores happen on this thread only.
        Some(u64::from_le(unsafe { host.read_unaligned() }))
    }

    /// Writes a little-endian 8-byte word at `pa`, of any alignment. `None` outside RAM.
    #[inline]
    pub fn write_u64(&self, pa: Pa, value: u64) -> Option<()> {
        let host = self.host(pa, 8)?.cast::<u64>();
        // SAFETY: as in `read_u64`.
        unsafe { host.write_unaligned(value.to_le()) };
        Some(())
    }

    /// Copies bytes out of RAM. `None`, and nothing copied, if any of them is outside.
    pub fn read(&self, pa: Pa, into: &mut [u8]) -> Option<()> {
        let host = self.host(pa, into.len())?;
        // SAFETY: `host` checked the source range; `into` is a distinct Rust object, and no Rust
        // object ever lies inside the mapping.
        unsafe { std::ptr::copy_nonoverlapping(host, into.as_mut_ptr(), into.len()) };
        Some(())
    }

    /// Copies bytes into RAM. `None`, and nothing copied, if any of them is outside.
    pub fn write(&self, pa: Pa, from: &[u8]) -> Option<()> {
        let host = self.host(pa, from.len())?;
        // SAFETY: as in `read`, with source and destination exchanged.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), host, from.len()) };
        Some(())
    }

    /// Sets `len` bytes to zero. `None`, and nothing done, if any of them is outside.
    pub fn zero(&self, pa: Pa, len: usize) -> Option<()> {
        let host = self.host(pa, len)?;
        // SAFETY: as in `read_u64`, for `len` bytes.
        unsafe { std::ptr::write_bytes(host, 0, len) };
        Some(())
    }

    /// Whether both hold the same bytes at the same addresses.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        const CHUNK: usize = 1 << 16;
        if (self.base, self.size) != (other.base, other.size) {
            return false;
        }
        let (mut mine, mut theirs) = (vec![0; CHUNK], vec![0; CHUNK]);
        let mut slot = 0;
        while slot < self.size {
            let len = usize::try_from(self.size - slot).map_or(CHUNK, |rest| rest.min(CHUNK));
            let read = self
                .read(self.pa(slot), &mut mine[..len])
                .and(other.read(self.pa(slot), &mut theirs[..len]));
            if read.is_none() || mine[..len] != theirs[..len] {
                return false;
            }
            slot += CHUNK as u64;
        }
        true
    }

    /// The text of `len` bytes at `pa`, at most 64 KiB, invalid UTF-8 replaced.
    #[must_use]
    pub fn text(&self, pa: Pa, len: u64) -> Option<String> {
        let len = usize::try_from(len).ok().filter(|len| *len <= 0x1_0000)?;
        let mut bytes = vec![0; len];
        self.read(pa, &mut bytes)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl TableMemory for Ram {
    #[inline]
    fn read_descriptor(&self, pa: Pa) -> Option<u64> {
        self.read_u64(pa)
    }

    fn exchange_descriptor(&mut self, pa: Pa, current: u64, new: u64) -> Option<u64> {
        let old = self.read_u64(pa)?;
        if old == current {
            self.write_u64(pa, new)?;
        }
        Some(old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_only_inside() {
        let ram = Ram::new(Pa::new(0x4000_0000), 0x2000).unwrap();
        assert_eq!(ram.read_u64(Pa::new(0x4000_1ff8)), Some(0));
        assert_eq!(ram.read_u64(Pa::new(0x4000_1ff9)), None);
        assert_eq!(ram.read_u64(Pa::new(0x3fff_fff8)), None);
        assert_eq!(ram.write(Pa::new(0x4000_1fff), &[1, 2]), None);
        assert_eq!(ram.write(Pa::new(0x4000_1ffe), &[1, 2]), Some(()));
        assert_eq!(ram.text(Pa::new(0x4000_1ffe), 2).unwrap(), "\u{1}\u{2}");
        assert_eq!(ram.text(Pa::new(0x4000_0000), u64::MAX), None);
    }

    #[test]
    fn clones_share_the_memory() {
        let ram = Ram::new(Pa::new(0), 0x1000).unwrap();
        let mut other = ram.clone();
        ram.write_u64(Pa::new(8), 5).unwrap();
        assert_eq!(other.exchange_descriptor(Pa::new(8), 4, 6), Some(5));
        assert_eq!(other.exchange_descriptor(Pa::new(8), 5, 6), Some(5));
        assert_eq!(ram.read_descriptor(Pa::new(8)), Some(6));
    }

    #[test]
    fn refuses_odd_shapes() {
        for (base, size) in [
            (0, 0),
            (0, 0x1001),
            (8, 0x1000),
            (0, MAX_RAM + 0x1000),
            (!0xfff, 0x2000),
        ] {
            assert!(
                Ram::new(Pa::new(base), size).is_err(),
                "{base:#x} {size:#x}"
            );
        }
    }
}
