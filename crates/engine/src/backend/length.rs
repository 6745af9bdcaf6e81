//! Changes the length of a file, and reserves space for bytes about to be written where the file
//! system can.
//!
//! A failed call leaves the file unchanged. A length above the process's limit (`ulimit -f`)
//! returns an error and raises no signal.
//!
//! ```text
//!   before   |=====|==                                         reserves only the pages
//!   reserve  |=====|==...|.....|. . . |.....|.....|            about to be written: the
//!   length   |=====|==   |     |      |wwwww|www               skipped part stays a hole
//! ```

use std::ops::Range;

use foreread_core::units::{MAX_FILE_BYTES, PAGE_SIZE};
use rustix::fs::{FallocateFlags, ftruncate};
use rustix::process::{Resource, getrlimit};

use super::act::again;
use super::{Backend, FileIdentity, Medium};

impl Backend {
    /// Returns true if [`Self::set_len`] can change the length.
    pub(crate) fn can_change_len(&self) -> bool {
        self.is_writable()
            && match &self.medium {
                Medium::File { .. } => matches!(self.identity, FileIdentity::Inode { .. }),
                Medium::Memory(device) => device.is_file(),
                Medium::Source(_) => false,
            }
    }

    /// Sets the length of the file, and reserves space for its last `written` bytes, which are
    /// about to be written, if the file system supports that. After an error the file is unchanged.
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
            // The kernel also sends a signal, which would kill the process.
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
            // Part of the space may have been reserved: setting the length frees blocks behind the
            // end.
            let _ = again(|| ftruncate(file, before));
        }
        changed
    }
}

/// Returns the range to reserve: the new pages about to be written. It is empty if all bytes are in
/// the file's current last page.
fn space_for(before: u64, len: u64, written: u64) -> Range<u64> {
    if written == 0 || len.div_ceil(PAGE_SIZE) <= before.div_ceil(PAGE_SIZE) {
        return 0..0;
    }
    let start = before.max(len.saturating_sub(written));
    start - start % PAGE_SIZE..len
}

/// Longest file whose last page `O_DIRECT` can read: it reads whole blocks, and none may end behind
/// the system's largest offset.
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
