//! Why a file could not be opened.
//!
//! In:    what the system said, or the engine, of a path.
//! Out:   one line that names the path and says what to do.
//! Never: two variants with the same remedy.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use foreread_core::path::BadExtents;
use foreread_core::units::ByteCount;

use super::engine::{MAKE_ANOTHER, is_out_of_descriptors};

/// Why a file could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// There is nothing of that name.
    NotFound {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// There is a file of that name, and a new one was asked for.
    Exists {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The options contradict one another.
    Options {
        /// The path that was asked for.
        path: PathBuf,
        /// What is wrong with them, and what to do.
        why: &'static str,
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
    /// Another engine of this process has it open for writing.
    AnotherEngine {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The descriptor that was given may not do what is asked.
    Descriptor {
        /// The file that it leads to.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: &'static str,
    },
    /// Too many files are open in this engine.
    TooMany {
        /// The path that was asked for.
        path: PathBuf,
    },
    /// The extents of the file are not valid.
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
    /// The process was forked after the engine was made: the ring is the parent's.
    Forked {
        /// The path that was asked for.
        path: PathBuf,
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

/// The path of an error, borrowed as the error is: each variant has one.
macro_rules! path_of {
    ($error:expr) => {
        match $error {
            OpenError::NotFound { path }
            | OpenError::Exists { path }
            | OpenError::Options { path, .. }
            | OpenError::Permission { path }
            | OpenError::Directory { path }
            | OpenError::NoPages { path, .. }
            | OpenError::NotWritable { path }
            | OpenError::ReadOnlyFileSystem { path }
            | OpenError::InUse { path }
            | OpenError::Overlap { path }
            | OpenError::AnotherEngine { path }
            | OpenError::Descriptor { path, .. }
            | OpenError::TooMany { path }
            | OpenError::Extents { path, .. }
            | OpenError::PastDevice { path, .. }
            | OpenError::ManyExtents { path, .. }
            | OpenError::Forked { path }
            | OpenError::Io { path, .. } => path,
        }
    };
}

impl OpenError {
    /// The same, of a file that its owner knows by another name.
    pub(crate) fn renamed(mut self, name: &Path) -> Self {
        name.clone_into(path_of!(&mut self));
        self
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", path_of!(self).display())?;
        match self {
            Self::NotFound { .. } => f.write_str("no such file; give a file or a block device"),
            Self::Exists { .. } => f.write_str("exists; remove it, or open it without create_new"),
            Self::Options { why, .. } => f.write_str(why),
            Self::Permission { .. } => {
                f.write_str("permission denied; run as a user who may read it")
            }
            Self::Directory { .. } => f.write_str("is a directory; give a file or a block device"),
            Self::NoPages { kind, .. } => {
                write!(f, "is a {kind}, which has no pages; give a file or a block device")
            }
            Self::NotWritable { .. } => f.write_str(
                "may not be written; run as a user who may, set it writable (blockdev --setrw), or \
                 open it for reading",
            ),
            Self::ReadOnlyFileSystem { .. } => f.write_str(
                "its file system is mounted for reading only; mount it for writing, or open the \
                 file for reading",
            ),
            Self::InUse { .. } => f.write_str(
                "in use: mounted, part of an array, or another program has it (lsblk, fuser); \
                 unmount or end that, or open it for reading",
            ),
            Self::Overlap { .. } => f.write_str(
                "this engine has the same bytes open in another way, and writes would not be seen \
                 there; close that first, or open both alike (a disk, or its partitions; a loop \
                 device, or its file; direct, or buffered)",
            ),
            Self::AnotherEngine { .. } => f.write_str(
                "another engine of this process has it open for writing; use that one (clones of an \
                 Engine are one engine), or close the file there",
            ),
            Self::Descriptor { why, .. } => f.write_str(why),
            Self::TooMany { .. } => f.write_str("too many open files; close some first"),
            Self::Extents { why, .. } => write!(f, "{why}: correct the list of extents"),
            Self::PastDevice { end, len, .. } => write!(
                f,
                "an extent ends at {end}, behind the end of the device at {len}: check the file \
                 system, and whether the image is whole"
            ),
            Self::ManyExtents { limit, .. } => write!(
                f,
                "the extents of all open files would take more than {limit} bytes, a sixteenth of \
                 the memory bound; close some files, or raise the bound"
            ),
            Self::Forked { .. } => f.write_str(MAKE_ANOTHER),
            Self::Io { doing, source, .. } => {
                let remedy = if is_out_of_descriptors(source) {
                    "; raise ulimit -n, or close files"
                } else if source.kind() == io::ErrorKind::WouldBlock {
                    "; a limit of threads is reached: raise it (ulimit -u, TasksMax= of systemd, the \
                     pids limit of a container)"
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
        match self {
            Self::Io { source, .. } => Some(source),
            Self::NotFound { .. }
            | Self::Exists { .. }
            | Self::Options { .. }
            | Self::Permission { .. }
            | Self::Directory { .. }
            | Self::NoPages { .. }
            | Self::NotWritable { .. }
            | Self::ReadOnlyFileSystem { .. }
            | Self::InUse { .. }
            | Self::Overlap { .. }
            | Self::AnotherEngine { .. }
            | Self::Descriptor { .. }
            | Self::TooMany { .. }
            | Self::PastDevice { .. }
            | Self::Forked { .. }
            | Self::ManyExtents { .. } => None,
            Self::Extents { why, .. } => Some(why),
        }
    }
}

/// For programs whose own interface speaks `io::Error`.
impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        let kind = match &error {
            OpenError::NotFound { .. } => io::ErrorKind::NotFound,
            OpenError::Exists { .. } => io::ErrorKind::AlreadyExists,
            OpenError::Permission { .. } | OpenError::NotWritable { .. } => {
                io::ErrorKind::PermissionDenied
            }
            OpenError::Directory { .. } => io::ErrorKind::IsADirectory,
            OpenError::ReadOnlyFileSystem { .. } => io::ErrorKind::ReadOnlyFilesystem,
            OpenError::InUse { .. }
            | OpenError::Overlap { .. }
            | OpenError::AnotherEngine { .. } => io::ErrorKind::ResourceBusy,
            OpenError::TooMany { .. } | OpenError::ManyExtents { .. } => {
                io::ErrorKind::QuotaExceeded
            }
            OpenError::Options { .. }
            | OpenError::Descriptor { .. }
            | OpenError::Extents { .. }
            | OpenError::PastDevice { .. } => io::ErrorKind::InvalidInput,
            OpenError::NoPages { .. } | OpenError::Forked { .. } => io::ErrorKind::Unsupported,
            OpenError::Io { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}
