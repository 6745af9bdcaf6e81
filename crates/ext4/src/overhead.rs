//! Computes the overhead of a file system: blocks that files cannot use, as `df` subtracts them.
//! Only the journal's inode is read; everything else follows from the superblock.
//!
//! ```text
//!   group 0      |super|descriptors|reserved for more|2 bitmaps|table| ..
//!   group 1      |same, with sparse_super only in some|2 bitmaps|table| ..
//!   somewhere    |journal|
//! ```

use crate::Ext4;
use crate::features;
use crate::source::BlockSource;
use crate::superblock::Superblock;

/// One bitmap of a group's free blocks, one of its free inodes.
const BITMAPS: u64 = 2;

impl<S: BlockSource> Ext4<S> {
    /// Returns the number of blocks in the file system's own structures. It is computed, because
    /// the superblock's count may be stale after a resize. With clusters it is the superblock's
    /// count.
    #[must_use]
    pub fn overhead_blocks(&self) -> u64 {
        let superblock = self.superblock();
        if superblock.features.ro_compat(features::BIGALLOC) {
            return superblock.overhead_blocks;
        }
        let groups = u64::from(superblock.groups);
        let in_all = groups * (superblock.table_blocks() + BITMAPS);
        let in_some: u64 = (0..groups).map(|group| superblock.copied_blocks(group)).sum();
        u64::from(superblock.first_data_block) + in_all + in_some + self.journal_blocks()
    }

    fn journal_blocks(&self) -> u64 {
        let superblock = self.superblock();
        let has_one = superblock.features.compat(features::HAS_JOURNAL);
        // A number of 0 means a journal on its own device.
        let number = Some(superblock.journal_inode).filter(|&number| has_one && number != 0);
        let journal = number.and_then(|number| self.inode(number).ok());
        journal.map_or(0, |journal| journal.size / u64::from(superblock.block_size))
    }
}

impl Superblock {
    /// Returns the number of blocks in a group that hold the superblock and descriptors, or copies
    /// of them.
    fn copied_blocks(&self, group: u64) -> u64 {
        let in_a_block = u64::from(self.block_size / u32::from(self.descriptor_size));
        let has_super = self.has_superblock(group);
        let has_meta_groups = self.features.incompat(features::META_BG);
        if has_meta_groups && group / in_a_block >= u64::from(self.first_meta_bg) {
            // A descriptor block is stored in the first, the second and the last of the groups that
            // it describes.
            let place = group % in_a_block;
            return u64::from(has_super) + u64::from(place < 2 || place == in_a_block - 1);
        }
        if !has_super {
            return 0;
        }
        let descriptors = if has_meta_groups {
            u64::from(self.first_meta_bg)
        } else {
            u64::from(self.groups).div_ceil(in_a_block)
        };
        1 + descriptors + u64::from(self.reserved_descriptor_blocks)
    }
}
