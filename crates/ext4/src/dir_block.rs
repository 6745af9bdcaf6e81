//! A block of a directory: its checksum, and the entries in it.
//!
//! In:    the bytes of a block, or of an inline directory's parts.
//! Out:   entries, one after another.
//! Never: an entry that leads out of its block, or to no inode that there is; a step of no bytes.
//!
//! ```text
//!   leaf     | inode len name | inode len name   ..      | 0 12 sum |
//!   root     | . | .. -------- len: to the end --------------------> |    hides what is in it:
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

/// Where an entry's name begins.
const NAME: usize = 8;

/// A block's checksum looks like an entry of this length, of no inode, and of a kind of its own.
const TAIL: [u8; 8] = [0, 0, 0, 0, TAIL_LEN, 0, 0, 0xDE];
const TAIL_LEN: u8 = 12;

/// Where the root of an index has its header, and the other nodes theirs.
pub(crate) const ROOT_HEADER: usize = 0x20;
pub(crate) const NODE_HEADER: usize = 8;

/// An entry, as a block has it.
pub(crate) struct RawEntry<'b> {
    pub(crate) inode: u32,
    pub(crate) kind: Option<FileKind>,
    pub(crate) name: &'b [u8],
    /// Where it begins in its block, and where the next one does.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl<'b> RawEntry<'b> {
    /// The entry at `start`, in use or not.
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
            return Err("has an entry of no possible length");
        }
        // Where kinds are not kept this byte is the upper one of the length, and always zero but in
        // a checksum's entry.
        let has_kinds = superblock.features.incompat(features::FILETYPE);
        let (name_len, kind) = (rest[6], if has_kinds { rest[7] } else { 0 });
        let inode = le32(rest, 0);
        let name = rest[..len].get(NAME..NAME + usize::from(name_len));
        let name = name.ok_or("has a name that does not fit in its entry")?;
        if inode > superblock.inodes {
            return Err("has an entry of an inode that does not exist");
        }
        if inode != 0 && (name.is_empty() || name.iter().any(|byte| matches!(byte, 0 | b'/'))) {
            return Err("has a name that cannot be one");
        }
        // With kinds, the upper four bits are unused.
        let kind = FileKind::of_code(kind & 0xF);
        Ok(Self { inode, kind, name, start, end: start + len })
    }

    /// Whether the entry is in use, and neither `.` nor `..`.
    pub(crate) fn is_name(&self) -> bool {
        self.inode != 0 && self.name != b"." && self.name != b".."
    }
}

/// Checks a block's checksum, if it should have one.
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
    // An index first: its tail may still have in it what was a leaf's.
    let (sum, found) = if let Some(header) = index_header(superblock, bytes) {
        let (limit, count) = limit_and_count(bytes, header);
        let tail = header + limit * 8;
        place.has(count <= limit && tail + 8 <= bytes.len(), "has an index of no possible size")?;
        let crc = crc32c(seed, &bytes[..header + count * 8]);
        (crc32c(crc32c(crc, &bytes[tail..tail + 4]), &[0; 4]), le32(bytes, tail + 4))
    } else {
        let (before, tail) = bytes.split_at(bytes.len() - usize::from(TAIL_LEN));
        place.has(tail.starts_with(&TAIL), "has no checksum; e2fsck -D makes one")?;
        (crc32c(seed, before), le32(tail, TAIL.len()))
    };
    place.has(sum == found, "its checksum does not match")
}

/// Where a node of an index has its header; None: the block is none.
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

/// How many entries of an index there is room for, and how many there are; its header is one.
pub(crate) fn limit_and_count(bytes: &[u8], header: usize) -> (usize, usize) {
    (usize::from(le16(bytes, header)), usize::from(le16(bytes, header + 2)))
}

/// Lengths are multiples of four, so their lowest bits can be the uppermost of those of 64 KiB.
fn entry_len(superblock: &Superblock, stored: u16) -> usize {
    if superblock.block_size < 1 << 16 {
        return usize::from(stored);
    }
    match stored {
        0 | 0xFFFF => 1 << 16,
        len => usize::from(len & !3) | usize::from(len & 3) << 16,
    }
}
