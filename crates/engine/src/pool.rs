//! The memory of the pages: one aligned arena with one frame per page. The arena has its full size
//! from the start; the system provides memory when frames are filled, or shortly before
//! (`first_touch`).

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

use foreread_core::table::Frame;
use foreread_core::units::ByteCount;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::copy_racing::copy_racing;
use crate::error::EngineError;

/// Size of a page.
pub(crate) const PAGE: usize = 4096;
const _: () = assert!(PAGE as u64 == foreread_core::units::PAGE_SIZE);

/// ```text
///   |frame 0|frame 1|   ...   |last frame|own page|
///                                         ^ 1 in the process that made it, 0 in its children
/// ```
#[derive(Debug)]
pub(crate) struct Pool {
    base: NonNull<u8>,
    frames: u32,
    /// All frames have memory.
    has_memory: bool,
    /// The process that created the pool, if the kernel does not wipe a page in its children.
    process: Option<u32>,
}

// SAFETY: the arena is plain memory that lives as long as the pool; the page table decides which
// thread may read or write which frame when, and `copy_out` tolerates a frame that changes during
// the copy.
unsafe impl Send for Pool {}
// SAFETY: as above: no method needs exclusive access.
unsafe impl Sync for Pool {}

impl Pool {
    /// Reserves the arena; the system provides a frame's memory when the frame is first filled.
    pub(crate) fn new(frames: u32) -> Result<Self, EngineError> {
        let len = Self::len_of(frames);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, access, flags) };
        let arena = |source: io::Error| EngineError::Arena { len: ByteCount(len as u64), source };
        let base = base.map_err(|errno| arena(errno.into()))?.cast::<u8>();
        let base = NonNull::new(base).expect("mmap never maps page zero unasked");
        // Huge pages save each hit a page-table walk (60 to 130 ns for 4 KiB reads); a kernel
        // without them only loses that. SAFETY: the range is the mapping that was just created, and
        // the advice does not change it.
        let _ = unsafe { rustix::mm::madvise(base.as_ptr().cast(), len - PAGE, HUGE) };
        let mut pool = Self { base, frames, has_memory: false, process: None };
        let own_page = pool.own_page();
        // SAFETY: the page is the last one of the mapping that was just created; the advice
        // intentionally wipes it in a child.
        if unsafe { rustix::mm::madvise(own_page.as_ptr().cast(), PAGE, Advice::LinuxWipeOnFork) }
            .is_err()
        {
            pool.process = Some(std::process::id());
        }
        // SAFETY: as above; no other code has the page's address.
        unsafe { own_page.write_volatile(1) };
        Ok(pool)
    }

    /// Returns true in the process that created the pool, false in a forked child. Each miss checks
    /// this three times, so it reads memory instead of making a system call.
    #[inline]
    pub(crate) fn is_of_this_process(&self) -> bool {
        // SAFETY: the page is in the mapping, and no thread writes to it.
        let is_own = unsafe { self.own_page().read_volatile() } == 1;
        is_own && self.process.is_none_or(|process| process == std::process::id())
    }

    /// Returns the page after the frames.
    fn own_page(&self) -> NonNull<u8> {
        // SAFETY: the mapping has one page more than there are frames.
        unsafe { self.base.add(self.frames as usize * PAGE) }
    }

    /// Populates these frames with memory now instead of when they are first filled.
    ///
    /// # Errors
    ///
    /// If the system has no memory, or does not support this (before Linux 5.14).
    pub(crate) fn populate(&self, frames: Range<u32>) -> io::Result<()> {
        assert!(frames.start < frames.end, "{frames:?} are none");
        let len = (frames.end - frames.start) as usize * PAGE;
        assert!(frames.end <= self.frames, "{frames:?} of {}", self.frames);
        let first = self.address(Frame(frames.start));
        // SAFETY: the range is in the mapping, as was just checked, and keeps its bytes: present
        // pages stay unchanged.
        unsafe { rustix::mm::madvise(first.as_ptr().cast(), len, Advice::LinuxPopulateWrite) }?;
        Ok(())
    }

    /// Populates all frames with memory.
    ///
    /// # Errors
    ///
    /// If the system has no memory.
    pub(crate) fn prefault(&mut self) -> io::Result<()> {
        match self.populate(0..self.frames) {
            // Before Linux 5.14, writing to each page does the same, but without a clear error.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                for frame in 0..self.frames {
                    // SAFETY: no other code has a frame of this pool yet, and a fresh page is
                    // zeros.
                    unsafe { self.address(Frame(frame)).write_volatile(0) };
                }
            }
            populated => populated?,
        }
        self.has_memory = true;
        Ok(())
    }

    /// Returns true if all frames were populated at creation.
    pub(crate) fn has_memory(&self) -> bool {
        self.has_memory
    }

    /// Returns the address at which a device transfers the page of this frame.
    pub(crate) fn address(&self, frame: Frame) -> NonNull<u8> {
        assert!(frame.0 < self.frames, "{frame:?} of {}", self.frames);
        // SAFETY: the frame is in the arena, as was just checked.
        unsafe { self.base.add(frame.0 as usize * PAGE) }
    }

    /// Copies `to.len()` bytes of the frame, from byte `from` on.
    ///
    /// The frame may be refilled during the copy: the caller checks the page table again
    /// afterwards, and uses or discards the bytes.
    #[inline]
    pub(crate) fn copy_out(&self, frame: Frame, from: usize, to: &mut [u8]) {
        assert!(from + to.len() <= PAGE, "a copy stays inside its page");
        self.copy_frames_out(frame, from, to);
    }

    /// Copies `to.len()` bytes of adjacent frames, from byte `from` of the first on, as
    /// [`Self::copy_out`] does.
    #[inline]
    pub(crate) fn copy_frames_out(&self, first: Frame, from: usize, to: &mut [u8]) {
        let end = first.0 as usize * PAGE + from + to.len();
        assert!(end <= self.frames as usize * PAGE, "a copy ends in the arena");
        // SAFETY: the first byte is in the arena, as is the last.
        let source = unsafe { self.address(first).add(from) };
        // SAFETY: source and destination are valid for the length (checked above; `to` is a slice),
        // and do not overlap: no mutable slice of the arena leaves this type.
        unsafe { copy_racing(source.as_ptr(), to.as_mut_ptr(), to.len()) }
    }

    /// Copies `from` into the frame, from byte `to` on.
    /// Only the caller may write to the frame: the core assigned it to a write in progress.
    /// Concurrent readers discard the bytes that they see.
    pub(crate) fn copy_in(&self, frame: Frame, to: usize, from: &[u8]) {
        assert!(to + from.len() <= PAGE, "a copy stays inside its page");
        // SAFETY: the byte is in the frame, as was just checked.
        let dest = unsafe { self.address(frame).add(to) };
        // SAFETY: source and destination are valid for the length (checked above; `from` is a
        // slice), and do not overlap: slices of the arena exist only for pinned frames, which are
        // not written to.
        unsafe { copy_racing(from.as_ptr(), dest.as_ptr(), from.len()) }
    }

    /// Copies these bytes of a frame to the same offset in another.
    ///
    /// As [`Self::copy_in`]; the bytes in `old` belong to a page and do not change.
    pub(crate) fn copy_over(&self, old: Frame, new: Frame, bytes: Range<usize>) {
        assert!(bytes.start <= bytes.end && bytes.end <= PAGE, "a copy stays inside its page");
        assert!(old != new, "a copy goes elsewhere");
        // SAFETY: the byte is in the frame, as was just checked.
        let source = unsafe { self.address(old).add(bytes.start) };
        // SAFETY: the same.
        let dest = unsafe { self.address(new).add(bytes.start) };
        // SAFETY: both ranges are in frames, and the frames differ.
        unsafe { copy_racing(source.as_ptr(), dest.as_ptr(), bytes.len()) }
    }

    /// Returns the page in this frame, which the caller keeps pinned.
    #[inline]
    pub(crate) fn pinned_page(&self, frame: Frame) -> &[u8] {
        self.pinned_pages(frame, 1)
    }

    /// Returns the pages in `count` adjacent frames, which the caller keeps pinned.
    #[inline]
    pub(crate) fn pinned_pages(&self, first: Frame, count: usize) -> &[u8] {
        let page = self.address(first);
        assert!(count <= (self.frames - first.0) as usize, "{count} frames from {first:?} on");
        // SAFETY: the frames are in the arena, and the arena lives as long as `self`. A pinned
        // frame holds a page that is up to date, and is refilled only after its last pin has ended
        // (foreread_core::table::PageTable::pin), so that no code writes to it in the meantime.
        unsafe { std::slice::from_raw_parts(page.as_ptr(), count * PAGE) }
    }

    fn len_of(frames: u32) -> usize {
        (frames as usize + 1) * PAGE
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and its last handle ends here: the driver, which holds one,
        // ends only after the last I/O into it.
        let unmapped =
            unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), Self::len_of(self.frames)) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

