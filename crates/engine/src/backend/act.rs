//! File operations that move no bytes: flush, zero, discard, map of extents. They may block, so
//! never under the engine's mutex. `length.rs` changes lengths.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fdatasync, fsync, seek};
use rustix::io::Errno;

use super::{Backend, FileIdentity, Medium};
use crate::pool::PAGE;

/// A range of the file, and whether it holds data (true) or is a hole.
pub(crate) type DataExtent = (std::ops::Range<u64>, bool);

impl Backend {
    /// Flushes the device. On success all completed writes and the file's length are durable, and
    /// with `all` its times and mode, too.
    ///
    /// After an error the core decides the fate of earlier writes (`writeback/durability.rs` of the
    /// core): the next flush may succeed without having written them.
    pub(crate) fn sync(&self, all: bool) -> Result<(), i32> {
        if let Some(faults) = &self.faults {
            faults.meet_sync()?;
        }
        match &self.medium {
            Medium::File { file } => {
                let flushes = self.write_side.get().and_then(|side| side.flushes.as_ref());
                let file = flushes.or(self.file_for_writes()).unwrap_or(file);
                again(|| if all { fsync(file) } else { fdatasync(file) })
            }
            Medium::Memory(device) => device.sync(),
            // A source is never written.
            Medium::Source(_) => Ok(()),
        }
    }

    /// Makes whole pages read as zeros.
    ///
    /// ```text
    ///   may unmap    punch a hole --> zero the range --> write zeros       the first that the
    ///   may not                       zero the range --> write zeros       file system knows
    /// ```
    pub(crate) fn zero(&self, offset: u64, len: u64, may_unmap: bool) -> Result<(), i32> {
        assert!(len > 0, "zeros for nothing");
        if may_unmap && self.allocate(PUNCH, &self.knows_no_hole, offset, len)? {
            return Ok(());
        }
        if self.allocate(ZERO, &self.knows_no_zero, offset, len)? {
            return Ok(());
        }
        self.write_zeros(offset, len)
    }

    /// Discards whole pages: a hint, which is ignored where the system does not support it.
    pub(crate) fn discard(&self, offset: u64, len: u64) -> Result<(), i32> {
        self.allocate(PUNCH, &self.knows_no_hole, offset, len).map(drop)
    }

    /// Allocates or deallocates a range. Returns false if the file system does not support `mode`,
    /// and then does not try again.
    pub(super) fn allocate(
        &self,
        mode: FallocateFlags,
        knows_not: &AtomicBool,
        offset: u64,
        len: u64,
    ) -> Result<bool, i32> {
        let Some(file) = self.file_for_writes() else { return Ok(false) };
        if knows_not.load(Ordering::Relaxed) {
            return Ok(false);
        }
        // Zeroing and punching keep the length, and space behind the end is reserved before the
        // length changes.
        let mode = mode | FallocateFlags::KEEP_SIZE;
        match again(|| fallocate(file, mode, offset, len)) {
            Ok(()) => Ok(true),
            Err(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV | libc::EINVAL) => {
                knows_not.store(true, Ordering::Relaxed);
                Ok(false)
            }
            Err(errno) => Err(errno),
        }
    }

    fn write_zeros(&self, offset: u64, len: u64) -> Result<(), i32> {
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let some = ZEROS.0.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
            let zeros = &ZEROS.0[..some];
            if self.ends_before(at + some as u64) {
                return Err(libc::EIO);
            }
            let written = match &self.medium {
                Medium::File { file } => {
                    let file = self.file_for_writes().unwrap_or(file);
                    again(|| rustix::io::pwrite(file, zeros, at))?
                }
                Medium::Memory(device) => device.write(at, zeros, false)? as usize,
                Medium::Source(_) => return Err(libc::EBADF),
            };
            if written == 0 {
                return Err(libc::EIO);
            }
            at += written as u64;
        }
        Ok(())
    }

    /// Returns the first `max` extents, data and holes, from `start` on, in order. Each takes at
    /// most two system calls.
    pub(crate) fn extents(&self, start: u64, end: u64, max: usize) -> Result<Vec<DataExtent>, i32> {
        let mut extents = Vec::new();
        let mut at = start;
        while at < end && extents.len() < max {
            let (next, is_data) = self.extent(at, end)?;
            extents.push((at..next, is_data));
            at = next;
        }
        Ok(extents)
    }

    /// Returns the end of the extent at `at`, and true if it holds data.
    fn extent(&self, at: u64, end: u64) -> Result<(u64, bool), i32> {
        let file = match (&self.medium, self.identity) {
            (Medium::File { file }, FileIdentity::Inode { .. }) => file,
            (Medium::File { .. } | Medium::Memory(_) | Medium::Source(_), _) => {
                return Ok((end, true));
            }
        };
        // Moves the descriptor's offset, which nothing uses.
        let next = |pos| match seek(file.as_fd(), pos) {
            Ok(next) => Ok(next.min(end)),
            Err(Errno::NXIO) => Ok(end),
            Err(errno) => Err(errno.raw_os_error()),
        };
        match next(SeekFrom::Data(at)) {
            Ok(data) if data > at => Ok((data, false)),
            Ok(_) => next(SeekFrom::Hole(at)).map(|hole| (hole.max(at + 1), true)),
            // No support for holes: treat everything as data.
            Err(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOTTY) => Ok((end, true)),
            Err(errno) => Err(errno),
        }
    }
}

/// Repeats a system call that a signal interrupts.
pub(super) fn again<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> Result<T, i32> {
    for _ in 0..SIGNALS_MAX {
        match call() {
            Err(Errno::INTR) => {}
            result => return result.map_err(Errno::raw_os_error),
        }
    }
    Err(libc::EINTR)
}

const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE;
const ZERO: FallocateFlags = FallocateFlags::ZERO_RANGE;

/// Zeros, aligned for `O_DIRECT`.
#[repr(align(4096))]
struct Zeros([u8; 64 * PAGE]);

static ZEROS: Zeros = Zeros([0; 64 * PAGE]);

/// Interrupted attempts after which the call fails: that many signals are no accident.
const SIGNALS_MAX: u32 = 100;

/// Most extents in one reply: a file of alternating pages and holes has as many as pages.
pub(crate) const EXTENTS_MAX: usize = 4096;
