//! The scratch file, the only thing that this measurement writes to.
//!
//! The file is nameless, so it disappears with the process that has it open. On file systems
//! without nameless files it is unlinked at once.
//!
//! The file is written once in full, because reserved blocks are not read from the device, and the
//! first write to one pays for the file system's journal. Later writes overwrite data, as a
//! database's do.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use foreread_core::units::{ByteCount, Nanos};
use foreread_files::scratch::unnamed;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use super::buffer::AlignedBuffer;
use super::mixed_load::{WRITE, ns};
use crate::errno_text::errno_text;
use crate::probe::Stopped;
use crate::rng::Rng;

/// A file for the mixed load.
#[derive(Debug)]
pub struct ScratchFile {
    pub(super) file: File,
    folder: PathBuf,
    /// Bytes written so far.
    pub(super) size: ByteCount,
    /// Alignment of offsets and buffers.
    pub(super) align: u64,
}

impl ScratchFile {
    /// Creates the file in `folder` and writes it once, for at most 4 s unless a slow device would
    /// leave it too short.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written, has too little room, or cannot do without the page cache;
    /// or if it is interrupted.
    pub fn create(
        folder: &Path,
        clock: fn() -> Nanos,
        interrupted: &AtomicBool,
    ) -> Result<Self, Stopped> {
        let failed = |what: String| Stopped::Failed(format!("{}: {what}", folder.display()));
        let (file, size) = empty(folder).map_err(failed)?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size.0) {
            // Some file systems cannot preallocate; then writing reveals whether there is space.
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => {
                return Err(failed(format!(
                    "cannot reserve {}: {}",
                    mib(size),
                    errno_text(&error.into())
                )));
            }
        }
        let align = file.metadata().map_or(PAGE, |meta| meta.blksize()).clamp(PAGE, WRITE.0);
        let mut scratch = Self { file, folder: folder.to_owned(), size, align };
        scratch.fill(clock, interrupted)?;
        Ok(scratch)
    }

    /// Checks that `folder` can hold a scratch file, and returns the device that it would be on.
    ///
    /// # Errors
    ///
    /// One line, if the folder cannot be written, has too little room, or cannot do without the
    /// page cache.
    pub fn possible(folder: &Path) -> Result<(u32, u32), String> {
        let failed = |what: String| format!("{}: {what}", folder.display());
        let (file, _) = empty(folder).map_err(failed)?;
        device(&file).ok_or_else(|| failed("its device is unknown".into()))
    }

    /// Returns the device that holds the file.
    #[must_use]
    pub fn device(&self) -> Option<(u32, u32)> {
        device(&self.file)
    }

    /// Returns the offset from which the writers write; the reader uses the bytes before it.
    pub(super) fn written_from(&self) -> u64 {
        self.size.0 / 4 / WRITE.0 * WRITE.0
    }

    /// Describes a failed operation on the file.
    pub(super) fn failed(&self, doing: &str, error: &io::Error) -> Stopped {
        Stopped::Failed(format!(
            "{}: {doing} the scratch file: {}",
            self.folder.display(),
            errno_text(error)
        ))
    }

    /// Writes the file from its start until the time is over, and truncates the rest.
    fn fill(&mut self, clock: fn() -> Nanos, interrupted: &AtomicBool) -> Result<(), Stopped> {
        let align = usize::try_from(self.align).expect("a device states its alignment in 32 bits");
        let mut buffer = AlignedBuffer::new(FILL_CHUNK, align);
        noise(buffer.bytes_mut(), 0);
        let limit = Nanos(clock().0 + ns(FILL_TIME));
        let mut done = 0;
        while done < self.size.0 && (done < LEAST.0 || clock() < limit) {
            if interrupted.load(Ordering::Relaxed) {
                return Err(Stopped::Interrupted);
            }
            let len = usize::try_from(self.size.0 - done).map_or(FILL_CHUNK, |n| n.min(FILL_CHUNK));
            // No two blocks are alike, because some devices deduplicate.
            buffer.bytes_mut()[..8].copy_from_slice(&done.to_le_bytes());
            let wrote = self.file.write_all_at(&buffer.bytes()[..len], done);
            wrote.map_err(|error| self.failed("writing", &error))?;
            done += len as u64;
        }
        self.size = ByteCount(done);
        self.file.set_len(done).map_err(|error| self.failed("cutting", &error))?;
        self.file.sync_data().map_err(|error| self.failed("syncing", &error))
    }
}

fn device(file: &File) -> Option<(u32, u32)> {
    let device = file.metadata().ok()?.dev();
    Some((rustix::fs::major(device), rustix::fs::minor(device)))
}

/// Creates an empty file, and returns its maximum size.
fn empty(folder: &Path) -> Result<(File, ByteCount), String> {
    let stat = rustix::fs::statvfs(folder).map_err(|error| errno_text(&error.into()))?;
    let free = ByteCount(stat.f_bavail.saturating_mul(stat.f_frsize));
    let size = size_in(free)?;
    Ok((nameless(folder)?, size))
}

/// Returns the size of a file, given the free space.
fn size_in(free: ByteCount) -> Result<ByteCount, String> {
    let size = (free.0 / PART_OF_FREE).min(MOST.0) / MIB * MIB;
    if size < LEAST.0 {
        let needed = ByteCount(LEAST.0 * PART_OF_FREE);
        return Err(format!("{} free, {} needed; name another folder", mib(free), mib(needed)));
    }
    Ok(ByteCount(size))
}

fn mib(size: ByteCount) -> String {
    format!("{} MiB", size.0 / MIB)
}

/// Opens a nameless file for `O_DIRECT`.
fn nameless(folder: &Path) -> Result<File, String> {
    unnamed(folder, OFlags::DIRECT).map_err(|error| match error {
        Errno::INVAL => "no O_DIRECT here; name a folder on a disk".to_owned(),
        Errno::NOTDIR => "not a folder; name one on the device".to_owned(),
        error => format!("cannot make a file here: {}", errno_text(&error.into())),
    })
}

/// Fills a buffer with incompressible bytes.
pub(super) fn noise(bytes: &mut [u8], seed: u64) {
    let mut rng = Rng(seed);
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.any().to_le_bytes());
    }
}

/// Size of one read: a block of a directory, an inode table, an index.
pub(super) const PAGE: u64 = 4096;

const MIB: u64 = 1 << 20;

/// A larger file gains nothing: at 64 KiB it has 6144 positions to write to, and a disk's head has
/// to seek between them.
const MOST: ByteCount = ByteCount(512 * MIB);

/// Smallest file: in a smaller one, 64 concurrent writes are too close together to be random.
const LEAST: ByteCount = ByteCount(32 * MIB);

/// A full file system is slow, and other programs need space, too.
const PART_OF_FREE: u64 = 4;

/// Writing for longer would shorten the measurement; a USB stick gets a shorter file.
const FILL_TIME: Duration = Duration::from_secs(4);

/// Large enough for several requests in flight.
const FILL_CHUNK: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_what_is_free_and_not_too_much() {
        assert_eq!(size_in(ByteCount(100 << 30)), Ok(MOST));
        assert_eq!(size_in(ByteCount(1 << 30)), Ok(ByteCount(256 * MIB)));
        assert_eq!(size_in(ByteCount(128 * MIB)), Ok(LEAST));
        let refused = size_in(ByteCount(100 * MIB));
        assert_eq!(refused, Err("100 MiB free, 128 MiB needed; name another folder".to_owned()));
    }
}
