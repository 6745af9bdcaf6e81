//! A reader of ext4 images: ext2, ext3 and ext4, without the kernel.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let image = std::fs::File::open("disk.img")?;
//! let fs = foreread_ext4::Ext4::open(image, foreread_ext4::Journal::Refuse)?;
//!
//! let inode = fs.resolve(b"/etc/os-release")?; // follows symbolic links
//! let mut text = vec![0; 4096];
//! let n = fs.read_at(&inode, 0, &mut text)?;
//!
//! for entry in fs.read_dir(&fs.root()?)? {
//!     let entry = entry?;
//!     println!("{} {}", entry.inode, entry.name.escape_ascii());
//! }
//! for run in fs.layout(&inode) {
//!     println!("{:?}", run?); // which blocks of the device
//! }
//! # Ok(()) }
//! ```
//!
//! In:    bytes at offsets ([`BlockSource`]): a file, a device, a cache with read-ahead.
//! Out:   inodes, names, contents, layouts, extended attributes.
//! Never: a write, a panic, a read outside of the image, or an endless walk, for any bytes; a
//! clock;
//!        memory that grows with the image: only results, owned by the caller, and [`Ext4`]'s
//! latest
//!        descriptor blocks are kept.
//!
//! The kernel's documentation describes the format (Documentation/filesystems/ext4).
//! docs/guide/ext4.md lists the supported parts.

#![forbid(unsafe_code)]

mod acl;
mod attributes;
mod block_run;
mod crc;
mod dir;
mod dir_block;
mod error;
mod extents;
mod features;
mod fields;
mod file;
mod foreign_format;
mod group;
mod hash;
mod htree;
mod indirect;
mod inode;
pub mod itable;
mod map;
mod overhead;
mod partition;
mod partition_table;
mod path;
mod sought_name;
mod source;
mod superblock;
mod walk;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

pub use block_run::BlockRun;
pub use dir::{DirectoryEntry, ReadDir};
pub use error::{Error, ImageLocation};
pub use features::Features;
pub use foreign_format::{ForeignFormat, HEAD_LEN};
pub use group::GroupDescriptor;
pub use inode::{DeviceNumber, FileKind, Inode, ROOT_INODE, Timestamp};
pub use map::FileRuns;
pub use partition::{Partition, PartitionTable};
pub use source::BlockSource;
pub use superblock::{SUPERBLOCK_LEN, SUPERBLOCK_OFFSET, Superblock};
pub use walk::{TreeWalk, WalkEntry};

/// Treatment of a journal with changes that have not been replayed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Journal {
    /// Refuse the image.
    Refuse,
    /// Read the file system without them. It may be old and inconsistent.
    Ignore,
}

/// An ext4 file system in an image. Any number of threads may read it at once.
pub struct Ext4<S> {
    source: S,
    superblock: Superblock,
    /// Cached descriptor blocks, least recently used first: each inode lookup needs one.
    descriptors: Mutex<VecDeque<(u64, Vec<u8>)>>,
}

/// Number of cached descriptor blocks. One of 4 KiB describes 8 GiB.
const DESCRIPTOR_BLOCKS: usize = 16;

impl<S: BlockSource> Ext4<S> {
    /// Opens an image.
    ///
    /// # Errors
    ///
    /// If it is not an ext4 file system, is damaged or truncated, has an unsupported feature, or
    /// its journal has not been replayed.
    pub fn open(source: S, journal: Journal) -> Result<Self, Error> {
        let io = |source| Error::Io { offset: 0, source };
        let found = source.size().map_err(io)?;
        if found < SUPERBLOCK_OFFSET + SUPERBLOCK_LEN as u64 {
            return Err(not_ext4(&source));
        }
        let mut bytes = [0; SUPERBLOCK_LEN];
        let offset = SUPERBLOCK_OFFSET;
        source.read(offset, &mut bytes).map_err(|source| Error::Io { offset, source })?;
        let superblock = Superblock::parse(&bytes).map_err(|error| {
            if matches!(error, Error::NotExt4) { not_ext4(&source) } else { error }
        })?;
        let wanted = superblock.size();
        if found < wanted {
            return Err(Error::Short { wanted, found });
        }
        if superblock.needs_recovery() && journal == Journal::Refuse {
            return Err(Error::Journal);
        }
        let descriptors = Mutex::new(VecDeque::with_capacity(DESCRIPTOR_BLOCKS));
        Ok(Self { source, superblock, descriptors })
    }

