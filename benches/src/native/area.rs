//! Anonymous memory at a place of one's own, in pages of one size.

use std::ffi::c_void;
use std::fs;
use std::ptr;

use rustix::mm::{MapFlags, ProtFlags};

use super::{NativeError, Pages};

/// Size of a small page in bytes.
pub const PAGE: usize = 4096;
/// Size of a huge page in bytes.
pub const HUGE_PAGE: usize = 2 << 20;

/// A range of addresses that is unmapped when it goes.
#[derive(Debug)]
pub struct Area {
    /// What is reserved; a part of it is used.
    base: *mut c_void,
    reserved: usize,
    start: *mut c_void,
    bytes: usize,
}

impl Area {
    /// Private anonymous memory of `bytes` whose address is `offset` behind a multiple of `align`,
    /// a power of two. No page is there yet.
    ///
    /// # Errors
    /// The kernel does not give the memory.
    pub fn new(
        bytes: usize,
        align: usize,
        offset: usize,
        pages: Pages,
    ) -> Result<Self, NativeError> {
        let reserved = bytes + align + offset;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: no address is asked for, so nothing that exists is replaced.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                reserved,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        };
        let base = base.map_err(failed("mmap", reserved))?;
        let from_align = base.addr().next_multiple_of(align) - base.addr() + offset;
        let start = base.wrapping_byte_add(from_align);
        let area = Self {
            base,
            reserved,
            start,
            bytes,
        };
        area.advise(pages)?;
        Ok(area)
    }

    /// The address of the byte at `offset`, which must be inside.
    #[must_use]
    pub fn at(&self, offset: usize) -> *mut c_void {
        debug_assert!(offset < self.bytes);
        self.start.wrapping_byte_add(offset)
    }

    /// The size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes one byte of every small page, so that all of them are there.
    pub fn fill(&mut self) {
        for offset in (0..self.bytes).step_by(PAGE) {
            // SAFETY: the offset is inside the mapping, which is writable and this value's own.
            unsafe { self.at(offset).cast::<u8>().write_volatile(1) };
        }
    }

    /// How many bytes of it are in huge pages now.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn huge_bytes(&self) -> Result<usize, NativeError> {
        const MAPS: &str = "/proc/self/smaps";
        let text =
            fs::read_to_string(MAPS).map_err(|error| NativeError::File { path: MAPS, error })?;
        Ok(huge_bytes_of(&text, self.start.addr()))
    }

    /// Moves the pages of this area to the whole of `target`, replacing what is there.
    ///
    /// # Errors
    /// The kernel refuses, or is not Linux.
    pub fn move_to(&mut self, target: &mut Self) -> Result<(), NativeError> {
        let bytes = self.bytes.min(target.bytes);
        self.moved_to(target, bytes)
            .map_err(failed("mremap", bytes))
    }
}

#[cfg(target_os = "linux")]
impl Area {
    fn advise(&self, pages: Pages) -> Result<(), NativeError> {
        use rustix::mm::Advice;

        let advice = match pages {
            Pages::Small => Advice::LinuxNoHugepage,
            Pages::Huge => Advice::LinuxHugepage,
        };
        // SAFETY: the range lies in this area's mapping, and this advice keeps its contents.
        let advised = unsafe { rustix::mm::madvise(self.start, self.bytes, advice) };
        advised.map_err(failed("madvise", self.bytes))
    }

    fn moved_to(&mut self, target: &mut Self, bytes: usize) -> rustix::io::Result<()> {
        use rustix::mm::MremapFlags;

        let (from, to) = (self.start, target.start);
        // SAFETY: both ranges belong to areas that are borrowed here, so nobody else uses them;
        // afterwards the source has no pages and the kernel has no mapping there, which unmapping
        // it again allows.
        unsafe { rustix::mm::mremap_fixed(from, bytes, bytes, MremapFlags::MAYMOVE, to) }
            .map(|_| ())
    }
}

/// Other kernels choose pages as they like and move no mappings.
#[cfg(not(target_os = "linux"))]
impl Area {
    fn advise(&self, _: Pages) -> Result<(), NativeError> {
        Ok(())
    }

    fn moved_to(&mut self, _: &mut Self, _: usize) -> rustix::io::Result<()> {
        Err(rustix::io::Errno::NOSYS)
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the range was reserved by this value, and no pointer into it outlives it.
        // A failure would leave the memory mapped, which harms nobody.
        let _ = unsafe { rustix::mm::munmap(self.base, self.reserved) };
    }
}

fn failed(call: &'static str, bytes: usize) -> impl Fn(rustix::io::Errno) -> NativeError {
    move |errno| NativeError::Call {
        call,
        bytes,
        error: errno.into(),
    }
}

/// The figure `AnonHugePages` of the mapping that holds `address`, in bytes.
fn huge_bytes_of(smaps: &str, address: usize) -> usize {
    let mut inside = false;
    for line in smaps.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        if let Some((start, end)) = first.split_once('-') {
            let parse = |text| usize::from_str_radix(text, 16).unwrap_or(0);
            inside = (parse(start)..parse(end)).contains(&address);
        } else if inside && let Some(rest) = line.strip_prefix("AnonHugePages:") {
            let kib = rest.trim().trim_end_matches(" kB").trim();
            return kib.parse::<usize>().unwrap_or(0) << 10;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_area_lies_where_it_is_asked_for_and_keeps_what_is_written() {
        let area = Area::new(8 * PAGE, HUGE_PAGE, PAGE, Pages::Small).unwrap();
        assert_eq!(area.at(0).addr() % HUGE_PAGE, PAGE);
        let word = area.at(3 * PAGE).cast::<u64>();
        // SAFETY: inside the area, aligned, and nobody else has it.
        unsafe { word.write(7) };
        // SAFETY: as above.
        assert_eq!(unsafe { word.read() }, 7);
    }

    #[test]
    fn what_is_moved_is_found_at_the_other_place() {
        let mut from = Area::new(4 * PAGE, HUGE_PAGE, 0, Pages::Small).unwrap();
        let mut to = Area::new(4 * PAGE, HUGE_PAGE, PAGE, Pages::Small).unwrap();
        from.fill();
        from.move_to(&mut to).unwrap();
        // SAFETY: inside the area that the pages were moved to.
        assert_eq!(unsafe { to.at(3 * PAGE).cast::<u8>().read() }, 1);
    }

    #[test]
    fn huge_pages_are_counted_in_the_mapping_that_holds_the_address() {
        let text = "1000-2000 rw-p 0 00:00 0\nAnonHugePages:  8 kB\n\
                    2000-9000 rw-p 0 00:00 0 \nRss: 4 kB\nAnonHugePages:      2048 kB\n";
        assert_eq!(huge_bytes_of(text, 0x2fff), 2 << 20);
        assert_eq!(huge_bytes_of(text, 0x1000), 8 << 10);
        assert_eq!(huge_bytes_of(text, 0x9000), 0);
    }
}
