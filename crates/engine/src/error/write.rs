//! Why a write, a flush, a zeroing or a discard failed.
//!
//! In:    what the device or the system said, of a file and an offset.
//! Out:   one line that names the file and says what to do, and what is still in memory.
//! Never: a loss that looks like another error.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::engine::MAKE_ANOTHER;

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
            Self::Forked { path } => write!(f, "{}: {MAKE_ANOTHER}", path.display()),
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
