//! Page residency of files in the kernel's page cache, and huge-page buffers.
//!
//! It never reads, not even with a non-blocking read, which would start read-ahead.
//!
//! cachestat(2) counts the pages of a range (Linux 6.5). If it is missing or forbidden, mincore(2)
//! inspects a mapping. Both give answers only to a process that owns the file or may write it. For
//! others mincore reports everything as resident, so it is not used then.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::ptr::NonNull;

use foreread_core::units::PAGE_SIZE;
use rustix::fs::Access;

/// Returns the resident parts of a range, in order and page-aligned; None if the kernel does not
/// reveal them.
///
/// Pages that are evicted or read during the call may be included or not.
#[must_use]
pub fn resident(file: &File, range: &Range<u64>) -> Option<Vec<Range<u64>>> {
    let mut parts = Vec::new();
    match count(file, range) {
        Ok(pages) => halve(file, range, pages, &mut parts).ok()?,
        // Seccomp filters return EPERM for system calls newer than the filter.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            look(file, range, &mut parts).ok()?;
        }
        Err(_) => return None,
    }
    Some(parts)
}

/// Bisects partly resident ranges: few calls if resident pages are contiguous.
fn halve(
    file: &File,
    range: &Range<u64>,
    pages: u64,
    parts: &mut Vec<Range<u64>>,
) -> io::Result<()> {
    let all = (range.end - range.start).div_ceil(page());
    if pages == 0 {
        return Ok(());
    }
    if pages >= all {
        add(parts, range.clone());
        return Ok(());
    }
    let middle = range.start + all.div_ceil(2) * page();
    for half in [range.start..middle, middle..range.end] {
        halve(file, &half, count(file, &half)?, parts)?;
    }
    Ok(())
}

fn add(parts: &mut Vec<Range<u64>>, part: Range<u64>) {
    match parts.last_mut() {
        Some(last) if last.end == part.start => last.end = part.end,
        _ => parts.push(part),
    }
}

/// Returns the number of resident pages in a range.
fn count(file: &File, range: &Range<u64>) -> io::Result<u64> {
    if range.is_empty() {
        return Ok(0);
    }
    let range = CachestatRange { offset: range.start, len: range.end - range.start };
    let mut counts = Cachestat::default();
    // SAFETY: cachestat(2) reads one structure and writes the other, and both live until it
    // returns; the descriptor is open as long as `file` is.
    let result = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut counts, 0_u32)
    };
    if result == 0 { Ok(counts.cached) } else { Err(io::Error::last_os_error()) }
}

/// Finds resident parts with mincore(2).
fn look(file: &File, range: &Range<u64>, parts: &mut Vec<Range<u64>>) -> io::Result<()> {
    let is_told = owns(file) || may_write(file);
    if !is_told {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let mut start = range.start;
    while start < range.end {
        let end = range.end.min(start + LOOK_BYTES);
        for (at, is_resident) in (start..end).step_by(page_step()).zip(mincore(file, start..end)?) {
            if is_resident {
                add(parts, at..(at + page()).min(end));
            }
        }
        start = end;
    }
    Ok(())
}

fn mincore(file: &File, range: Range<u64>) -> io::Result<Vec<bool>> {
    let len = usize::try_from(range.end - range.start).map_err(io::Error::other)?;
    let offset = libc::off_t::try_from(range.start).map_err(io::Error::other)?;
    let mut pages = vec![0_u8; len.div_ceil(page_step())];
    // SAFETY: the kernel chooses the address; the mapping is never read or written.
    let map = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            offset,
        )
    };
    if map == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `map` is a mapping of `len` bytes, and `pages` has a byte for each of its pages.
    let result = unsafe { libc::mincore(map, len, pages.as_mut_ptr().cast()) };
    let looked = if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: the mapping is ours, and there is no pointer into it.
    let unmapped = unsafe { libc::munmap(map, len) };
    assert_eq!(unmapped, 0, "a whole mapping can be undone");
    looked.map(|()| pages.into_iter().map(|page| page & 1 == 1).collect())
}

/// A buffer for `O_DIRECT`, in huge pages where the kernel has some.
///
/// If the pages of a request are not contiguous, it has too many segments and is split. The page
/// cache has large folios, so a direct read compared with it must not be split either. The memory
/// is mapped, not allocated, because an allocator may return memory that is already backed by small
/// pages.
pub(crate) struct HugePageBuffer {
    map: NonNull<u8>,
    mapped: usize,
    /// Offset of the buffer in the mapping.
    start: usize,
    len: usize,
}

// SAFETY: the mapping belongs to this alone, as a Vec's memory does.
unsafe impl Send for HugePageBuffer {}

