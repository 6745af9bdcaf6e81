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
    /// It reaches over the end of a block device, which keeps its length; or a range to be zeroed
    /// or discarded does, of any file.
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
    /// The file was opened for appending.
    AppendOnly {
        /// The file.
        path: PathBuf,
    },
    /// It is a block device, or has a length of its own for another reason.
    FixedLength {
        /// The file.
        path: PathBuf,
        /// How long it is.
        len: u64,
    },
    /// The length could not be changed. The file is as long as it was.
    Length {
        /// The file.
        path: PathBuf,
        /// How long it was to be.
        len: u64,
        /// What the system said.
        source: io::Error,
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

    /// What there is to do about a length that was refused.
    fn advice_on_length(source: &io::Error) -> &'static str {
        match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => "make room, or raise the quota",
            Some(libc::EFBIG) => {
                "raise the limit of the process (ulimit -f), or write another file"
            }
            Some(libc::EPERM) => "take away its append-only mark (chattr -a), or its seals",
            _ => "check the device (dmesg)",
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PastEnd { path, end, len } => write!(
                f,
                "{}: a write up to {end} is past the end at {len}, and does not make it longer; write \
                 less, or make a file longer first with File::set_len",
                path.display()
            ),
            Self::ReadOnly { path } => {
                write!(
                    f,
                    "{}: is open for reading; open it with OpenOptions::write",
                    path.display()
                )
            }
            Self::AppendOnly { path } => write!(
                f,
                "{}: is open for appending; use File::append, or open it with OpenOptions::write",
                path.display()
            ),
            Self::FixedLength { path, len } => write!(
                f,
                "{}: has {len} bytes, and keeps them: only regular files change their length",
                path.display()
            ),
            Self::Length { path, len, source } => write!(
                f,
                "{}: cannot make it {len} bytes long: {source}; it is as long as it was: {}",
                path.display(),
                Self::advice_on_length(source)
            ),
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
            | Self::AppendOnly { .. }
            | Self::FixedLength { .. }
            | Self::TimedOut { .. }
            | Self::Forked { .. } => None,
            Self::Io { source, .. } | Self::Lost { source, .. } | Self::Length { source, .. } => {
                Some(source)
            }
        }
    }
}

/// For programs whose own interface speaks `io::Error`.
impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        let kind = match &error {
            WriteError::PastEnd { .. } | WriteError::FixedLength { .. } => {
                io::ErrorKind::InvalidInput
            }
            WriteError::ReadOnly { .. } | WriteError::AppendOnly { .. } => {
                io::ErrorKind::PermissionDenied
            }
            WriteError::TimedOut { .. } => io::ErrorKind::TimedOut,
            WriteError::Forked { .. } => io::ErrorKind::Unsupported,
            WriteError::Io { source, .. }
            | WriteError::Lost { source, .. }
            | WriteError::Length { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}
