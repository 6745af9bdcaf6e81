//! Extent trees, whose leaves map runs of blocks. The depth is limited by the root's, which is at
//! most five.
//!
//! ```text
//!   root, in the inode       | 0 ->a | 900 ->b |          depth 1
//!   leaves, a block each   a | 0..300 | 340..900 |   b | 900..1000 |      depth 0
//!                                    ^ a hole: up to the next one, or to where the parent's ends
//! ```

use std::borrow::Cow;
use std::ops::Range;

use crate::Ext4;
use crate::block_run::BlockRun;
use crate::crc::crc32c;
use crate::error::{Error, ImageLocation};
use crate::fields::{halves, le16, le32};
use crate::inode::Inode;
use crate::source::BlockSource;

/// With four entries in the root and 84 in the smallest block, this suffices for 2^32 blocks.
const DEPTH_MAX: u16 = 5;

/// Length of the header, and of each entry.
const ENTRY_LEN: usize = 12;

/// From this length on, an extent is allocated but unwritten.
const UNWRITTEN: u16 = 0x8000;

/// Returns the run from `block` on.
pub(crate) fn run<S: BlockSource>(
    fs: &Ext4<S>,
    inode: &Inode,
    block: u32,
) -> Result<BlockRun, Error> {
    let block = u64::from(block);
    let mut range = 0..1 << 32;
    let root = ImageLocation::Map { inode: inode.number, block: 0 };
    let mut node = ExtentNode::parse(Cow::Borrowed(inode.area()), root, &range)?;
    root.has(node.depth <= DEPTH_MAX, "is too deep")?;
    while node.depth > 0 {
        let (at, below) = match node.child(block, &range) {
            ExtentChild::At(at, below) => (at, below),
            ExtentChild::Hole(end) => {
                return Ok(BlockRun { first: block, blocks: end - block, at: None });
            }
        };
        let place = ImageLocation::Map { inode: inode.number, block: at };
        let child = ExtentNode::parse(Cow::Owned(read(fs, inode, at, node.place)?), place, &below)?;
        // This check ends a cyclic path.
        place.has(child.depth == node.depth - 1, "is at the wrong level")?;
        (node, range) = (child, below);
    }
    node.leaf(fs, block, range.end)
}

/// Reads a block of the tree; its checksum follows the last entry that fits.
fn read<S: BlockSource>(
    fs: &Ext4<S>,
    inode: &Inode,
    at: u64,
    parent: ImageLocation,
) -> Result<Vec<u8>, Error> {
    let bytes = fs.block(at, parent)?;
    if fs.superblock().has_checksums() {
        let place = ImageLocation::Map { inode: inode.number, block: at };
        let room = usize::from(le16(&bytes, 4)) * ENTRY_LEN + ENTRY_LEN;
        place.has(room + 4 <= bytes.len(), "has no room for a checksum")?;
        let sum = crc32c(inode.seed(fs.superblock()), &bytes[..room]);
        place.has(sum == le32(&bytes, room), "its checksum does not match")?;
    }
    Ok(bytes)
}

/// A node whose entries are in order and within the parent's range.
struct ExtentNode<'b> {
    bytes: Cow<'b, [u8]>,
    place: ImageLocation,
    entries: usize,
    depth: u16,
}

/// Child of a node.
enum ExtentChild {
    /// A block of the device, with its range of the file.
    At(u64, Range<u64>),
    /// A hole up to this block of the file.
    Hole(u64),
}

impl<'b> ExtentNode<'b> {
    fn parse(
        bytes: Cow<'b, [u8]>,
        place: ImageLocation,
        range: &Range<u64>,
    ) -> Result<Self, Error> {
        place.has(le16(&bytes, 0) == 0xF30A, "is not an extent node")?;
        let (entries, room) = (usize::from(le16(&bytes, 2)), usize::from(le16(&bytes, 4)));
        let is_in_block = room.min(bytes.len() / ENTRY_LEN - 1) >= entries;
        place.has(is_in_block, "has more extents than it has room for")?;
        let this = Self { depth: le16(&bytes, 6), bytes, place, entries };
        place.has(this.depth == 0 || entries > 0, "is empty")?;

        let mut end = range.start;
        for index in 0..entries {
            let start = this.start(index);
            place.has(start >= end && start < range.end, "its extents are not in order")?;
            let count = if this.depth == 0 { this.extent(index).count } else { 1 };
            place.has(count > 0, "has an extent without blocks")?;
            end = start + count;
            place.has(end <= range.end, "its extents are not in order")?;
        }
        Ok(this)
    }

    fn entry(&self, index: usize) -> &[u8] {
        let at = (index + 1) * ENTRY_LEN;
        &self.bytes[at..at + ENTRY_LEN]
    }

    /// Returns the first block of the file covered by an entry.
    fn start(&self, index: usize) -> u64 {
        u64::from(le32(self.entry(index), 0))
    }

    /// Returns the last entry that begins at `block` or before.
    fn last_before(&self, block: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.start(middle) <= block { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1)
    }

    fn child(&self, block: u64, range: &Range<u64>) -> ExtentChild {
        assert!(self.depth > 0 && self.entries > 0);
        let Some(index) = self.last_before(block) else {
            return ExtentChild::Hole(self.start(0));
        };
        let end = if index + 1 < self.entries { self.start(index + 1) } else { range.end };
        let entry = self.entry(index);
        let at = halves(le32(entry, 4), u32::from(le16(entry, 8)));
        ExtentChild::At(at, self.start(index)..end)
    }

    fn extent(&self, index: usize) -> LeafExtent {
        assert_eq!(self.depth, 0);
        let entry = self.entry(index);
        let (count, at) = (le16(entry, 4), halves(le32(entry, 8), u32::from(le16(entry, 6))));
        let is_written = count <= UNWRITTEN;
        let count = u64::from(if is_written { count } else { count - UNWRITTEN });
        LeafExtent { start: self.start(index), count, at, is_written }
    }

    /// Returns the run from `block` on in a leaf that ends at `end`.
    fn leaf<S>(&self, fs: &Ext4<S>, block: u64, end: u64) -> Result<BlockRun, Error> {
        let before = self.last_before(block);
        let extent = before.map(|index| self.extent(index));
        if let Some(extent) = extent.filter(|extent| block < extent.start + extent.count) {
            let is_there = fs.superblock().has_blocks(extent.at, extent.count);
            self.place.has(is_there, "has an extent outside the file system")?;
            let (from, blocks) = (block - extent.start, extent.start + extent.count - block);
            let at = extent.is_written.then_some(extent.at + from);
            return Ok(BlockRun { first: block, blocks, at });
        }
        let next = before.map_or(0, |index| index + 1);
        let end = if next < self.entries { self.start(next) } else { end };
        Ok(BlockRun { first: block, blocks: end - block, at: None })
    }
}

/// An entry of a leaf.
struct LeafExtent {
    start: u64,
    count: u64,
    at: u64,
    is_written: bool,
}
