//! Errors from writing, flushing, zeroing and discarding. Lost writes have a variant to themselves.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::engine::MAKE_ANOTHER;

/// An error from a write, a flush, a zeroing or a discard.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The range reaches past the end: of a block device, whose length is fixed, or, for zeroing
    /// and discarding, of any file.
    PastEnd {
        /// Path of the file.
        path: PathBuf,
        /// End of the requested range.
        end: u64,
        /// Length of the file, in bytes.
        len: u64,
    },
    /// The file was opened for reading.
    ReadOnly {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file was opened for appending.
    AppendOnly {
        /// Path of the file.
        path: PathBuf,
    },
    /// The length is fixed, as that of a block device.
    FixedLength {
        /// Path of the file.
        path: PathBuf,
        /// Current length, in bytes.
        len: u64,
    },
    /// Changing the length failed. The file keeps its old length.
    Length {
        /// Path of the file.
        path: PathBuf,
        /// Requested length, in bytes.
        len: u64,
        /// Error from the system.
        source: io::Error,
    },
    /// The device did not answer within the time-out. It may still complete the operation later.
    TimedOut {
        /// Path of the file.
        path: PathBuf,
        /// The failed operation: a noun.
        what: &'static str,
        /// Offset of the operation.
        offset: u64,
        /// Elapsed time.
        after: Duration,
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
        /// The failed operation: a noun.
        what: &'static str,
        /// Offset of the operation.
        offset: u64,
        /// Error from the system.
        source: io::Error,
    },
    /// A device flush failed, now or earlier, and acknowledged writes that the device may have
    /// dropped are no longer in memory. Every flush of the file fails with this error until
    /// [`File::accept_lost`](crate::File::accept_lost) is called.
    Lost {
        /// Path of the file.
        path: PathBuf,
        /// Error from the system.
        source: io::Error,
    },
}

impl WriteError {
    /// Returns the remedy for a device error.
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

    /// Returns the remedy for a refused length.
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

/// Allows `?` in functions that return `io::Error`.
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
