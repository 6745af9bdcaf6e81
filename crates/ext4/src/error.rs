//! Errors of the reader, each as one line with the remedy. The image's name is unknown here; the
//! caller prefixes it.

use std::error;
use std::{fmt, io};

use crate::foreign_format::ForeignFormat;
use crate::partition::PartitionTable;

/// Reason for a failure, with one variant for each possible reaction of the user.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The bytes contain no ext2, ext3 or ext4 file system.
    NotExt4,
    /// The bytes are in another format.
    Foreign(ForeignFormat),
    /// The bytes are a whole disk; the file systems are in its partitions.
    WholeDisk(PartitionTable),
    /// The bytes are a whole disk with a damaged partition table.
    PartitionTable {
        /// Kind of damage.
        what: &'static str,
    },
    /// The file system has features that this reader does not support.
    Unsupported {
        /// Names of the features, as in `tune2fs` and `mkfs.ext4`.
        features: String,
    },
    /// The journal contains changes that have not been replayed.
    Journal,
    /// The image ends before its file system does.
    Short {
        /// Size of the file system in bytes.
        wanted: u64,
        /// Size of the image in bytes.
        found: u64,
    },
    /// The image contradicts itself.
    Corrupt {
        /// Location of the contradiction.
        place: ImageLocation,
        /// Kind of damage.
        what: &'static str,
    },
    /// The name does not exist.
    NotFound,
    /// A path continues after a component that is not a directory.
    NotADirectory,
    /// The operation needs another kind of file.
    WrongKind {
        /// Required kind, such as "a regular file".
        wanted: &'static str,
    },
    /// The contents of a file, the target of a link or the names of a directory are encrypted.
    Encrypted,
    /// Too many symbolic links in a row, most likely a cycle.
    TooManyLinks,
    /// The bytes could not be read.
    Io {
        /// Offset of the read.
        offset: u64,
        /// Error of the system call.
        source: io::Error,
    },
}

/// Location of damage in an image.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ImageLocation {
    /// The superblock.
    Superblock,
    /// The descriptor of a group.
    Group(u32),
    /// An inode.
    Inode(u32),
    /// The tree that maps an inode's blocks.
    Map {
        /// The inode.
        inode: u32,
        /// Block of the tree; 0 is the root, in the inode.
        block: u64,
    },
    /// A block of a directory.
    Directory {
        /// The directory's inode.
        inode: u32,
        /// Block number in the directory, from 0.
        block: u64,
    },
    /// Extended attributes.
    Attributes {
        /// The inode that has them.
        inode: u32,
    },
}

impl ImageLocation {
    pub(crate) fn is(self, what: &'static str) -> Error {
        Error::Corrupt { place: self, what }
    }

    /// Returns an error at this location unless the condition holds.
    pub(crate) fn has(self, holds: bool, what: &'static str) -> Result<(), Error> {
        if holds { Ok(()) } else { Err(self.is(what)) }
    }
}

impl fmt::Display for ImageLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superblock => write!(f, "superblock"),
            Self::Group(group) => write!(f, "group {group}"),
            Self::Inode(inode) => write!(f, "inode {inode}"),
            Self::Map { inode, block: 0 } => write!(f, "inode {inode}, root of its block map"),
            Self::Map { inode, block } => write!(f, "inode {inode}, block map in block {block}"),
            Self::Directory { inode, block } => write!(f, "directory {inode}, its block {block}"),
            Self::Attributes { inode } => write!(f, "inode {inode}, extended attributes"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotExt4 => {
                write!(f, "not an ext4 file system: give an ext4 image, or a partition of a disk")
            }
            Self::Foreign(ForeignFormat { name, remedy, .. }) => {
                write!(f, "is {name}, not ext4: {remedy}")
            }
            Self::WholeDisk(table) => {
                write!(f, "is a whole disk: choose one of its partitions: {table}")
            }
            Self::PartitionTable { what } => write!(
                f,
                "has a damaged partition table: {what}; give the offset of the file system"
            ),
            Self::Unsupported { features } => {
                write!(f, "has unsupported features: {features}; use the kernel's mount")
            }
            Self::Journal => write!(
                f,
                "its journal has not been replayed: it is mounted, or was not unmounted cleanly"
            ),
            Self::Short { wanted, found } => write!(
                f,
                "ends after {found} bytes, but its file system has {wanted}: copy the whole image"
            ),
            Self::Corrupt { place, what } => write!(f, "damaged: {place}: {what}"),
            Self::NotFound => write!(f, "no such file or directory"),
            Self::NotADirectory => write!(f, "not a directory"),
            Self::WrongKind { wanted } => write!(f, "not {wanted}"),
            Self::Encrypted => write!(
                f,
                "is encrypted, and foreread does not support keys; use the kernel's mount and add \
                 the key"
            ),
            Self::TooManyLinks => {
                write!(f, "too many levels of symbolic links; do they form a loop?")
            }
            Self::Io { offset, source } => write!(f, "cannot read at byte {offset}: {source}"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::NotExt4
            | Self::Foreign(_)
            | Self::WholeDisk(_)
            | Self::PartitionTable { .. }
            | Self::Unsupported { .. }
            | Self::Journal
            | Self::Short { .. }
            | Self::Corrupt { .. }
            | Self::NotFound
            | Self::NotADirectory
            | Self::WrongKind { .. }
            | Self::Encrypted
            | Self::TooManyLinks => None,
        }
    }
}
