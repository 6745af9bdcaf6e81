//! Parses inodes. Unused inodes are an error, and fields beyond the used part are ignored.
//!
//! ```text
//!   0                        128             128 + extra         inode size
//!   |---- as in ext2 -----------|---- extra ----|---- attributes ----|
//!         |- 60 bytes: map, -|    nanoseconds,      the second part of
//!         |  inline, link    |    checksum          inline data too
//! ```

use crate::crc::crc32c;
use crate::error::{Error, ImageLocation};
use crate::features;
use crate::fields::{halves, le16, le32};
use crate::superblock::Superblock;

/// Number of the root directory.
pub const ROOT_INODE: u32 = 2;

/// Length of the part common to all inodes.
const OLD_SIZE: usize = 128;

/// Range of the 60 bytes that hold a file's map, or its first bytes.
const AREA: std::ops::Range<usize> = 0x28..0x64;

/// Kind of file.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum FileKind {
    /// A file with contents.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
    /// A Unix socket.
    Socket,
}

impl FileKind {
    /// Returns the kind for the upper four bits of a mode.
    fn of_mode(mode: u16) -> Option<Self> {
        Some(match mode >> 12 {
            0x1 => Self::Fifo,
            0x2 => Self::CharDevice,
            0x4 => Self::Directory,
            0x6 => Self::BlockDevice,
            0x8 => Self::Regular,
            0xA => Self::Symlink,
            0xC => Self::Socket,
            _ => return None,
        })
    }

    /// Returns the kind for the code in a directory entry.
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Regular,
            2 => Self::Directory,
            3 => Self::CharDevice,
            4 => Self::BlockDevice,
            5 => Self::Fifo,
            6 => Self::Socket,
            7 => Self::Symlink,
            _ => return None,
        })
    }
}

/// A point in time, from 1901 to 2446.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Timestamp {
    /// Seconds since 1970, without leap seconds.
    pub seconds: i64,
    /// Nanoseconds, below a billion.
    pub nanos: u32,
}

/// Device number in two parts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeviceNumber {
    /// Number of the driver.
    pub major: u32,
    /// Number of the device of that driver.
    pub minor: u32,
}

/// Metadata of a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inode {
    /// Number, from 1.
    pub number: u32,
    /// Kind of file.
    pub kind: FileKind,
    /// Type and permissions, as in `st_mode`.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Owning group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Number of names; 1 for a directory with more subdirectories than the field can count.
    pub links: u16,
    /// Occupied space, in units of 512 bytes.
    pub sectors: u64,
    /// Time of the last read.
    pub accessed: Timestamp,
    /// Time of the last change of the contents.
    pub modified: Timestamp,
    /// Time of the last change of the inode.
    pub changed: Timestamp,
    /// Time of creation, if known.
    pub created: Option<Timestamp>,
    /// Flags, as shown by `lsattr`.
    pub flags: u32,
    /// Generation, which distinguishes successive files with this number.
    pub generation: u32,
    /// Device number, for device files.
    pub device: Option<DeviceNumber>,
    /// Block with extended attributes; 0 if there is none.
    pub(crate) attribute_block: u64,
    /// Offset of the attributes in the inode; None if there is no space for any.
    pub(crate) attributes_at: Option<usize>,
    /// Raw bytes of the inode.
    pub(crate) raw: Box<[u8]>,
}

const ENCRYPTED: u32 = 0x800;
const INDEXED: u32 = 0x1000;
const HUGE: u32 = 0x4_0000;
const HAS_EXTENTS: u32 = 0x8_0000;
const HOLDS_ATTRIBUTE: u32 = 0x20_0000;
const INLINE: u32 = 0x1000_0000;
const CASEFOLDED: u32 = 0x4000_0000;

