//! What can go wrong, by what its reader can do about it.
//!
//! In:    what the system said.
//! Out:   one line that says what was tried and what to do.
//! Never: a panic for something that came from outside.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use foreread_core::cache::PageCache;
use foreread_core::path::BadExtents;
use foreread_core::units::ByteCount;

/// Why an engine could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// The memory bound is too small to hold windows, or too large to count.
    Memory {
        /// What was asked for.
        bound: ByteCount,
    },
    /// The system did not give the memory.
    Arena {
        /// How much.
        len: ByteCount,
        /// What it said.
        source: io::Error,
    },
    /// The system did not give an io_uring.
    Ring {
        /// What it said.
        source: io::Error,
    },
}

/// Why a file could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// There is nothing of that name.
    NotFound {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// It may not be read.
    Permission {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// It is a directory.
    Directory {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// It has no pages: a pipe, a socket, a terminal.
    NoPages {
        /// The path that was asked for.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// It cannot be opened for writing: permissions, or a read-only device.
    NotWritable {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// It lies on a file system that is mounted for reading only.
    ReadOnlyFileSystem {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// Another program uses it, or it is a block device that is mounted.
    InUse {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// This engine has the same bytes open in another way, and one of the two is for writing.
    Overlap {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// Too many files are open in this engine.
    TooMany {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The extents of a file in pieces make no sense.
    Extents {
        /// Of which device.
        path: PathBuf,
        /// What is wrong with them.
        why: BadExtents,
    },
    /// An extent ends behind the end of the device.
    PastDevice {
        /// The device.
        path: PathBuf,
        /// Where the last extent ends.
        end: u64,
        /// How long the device is.
        len: u64,
    },
    /// The extents of all open files take too much memory.
    ManyExtents {
        /// Of which device.
        path: PathBuf,
        /// How much they may take.
        limit: ByteCount,
    },
    /// The system said something else.
    Io {
        /// The path that was asked for.
        path: PathBuf,
        /// What we were doing: a verb.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
}

/// Why a read failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// The offset lies past the end. (At the end, a read returns 0.)
    PastEnd {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        offset: u64,
        /// How long the file is.
        len: u64,
    },
    /// The device ended before the end that it states.
    Short {
        /// The file.
        path: PathBuf,
        /// Where the read began.
        offset: u64,
        /// How long the file says that it is.
        len: u64,
    },
    /// The device did not answer in time.
    TimedOut {
        /// The file.
        path: PathBuf,
        /// Where the read began.
        offset: u64,
        /// How long the read waited.
        after: Duration,
    },
    /// As many pages are pinned as may be: a quarter of the memory.
    PinLimit {
        /// The file.
        path: PathBuf,
    },
    /// The process was forked after the engine was made: the ring is the parent's.
    Forked {
        /// The file.
        path: PathBuf,
    },
    /// The device failed.
    Io {
        /// The file.
        path: PathBuf,
        /// Where the read began.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
}

/// Why a write, a flush, a zero or a discard failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// It reaches over the end: a file keeps its length.
    PastEnd {
        /// The file.
        path: PathBuf,
        /// Where it would have ended.
        end: u64,
        /// How long the file is.
        len: u64,
    },
    /// The file was opened for reading.
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// The device did not answer in time. What was to be done may be done later all the same.
    TimedOut {
        /// The file.
        path: PathBuf,
        /// What was to be done: a noun.
        what: &'static str,
        /// Where it began.
        offset: u64,
        /// How long it waited.
        after: Duration,
    },
    /// The process was forked after the engine was made: the ring is the parent's.
    Forked {
        /// The file.
        path: PathBuf,
    },
    /// The device failed.
    Io {
        /// The file.
        path: PathBuf,
        /// What was to be done: a noun.
        what: &'static str,
        /// Where it began.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// A device flush failed, now or before, and acknowledged writes that the device may have
    /// dropped are not in memory any more. Each flush of the file is this error until
    /// [`File::accept_lost`](crate::File::accept_lost).
    Lost {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl WriteError {
    /// What there is to do about a device's error.
    fn advice(source: &io::Error) -> &'static str {
        match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => {
                "make room and flush again: what was written is still in memory"
            }
            Some(libc::EIO) => {
                "check the device (dmesg): what was written and did not get there is still in \
                 memory, and each flush tries again"
            }
            _ => "what was written and did not get there is still in memory; flush tries again",
        }
    }
}

impl fmt::Display for EngineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { bound } => write!(
                f,
                "a memory bound of {bound} bytes: give from {} bytes (1 MiB) to {} bytes",
                PageCache::MIN_BOUND,
                PageCache::MAX_BOUND
            ),
            Self::Arena { len, source } => {
                write!(f, "cannot reserve {len} bytes for pages ({source}): lower the memory bound")
            }
            Self::Ring { source } if is_out_of_descriptors(source) => {
                write!(f, "cannot open a ring ({source}): raise ulimit -n, or close files")
            }
            Self::Ring { source } => write!(
                f,
                "no io_uring here ({source}): allow it with sysctl kernel.io_uring_disabled=0, and in \
                 the seccomp profile of a container; memory for it is limited by ulimit -l"
            ),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { path } => {
                write!(f, "{}: no such file; give a file or a block device", path.display())
            }
            Self::Permission { path } => {
                write!(f, "{}: permission denied; run as a user who may read it", path.display())
            }
            Self::Directory { path } => {
                write!(f, "{}: is a directory; give a file or a block device", path.display())
            }
            Self::NoPages { path, kind } => write!(
                f,
                "{}: is a {kind}, which has no pages; give a file or a block device",
                path.display()
            ),
            Self::NotWritable { path } => write!(
                f,
                "{}: may not be written; run as a user who may, set it writable (blockdev --setrw), \
                 or open it for reading",
                path.display()
            ),
            Self::ReadOnlyFileSystem { path } => write!(
                f,
                "{}: its file system is mounted for reading only; mount it for writing, or open the \
                 file for reading",
                path.display()
            ),
            Self::InUse { path } => write!(
                f,
                "{}: in use: mounted, part of an array, or another program has it (lsblk, fuser); \
                 unmount or end that, or open it for reading",
                path.display()
            ),
            Self::Overlap { path } => write!(
                f,
                "{}: this engine has the same bytes open in another way, and writes would not be \
                 seen there; close that first, or open both alike (a disk, or its partitions; a loop \
                 device, or its file; for writing first, then for reading)",
                path.display()
            ),
            Self::TooMany { path } => {
                write!(f, "{}: too many open files; close some first", path.display())
            }
            Self::Extents { path, why } => {
                write!(f, "{}: {why}: correct the list of extents", path.display())
            }
            Self::PastDevice { path, end, len } => write!(
                f,
                "{}: an extent ends at {end}, behind the end of the device at {len}: check the file \
                 system, and whether the image is whole",
                path.display()
            ),
            Self::ManyExtents { path, limit } => write!(
                f,
                "{}: the extents of all open files would take more than {limit} bytes, a sixteenth \
                 of the memory bound; close some files, or raise the bound",
                path.display()
            ),
            Self::Io { path, doing, source } if is_out_of_descriptors(source) => write!(
                f,
                "{}: cannot {doing}: {source}; raise ulimit -n, or close files",
                path.display()
            ),
            Self::Io { path, doing, source } => {
                write!(f, "{}: cannot {doing}: {source}", path.display())
            }
        }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PastEnd { path, offset, len } => write!(
                f,
                "{}: offset {offset} is past the end: the file has {len} bytes",
                path.display()
            ),
            Self::Short { path, offset, len: _ } => write!(
                f,
                "{}: read at {offset} ended early: the file or device is shorter than when it was \
                 opened; a file was truncated, or a device and its partition table disagree",
                path.display()
            ),
            Self::TimedOut { path, offset, after } => write!(
                f,
                "{}: read at {offset} has had no answer for {after:?}: check the device (dmesg), or \
                 allow it more time with EngineBuilder::timeout",
                path.display()
            ),
            Self::PinLimit { path } => write!(
                f,
                "{}: the page cannot be pinned: a quarter of the memory is; drop pins, copy with \
                 read_at, or raise the memory bound",
                path.display()
            ),
            Self::Forked { path } => write!(
                f,
                "{}: this process was forked after the engine was made; make another one here",
                path.display()
            ),
            Self::Io { path, offset, source } => {
                write!(f, "{}: read at {offset} failed: {source}", path.display())
            }
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PastEnd { path, end, len } => write!(
                f,
                "{}: a write up to {end} is past the end: the file has {len} bytes, and keeps its \
                 length while it is open for writing",
                path.display()
            ),
            Self::ReadOnly { path } => {
                write!(
                    f,
                    "{}: is open for reading; open it with OpenOptions::write",
                    path.display()
                )
            }
            Self::TimedOut { path, what, offset, after } => write!(
                f,
                "{}: {what} at {offset} has had no answer for {after:?}, and may still happen: check \
                 the device (dmesg), or allow it more time with EngineBuilder::timeout",
                path.display()
            ),
            Self::Forked { path } => write!(
                f,
                "{}: this process was forked after the engine was made; make another one here",
                path.display()
            ),
            Self::Io { path, what, offset, source } => write!(
                f,
                "{}: {what} at {offset} failed: {source}; {}",
                path.display(),
                Self::advice(source)
            ),
            Self::Lost { path, source } => write!(
                f,
                "{}: a device flush failed, and acknowledged writes may be lost: {source}; check the \
                 device (dmesg), write again or restore what was written since the last good flush, \
                 then accept the loss or open the file again",
                path.display()
            ),
        }
    }
}

impl Error for EngineError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Memory { .. } => None,
            Self::Arena { source, .. } | Self::Ring { source } => Some(source),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::NotFound { .. }
            | Self::Permission { .. }
            | Self::Directory { .. }
            | Self::NoPages { .. }
            | Self::NotWritable { .. }
            | Self::ReadOnlyFileSystem { .. }
            | Self::InUse { .. }
            | Self::Overlap { .. }
            | Self::TooMany { .. }
            | Self::PastDevice { .. }
            | Self::ManyExtents { .. } => None,
            Self::Extents { why, .. } => Some(why),
        }
    }
}

impl Error for ReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::PastEnd { .. }
            | Self::Short { .. }
            | Self::TimedOut { .. }
            | Self::PinLimit { .. }
            | Self::Forked { .. } => None,
            Self::Io { source, .. } => Some(source),
        }
    }
}

impl Error for WriteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::PastEnd { .. }
            | Self::ReadOnly { .. }
            | Self::TimedOut { .. }
            | Self::Forked { .. } => None,
            Self::Io { source, .. } | Self::Lost { source, .. } => Some(source),
        }
    }
}

/// For programs whose own interface speaks `io::Error`.
impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        let kind = match &error {
            WriteError::PastEnd { .. } => io::ErrorKind::InvalidInput,
            WriteError::ReadOnly { .. } => io::ErrorKind::PermissionDenied,
            WriteError::TimedOut { .. } => io::ErrorKind::TimedOut,
            WriteError::Forked { .. } => io::ErrorKind::Unsupported,
            WriteError::Io { source, .. } | WriteError::Lost { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}

/// For programs whose own interface speaks `io::Error`.
impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::PastEnd { .. } => io::ErrorKind::InvalidInput,
            ReadError::Short { .. } => io::ErrorKind::UnexpectedEof,
            ReadError::TimedOut { .. } => io::ErrorKind::TimedOut,
            ReadError::PinLimit { .. } => io::ErrorKind::WouldBlock,
            ReadError::Forked { .. } => io::ErrorKind::Unsupported,
            ReadError::Io { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}
