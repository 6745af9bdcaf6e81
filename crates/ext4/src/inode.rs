//! An inode: what a file is, without its name.
//!
//! In:    its bytes in the inode table.
//! Out:   [`Inode`].
//! Never: an unused inode; fields behind the part of it that is in use.
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

/// The root directory.
pub const ROOT_INODE: u32 = 2;

/// Length of the part that all inodes have.
const OLD_SIZE: usize = 128;

/// Where the 60 bytes are that say where a file's bytes are, or are the first of them.
const AREA: std::ops::Range<usize> = 0x28..0x64;

/// What kind of file an inode is.
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
    /// By the upper four bits of a mode.
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

    /// By the code in a directory's entry.
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
    /// And nanoseconds, below a billion.
    pub nanos: u32,
}

/// A device's number in two parts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeviceNumber {
    /// Which driver.
    pub major: u32,
    /// Which of its devices.
    pub minor: u32,
}

/// A file without its name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inode {
    /// Its number, from 1.
    pub number: u32,
    /// What it is.
    pub kind: FileKind,
    /// Its type and permissions, as in `st_mode`.
    pub mode: u16,
    /// The owner.
    pub uid: u32,
    /// The owning group.
    pub gid: u32,
    /// Its length in bytes.
    pub size: u64,
    /// How many names it has; 1 for a directory with more subdirectories than can be counted.
    pub links: u16,
    /// How much it occupies, in units of 512 bytes.
    pub sectors: u64,
    /// When it was last read.
    pub accessed: Timestamp,
    /// When its contents were last changed.
    pub modified: Timestamp,
    /// When the inode was last changed.
    pub changed: Timestamp,
    /// When it was made, if that is known.
    pub created: Option<Timestamp>,
    /// The flags, as `lsattr` has them.
    pub flags: u32,
    /// Which of the files that had this number it is.
    pub generation: u32,
    /// The device, if it is one.
    pub device: Option<DeviceNumber>,
    /// The block with its extended attributes; 0 is none.
    pub(crate) attribute_block: u64,
    /// Where its own attributes begin; None: there is no room for any.
    pub(crate) attributes_at: Option<usize>,
    /// All of it.
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
    /// Reads an inode from its bytes in the table.
    ///
    /// # Errors
    ///
    /// If it is damaged, or not in use.
    ///
    /// # Panics
    ///
    /// If the bytes are not as many as the superblock says that an inode has.
    pub fn parse(superblock: &Superblock, number: u32, raw: Box<[u8]>) -> Result<Self, Error> {
        assert_eq!(raw.len(), usize::from(superblock.inode_size));
        let place = ImageLocation::Inode(number);
        let (mode, links) = (le16(&raw, 0x0), le16(&raw, 0x1A));
        place.has(mode != 0 || links != 0, "is not in use")?;

        let extra = extra_size(&raw).ok_or_else(|| place.is("more fields than it has room for"))?;
        check_sum(superblock, number, &raw, extra)?;
        let kind = FileKind::of_mode(mode).ok_or_else(|| place.is("no such kind of file"))?;
        let flags = le32(&raw, 0x20);
        let may_be_inline = superblock.features.incompat(features::INLINE_DATA);
        place.has(flags & INLINE == 0 || may_be_inline, "has inline data, and must not")?;

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
        place.has(this.size <= this.size_max(superblock), "is larger than a file can be")?;
        Ok(this)
    }

    /// Whether its contents are in the inode itself: it has no layout.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.flags & INLINE != 0
    }

    /// Whether its contents lie in blocks, so that it has a layout.
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

    /// Whether it is a link whose target is where else its map would be.
    pub(crate) fn is_short_link(&self) -> bool {
        let fits = self.size < AREA.len() as u64;
        self.kind == FileKind::Symlink && fits && !self.is_inline()
    }

    /// Whether it is a directory with an index by hashes.
    #[must_use]
    pub fn is_indexed(&self) -> bool {
        self.flags & INDEXED != 0
    }

    /// Whether its map is a tree of extents, and not of block numbers.
    #[must_use]
    pub fn has_extents(&self) -> bool {
        self.flags & HAS_EXTENTS != 0
    }

    /// Whether its contents, target or names are encrypted. Size, owner, times and attributes never
    /// are. As in Linux, also in a file system without the feature.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.flags & ENCRYPTED != 0
    }

    /// Whether it is a directory in which names are found whatever the case of their letters.
    pub(crate) fn is_casefolded(&self, superblock: &Superblock) -> bool {
        self.flags & CASEFOLDED != 0 && superblock.features.incompat(features::CASEFOLD)
    }

    /// An error if it is encrypted.
    pub(crate) fn can_be_read(&self) -> Result<(), Error> {
        if self.is_encrypted() { Err(Error::Encrypted) } else { Ok(()) }
    }

    /// Whether it holds the value of an attribute of others.
    pub(crate) fn holds_attribute(&self) -> bool {
        self.flags & HOLDS_ATTRIBUTE != 0
    }

    /// The 60 bytes: a map, the beginning of inline data, or a short link's target.
    pub(crate) fn area(&self) -> &[u8] {
        &self.raw[AREA]
    }

    /// What the checksums of this inode's blocks begin with.
    pub(crate) fn seed(&self, superblock: &Superblock) -> u32 {
        seed(superblock, self.number, self.generation)
    }

    /// The largest size that its map can express.
    fn size_max(&self, superblock: &Superblock) -> u64 {
        let block = u64::from(superblock.block_size);
        if self.is_inline() && self.kind != FileKind::Regular {
            u64::from(superblock.inode_size)
        } else if self.is_inline() || self.has_extents() {
            // Of a file that is inline the rest is a hole: mkfs.ext4 -d copies large ones so.
            block << 32
        } else {
            let numbers = block / 4;
            let blocks = 12 + numbers + numbers.pow(2) + numbers.pow(3);
            blocks.min(1 << 32) * block
        }
    }
}