impl Inode {
    /// Parses an inode from its bytes in the table.
    ///
    /// # Errors
    ///
    /// If it is damaged, or not in use.
    ///
    /// # Panics
    ///
    /// If the number of bytes differs from the superblock's inode size.
    pub fn parse(superblock: &Superblock, number: u32, raw: Box<[u8]>) -> Result<Self, Error> {
        assert_eq!(raw.len(), usize::from(superblock.inode_size));
        let place = ImageLocation::Inode(number);
        let (mode, links) = (le16(&raw, 0x0), le16(&raw, 0x1A));
        place.has(mode != 0 || links != 0, "is not in use")?;

        let extra = extra_size(&raw).ok_or_else(|| place.is("more fields than it has room for"))?;
        check_sum(superblock, number, &raw, extra)?;
        let kind = FileKind::of_mode(mode).ok_or_else(|| place.is("has an unknown file type"))?;
        let flags = le32(&raw, 0x20);
        let may_be_inline = superblock.features.incompat(features::INLINE_DATA);
        place.has(
            flags & INLINE == 0 || may_be_inline,
            "has inline data, which its features do not allow",
        )?;

        let size = size(superblock, kind, &raw);
        let time = |low, high| time(&raw, extra, low, high);
        let this = Self {
            number,
            kind,
            mode,
            uid: u32::from(le16(&raw, 0x2)) | u32::from(le16(&raw, 0x78)) << 16,
            gid: u32::from(le16(&raw, 0x18)) | u32::from(le16(&raw, 0x7A)) << 16,
            size,
            links,
            sectors: sectors(superblock, flags, &raw) + inline_sectors(kind, flags, size),
            accessed: time(0x8, 0x8C),
            modified: time(0x10, 0x88),
            changed: time(0xC, 0x84),
            created: is_in_use(extra, 0x98).then(|| time(0x90, 0x94)),
            flags,
            generation: le32(&raw, 0x64),
            device: device(kind, &raw[AREA]),
            attribute_block: attribute_block(superblock, &raw),
            attributes_at: (extra > 0).then_some(OLD_SIZE + extra),
            raw,
        };
        place.has(this.size <= this.size_max(superblock), "is larger than any file")?;
        Ok(this)
    }

    /// Returns whether the contents are in the inode itself, so that it has no layout.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.flags & INLINE != 0
    }

    /// Returns whether the contents are in blocks, so that it has a layout.
    #[must_use]
    pub fn has_blocks(&self) -> bool {
        match self.kind {
            FileKind::Regular | FileKind::Directory => !self.is_inline(),
            FileKind::Symlink => !self.is_inline() && !self.is_short_link(),
            FileKind::CharDevice | FileKind::BlockDevice | FileKind::Fifo | FileKind::Socket => {
                false
            }
        }
    }

    /// Returns whether it is a link with its target in the map's place.
    pub(crate) fn is_short_link(&self) -> bool {
        let fits = self.size < AREA.len() as u64;
        self.kind == FileKind::Symlink && fits && !self.is_inline()
    }

    /// Returns whether it is a directory with a hash index.
    #[must_use]
    pub fn is_indexed(&self) -> bool {
        self.flags & INDEXED != 0
    }

    /// Returns whether its map is an extent tree, not a block map.
    #[must_use]
    pub fn has_extents(&self) -> bool {
        self.flags & HAS_EXTENTS != 0
    }

    /// Returns whether contents, target or names are encrypted. Size, owner, times and attributes
    /// never are. As in Linux, the file system need not have the feature.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.flags & ENCRYPTED != 0
    }

    /// Returns whether it is a directory with case-insensitive names.
    pub(crate) fn is_casefolded(&self, superblock: &Superblock) -> bool {
        self.flags & CASEFOLDED != 0 && superblock.features.incompat(features::CASEFOLD)
    }

    /// Returns an error if it is encrypted.
    pub(crate) fn can_be_read(&self) -> Result<(), Error> {
        if self.is_encrypted() { Err(Error::Encrypted) } else { Ok(()) }
    }

    /// Returns whether it holds an attribute value of other inodes.
    pub(crate) fn holds_attribute(&self) -> bool {
        self.flags & HOLDS_ATTRIBUTE != 0
    }

    /// Returns the 60 bytes: a map, the beginning of inline data, or a short link's target.
    pub(crate) fn area(&self) -> &[u8] {
        &self.raw[AREA]
    }

    /// Returns the seed of the checksums of this inode's blocks.
    pub(crate) fn seed(&self, superblock: &Superblock) -> u32 {
        seed(superblock, self.number, self.generation)
    }

    /// Returns the largest size that its map can express.
    fn size_max(&self, superblock: &Superblock) -> u64 {
        let block = u64::from(superblock.block_size);
        if self.is_inline() && self.kind != FileKind::Regular {
            u64::from(superblock.inode_size)
        } else if self.is_inline() || self.has_extents() {
            // The rest of an inline file is a hole: mkfs.ext4 -d copies large files this way.
            block << 32
        } else {
            let numbers = block / 4;
            let blocks = 12 + numbers + numbers.pow(2) + numbers.pow(3);
            blocks.min(1 << 32) * block
        }
    }
}

/// Returns the used length after the old part; None if it exceeds the inode.
fn extra_size(raw: &[u8]) -> Option<usize> {
    if raw.len() == OLD_SIZE {
        return Some(0);
    }
    let extra = usize::from(le16(raw, 0x80));
    (extra.is_multiple_of(4) && OLD_SIZE + extra <= raw.len()).then_some(extra)
}

