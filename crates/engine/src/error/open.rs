//! Why a file could not be opened.
//!
//! In:    what the system said, or the engine, of a path.
//! Out:   one line that names the path and says what to do.
//! Never: two variants with the same remedy.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

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
            Self::Forked { path } => write!(f, "{}: {MAKE_ANOTHER}", path.display()),
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
            | Self::Forked { .. }
            | Self::ManyExtents { .. } => None,
            Self::Extents { why, .. } => Some(why),
        }
    }
}
