//! Inodes, and the blocks of the table that come with them.
//!
//! In:    numbers.
//! Out:   inodes.
//! Never: a wait for a block that nobody asked for.

use foreread_ext4::{BlockSource as _, Error, Ext4, Inode, Place, ROOT_INODE};

use crate::source::Image;

/// The inodes of an image.
#[derive(Debug)]
pub(crate) struct Inodes {
    fs: Ext4<Image>,
}

impl Inodes {
    pub(crate) fn new(fs: Ext4<Image>) -> Self {
        Self { fs }
    }

    pub(crate) fn fs(&self) -> &Ext4<Image> {
        &self.fs
    }

    /// An inode that a directory names, or the root.
    ///
    /// The first few numbers are the file system's own, and to the kernel number 1 is the root: a
    /// directory that names one of them is damaged.
    pub(crate) fn inode(&self, number: u32) -> Result<Inode, Error> {
        let superblock = self.fs.superblock();
        if number != ROOT_INODE && number < superblock.first_inode {
            let what = "is the file system's own, and a directory names it";
            return Err(Error::Corrupt { place: Place::Inode(number), what });
        }
        let (offset, _) = self.fs.inode_place(number)?;
        let mut raw = vec![0; usize::from(superblock.inode_size)].into_boxed_slice();
        if !self.fs.source().try_read(offset, &mut raw) {
            let read = self.fs.source().read(offset, &mut raw);
            read.map_err(|source| Error::Io { offset, source })?;
        }
        Inode::parse(superblock, number, raw)
    }
}