/// Returns whether the fields up to `end` are in use.
fn is_in_use(extra: usize, end: usize) -> bool {
    end <= OLD_SIZE + extra
}

fn seed(superblock: &Superblock, number: u32, generation: u32) -> u32 {
    let crc = crc32c(superblock.seed, &number.to_le_bytes());
    crc32c(crc, &generation.to_le_bytes())
}

/// Verifies the checksum, which covers the whole inode with zeros in the checksum's place.
fn check_sum(superblock: &Superblock, number: u32, raw: &[u8], extra: usize) -> Result<(), Error> {
    const LOW: usize = 0x7C;
    const HIGH: usize = 0x82;

    // Other systems store the author's number in this field.
    if !superblock.has_checksums() || !superblock.is_of_linux {
        return Ok(());
    }
    let is_wide = is_in_use(extra, HIGH + 2);
    let mut crc = seed(superblock, number, le32(raw, 0x64));
    crc = crc32c(crc32c(crc, &raw[..LOW]), &[0, 0]);
    let want = if is_wide {
        crc = crc32c(crc32c(crc, &raw[LOW + 2..HIGH]), &[0, 0]);
        crc = crc32c(crc, &raw[HIGH + 2..]);
        crc
    } else {
        crc = crc32c(crc, &raw[LOW + 2..]);
        crc & 0xFFFF
    };
    let high = if is_wide { le16(raw, HIGH) } else { 0 };
    let found = u32::from(le16(raw, LOW)) | u32::from(high) << 16;
    ImageLocation::Inode(number).has(found == want, "its checksum does not match")
}

/// Decodes a timestamp. The lower two bits of the second field are upper bits of the seconds, the
/// rest nanoseconds.
fn time(raw: &[u8], extra: usize, low: usize, high: usize) -> Timestamp {
    let seconds = i64::from(le32(raw, low).cast_signed());
    if !is_in_use(extra, high + 4) {
        return Timestamp { seconds, nanos: 0 };
    }
    let more = le32(raw, high);
    let seconds = seconds + (i64::from(more & 0x3) << 32);
    Timestamp { seconds, nanos: (more >> 2).min(999_999_999) }
}

fn size(superblock: &Superblock, kind: FileKind, raw: &[u8]) -> u64 {
    // In other kinds, and in directories before they could be large, this field had another
    // meaning.
    let is_wide = match kind {
        FileKind::Regular => true,
        FileKind::Directory => superblock.features.incompat(features::LARGEDIR),
        FileKind::Symlink
        | FileKind::CharDevice
        | FileKind::BlockDevice
        | FileKind::Fifo
        | FileKind::Socket => false,
    };
    halves(le32(raw, 0x4), if is_wide { le32(raw, 0x6C) } else { 0 })
}

/// Decodes the attribute block. The upper half is valid only with 64-bit block numbers: before,
/// Linux had padding there, and the Hurd has upper bits of the mode.
fn attribute_block(superblock: &Superblock, raw: &[u8]) -> u64 {
    let is_wide = superblock.features.incompat(features::BIT64);
    halves(le32(raw, 0x68), if is_wide { u32::from(le16(raw, 0x76)) } else { 0 })
}

fn sectors(superblock: &Superblock, flags: u32, raw: &[u8]) -> u64 {
    let low = le32(raw, 0x1C);
    if !superblock.features.ro_compat(features::HUGE_FILE) {
        return u64::from(low);
    }
    let count = halves(low, u32::from(le16(raw, 0x74)));
    // 48 bits, times at most 128 sectors in a block.
    if flags & HUGE == 0 { count } else { count * u64::from(superblock.block_size / 512) }
}

/// Counts inline contents as if they had blocks, because programs treat a file without blocks as
/// empty. As in Linux, this applies only to regular files.
fn inline_sectors(kind: FileKind, flags: u32, size: u64) -> u64 {
    if kind == FileKind::Regular && flags & INLINE != 0 { size.div_ceil(512) } else { 0 }
}

/// Decodes a device number. The first field dates from 16-bit device numbers; the second is used if
/// the first is zero.
fn device(kind: FileKind, area: &[u8]) -> Option<DeviceNumber> {
    if !matches!(kind, FileKind::CharDevice | FileKind::BlockDevice) {
        return None;
    }
    let (old, new) = (le32(area, 0), le32(area, 4));
    Some(if old == 0 {
        DeviceNumber { major: (new >> 8) & 0xFFF, minor: (new & 0xFF) | ((new >> 12) & 0xF_FF00) }
    } else {
        DeviceNumber { major: (old >> 8) & 0xFF, minor: old & 0xFF }
    })
}
