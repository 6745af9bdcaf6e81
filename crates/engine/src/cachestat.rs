//! Residency of a file in the kernel's page cache, for comparative measurements. The query itself
//! caches nothing, whereas a non-blocking read would start read-ahead.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// Returns the number of pages of the file in the kernel's page cache, in the machine's page size.
///
/// # Errors
///
/// If the kernel is older than 6.5 and lacks `cachestat(2)`, or the file has no page cache.
pub fn cached_pages(file: &File) -> io::Result<u64> {
    let whole = CachestatRange { offset: 0, len: 0 };
    let mut counts = CachestatCounts::default();
    // SAFETY: cachestat(2) reads one structure and writes the other, and both live until it
    // returns; the descriptor is open as long as `file` is.
    let result = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const whole, &raw mut counts, 0_u32)
    };
    if result == 0 { Ok(counts.cached) } else { Err(io::Error::last_os_error()) }
}

/// `struct cachestat_range`: a length of 0 means to the end.
#[repr(C)]
struct CachestatRange {
    offset: u64,
    len: u64,
}

/// `struct cachestat`.
#[repr(C)]
#[derive(Default)]
struct CachestatCounts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// System call number on all architectures except alpha and MIPS, as for all new calls. On those
/// two it is an unknown call, and nothing is counted.
const CACHESTAT: libc::c_long = 451;

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn written_pages_are_cached() {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[7; 100_000]).expect("it is written");
        match cached_pages(&file) {
            Ok(pages) => assert!(pages >= 1, "of 25"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ENOSYS)),
        }
    }
}
