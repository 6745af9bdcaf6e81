//! The memory of the pages: one aligned arena, one frame per page.
//!
//! In:    frame numbers.
//! Out:   where a device writes, and copies for readers.
//! Never: growth. Frames are touched as they fill; the arena is as large as its bound from the
//!        start.

use std::io;
use std::ptr::{self, NonNull};

use foreread_core::table::Frame;
use foreread_core::units::Bytes;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::error::EngineError;

/// A page, as a length in memory.
pub(crate) const PAGE: usize = 4096;
const _: () = assert!(PAGE as u64 == foreread_core::units::PAGE_SIZE);

#[derive(Debug)]
pub(crate) struct Pool {
    base: NonNull<u8>,
    frames: u32,
}

// SAFETY: the arena is plain memory that lives as long as the pool; who may read or write which
// frame at what time is the page table's business, and `copy_out` tolerates a frame that changes
// meanwhile.
unsafe impl Send for Pool {}
// SAFETY: as above: no method needs exclusive access.
unsafe impl Sync for Pool {}

impl Pool {
    /// Reserves the arena; the system gives memory to a frame when it is first filled.
    pub(crate) fn new(frames: u32) -> Result<Self, EngineError> {
        let len = Self::len_of(frames);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, access, flags) };
        let arena = |source: io::Error| EngineError::Arena { len: Bytes(len as u64), source };
        let base = base.map_err(|errno| arena(errno.into()))?.cast::<u8>();
        let base = NonNull::new(base).expect("mmap never maps page zero unasked");
        // Huge pages save each hit a walk of the machine's page tables (60 to 130 ns of 4 KiB
        // reads). A kernel without them loses nothing but that. SAFETY: the range is the mapping
        // that was just made, and the advice does not change it.
        let _ = unsafe { rustix::mm::madvise(base.as_ptr().cast(), len, Advice::LinuxHugepage) };
        Ok(Self { base, frames })
    }

    /// Where a device writes the page of this frame.
    pub(crate) fn address(&self, frame: Frame) -> NonNull<u8> {
        assert!(frame.0 < self.frames, "{frame:?} of {}", self.frames);
        // SAFETY: the frame lies in the arena, as was just checked.
        unsafe { self.base.add(frame.0 as usize * PAGE) }
    }

    /// Copies `to.len()` bytes of the frame, from byte `from` on.
    ///
    /// The frame may be refilled meanwhile; the caller looks at the page table again afterwards and
    /// then uses the bytes or throws them away.
    #[inline]
    pub(crate) fn copy_out(&self, frame: Frame, from: usize, to: &mut [u8]) {
        assert!(from + to.len() <= PAGE, "a copy stays inside its page");
        // SAFETY: the byte lies in the frame, as was just checked.
        let source = unsafe { self.address(frame).add(from) };
        // SAFETY: source and destination are valid for the length (checked above; `to` is a slice),
        // and do not overlap: nobody outside gets a slice of the arena.
        unsafe { copy_racing(source.as_ptr(), to.as_mut_ptr(), to.len()) }
    }

    /// The page in this frame, for as long as the caller has it pinned.
    #[inline]
    pub(crate) fn pinned_page(&self, frame: Frame) -> &[u8] {
        let page = self.address(frame);
        // SAFETY: the frame lies in the arena, and the arena lives as long as `self`. A frame that
        // is pinned holds a page that is up to date, and is filled again only when its last pin has
        // ended (foreread_core::table::Table::pin), so nobody writes to it meanwhile.
        unsafe { std::slice::from_raw_parts(page.as_ptr(), PAGE) }
    }

    fn len_of(frames: u32) -> usize {
        frames as usize * PAGE
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and the last handle to it ends here: the driver, which holds
        // one, ends only after the last I/O into it.
        let unmapped =
            unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), Self::len_of(self.frames)) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// Copies memory that may change while it is copied.
///
/// A plain copy would be a data race, which the language forbids whatever is done with the bytes;
/// so the copy is one instruction that the compiler cannot look into.
///
/// # Safety
///
/// `from` and `to` are valid for `len` bytes and do not overlap.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_racing(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller vouches for both ranges; the direction flag is clear by the ABI.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") len => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags)
        );
    }
}

/// The same where there is no such instruction: word by word, each a volatile load.
///
/// # Safety
///
/// `from` and `to` are valid for `len` bytes and do not overlap.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
unsafe fn copy_racing(from: *const u8, to: *mut u8, len: usize) {
    const WORD: usize = size_of::<u64>();
    let (mut done, aligned) = (0, (from as usize).is_multiple_of(WORD));
    while aligned && done + WORD <= len {
        // SAFETY: the word lies in `from`, which is aligned, and its bytes in `to`.
        unsafe {
            to.add(done).cast::<u64>().write_unaligned(from.add(done).cast::<u64>().read_volatile())
        };
        done += WORD;
    }
    while done < len {
        // SAFETY: the byte lies in `from`.
        let byte = unsafe { from.add(done).read_volatile() };
        // SAFETY: and in `to`.
        unsafe { to.add(done).write(byte) };
        done += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_returns_what_a_device_wrote() {
        let pool = Pool::new(3).unwrap();
        let page: Vec<u8> = (0..PAGE).map(|i| u8::try_from(i % 251).unwrap()).collect();
        // SAFETY: the frame has a page of memory and nobody else uses it.
        unsafe { ptr::copy_nonoverlapping(page.as_ptr(), pool.address(Frame(2)).as_ptr(), 4096) };
        for (from, len) in [(0, 4096), (1, 4095), (4095, 1), (7, 0), (100, 1000)] {
            let mut got = vec![0xff; len];
            pool.copy_out(Frame(2), from, &mut got);
            assert_eq!(got, page[from..from + len]);
        }
    }

    #[test]
    #[should_panic(expected = "Frame(3) of 3")]
    fn a_frame_outside_the_arena_panics() {
        let _ = Pool::new(3).unwrap().address(Frame(3));
    }
}
