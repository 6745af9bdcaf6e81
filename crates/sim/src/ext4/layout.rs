//! A tree on its file system: directories, their entries, and the inode tables. Names and file
//! contents are not modelled.

use foreread_ext4::itable::{BlockIndex, InodeTable};

/// Identifies an inode by its index over all groups, from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct InodeNumber(pub u64);

/// Identifies a directory of a layout by its index in path order, from 0.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct DirectoryId(pub usize);

/// A directory.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The directory's inode.
    pub inode: InodeNumber,
    /// Parent directory; None for a top-level directory.
    pub parent: Option<DirectoryId>,
    /// Blocks of the directory; empty if the entries are stored inline in the inode.
    pub blocks: Vec<BlockIndex>,
    /// Entries, sorted by name.
    pub entries: Vec<DirectoryEntry>,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryEntry {
    /// Inode of the entry.
    pub inode: InodeNumber,
    /// The directory it names, if it is one.
    pub directory: Option<DirectoryId>,
    /// Position in hash order of the names.
    pub rank: u32,
    /// Index of the directory block that contains the entry.
    pub block: u32,
}

/// A tree on its file system.
#[derive(Debug)]
pub struct TreeLayout {
    pub(super) directories: Vec<Directory>,
    /// Inode table of each group.
    pub(super) tables: Vec<GroupTable>,
    pub(super) inodes_per_group: u32,
    pub(super) inodes_per_block: u32,
}

/// The inode table of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct GroupTable {
    pub(super) first: BlockIndex,
    /// Number of used inodes: all below this index, part of the tree or not.
    pub(super) used: u32,
}

impl Directory {
    /// Returns the block that contains an entry; None if it is inline in the inode.
    #[must_use]
    pub fn block_of(&self, entry: &DirectoryEntry) -> Option<BlockIndex> {
        self.blocks.get(usize::try_from(entry.block).ok()?).copied()
    }
}

impl TreeLayout {
    /// Returns all directories, in path order.
    #[must_use]
    pub fn directories(&self) -> &[Directory] {
        &self.directories
    }

    /// Returns the directory with this id.
    #[must_use]
    pub fn directory(&self, id: DirectoryId) -> &Directory {
        &self.directories[id.0]
    }

    /// Iterates over the top-level directories.
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

    /// Splits an inode number into its group and the index in the group's table.
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

/// Block size, in bytes.
pub const BLOCK_SIZE: u32 = 4096;
