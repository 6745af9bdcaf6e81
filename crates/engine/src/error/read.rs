//! Errors from reading. Only reads that wait for a page report its failure.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::engine::MAKE_ANOTHER;

/// An error from reading a file: its path and the cause.
#[derive(Debug)]
pub struct ReadError {
    /// Path of the file; for a [source](crate::Source), its name.
    pub path: PathBuf,
    /// Cause of the error.
    pub kind: ReadErrorKind,
}

/// Cause of a [`ReadError`], without the path.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadErrorKind {
    /// A range or a pin begins past the end of the file. (There, [`File::read_at`] returns 0.)
    ///
    /// [`File::read_at`]: crate::File::read_at
    PastEnd {
        /// Requested offset.
        offset: u64,
        /// Length of the file, in bytes.
        len: u64,
    },
    /// A range ends before it starts.
    Range {
        /// Start of the range.
        start: u64,
        /// End of the range.
        end: u64,
    },
    /// The device returned fewer bytes than its stated length promises.
    Short {
        /// Offset of the read.
        offset: u64,
        /// Stated length of the file, in bytes.
        len: u64,
    },
    /// An exact read reached the end of the file before its buffer was full.
    UnexpectedEnd {
        /// Offset of the read.
        offset: u64,
        /// Number of bytes requested.
        wanted: usize,
        /// Length of the file, in bytes.
        len: u64,
    },
    /// The device did not answer within the time-out.
    TimedOut {
        /// Offset of the read.
        offset: u64,
        /// Elapsed time.
        after: Duration,
    },
    /// Pinning these pages would pin more than a quarter of the memory.
    PinLimit {
        /// Size of the pages to pin, in bytes.
        len: u64,
        /// Limit of pinned bytes.
        limit: u64,
    },
    /// The process was forked after the engine was created: the ring belongs to the parent.
    Forked,
    /// The device failed.
    Io {
        /// Offset of the read.
        offset: u64,
        /// Error from the system.
        source: io::Error,
    },
}

impl ReadErrorKind {
    /// Returns the error with this cause for `path`.
    pub(crate) fn of(self, path: impl Into<PathBuf>) -> ReadError {
        ReadError { path: path.into(), kind: self }
    }
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.kind)
    }
}

impl fmt::Display for ReadErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PastEnd { offset, len } => {
                write!(f, "offset {offset} is past the end: the file has {len} bytes")
            }
            Self::Range { start, end } => write!(
                f,
                "the range {start}..{end} ends before it starts: give the smaller offset first"
            ),
            Self::Short { offset, len: _ } => write!(
                f,
                "read at {offset} ended early: the file or device is shorter than when it was \
                 opened; a file was truncated, or a device and its partition table disagree"
            ),
            Self::UnexpectedEnd { offset, wanted, len } => {
                write!(f, "cannot read {wanted} bytes from {offset}: the file ends at {len}")
            }
            Self::TimedOut { offset, after } => write!(
                f,
                "read at {offset} got no answer within {after:?}: check the device (dmesg), or \
                 give the engine a longer timeout"
            ),
            Self::PinLimit { len, limit } => write!(
                f,
                "cannot pin {len} more bytes: at most {limit}, a quarter of the memory, can be \
                 pinned at a time; drop pins, read a copy, or give the engine more memory"
            ),
            Self::Forked => f.write_str(MAKE_ANOTHER),
            Self::Io { offset, source } => {
                write!(f, "read at {offset} failed: {source}")
            }
        }
    }
}

impl Error for ReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            ReadErrorKind::PastEnd { .. }
            | ReadErrorKind::Range { .. }
            | ReadErrorKind::Short { .. }
            | ReadErrorKind::UnexpectedEnd { .. }
            | ReadErrorKind::TimedOut { .. }
            | ReadErrorKind::PinLimit { .. }
            | ReadErrorKind::Forked => None,
            ReadErrorKind::Io { source, .. } => Some(source),
        }
    }
}

/// Allows `?` in functions that return `io::Error`.
impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match &error.kind {
            ReadErrorKind::PastEnd { .. } | ReadErrorKind::Range { .. } => {
                io::ErrorKind::InvalidInput
            }
            ReadErrorKind::Short { .. } | ReadErrorKind::UnexpectedEnd { .. } => {
                io::ErrorKind::UnexpectedEof
            }
            ReadErrorKind::TimedOut { .. } => io::ErrorKind::TimedOut,
            ReadErrorKind::PinLimit { .. } => io::ErrorKind::WouldBlock,
            ReadErrorKind::Forked => io::ErrorKind::Unsupported,
            ReadErrorKind::Io { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}
