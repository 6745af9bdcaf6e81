//! Errors from opening a file. Each variant has a distinct remedy.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

use foreread_core::path::InvalidExtents;
use foreread_core::units::ByteCount;

use super::engine::{MAKE_ANOTHER, is_out_of_descriptors};

/// An error from opening a file: its path and the cause.
#[derive(Debug)]
pub struct OpenError {
    /// Path of the file; for a [source](crate::Source), its name.
    pub path: PathBuf,
    /// Cause of the error.
    pub kind: OpenErrorKind,
}

/// Cause of an [`OpenError`], without the path.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenErrorKind {
    /// No such file.
    NotFound,
    /// The file exists, and the options require a new one.
    Exists,
    /// The options contradict one another.
    Options {
        /// The contradiction and its remedy.
        why: &'static str,
    },
    /// Permission to read the file was denied.
    Permission,
    /// The path is a directory.
    Directory,
    /// The file has no pages: a pipe, a socket, a terminal.
    NoPages {
        /// Kind of the file.
        kind: &'static str,
    },
    /// The file cannot be opened for writing: permissions, or a read-only device.
    NotWritable,
    /// The file system is mounted read-only.
    ReadOnlyFileSystem,
    /// Another program uses the file, or it is a mounted block device.
    InUse,
    /// This engine has the same bytes open through another device or in another mode, and one of
    /// the two is for writing.
    Overlap,
    /// Another engine of this process has the file open for writing.
    AnotherEngine,
    /// The given descriptor does not permit the requested access.
    Descriptor {
        /// The missing access and its remedy.
        why: &'static str,
    },
    /// Too many files are open in this engine.
    TooMany,
    /// The extents of the file are not valid.
    Extents {
        /// The violated rule.
        why: InvalidExtents,
    },
    /// An extent ends past the end of the device.
    PastDevice {
        /// End of the last extent, in bytes.
        end: u64,
        /// Length of the device, in bytes.
        len: u64,
    },
    /// The extents of all open files take too much memory.
    ManyExtents {
        /// Memory limit for all extents.
        limit: ByteCount,
    },
    /// The process was forked after the engine was created: the ring belongs to the parent.
    Forked,
    /// Any other error from the system.
    Io {
        /// The failed operation: a verb.
        doing: &'static str,
        /// Error from the system.
        source: io::Error,
    },
}

impl OpenErrorKind {
    /// Returns the error with this cause for `path`.
    pub(crate) fn of(self, path: impl Into<PathBuf>) -> OpenError {
        OpenError { path: path.into(), kind: self }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.kind)
    }
}

impl fmt::Display for OpenErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("no such file; give a file or a block device"),
            Self::Exists => f.write_str("exists; remove it, or open it without create_new"),
            Self::Options { why } => f.write_str(why),
            Self::Permission => f.write_str("permission denied; run as a user with read access"),
            Self::Directory => f.write_str("is a directory; give a file or a block device"),
            Self::NoPages { kind } => {
                write!(f, "is a {kind}, which has no pages; give a file or a block device")
            }
            Self::NotWritable => f.write_str(
                "not writable; run as a user with write access, make it writable (blockdev \
                 --setrw), or open it for reading",
            ),
            Self::ReadOnlyFileSystem => f.write_str(
                "its file system is mounted read-only; remount it read-write, or open the file \
                 for reading",
            ),
            Self::InUse => f.write_str(
                "in use: mounted, part of an array, or open in another program (see lsblk, fuser); \
                 unmount or close it, or open it for reading",
            ),
            Self::Overlap => f.write_str(
                "this engine has the same bytes open in another way, which would miss the writes; \
                 close it first, or open both in the same way (the disk or its partitions; the \
                 loop device or its file; direct or buffered)",
            ),
            Self::AnotherEngine => f.write_str(
                "another engine of this process has it open for writing; use that one (clones of \
                 an Engine are one engine), or close the file there",
            ),
            Self::Descriptor { why } => f.write_str(why),
            Self::TooMany => f.write_str("too many open files; close some first"),
            Self::Extents { why } => write!(f, "{why}: correct the list of extents"),
            Self::PastDevice { end, len } => write!(
                f,
                "an extent ends at {end}, past the end of the device at {len}: check the file \
                 system, and whether the image is complete"
            ),
            Self::ManyExtents { limit } => write!(
                f,
                "the extents of all open files would take more than {limit} bytes, a sixteenth of \
                 the memory bound; close some files, or raise the bound"
            ),
            Self::Forked => f.write_str(MAKE_ANOTHER),
            Self::Io { doing, source } => {
                let remedy = if is_out_of_descriptors(source) {
                    "; raise ulimit -n, or close files"
                } else if source.kind() == io::ErrorKind::WouldBlock {
                    "; the limit of threads is reached: raise it (ulimit -u, TasksMax= of \
                     systemd, the pids limit of a container)"
                } else {
                    ""
                };
                write!(f, "cannot {doing}: {source}{remedy}")
            }
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            OpenErrorKind::Io { source, .. } => Some(source),
            OpenErrorKind::Extents { why } => Some(why),
            OpenErrorKind::NotFound
            | OpenErrorKind::Exists
            | OpenErrorKind::Permission
            | OpenErrorKind::Directory
            | OpenErrorKind::NotWritable
            | OpenErrorKind::ReadOnlyFileSystem
            | OpenErrorKind::InUse
            | OpenErrorKind::Overlap
            | OpenErrorKind::AnotherEngine
            | OpenErrorKind::TooMany
            | OpenErrorKind::Forked
            | OpenErrorKind::Options { .. }
            | OpenErrorKind::NoPages { .. }
            | OpenErrorKind::Descriptor { .. }
            | OpenErrorKind::PastDevice { .. }
            | OpenErrorKind::ManyExtents { .. } => None,
        }
    }
}

/// Allows `?` in functions that return `io::Error`.
impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        let kind = match &error.kind {
            OpenErrorKind::NotFound => io::ErrorKind::NotFound,
            OpenErrorKind::Exists => io::ErrorKind::AlreadyExists,
            OpenErrorKind::Permission | OpenErrorKind::NotWritable => {
                io::ErrorKind::PermissionDenied
            }
            OpenErrorKind::Directory => io::ErrorKind::IsADirectory,
            OpenErrorKind::ReadOnlyFileSystem => io::ErrorKind::ReadOnlyFilesystem,
            OpenErrorKind::InUse | OpenErrorKind::Overlap | OpenErrorKind::AnotherEngine => {
                io::ErrorKind::ResourceBusy
            }
            OpenErrorKind::TooMany | OpenErrorKind::ManyExtents { .. } => {
                io::ErrorKind::QuotaExceeded
            }
            OpenErrorKind::Options { .. }
            | OpenErrorKind::Descriptor { .. }
            | OpenErrorKind::Extents { .. }
            | OpenErrorKind::PastDevice { .. } => io::ErrorKind::InvalidInput,
            OpenErrorKind::NoPages { .. } | OpenErrorKind::Forked => io::ErrorKind::Unsupported,
            OpenErrorKind::Io { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}
