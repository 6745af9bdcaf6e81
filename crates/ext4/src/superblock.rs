//! Parses the superblock, the 1024 bytes at offset 1024, and checks that its numbers are
//! consistent. Later code relies on that: no divisor is zero, and no size overflows.

use crate::crc::{self, crc32c};
use crate::error::{Error, ImageLocation};
use crate::features::{self, Features};
use crate::fields::{array16, halves, le16, le32};

/// Offset of the superblock, regardless of the block size.
pub const SUPERBLOCK_OFFSET: u64 = 1024;

/// Length of the superblock.
pub const SUPERBLOCK_LEN: usize = 1024;

/// Log2 of the largest cluster in KiB.
const CLUSTER_LOG_MAX: u32 = 29;

/// First unreserved inode in revisions without a field for it.
const FIRST_INODE: u32 = 11;

/// Code of Linux as the creator.
const LINUX: u32 = 0;

/// Parameters of a file system.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Superblock {
    /// Block size in bytes: a power of two from 1024 to 65536.
    pub block_size: u32,
    /// Number of blocks.
    pub blocks: u64,
    /// Number of free blocks.
    pub free_blocks: u64,
    /// Number of free blocks reserved for root.
    pub reserved_blocks: u64,
    /// Allocation unit in blocks: 1 without clusters (`bigalloc`).
    pub cluster_blocks: u32,
    /// Blocks in the file system's own structures; 0 if not stored.
    pub(crate) overhead_blocks: u64,
    /// Blocks after the descriptors that are reserved for more of them.
    pub(crate) reserved_descriptor_blocks: u16,
    /// Inode of the journal; 0 if it is on its own device.
    pub(crate) journal_inode: u32,
    /// Number of inodes.
    pub inodes: u32,
    /// Number of free inodes.
    pub free_inodes: u32,
    /// First inode that is not reserved.
    pub first_inode: u32,
    /// Inode size in bytes: a power of two from 128 to the block size.
    pub inode_size: u16,
    /// First block of group 0: 1 with blocks of 1 KiB, else 0.
    pub first_data_block: u32,
    /// Number of groups.
    pub groups: u32,
    /// Number of blocks in a group; the last one may have fewer.
    pub blocks_per_group: u32,
    /// Number of inodes in a group.
    pub inodes_per_group: u32,
    /// Length of a group descriptor in bytes.
    pub descriptor_size: u16,
    /// Feature masks.
    pub features: Features,
    /// True if Linux created it: other systems have different fields in an inode's last 12 bytes.
    pub(crate) is_of_linux: bool,
    /// Universally unique id.
    pub uuid: [u8; 16],
    /// Volume label, without trailing zeros.
    pub label: Vec<u8>,
    /// True if it was unmounted cleanly, with no error since the last check.
    pub is_clean: bool,
    /// Seed of name hashes; all zeros for the default of the hash.
    pub(crate) hash_seed: [u32; 4],
    /// Hash of directories that do not store their own.
    pub(crate) default_hash: u8,
    /// True if name bytes are signed in hashes; None if not stored.
    pub(crate) hash_is_signed: Option<bool>,
    /// Seed of checksums.
    pub(crate) seed: u32,
    /// First descriptor block that is stored in the groups that it describes.
    pub(crate) first_meta_bg: u32,
    /// Groups with a copy of the superblock, if there are at most two.
    pub(crate) backup_groups: [u32; 2],
}

impl Superblock {
    /// Parses the [`SUPERBLOCK_LEN`] bytes at [`SUPERBLOCK_OFFSET`].
    ///
    /// # Errors
    ///
    /// If there is no superblock, it is damaged, or the file system cannot be read.
    pub fn parse(bytes: &[u8; SUPERBLOCK_LEN]) -> Result<Self, Error> {
        if le16(bytes, 0x38) != 0xEF53 {
            return Err(Error::NotExt4);
        }
        let is_dynamic = le32(bytes, 0x4C) >= 1;
        // Read in all revisions, as in Linux: tune2fs sets features without changing the revision.
        let features = Features {
            compat: le32(bytes, 0x5C),
            incompat: le32(bytes, 0x60),
            ro_compat: le32(bytes, 0x64),
        };
        // Verified before using other fields. Fields after a refused feature may mean anything.
        check_sum(bytes, features)?;
        features.can_be_read()?;

        let block_size = block_size(bytes)?;
        let cluster_blocks = cluster_blocks(bytes, features)?;
        let flags = le32(bytes, 0x160);
        let uuid = array16(bytes, 0x68);
        let label = bytes[0x78..0x88].split(|&byte| byte == 0).next().unwrap_or_default();
        let high = |at| if features.incompat(features::BIT64) { le32(bytes, at) } else { 0 };
        let this = Self {
            block_size,
            blocks: halves(le32(bytes, 0x4), high(0x150)),
            free_blocks: halves(le32(bytes, 0xC), high(0x158)),
            reserved_blocks: halves(le32(bytes, 0x8), high(0x154)),
            cluster_blocks,
            reserved_descriptor_blocks: le16(bytes, 0xCE),
            journal_inode: le32(bytes, 0xE0),
            overhead_blocks: u64::from(le32(bytes, 0x248)) * u64::from(cluster_blocks),
            inodes: le32(bytes, 0x0),
            free_inodes: le32(bytes, 0x10),
            first_inode: if is_dynamic { le32(bytes, 0x54) } else { FIRST_INODE },
            inode_size: if is_dynamic { le16(bytes, 0x58) } else { 128 },
            first_data_block: le32(bytes, 0x14),
            groups: 0,
            blocks_per_group: le32(bytes, 0x20),
            inodes_per_group: le32(bytes, 0x28),
            descriptor_size: if features.incompat(features::BIT64) {
                le16(bytes, 0xFE)
            } else {
                32
            },
            features,
            is_of_linux: le32(bytes, 0x48) == LINUX,
            uuid,
            label: label.to_vec(),
            is_clean: le16(bytes, 0x3A) & 0x3 == 0x1,
            hash_seed: [0xEC, 0xF0, 0xF4, 0xF8].map(|at| le32(bytes, at)),
            default_hash: bytes[0xFC],
            hash_is_signed: match flags & 0x3 {
                0x1 => Some(true),
                0x2 => Some(false),
                _ => None,
            },
            seed: if features.incompat(features::CSUM_SEED) {
                le32(bytes, 0x270)
            } else {
                crc32c(crc::START, &uuid)
            },
            first_meta_bg: le32(bytes, 0x104),
            backup_groups: [le32(bytes, 0x24C), le32(bytes, 0x250)],
        };
        this.agreed()
    }

