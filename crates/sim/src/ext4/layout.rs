//! A tree on its file system: directories, their entries, and the inode tables.
//!
//! In:    directories and tables, from `synthetic` or `recorded`.
//! Out:   the block of each directory and of each inode.
//! Never: a name, a file's content.

use foreread_core::itable::{BlockIndex, InodeTable};

/// Names an inode: its place among those of all groups, from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct InodeNumber(pub u64);

/// Names a directory of a layout, from 0: the order of their paths.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DirectoryId(pub usize);

/// A directory.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Its own inode.
    pub inode: InodeNumber,
    /// In which it is an entry; None of a top-level one.
    pub parent: Option<DirectoryId>,
    /// Its blocks. None if its entries are in its inode.
    pub blocks: Vec<BlockIndex>,
    /// Its entries, in the order of their names.
    pub entries: Vec<DirectoryEntry>,
}

/// What a directory says of a name.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntry {
    /// Which inode has that name.
    pub inode: InodeNumber,
    /// If it is a directory, which.
    pub directory: Option<DirectoryId>,
    /// Its place in the order of the hashes of the names.
    pub rank: u32,
    /// Which of the directory's blocks names it.
    pub block: u32,
}

/// A tree on its file system.
#[derive(Debug)]
pub struct TreeLayout {
    pub(super) directories: Vec<Directory>,
    /// The inode table of each group.
    pub(super) tables: Vec<GroupTable>,
    pub(super) inodes_per_group: u32,
    pub(super) inodes_per_block: u32,
}

/// The inode table of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupTable {
    pub(super) first: BlockIndex,
    /// How many inodes are used: all up to there, of the tree or not.
    pub(super) used: u32,
}

impl Directory {
    /// The block that names an entry; None if the directory's inode does.
    #[must_use]
    pub fn block_of(&self, entry: &DirectoryEntry) -> Option<BlockIndex> {
        self.blocks.get(usize::try_from(entry.block).ok()?).copied()
    }
}

impl TreeLayout {
    /// All directories, in the order of their paths.
    #[must_use]
    pub fn directories(&self) -> &[Directory] {
        &self.directories
    }

    /// The directory of that name.
    #[must_use]
    pub fn directory(&self, id: DirectoryId) -> &Directory {
        &self.directories[id.0]
    }

    /// The top-level ones.
    pub fn tops(&self) -> impl Iterator<Item = DirectoryId> {
        let all = self.directories.iter().enumerate();
        all.filter(|(_, directory)| directory.parent.is_none()).map(|(id, _)| DirectoryId(id))
    }

    /// Returns the block of an inode, and the inode table that the block is part of.
    ///
    /// # Panics
    ///
    /// If the inode is in no group of the layout.
    #[must_use]
    pub fn place(&self, inode: InodeNumber) -> (BlockIndex, InodeTable) {
        let (group, index) = self.split(inode);
        let GroupTable { first, used } = self.tables[group];
        let (in_group, in_block) = (self.inodes_per_group, self.inodes_per_block);
        let table = InodeTable::new(first, in_group, in_block, in_group - used);
        let block = BlockIndex(first.0 + u64::from(index / in_block));
        (block, table.expect("the parameters of a layout are checked"))
    }

    /// Group, and place in its table.
    pub(super) fn split(&self, inode: InodeNumber) -> (usize, u32) {
        let per_group = u64::from(self.inodes_per_group);
        let group = usize::try_from(inode.0 / per_group).expect("the number of groups fits usize");
        (
            group,
            u32::try_from(inode.0 % per_group)
                .expect("a remainder is below inodes_per_group, a u32"),
        )
    }
}

/// Bytes of a block.
pub const BLOCK_SIZE: u32 = 4096;
