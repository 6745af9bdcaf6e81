//! The memory of the pages: one aligned arena, one frame per page.
//!
//! In:    frame numbers.
//! Out:   where a device reads and writes, copies for readers and from writers.
//! Never: growth. Frames are touched as they fill, or shortly before (`first_touch`); the arena is
//!        as large as its bound from the start.

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

use foreread_core::table::Frame;
use foreread_core::units::ByteCount;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::copy_racing::copy_racing;
use crate::error::EngineError;

/// A page, as a length in memory.
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
    /// The process that made it, where the kernel does not wipe a page in its children.
    process: Option<u32>,
}

// SAFETY: the arena is plain memory that lives as long as the pool; the page table decides which
// thread may read or write which frame at what time, and `copy_out` tolerates a frame that changes
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
        let arena = |source: io::Error| EngineError::Arena { len: ByteCount(len as u64), source };
        let base = base.map_err(|errno| arena(errno.into()))?.cast::<u8>();
        let base = NonNull::new(base).expect("mmap never maps page zero unasked");
        // Huge pages save each hit a walk of the machine's page tables (60 to 130 ns of 4 KiB
        // reads). A kernel without them loses nothing but that. SAFETY: the range is the mapping
        // that was just made, and the advice does not change it.
        let _ = unsafe { rustix::mm::madvise(base.as_ptr().cast(), len - PAGE, HUGE) };
        let mut pool = Self { base, frames, has_memory: false, process: None };
        let own_page = pool.own_page();
        // SAFETY: the page is the last one of the mapping that was just made; what the advice does
        // to it in a child is what it is for.
        if unsafe { rustix::mm::madvise(own_page.as_ptr().cast(), PAGE, Advice::LinuxWipeOnFork) }
            .is_err()
        {
            pool.process = Some(std::process::id());
        }
        // SAFETY: as above; no other code has the page's address.
        unsafe { own_page.write_volatile(1) };
        Ok(pool)
    }

    /// Whether this is the process that made it, and not a forked child. Each miss asks three
    /// times, so that it is a look at memory and no system call.
    #[inline]
    pub(crate) fn is_of_this_process(&self) -> bool {
        // SAFETY: the page lies in the mapping, and no thread writes to it.
        let is_own = unsafe { self.own_page().read_volatile() } == 1;
        is_own && self.process.is_none_or(|process| process == std::process::id())
    }

    /// The page behind the frames.
    fn own_page(&self) -> NonNull<u8> {
        // SAFETY: the mapping has one page more than there are frames.
        unsafe { self.base.add(self.frames as usize * PAGE) }
    }

    /// Has the system give memory to these frames now, and not when they are first filled.
    ///
    /// # Errors
    ///
    /// If the system has none, or does not know how (before Linux 5.14).
    pub(crate) fn populate(&self, frames: Range<u32>) -> io::Result<()> {
        assert!(frames.start < frames.end, "{frames:?} are none");
        let len = (frames.end - frames.start) as usize * PAGE;
        assert!(frames.end <= self.frames, "{frames:?} of {}", self.frames);
        let first = self.address(Frame(frames.start));
        // SAFETY: the range lies in the mapping, as was just checked, and keeps its bytes: pages
        // that are there stay as they are.
        unsafe { rustix::mm::madvise(first.as_ptr().cast(), len, Advice::LinuxPopulateWrite) }?;
        Ok(())
    }

    /// Has the system give memory to all frames.
    ///
    /// # Errors
    ///
    /// If it has none.
    pub(crate) fn prefault(&mut self) -> io::Result<()> {
        match self.populate(0..self.frames) {
            // Before Linux 5.14 a write to each page does the same, but for a clear error.
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

    /// Whether all frames were given memory when it was made.
    pub(crate) fn has_memory(&self) -> bool {
        self.has_memory
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
        self.copy_frames_out(frame, from, to);
    }

    /// Copies `to.len()` bytes of frames in a row, from byte `from` of the first on; as
    /// [`Self::copy_out`].
    #[inline]
    pub(crate) fn copy_frames_out(&self, first: Frame, from: usize, to: &mut [u8]) {
        let end = first.0 as usize * PAGE + from + to.len();
        assert!(end <= self.frames as usize * PAGE, "a copy ends in the arena");
        // SAFETY: the first byte lies in the arena, as the last one does.
        let source = unsafe { self.address(first).add(from) };
        // SAFETY: source and destination are valid for the length (checked above; `to` is a slice),
        // and do not overlap: no mutable slice of the arena leaves this type.
        unsafe { copy_racing(source.as_ptr(), to.as_mut_ptr(), to.len()) }
    }

    /// Copies `from` into the frame, from byte `to` on.
    ///
    /// Only the caller may write to the frame: the core gave it for a write that is not over.
    /// Readers that look there meanwhile throw away what they see.
    pub(crate) fn copy_in(&self, frame: Frame, to: usize, from: &[u8]) {
        assert!(to + from.len() <= PAGE, "a copy stays inside its page");
        // SAFETY: the byte lies in the frame, as was just checked.
        let dest = unsafe { self.address(frame).add(to) };
        // SAFETY: source and destination are valid for the length (checked above; `from` is a
        // slice), and do not overlap: slices of the arena are of pinned frames, which are not
        // written to.
        unsafe { copy_racing(from.as_ptr(), dest.as_ptr(), from.len()) }
    }

    /// Copies these bytes of a frame to the same place in another.
    ///
    /// As [`Self::copy_in`]; the bytes of `old` are a page's, and stay as they are.
    pub(crate) fn copy_over(&self, old: Frame, new: Frame, bytes: Range<usize>) {
        assert!(bytes.start <= bytes.end && bytes.end <= PAGE, "a copy stays inside its page");
        assert!(old != new, "a copy goes elsewhere");
        // SAFETY: the byte lies in the frame, as was just checked.
        let source = unsafe { self.address(old).add(bytes.start) };
        // SAFETY: the same.
        let dest = unsafe { self.address(new).add(bytes.start) };
        // SAFETY: both ranges lie in frames, which are not the same one.
        unsafe { copy_racing(source.as_ptr(), dest.as_ptr(), bytes.len()) }
    }

    /// The page in this frame, for as long as the caller has it pinned.
    #[inline]
    pub(crate) fn pinned_page(&self, frame: Frame) -> &[u8] {
        self.pinned_pages(frame, 1)
    }

    /// The pages in so many frames in a row, for as long as the caller has each pinned.
    #[inline]
    pub(crate) fn pinned_pages(&self, first: Frame, count: usize) -> &[u8] {
        let page = self.address(first);
        assert!(count <= (self.frames - first.0) as usize, "{count} frames from {first:?} on");
        // SAFETY: the frames lie in the arena, and the arena lives as long as `self`. A frame that
        // is pinned holds a page that is up to date, and is filled again only when its last pin has
        // ended (foreread_core::table::PageTable::pin), so nothing writes to it meanwhile.
        unsafe { std::slice::from_raw_parts(page.as_ptr(), count * PAGE) }
    }

    fn len_of(frames: u32) -> usize {
        (frames as usize + 1) * PAGE
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

/// Few and large entries in the machine's page tables.
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

    /// Every way to copy, at every distance from a line of the destination, and nothing beside it.
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
