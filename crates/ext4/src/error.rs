//! What can be wrong with an image, or with a question about it.
//!
//! In:    what the reader found.
//! Out:   one line: what is wrong and what to do.
//! Never: the image's name, which the reader does not know; the caller puts it in front.

use std::error;
use std::{fmt, io};

use crate::foreign_format::ForeignFormat;
use crate::partition::PartitionTable;

/// Why there is no answer. One variant per thing that its reader can do.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no ext2, ext3 or ext4 file system in these bytes.
    NotExt4,
    /// These bytes are in another format.
    Foreign(ForeignFormat),
    /// These bytes are a whole disk, whose file systems are in its partitions.
    WholeDisk(PartitionTable),
    /// These bytes are a whole disk, and its partition table is damaged.
    PartitionTable {
        /// In what way.
        what: &'static str,
    },
    /// The file system has features that are not read here.
    Unsupported {
        /// Their names, as `tune2fs` and `mkfs.ext4` say them.
        features: String,
    },
    /// Changes are in the journal that are not in their places yet.
    Journal,
    /// The image ends before its file system does.
    Short {
        /// How many bytes the file system has.
        wanted: u64,
        /// How many the image has.
        found: u64,
    },
    /// The image contradicts itself.
    Corrupt {
        /// Where.
        place: ImageLocation,
        /// In what way.
        what: &'static str,
    },
    /// No such name.
    NotFound,
    /// A path goes on below something that is no directory.
    NotADirectory,
    /// The question is one for another kind of file.
    WrongKind {
        /// What it would have to be, such as "a regular file".
        wanted: &'static str,
    },
    /// The contents of a file, the target of a link or the names of a directory are encrypted.
    Encrypted,
    /// Too many symbolic links after each other: most likely a circle.
    TooManyLinks,
    /// The bytes could not be read.
    Io {
        /// From where on.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
}

/// Where in an image something is wrong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ImageLocation {
    /// The superblock.
    Superblock,
    /// The descriptor of a group.
    Group(u32),
    /// An inode.
    Inode(u32),
    /// The tree that says where an inode's bytes are.
    Map {
        /// The inode.
        inode: u32,
        /// The block of the tree; 0 is the root, in the inode.
        block: u64,
    },
    /// A block of a directory.
    Directory {
        /// The directory's inode.
        inode: u32,
        /// The block's number in the directory, from 0.
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

    /// An error unless the condition holds.
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
                write!(f, "no ext4 file system: give the image of one, or a partition of a disk")
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
                write!(f, "has features that are not read here: {features}; use the kernel's mount")
            }
            Self::Journal => write!(
                f,
                "its journal has changes that are not in place: it is mounted, or was not unmounted"
            ),
            Self::Short { wanted, found } => write!(
                f,
                "ends after {found} bytes, its file system has {wanted}: copy the whole image"
            ),
            Self::Corrupt { place, what } => write!(f, "damaged: {place}: {what}"),
            Self::NotFound => write!(f, "no such file or directory"),
            Self::NotADirectory => write!(f, "not a directory"),
            Self::WrongKind { wanted } => write!(f, "not {wanted}"),
            Self::Encrypted => write!(
                f,
                "is encrypted, and keys are not used here; use the kernel's mount and add its key"
            ),
            Self::TooManyLinks => {
                write!(f, "too many symbolic links after each other; do they form a circle?")
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