impl HugePageBuffer {
    /// Maps and populates a buffer of `len` bytes.
    ///
    /// # Errors
    ///
    /// If there is not enough memory.
    pub(crate) fn new(len: u64) -> io::Result<Self> {
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let mapped = len.next_multiple_of(HUGE_PAGE) + HUGE_PAGE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                mapped,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let map = NonNull::new(map.cast::<u8>()).filter(|_| map != libc::MAP_FAILED);
        let map = map.ok_or_else(io::Error::last_os_error)?;
        let start = map.addr().get().next_multiple_of(HUGE_PAGE) - map.addr().get();
        let mut memory = Self { map, mapped, start, len };
        if len as u64 > PAGE_SIZE {
            // SAFETY: the advice changes no byte, and the memory is ours. A kernel without huge
            // pages refuses it, and small ones are used.
            let _ = unsafe { libc::madvise(map.as_ptr().cast(), mapped, libc::MADV_HUGEPAGE) };
        }
        // The first touch allocates a page; no timed read should wait for that.
        for byte in memory.bytes().iter_mut().step_by(SMALL_PAGE) {
            *byte = 1;
        }
        Ok(memory)
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        assert!(self.start + self.len <= self.mapped);
        // SAFETY: `start` is inside the mapping.
        let start = unsafe { self.map.add(self.start) };
        // SAFETY: so is its end. The bytes are zeros or were written since, and there is no other
        // reference to them as long as `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.len) }
    }
}

impl Drop for HugePageBuffer {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, and `self` was its only owner.
        let unmapped = unsafe { libc::munmap(self.map.as_ptr().cast(), self.mapped) };
        debug_assert_eq!(unmapped, 0, "a whole mapping can be undone");
    }
}

fn owns(file: &File) -> bool {
    // The owner of /proc/self is the effective user of this process.
    let us = std::fs::metadata("/proc/self").map(|us| us.uid());
    let owner = file.metadata().map(|file| file.uid());
    matches!((us, owner), (Ok(us), Ok(owner)) if us == 0 || us == owner)
}

fn may_write(file: &File) -> bool {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::access(path, Access::WRITE_OK).is_ok()
}

/// Returns the machine's page size, which may exceed the project's.
fn page() -> u64 {
    // SAFETY: sysconf(3) accesses no memory of ours.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(page).unwrap_or(PAGE_SIZE)
}

fn page_step() -> usize {
    usize::try_from(page()).expect("a page is smaller than the address space")
}

/// `struct cachestat_range`: a length of 0 would mean to the end.
#[repr(C)]
struct CachestatRange {
    offset: u64,
    len: u64,
}

/// `struct cachestat`.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// The same number on all architectures, as for all new calls, except alpha and MIPS: there the
/// number is unassigned, and mincore is used.
const CACHESTAT: libc::c_long = 451;

/// Smallest page size of any machine.
const SMALL_PAGE: usize = 4096;

/// Huge page size of most machines.
const HUGE_PAGE: usize = 2 << 20;

/// Largest mapping for one mincore call.
const LOOK_BYTES: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use rustix::fs::Advice;

    use super::*;

    /// On the disk of the build: a tmpfs has no pages that could be dropped.
    fn file_with(pages: &[u64]) -> Option<File> {
        let folder = env!("CARGO_MANIFEST_DIR");
        let place = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| format!("{folder}/../.."));
        let file = tempfile::tempfile_in(place).expect("a file");
        file.write_all_at(&vec![7; 64 * 4096], 0).expect("it is written");
        file.sync_all().expect("it is on its device");
        rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("it is dropped");
        rustix::fs::fadvise(&file, 0, None, Advice::Random).expect("one page each");
        for page in pages {
            file.read_at(&mut [0], page * 4096).expect("it is read");
        }
        (page() == 4096 && count(&file, &(0..64 * 4096)).is_ok()).then_some(file)
    }

    #[test]
    fn memory_begins_on_a_huge_page_and_is_all_ours() {
        for len in [1, 4096, 3 << 20] {
            let mut memory = HugePageBuffer::new(len).expect("a little memory");
            assert_eq!(memory.bytes().len() as u64, len);
            assert_eq!(memory.bytes().as_ptr().addr() % HUGE_PAGE, 0);
            memory.bytes().fill(7);
        }
    }

    #[test]
    fn both_ways_find_the_same_pages() {
        let Some(file) = file_with(&[0, 5, 6, 7, 31, 63]) else {
            let line = "SKIP both_ways_find_the_same_pages: no cachestat, or other pages\n";
            let _ = io::Write::write_all(&mut io::stderr(), line.as_bytes());
            return;
        };
        let page = |n: u64| n * 4096;
        let all = page(0)..page(64);
        let wanted = [0..1, 5..8, 31..32, 63..64].map(|part| page(part.start)..page(part.end));
        assert_eq!(resident(&file, &all).expect("ours to see"), wanted);
        let mut parts = Vec::new();
        look(&file, &all, &mut parts).expect("ours to see");
        assert_eq!(parts, wanted);
        assert_eq!(resident(&file, &(page(8)..page(31))).expect("ours to see"), []);
    }
}
