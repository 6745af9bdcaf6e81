//! Errors from reading. Only reads that wait for a page report its failure.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::engine::MAKE_ANOTHER;

/// An error from reading a file.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// A range or a pin begins past the end of the file. (There, [`File::read_at`] returns 0.)
    ///
    /// [`File::read_at`]: crate::File::read_at
    PastEnd {
        /// Path of the file.
        path: PathBuf,
        /// Requested offset.
        offset: u64,
        /// Length of the file, in bytes.
        len: u64,
    },
    /// A range ends before it starts.
    Range {
        /// Path of the file.
        path: PathBuf,
        /// Start of the range.
        start: u64,
        /// End of the range.
        end: u64,
    },
    /// The device returned fewer bytes than its stated length promises.
    Short {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the read.
        offset: u64,
        /// Stated length of the file, in bytes.
        len: u64,
    },
    /// An exact read reached the end of the file before its buffer was full.
    UnexpectedEnd {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the read.
        offset: u64,
        /// Number of bytes requested.
        wanted: usize,
        /// Length of the file, in bytes.
        len: u64,
    },
    /// The device did not answer within the time-out.
    TimedOut {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the read.
        offset: u64,
        /// Elapsed time.
        after: Duration,
    },
    /// Pinning these pages would pin more than a quarter of the memory.
    PinLimit {
        /// Path of the file.
        path: PathBuf,
        /// Size of the pages to pin, in bytes.
        len: u64,
        /// Limit of pinned bytes.
        limit: u64,
    },
    /// The process was forked after the engine was created: the ring belongs to the parent.
    Forked {
        /// Path of the file.
        path: PathBuf,
    },
    /// The device failed.
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Offset of the read.
        offset: u64,
        /// Error from the system.
        source: io::Error,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PastEnd { path, offset, len } => write!(
                f,
                "{}: offset {offset} is past the end: the file has {len} bytes",
                path.display()
            ),
            Self::Range { path, start, end } => write!(
                f,
                "{}: the range {start}..{end} ends before it starts: give the smaller offset first",
                path.display()
            ),
            Self::Short { path, offset, len: _ } => write!(
                f,
                "{}: read at {offset} ended early: the file or device is shorter than when it was \
                 opened; a file was truncated, or a device and its partition table disagree",
                path.display()
            ),
            Self::UnexpectedEnd { path, offset, wanted, len } => write!(
                f,
                "{}: {wanted} bytes from {offset} on were wanted, and the file ends at {len}",
                path.display()
            ),
            Self::TimedOut { path, offset, after } => write!(
                f,
                "{}: read at {offset} has had no answer for {after:?}: check the device (dmesg), or \
                 allow it more time with EngineBuilder::timeout",
                path.display()
            ),
            Self::PinLimit { path, len, limit } => write!(
                f,
                "{}: {len} more bytes cannot be pinned: {limit}, a quarter of the memory, may be \
                 at a time; drop pages that are pinned, copy with read_at, or give the engine more \
                 with EngineBuilder::memory",
                path.display()
            ),
            Self::Forked { path } => write!(f, "{}: {MAKE_ANOTHER}", path.display()),
            Self::Io { path, offset, source } => {
                write!(f, "{}: read at {offset} failed: {source}", path.display())
            }
        }
    }
}

impl Error for ReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::PastEnd { .. }
            | Self::Range { .. }
            | Self::Short { .. }
            | Self::UnexpectedEnd { .. }
            | Self::TimedOut { .. }
            | Self::PinLimit { .. }
            | Self::Forked { .. } => None,
            Self::Io { source, .. } => Some(source),
        }
    }
}

/// Allows `?` in functions that return `io::Error`.
impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::PastEnd { .. } | ReadError::Range { .. } => io::ErrorKind::InvalidInput,
            ReadError::Short { .. } | ReadError::UnexpectedEnd { .. } => {
                io::ErrorKind::UnexpectedEof
            }
            ReadError::TimedOut { .. } => io::ErrorKind::TimedOut,
            ReadError::PinLimit { .. } => io::ErrorKind::WouldBlock,
            ReadError::Forked { .. } => io::ErrorKind::Unsupported,
            ReadError::Io { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}
