//! The memory of the pages: one aligned arena, one frame per page.
//!
//! In:    frame numbers.
//! Out:   where a device reads and writes, copies for readers and from writers.
//! Never: growth. Frames are touched as they fill; the arena is as large as its bound from the
//!        start.

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

use foreread_core::table::Frame;
use foreread_core::units::ByteCount;
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
        let page = self.address(frame);
        // SAFETY: the frame lies in the arena, and the arena lives as long as `self`. A frame that
        // is pinned holds a page that is up to date, and is filled again only when its last pin has
        // ended (foreread_core::table::Table::pin), so nothing writes to it meanwhile.
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
/// so the copy is instructions that the compiler cannot look into.
///
/// ```text
///                            64 bytes apart       not
///   rep movsb, 4 KiB         76 ns                1900 ns     AMD EPYC, in its second-level cache
///   sixteen bytes a time     120 ns               120 ns
/// ```
///
/// Why two ways: on some machines `rep movsb` is quickest where source and destination lie a
/// multiple of a cache line apart, and twenty times slower elsewhere; and a buffer from an
/// allocator lies elsewhere. (The kernel's own copy, and with it `pread`, meets the same trap.)
///
/// # Safety
///
/// `from` and `to` are valid for `len` bytes and do not overlap.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) unsafe fn copy_racing(from: *const u8, to: *mut u8, len: usize) {
    let is_in_step = (from.addr() ^ to.addr()).is_multiple_of(CACHE_LINE);
    if is_in_step || len < CACHE_LINE {
        // SAFETY: the caller vouches for both ranges.
        unsafe { copy_string(from, to, len) }
    } else {
        // SAFETY: the same, and there is a line of bytes at least.
        unsafe { copy_lines(from, to, len) }
    }
}

/// # Safety
///
/// `from` and `to` are valid for `len` bytes and do not overlap.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy_string(from: *const u8, to: *mut u8, len: usize) {
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

/// Whole lines of 64 bytes, and then the last 64 bytes, which may overlap the line before.
///
/// # Safety
///
/// `from` and `to` are valid for `len` bytes, which are 64 at least, and do not overlap.
#[cfg(target_arch = "x86_64")]
unsafe fn copy_lines(from: *const u8, to: *mut u8, len: usize) {
    let last = len - CACHE_LINE;
    // SAFETY: the caller vouches for both ranges. Lines end at `last` or before the line that
    // reaches over it, and `last` is one line before the end. SSE2 is there on every x86_64.
    unsafe {
        std::arch::asm!(
            "2:",
            "movups {a}, [{from} + {at}]",
            "movups {b}, [{from} + {at} + 16]",
            "movups {c}, [{from} + {at} + 32]",
            "movups {d}, [{from} + {at} + 48]",
            "movups [{to} + {at}], {a}",
            "movups [{to} + {at} + 16], {b}",
            "movups [{to} + {at} + 32], {c}",
            "movups [{to} + {at} + 48], {d}",
            "cmp {at}, {last}",
            "jae 3f",
            "add {at}, 64",
            "cmp {at}, {last}",
            "cmova {at}, {last}",
            "jmp 2b",
            "3:",
            from = in(reg) from,
            to = in(reg) to,
            last = in(reg) last,
            at = inout(reg) 0_usize => _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            d = out(xmm_reg) _,
            options(nostack)
        );
    }
}

#[cfg(target_arch = "x86_64")]
const CACHE_LINE: usize = 64;

/// The same where there is no such instruction: word by word, each a volatile load.
///
/// # Safety
///
/// `from` and `to` are valid for `len` bytes and do not overlap.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) unsafe fn copy_racing(from: *const u8, to: *mut u8, len: usize) {
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
    #[should_panic(expected = "Frame(3) of 3")]
    fn a_frame_outside_the_arena_panics() {
        let _ = Pool::new(3).unwrap().address(Frame(3));
    }
}
