//! Parses a block of a directory: its checksum and its entries.
//!
//! An entry never extends beyond its block, has an inode number that exists, and has a nonzero
//! length.
//!
//! ```text
//!   leaf     | inode len name | inode len name   ..      | 0 12 sum |
//!   root     | . | .. -------- len: to the end --------------------> |    hides its contents:
//!                     | kind, depth | limit count | hash block | ..| sum |
//!   node     | 0 len: to the end ----------------------------------> |
//!              | limit count | hash block | ..                 | sum |
//! ```

use crate::crc::crc32c;
use crate::error::{Error, ImageLocation};
use crate::features;
use crate::fields::{le16, le32};
use crate::inode::{FileKind, Inode};
use crate::superblock::Superblock;

/// Offset of an entry's name.
const NAME: usize = 8;

/// Pattern of a block's checksum: it looks like an unused entry of this length and a special kind.
const TAIL: [u8; 8] = [0, 0, 0, 0, TAIL_LEN, 0, 0, 0xDE];
const TAIL_LEN: u8 = 12;

/// Offset of the header in the root of an index, and in the other nodes.
pub(crate) const ROOT_HEADER: usize = 0x20;
pub(crate) const NODE_HEADER: usize = 8;

/// An entry in a block.
pub(crate) struct RawEntry<'b> {
    pub(crate) inode: u32,
    pub(crate) kind: Option<FileKind>,
    pub(crate) name: &'b [u8],
    /// Offsets in the block of this entry and of the next one.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl<'b> RawEntry<'b> {
    /// Parses the entry at `start`, used or unused.
    pub(crate) fn parse(
        superblock: &Superblock,
        bytes: &'b [u8],
        start: usize,
    ) -> Result<Self, &'static str> {
        let rest = &bytes[start..];
        if rest.len() < NAME {
            return Err("ends within an entry");
        }
        let len = entry_len(superblock, le16(rest, 4));
        if len < NAME || !len.is_multiple_of(4) || len > rest.len() {
            return Err("has an entry with an invalid length");
        }
        // Without stored kinds this byte is the upper byte of the length, which is zero except in a
        // checksum's entry.
        let has_kinds = superblock.features.incompat(features::FILETYPE);
        let (name_len, kind) = (rest[6], if has_kinds { rest[7] } else { 0 });
        let inode = le32(rest, 0);
        let name = rest[..len].get(NAME..NAME + usize::from(name_len));
        let name = name.ok_or("has a name that does not fit in its entry")?;
        if inode > superblock.inodes {
            return Err("has an entry of an inode that does not exist");
        }
        if inode != 0 && (name.is_empty() || name.iter().any(|byte| matches!(byte, 0 | b'/'))) {
            return Err("has an invalid name");
        }
        // With kinds, the upper four bits are unused.
        let kind = FileKind::of_code(kind & 0xF);
        Ok(Self { inode, kind, name, start, end: start + len })
    }

    /// Returns whether the entry is used, and neither `.` nor `..`.
    pub(crate) fn is_name(&self) -> bool {
        self.inode != 0 && self.name != b"." && self.name != b".."
    }
}

/// Verifies a block's checksum, if it should have one.
pub(crate) fn check_sum(
    superblock: &Superblock,
    inode: &Inode,
    number: u64,
    bytes: &[u8],
) -> Result<(), Error> {
    if !superblock.has_checksums() {
        return Ok(());
    }
    let place = ImageLocation::Directory { inode: inode.number, block: number };
    let seed = inode.seed(superblock);
    // Check for an index first: its tail may still contain remains of a leaf.
    let (sum, found) = if let Some(header) = index_header(superblock, bytes) {
        let (limit, count) = limit_and_count(bytes, header);
        let tail = header + limit * 8;
        place
            .has(count <= limit && tail + 8 <= bytes.len(), "has an index with an invalid size")?;
        let crc = crc32c(seed, &bytes[..header + count * 8]);
        (crc32c(crc32c(crc, &bytes[tail..tail + 4]), &[0; 4]), le32(bytes, tail + 4))
    } else {
        let (before, tail) = bytes.split_at(bytes.len() - usize::from(TAIL_LEN));
        place.has(tail.starts_with(&TAIL), "has no checksum; e2fsck -D adds one")?;
        (crc32c(seed, before), le32(tail, TAIL.len()))
    };
    place.has(sum == found, "its checksum does not match")
}

/// Returns the offset of the header if the block is a node of an index.
pub(crate) fn index_header(superblock: &Superblock, bytes: &[u8]) -> Option<usize> {
    let first = entry_len(superblock, le16(bytes, 4));
    if first == bytes.len() {
        return Some(NODE_HEADER);
    }
    let second = entry_len(superblock, le16(bytes, 12 + 4));
    let is_root =
        first == 12 && second == bytes.len() - 12 && le32(bytes, 0x18) == 0 && bytes[0x1D] == 8;
    is_root.then_some(ROOT_HEADER)
}

/// Returns the capacity and the number of index entries; both include the header.
pub(crate) fn limit_and_count(bytes: &[u8], header: usize) -> (usize, usize) {
    (usize::from(le16(bytes, header)), usize::from(le16(bytes, header + 2)))
}

/// Decodes a length. Lengths are multiples of four, so the lowest bits can hold the upper bits for
/// 64 KiB.
fn entry_len(superblock: &Superblock, stored: u16) -> usize {
    if superblock.block_size < 1 << 16 {
        return usize::from(stored);
    }
    match stored {
        0 | 0xFFFF => 1 << 16,
        len => usize::from(len & !3) | usize::from(len & 3) << 16,
    }
}
