//! The overhead of a file system: blocks that files cannot have.
//!
//! In:    the superblock; how large the journal is.
//! Out:   a number of blocks, as `df` leaves them out.
//! Never: a read of more than one inode: all but the journal follows from the superblock.
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

/// A block says which blocks of a group are free, another which inodes.
const BITMAPS: u64 = 2;

impl<S: BlockSource> Ext4<S> {
    /// The number of blocks that hold the file system's own structures, computed: the superblock's
    /// count may be stale after a resize. With clusters, the superblock's count.
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
        // 0: on a device of its own.
        let number = Some(superblock.journal_inode).filter(|&number| has_one && number != 0);
        let journal = number.and_then(|number| self.inode(number).ok());
        journal.map_or(0, |journal| journal.size / u64::from(superblock.block_size))
    }
}

impl Superblock {
    /// How many blocks of a group hold the superblock and descriptors, or copies of them.
    fn copied_blocks(&self, group: u64) -> u64 {
        let in_a_block = u64::from(self.block_size / u32::from(self.descriptor_size));
        let has_super = self.has_superblock(group);
        let has_meta_groups = self.features.incompat(features::META_BG);
        if has_meta_groups && group / in_a_block >= u64::from(self.first_meta_bg) {
            // The block that describes so many groups is in the first, the second, and the last.
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