/// How much of what comes after the old part is in use; None: more than there is.
fn extra_size(raw: &[u8]) -> Option<usize> {
    if raw.len() == OLD_SIZE {
        return Some(0);
    }
    let extra = usize::from(le16(raw, 0x80));
    (extra.is_multiple_of(4) && OLD_SIZE + extra <= raw.len()).then_some(extra)
}

/// Whether the fields up to `end` are in use.
fn is_in_use(extra: usize, end: usize) -> bool {
    end <= OLD_SIZE + extra
}

fn seed(superblock: &Superblock, number: u32, generation: u32) -> u32 {
    let crc = crc32c(superblock.seed, &number.to_le_bytes());
    crc32c(crc, &generation.to_le_bytes())
}

/// The sum is of the whole inode, with zeros where it is kept itself.
fn check_sum(superblock: &Superblock, number: u32, raw: &[u8], extra: usize) -> Result<(), Error> {
    const LOW: usize = 0x7C;
    const HIGH: usize = 0x82;

    // Other systems have the author's number where Linux has the sum.
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

/// The lower two bits of the second field are the upper ones of the seconds, the rest nanoseconds.
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
    // Other kinds, and directories before they could be large, had something else in this field.
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

/// The upper half counts with 64-bit block numbers only: before, Linux had padding there, and the
/// Hurd has upper bits of the mode.
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
    // 48 bits, and at most 128 sectors in a block.
    if flags & HUGE == 0 { count } else { count * u64::from(superblock.block_size / 512) }
}

/// Inline contents count as if they had blocks of their own: programs take a file without any for
/// one without contents. As in Linux, only of regular files.
fn inline_sectors(kind: FileKind, flags: u32, size: u64) -> u64 {
    if kind == FileKind::Regular && flags & INLINE != 0 { size.div_ceil(512) } else { 0 }
}

/// The first number is of the time when a device had 16 bits; the second counts if it is zero.
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
