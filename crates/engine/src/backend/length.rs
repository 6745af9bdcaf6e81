//! The length of a file: grown, cut, with space for what is going to be written.
//!
//! In:    a length; how many bytes at its end are going to be written.
//! Out:   the file has that length, and space for those bytes, where the file system can reserve.
//! Never: a file that is changed by a call that failed. A signal: a process that may not have such
//!        a file (`ulimit -f`) gets an error.
//!
//! ```text
//!   before   |=====|==                                         space for the pages of these
//!   reserve  |=====|==...|.....|. . . |.....|.....|            bytes only: what is skipped
//!   length   |=====|==   |     |      |wwwww|www               stays a hole
//! ```

use std::ops::Range;

use foreread_core::units::{MAX_FILE_BYTES, PAGE_SIZE};
use rustix::fs::{FallocateFlags, ftruncate};
use rustix::process::{Resource, getrlimit};

use super::act::again;
use super::{Backend, FileIdentity, Medium};

impl Backend {
    /// Whether [`Self::set_len`] can change its length.
    pub(crate) fn can_change_len(&self) -> bool {
        self.is_writable()
            && match &self.medium {
                Medium::File { .. } => matches!(self.identity, FileIdentity::Inode { .. }),
                Medium::Memory(device) => device.is_file(),
                Medium::Source(_) => false,
            }
    }

    /// Gives the file this length, of which the last `written` bytes are going to be written: there
    /// is space for them, unless the file system cannot reserve any. If it fails, the file is as it
    /// was.
    pub(crate) fn set_len(&self, len: u64, written: u64) -> Result<(), i32> {
        if let Some(faults) = &self.faults {
            faults.meet_len_change()?;
        }
        let file = match &self.medium {
            Medium::File { file } => self.file_for_writes().unwrap_or(file),
            Medium::Memory(device) => return device.set_len(len),
            Medium::Source(_) => return Err(libc::EINVAL),
        };
        if self.buffered.is_none() && len > MAX_DIRECT_BYTES {
            return Err(libc::EFBIG);
        }
        let before = self.size().map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?.0;
        if len > before && getrlimit(Resource::Fsize).current.is_some_and(|limit| len > limit) {
            // The kernel sends a signal beside the error, and that ends the process.
            return Err(libc::EFBIG);
        }
        let space = space_for(before, len, written);
        let reserved = if space.is_empty() {
            Ok(true)
        } else {
            let none = FallocateFlags::empty();
            self.allocate(none, &self.knows_no_reserve, space.start, space.end - space.start)
        };
        let changed = reserved.and_then(|_| again(|| ftruncate(file, len)));
        if changed.is_err() && !space.is_empty() {
            // Part of it may have been reserved: blocks behind the end go when the length is set.
            let _ = again(|| ftruncate(file, before));
        }
        changed
    }
}

/// The pages behind the old end that are going to be written. Nothing if there are none: the bytes
/// are in the last page of the file.
fn space_for(before: u64, len: u64, written: u64) -> Range<u64> {
    if written == 0 || len.div_ceil(PAGE_SIZE) <= before.div_ceil(PAGE_SIZE) {
        return 0..0;
    }
    let start = before.max(len.saturating_sub(written));
    start - start % PAGE_SIZE..len
}

/// Longest file of which `O_DIRECT` can read the last page: it reads whole blocks, and none may end
/// behind the last offset of the system.
pub(super) const MAX_DIRECT_BYTES: u64 = MAX_FILE_BYTES.0 - MAX_FILE_BYTES.0 % PAGE_SIZE;

#[cfg(test)]
mod tests {
    use super::space_for;

    #[test]
    fn space_is_reserved_for_the_new_pages_that_are_written() {
        assert_eq!(space_for(100, 4096, 3996), 0..0, "the page is there");
        assert_eq!(space_for(100, 4097, 3997), 0..4097);
        assert_eq!(space_for(4096, 4097, 1), 4096..4097);
        assert_eq!(space_for(0, 1 << 20, 10), (1 << 20) - 4096..1 << 20, "the rest is a hole");
        assert_eq!(space_for(9000, 10 << 20, 20 << 20), 8192..10 << 20, "what is there stays");
        assert_eq!(space_for(0, 1 << 20, 0), 0..0, "nothing is written");
        assert_eq!(space_for(1 << 20, 10, 10), 0..0, "it shrinks");
    }
}