/// Reduces TLB misses with large page-table entries.
const HUGE: Advice = Advice::LinuxHugepage;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_returns_what_a_device_wrote() {
        let pool = Pool::new(3).unwrap();
        let page: Vec<u8> = (0..PAGE).map(|i| u8::try_from(i % 251).unwrap()).collect();
        // SAFETY: the frame has a page of memory and no other code uses it.
        unsafe { ptr::copy_nonoverlapping(page.as_ptr(), pool.address(Frame(2)).as_ptr(), 4096) };
        for (from, len) in [(0, 4096), (1, 4095), (4095, 1), (7, 0), (100, 1000)] {
            let mut got = vec![0xff; len];
            pool.copy_out(Frame(2), from, &mut got);
            assert_eq!(got, page[from..from + len]);
        }
    }

    /// Every kind of copy, at every alignment of the destination to a cache line, without touching
    /// adjacent bytes.
    #[test]
    fn a_copy_of_any_length_to_any_address_is_whole_and_no_more() {
        let pool = Pool::new(1).unwrap();
        let page: Vec<u8> = (0..PAGE).map(|i| u8::try_from(i % 251).unwrap()).collect();
        // SAFETY: the frame has a page of memory and no other code uses it.
        unsafe { ptr::copy_nonoverlapping(page.as_ptr(), pool.address(Frame(0)).as_ptr(), 4096) };
        let lens = (0..200).chain([255, 256, 257, 1000, 4000, 4095, 4096]);
        for (at, len) in lens.flat_map(|len| [0, 1, 8, 16, 63, 64, 65].map(|at| (at, len))) {
            for from in [0, 1, 64].into_iter().filter(|from| from + len <= PAGE) {
                let mut got = vec![0xff; at + len + 64];
                pool.copy_out(Frame(0), from, &mut got[at..at + len]);
                assert_eq!(got[at..at + len], page[from..from + len], "{len} bytes to {at}");
                assert!(got[..at].iter().chain(&got[at + len..]).all(|&byte| byte == 0xff));
            }
        }
    }

    #[test]
    fn a_copy_into_a_frame_changes_what_it_names_and_no_more() {
        let pool = Pool::new(3).unwrap();
        let mut want = vec![0; PAGE];
        for (to, len) in [(0, 4096), (1, 99), (4095, 1), (7, 0), (100, 1001), (64, 64)] {
            let from = vec![u8::try_from(len % 250 + 1).unwrap(); len];
            want[to..to + len].copy_from_slice(&from);
            pool.copy_in(Frame(1), to, &from);
            let mut got = vec![0xff; PAGE];
            pool.copy_out(Frame(1), 0, &mut got);
            assert_eq!(got, want, "{len} bytes at {to}");
        }
        pool.copy_over(Frame(1), Frame(2), 3..4001);
        want[..3].fill(0);
        want[4001..].fill(0);
        let mut got = vec![0xff; PAGE];
        pool.copy_out(Frame(2), 0, &mut got);
        assert_eq!(got, want);
    }

    #[test]
    fn memory_that_is_given_early_keeps_the_bytes_that_are_there() {
        let pool = Pool::new(3).unwrap();
        pool.copy_in(Frame(1), 0, &[7; PAGE]);
        pool.populate(0..3).unwrap();
        let mut got = vec![0xff; PAGE];
        pool.copy_out(Frame(1), 0, &mut got);
        assert_eq!(got, [7; PAGE]);
        pool.copy_out(Frame(2), 0, &mut got);
        assert_eq!(got, [0; PAGE]);
    }

    #[test]
    #[should_panic(expected = "Frame(3) of 3")]
    fn a_frame_outside_the_arena_panics() {
        let _ = Pool::new(3).unwrap().address(Frame(3));
    }
}
