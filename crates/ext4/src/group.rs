//! Group descriptors, which locate each group's inode table. A table outside the file system is an
//! error.
//!
//! ```text
//!               descriptor block 0   1       2         (here 2 descriptors in a block)
//!   usual        |super| d0 d1 | d2 d3 | d4 d5 | group 0 ..     | group 1 .. |
//!   meta_bg      |super| d0 d1 | group 0 ..    |super?| d0 d1 copy | group 1 ..  |super?| d2 d3 |
//!                        ^ in the first group of those that it describes
//! ```

use crate::crc::{crc16, crc32c};
use crate::error::{Error, ImageLocation};
use crate::features;
use crate::fields::{halves, le16, le32};
use crate::superblock::Superblock;

/// The fields of a group descriptor that a reader needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct GroupDescriptor {
    /// First block of the inode table.
    pub inode_table: u64,
    /// Number of inodes at the end of the table that were never used.
    pub unused_inodes: u32,
}

impl GroupDescriptor {
    /// Parses the descriptor of a group.
    ///
    /// # Errors
    ///
    /// If it is damaged.
    ///
    /// # Panics
    ///
    /// If the number of bytes differs from the superblock's descriptor size.
    pub fn parse(superblock: &Superblock, number: u32, bytes: &[u8]) -> Result<Self, Error> {
        assert_eq!(bytes.len(), usize::from(superblock.descriptor_size));
        let place = ImageLocation::Group(number);
        place.has(
            sum(superblock, number, bytes).is_none_or(|sum| sum == le16(bytes, 0x1E)),
            "the checksum of its descriptor does not match",
        )?;
        let is_wide = bytes.len() >= 64;
        let (high, unused_high) =
            if is_wide { (le32(bytes, 0x28), le16(bytes, 0x32)) } else { (0, 0) };
        let inode_table = halves(le32(bytes, 0x8), high);
        place.has(
            superblock.has_blocks(inode_table, superblock.table_blocks()),
            "its inode table is outside the file system",
        )?;
        // Only file systems with checksums count unused inodes. A larger count is clamped.
        let has_count = superblock.features.ro_compat(features::GDT_CSUM | features::METADATA_CSUM);
        let unused = u32::from(le16(bytes, 0x1C)) | u32::from(unused_high) << 16;
        let unused_inodes = if has_count { unused.min(superblock.inodes_per_group) } else { 0 };
        Ok(Self { inode_table, unused_inodes })
    }
}

/// Returns the expected checksum of a descriptor; None if it has none.
fn sum(superblock: &Superblock, number: u32, bytes: &[u8]) -> Option<u16> {
    let (before, after) = (&bytes[..0x1E], &bytes[0x20..]);
    if superblock.has_checksums() {
        let crc = crc32c(superblock.seed, &number.to_le_bytes());
        let crc = crc32c(crc32c(crc32c(crc, before), &[0, 0]), after);
        let [low, high, ..] = crc.to_le_bytes();
        Some(u16::from_le_bytes([low, high]))
    } else if superblock.features.ro_compat(features::GDT_CSUM) {
        let crc = crc16(crc16(!0, &superblock.uuid), &number.to_le_bytes());
        Some(crc16(crc16(crc, before), after))
    } else {
        None
    }
}

impl Superblock {
    /// Returns the number of blocks in an inode table.
    #[must_use]
    pub fn table_blocks(&self) -> u64 {
        let bytes = u64::from(self.inodes_per_group) * u64::from(self.inode_size);
        bytes.div_ceil(u64::from(self.block_size))
    }

    /// Returns the block of a group's descriptor, and its offset there.
    pub(crate) fn descriptor_place(&self, group: u32) -> Result<(u64, usize), Error> {
        let size = u32::from(self.descriptor_size);
        let in_a_block = self.block_size / size;
        let (index, offset) = (group / in_a_block, group % in_a_block * size);
        let block = self.descriptor_block(index, in_a_block);
        ImageLocation::Group(group)
            .has(self.has_blocks(block, 1), "its descriptor is outside the file system")?;
        Ok((block, offset as usize))
    }

    fn descriptor_block(&self, index: u32, in_a_block: u32) -> u64 {
        let has_meta_groups = self.features.incompat(features::META_BG);
        if !has_meta_groups || index < self.first_meta_bg {
            // Descriptors follow the superblock's block.
            return u64::from(1024 / self.block_size) + 1 + u64::from(index);
        }
        let group = u64::from(index) * u64::from(in_a_block);
        let first = u64::from(self.first_data_block) + group * u64::from(self.blocks_per_group);
        // With 1 KiB blocks and a group 0 that begins at 0, the superblock is in its second block.
        let shift = u64::from(self.block_size == 1024 && group == 0 && self.first_data_block == 0);
        first + u64::from(self.has_superblock(group)) + shift
    }

    /// Returns whether a group begins with a copy of the superblock.
    pub(crate) fn has_superblock(&self, group: u64) -> bool {
        if group == 0 {
            return true;
        }
        if self.features.compat(features::SPARSE_SUPER2) {
            return self.backup_groups.iter().any(|&backup| u64::from(backup) == group);
        }
        if group == 1 || !self.features.ro_compat(features::SPARSE_SUPER) {
            return true;
        }
        [3, 5, 7].iter().any(|&base| {
            let mut power = base;
            while power < group {
                power *= base;
            }
            power == group
        })
    }
}