    /// Returns the descriptor of a group.
    ///
    /// # Errors
    ///
    /// If there is no such group, or its descriptor is damaged or cannot be read.
    ///
    /// # Panics
    ///
    /// Only by a bug of this reader, never because of an image.
    pub fn group(&self, number: u32) -> Result<GroupDescriptor, Error> {
        let place = ImageLocation::Group(number);
        place.has(number < self.superblock.groups, "there is no such group")?;
        let (block, offset) = self.superblock.descriptor_place(number)?;
        let range = offset..offset + usize::from(self.superblock.descriptor_size);

        let kept = self.keep_descriptors(block, None, &range);
        let descriptor = if let Some(kept) = kept {
            kept
        } else {
            // Without the lock, so that others can use cached blocks at the same time.
            let bytes = self.block(block, place)?;
            self.keep_descriptors(block, Some(bytes), &range)
                .expect("bytes that are given are returned")
        };
        GroupDescriptor::parse(&self.superblock, number, &descriptor)
    }

    /// Extracts a descriptor from a cached or given block, which becomes the most recently used.
    fn keep_descriptors(
        &self,
        block: u64,
        given: Option<Vec<u8>>,
        range: &Range<usize>,
    ) -> Option<Vec<u8>> {
        let mut kept = self.descriptors.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(at, _)| *at == block);
        let found = found.and_then(|index| kept.remove(index)).map(|(_, bytes)| bytes);
        let bytes = found.or(given)?;
        let descriptor = bytes[range.clone()].to_vec();
        if kept.len() == DESCRIPTOR_BLOCKS {
            kept.pop_front();
        }
        kept.push_back((block, bytes));
        Some(descriptor)
    }

    /// Returns the offset of an inode's first byte in the image, and its group.
    ///
    /// # Errors
    ///
    /// If there is no such inode, or its group is damaged or cannot be read.
    pub fn inode_place(&self, number: u32) -> Result<(u64, GroupDescriptor), Error> {
        let is_one = (1..=self.superblock.inodes).contains(&number);
        ImageLocation::Inode(number).has(is_one, "there is no such inode")?;
        let per_group = self.superblock.inodes_per_group;
        let group = self.group((number - 1) / per_group)?;
        let in_table = u64::from((number - 1) % per_group) * u64::from(self.superblock.inode_size);
        let table = group.inode_table * u64::from(self.superblock.block_size);
        Ok((table + in_table, group))
    }

    /// Returns an inode by its number.
    ///
    /// # Errors
    ///
    /// If it is not in use, damaged, or cannot be read.
    pub fn inode(&self, number: u32) -> Result<Inode, Error> {
        let (offset, _) = self.inode_place(number)?;
        let mut raw = vec![0; usize::from(self.superblock.inode_size)].into_boxed_slice();
        self.source.read(offset, &mut raw).map_err(|source| Error::Io { offset, source })?;
        Inode::parse(&self.superblock, number, raw)
    }

    /// Returns the root directory.
    ///
    /// # Errors
    ///
    /// As [`Self::inode`], or if it is not a directory.
    pub fn root(&self) -> Result<Inode, Error> {
        let root = self.inode(ROOT_INODE)?;
        let is_directory = root.kind == FileKind::Directory;
        ImageLocation::Inode(ROOT_INODE).has(is_directory, "the root is not a directory")?;
        Ok(root)
    }

    /// Reads a block that the structure at `place` refers to.
    fn block(&self, number: u64, place: ImageLocation) -> Result<Vec<u8>, Error> {
        let is_there = self.superblock.has_blocks(number, 1);
        place.has(is_there, "refers to a block outside the file system")?;
        let mut bytes = vec![0; self.superblock.block_size as usize];
        let offset = number * u64::from(self.superblock.block_size);
        self.source.read(offset, &mut bytes).map_err(|source| Error::Io { offset, source })?;
        Ok(bytes)
    }
}

impl<S> Ext4<S> {
    /// Returns the superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Returns the source of the bytes.
    #[must_use]
    pub fn source(&self) -> &S {
        &self.source
    }
}

impl<S> fmt::Debug for Ext4<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ext4").field("superblock", &self.superblock).finish_non_exhaustive()
    }
}

/// Returns the most specific error for bytes that are not an ext4 file system.
fn not_ext4(source: &impl BlockSource) -> Error {
    if let Some(format) = ForeignFormat::detect(source) {
        return Error::Foreign(format);
    }
    match PartitionTable::read(source) {
        Ok(Some(table)) => Error::WholeDisk(table),
        Ok(None) | Err(Error::Io { .. }) => Error::NotExt4,
        Err(damaged) => damaged,
    }
}