    /// Checks that the numbers are consistent, and counts the groups.
    fn agreed(mut self) -> Result<Self, Error> {
        let sane = |holds, what| ImageLocation::Superblock.has(holds, what);
        let bits = u64::from(self.block_size) * 8;

        sane(self.first_inode >= FIRST_INODE, "invalid first inode")?;
        let inode_size = u32::from(self.inode_size);
        let fits = (128..=self.block_size).contains(&inode_size);
        sane(fits && inode_size.is_power_of_two(), "invalid inode size")?;
        let least = if self.features.incompat(features::BIT64) { 64 } else { 32 };
        let size = u32::from(self.descriptor_size);
        let fits = (least..=self.block_size.min(1024)).contains(&size);
        sane(fits && size.is_power_of_two(), "invalid size of group descriptors")?;

        let first = u64::from(self.first_data_block);
        sane(first <= u64::from(self.block_size == 1024), "invalid first block")?;
        sane(self.blocks > first, "no blocks")?;
        sane(self.blocks.checked_mul(u64::from(self.block_size)).is_some(), "too many blocks")?;
        sane(self.blocks_per_group > 0, "no blocks in a group")?;
        let groups = (self.blocks - first).div_ceil(u64::from(self.blocks_per_group));
        self.groups =
            u32::try_from(groups).map_err(|_| ImageLocation::Superblock.is("too many groups"))?;

        let per_group = u64::from(self.inodes_per_group);
        sane((1..=bits).contains(&per_group), "invalid number of inodes in a group")?;
        sane(groups * per_group == u64::from(self.inodes), "inodes and groups do not agree")?;
        Ok(self)
    }

    /// Returns whether metadata has checksums.
    #[must_use]
    pub fn has_checksums(&self) -> bool {
        self.features.ro_compat(features::METADATA_CSUM)
    }

    /// Returns whether the journal has changes that have not been replayed.
    #[must_use]
    pub fn needs_recovery(&self) -> bool {
        // Without a journal the bit is left over from a crash of tune2fs, and Linux ignores it.
        self.features.incompat(features::RECOVER) && self.features.compat(features::HAS_JOURNAL)
    }

    /// Returns the length of the file system in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        // `agreed` has checked that it fits.
        self.blocks * u64::from(self.block_size)
    }

    /// Returns whether these blocks are inside the file system.
    pub(crate) fn has_blocks(&self, first: u64, count: u64) -> bool {
        let end = first.checked_add(count);
        // The block of the superblock holds nothing else.
        first > u64::from(self.first_data_block) && end.is_some_and(|end| end <= self.blocks)
    }
}

fn block_size(bytes: &[u8]) -> Result<u32, Error> {
    let log = le32(bytes, 0x18);
    ImageLocation::Superblock.has(log <= 6, "blocks of more than 64 KiB")?;
    Ok(1024 << log)
}

fn cluster_blocks(bytes: &[u8; SUPERBLOCK_LEN], features: Features) -> Result<u32, Error> {
    if !features.ro_compat(features::BIGALLOC) {
        return Ok(1);
    }
    let (block, cluster) = (le32(bytes, 0x18), le32(bytes, 0x1C));
    let fits = (block..=CLUSTER_LOG_MAX).contains(&cluster);
    ImageLocation::Superblock.has(fits, "invalid cluster size")?;
    Ok(1 << (cluster - block))
}

fn check_sum(bytes: &[u8; SUPERBLOCK_LEN], features: Features) -> Result<(), Error> {
    if !features.ro_compat(features::METADATA_CSUM) {
        return Ok(());
    }
    let (before, sum) = bytes.split_at(0x3FC);
    ImageLocation::Superblock.has(bytes[0x175] == 1, "checksums of an unknown kind")?;
    ImageLocation::Superblock.has(
        crc32c(crc::START, before) == le32(sum, 0),
        "its checksum does not match (e2fsck -b can use a copy)",
    )
}
