//! Errors from writing, flushing, zeroing and discarding. Lost writes have a variant to themselves.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::engine::MAKE_ANOTHER;

/// An error from a write, a flush, a zeroing or a discard: the path of the file and the cause.
#[derive(Debug)]
pub struct WriteError {
    /// Path of the file.
    pub path: PathBuf,
    /// Cause of the error.
    pub kind: WriteErrorKind,
}

/// Cause of a [`WriteError`], without the path.
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteErrorKind {
    /// The range reaches past the end: of a block device, whose length is fixed, or, for zeroing
    /// and discarding, of any file.
    PastEnd {
        /// End of the requested range.
        end: u64,
        /// Length of the file, in bytes.
        len: u64,
    },
    /// The file was opened for reading.
    ReadOnly,
    /// The file was opened for appending.
    AppendOnly,
    /// The length is fixed, as that of a block device.
    FixedLength {
        /// Current length, in bytes.
        len: u64,
    },
    /// Changing the length failed. The file keeps its old length.
    Length {
        /// Requested length, in bytes.
        len: u64,
        /// Error from the system.
        source: io::Error,
    },
    /// The device did not answer within the time-out. It may still complete the operation later.
    TimedOut {
        /// The failed operation: a noun.
        what: &'static str,
        /// Offset of the operation.
        offset: u64,
        /// Elapsed time.
        after: Duration,
    },
    /// The process was forked after the engine was created: the ring belongs to the parent.
    Forked,
    /// The device failed.
    Io {
        /// The failed operation: a noun.
        what: &'static str,
        /// Offset of the operation.
        offset: u64,
        /// Error from the system.
        source: io::Error,
    },
    /// A device flush failed, now or earlier, and acknowledged writes that the device may have
    /// dropped are no longer in memory. Every flush of the file fails with this error until
    /// [`LostWrites::accept`](crate::LostWrites::accept) is called.
    Lost {
        /// Error from the system.
        source: io::Error,
    },
}

impl WriteErrorKind {
    /// Returns the error with this cause for `path`.
    pub(crate) fn of(self, path: impl Into<PathBuf>) -> WriteError {
        WriteError { path: path.into(), kind: self }
    }

    /// Returns the remedy for a device error.
    fn advice(source: &io::Error) -> &'static str {
        match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => {
                "free space and flush again: the data is still in memory"
            }
            Some(libc::EIO) => {
                "check the device (dmesg): unwritten data is still in memory, and each flush \
                 retries"
            }
            _ => "unwritten data is still in memory; a flush retries",
        }
    }

    /// Returns the remedy for a refused length.
    fn advice_on_length(source: &io::Error) -> &'static str {
        match source.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => "free space, or raise the quota",
            Some(libc::EFBIG) => {
                "raise the limit of the process (ulimit -f), or write another file"
            }
            Some(libc::EPERM) => "remove its append-only attribute (chattr -a), or its seals",
            _ => "check the device (dmesg)",
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.kind)
    }
}

impl fmt::Display for WriteErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PastEnd { end, len } => write!(
                f,
                "a write up to {end} is past the end at {len}, and would not extend it; write \
                 less, or extend a file first (File::set_len)"
            ),
            Self::ReadOnly => f.write_str("is open for reading; open it with OpenOptions::write"),
            Self::AppendOnly => f.write_str(
                "is open for appending; use File::append, or open it with OpenOptions::write",
            ),
            Self::FixedLength { len } => {
                write!(
                    f,
                    "has a fixed length of {len} bytes: only regular files can change their \
                           length"
                )
            }
            Self::Length { len, source } => write!(
                f,
                "cannot set its length to {len} bytes: {source}; its length is unchanged: {}",
                Self::advice_on_length(source)
            ),
            Self::TimedOut { what, offset, after } => write!(
                f,
                "{what} at {offset} got no answer within {after:?}, and may still take effect: \
                 check the device (dmesg), or give the engine a longer timeout"
            ),
            Self::Forked => f.write_str(MAKE_ANOTHER),
            Self::Io { what, offset, source } => {
                write!(f, "{what} at {offset} failed: {source}; {}", Self::advice(source))
            }
            Self::Lost { source } => write!(
                f,
                "a device flush failed, and acknowledged writes may be lost: {source}; check the \
                 device (dmesg), repeat or restore the writes since the last successful flush, \
                 then accept the loss or open the file again"
            ),
        }
    }
}

impl Error for WriteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            WriteErrorKind::PastEnd { .. }
            | WriteErrorKind::ReadOnly
            | WriteErrorKind::AppendOnly
            | WriteErrorKind::FixedLength { .. }
            | WriteErrorKind::TimedOut { .. }
            | WriteErrorKind::Forked => None,
            WriteErrorKind::Io { source, .. }
            | WriteErrorKind::Lost { source, .. }
            | WriteErrorKind::Length { source, .. } => Some(source),
        }
    }
}

/// Allows `?` in functions that return `io::Error`.
impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        let kind = match &error.kind {
            WriteErrorKind::PastEnd { .. } | WriteErrorKind::FixedLength { .. } => {
                io::ErrorKind::InvalidInput
            }
            WriteErrorKind::ReadOnly | WriteErrorKind::AppendOnly => {
                io::ErrorKind::PermissionDenied
            }
            WriteErrorKind::TimedOut { .. } => io::ErrorKind::TimedOut,
            WriteErrorKind::Forked => io::ErrorKind::Unsupported,
            WriteErrorKind::Io { source, .. }
            | WriteErrorKind::Lost { source, .. }
            | WriteErrorKind::Length { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}
