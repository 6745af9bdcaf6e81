//! Why a read failed.
//!
//! In:    what the device or the system said, of a file and an offset.
//! Out:   one line that names the file and says what to do.
//! Never: an error of a page that no read waits for.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::engine::MAKE_ANOTHER;

/// Why a read failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadError {
    /// A range or a pin begins past the end of the file. (There, [`File::read_at`] returns 0.)
    ///
    /// [`File::read_at`]: crate::File::read_at
    PastEnd {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        offset: u64,
        /// How long the file is.
        len: u64,
    },
    /// A range ends before it starts.
    Range {
        /// The file.
        path: PathBuf,
        /// Where it starts.
        start: u64,
        /// Where it ends.
        end: u64,
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
    /// The file ends before the buffer is full, and all of it was wanted.
    UnexpectedEnd {
        /// The file.
        path: PathBuf,
        /// Where the read began.
        offset: u64,
        /// How many bytes were wanted.
        wanted: usize,
        /// How long the file is.
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
    /// With these pages more than a quarter of the memory would be pinned.
    PinLimit {
        /// The file.
        path: PathBuf,
        /// How many bytes the pages have that were to be pinned.
        len: u64,
        /// How many bytes may be pinned at a time.
        limit: u64,
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

/// For programs whose own interface speaks `io::Error`.
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
