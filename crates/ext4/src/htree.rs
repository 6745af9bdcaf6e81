//! The index of a large directory, which maps a name's hash to the block with the name.
//!
//! A lookup takes at most as many steps as the directory has blocks.
//!
//! ```text
//!   root    | 0 ->1 | 4a..->2 | 9c..->3 |       the last entry that is not behind the hash
//!                        |
//!   leaf 2  | names with hashes from 4a.. to 9c.. |
//! ```
//!
//! Names with equal hashes may continue in the next leaf, which then begins with their hash.

use crate::Ext4;
use crate::dir_block::{RawEntry, index_header, limit_and_count};
use crate::error::{Error, ImageLocation};
use crate::features;
use crate::fields::le32;
use crate::hash::{HashKind, hash};
use crate::inode::Inode;
use crate::sought_name::SoughtName;
use crate::source::BlockSource;
use crate::superblock::Superblock;

/// Result of an index lookup.
pub(crate) enum IndexLookup {
    Found(u32),
    NotThere,
    /// There is no index, or it uses an unknown hash.
    NoIndex,
}

/// Looks a name up.
pub(crate) fn lookup<S: BlockSource>(
    fs: &Ext4<S>,
    inode: &Inode,
    name: &SoughtName<'_>,
) -> Result<IndexLookup, Error> {
    let Some(hashed) = name.hashed() else { return Ok(IndexLookup::NoIndex) };
    let root = IndexNode::read(fs, inode, 0)?;
    let superblock = fs.superblock();
    let Some((kind, is_signed)) = superblock.hash_of_code(root.bytes[0x1C]) else {
        return Ok(IndexLookup::NoIndex);
    };
    let levels = usize::from(root.bytes[0x1E]);
    let most = if superblock.features.incompat(features::LARGEDIR) { 2 } else { 1 };
    root.place.has(levels <= most, "its index is too deep")?;

    let wanted = hash(kind, is_signed, superblock.hash_seed, &hashed);
    let mut path = descend(fs, inode, vec![root.before(wanted)], levels)?;
    // Each leaf is in the index once.
    let leaves = superblock.blocks.min(inode.size / u64::from(superblock.block_size));
    for _ in 0..leaves {
        let leaf =
            path.last().expect("the path begins with the root, which is never popped").block();
        if let Some(found) = in_leaf(fs, inode, leaf, name)? {
            return Ok(IndexLookup::Found(found));
        }
        if !next_has(&mut path, wanted) {
            return Ok(IndexLookup::NotThere);
        }
        path = descend(fs, inode, path, levels)?;
    }
    Err(root_place(inode).is("its index has more leaves than it has blocks"))
}

fn root_place(inode: &Inode) -> ImageLocation {
    ImageLocation::Directory { inode: inode.number, block: 0 }
}

impl Superblock {
    /// Returns the hash of a name. The kernel lists names in hash order, in indexed directories and
    /// in single-block ones. None if names are not hashed, or the hash is unknown.
    #[must_use]
    pub fn name_hash(&self, name: &[u8]) -> Option<u32> {
        if !self.features.compat(features::DIR_INDEX) {
            return None;
        }
        let (kind, is_signed) = self.hash_of_code(self.default_hash)?;
        Some(hash(kind, is_signed, self.hash_seed, name))
    }

    /// Returns the kind of hash for a code, and whether its bytes are signed.
    fn hash_of_code(&self, code: u8) -> Option<(HashKind, bool)> {
        Some(match code {
            0 => (HashKind::Legacy, self.hash_is_signed?),
            1 => (HashKind::HalfMd4, self.hash_is_signed?),
            2 => (HashKind::Tea, self.hash_is_signed?),
            3 => (HashKind::Legacy, false),
            4 => (HashKind::HalfMd4, false),
            5 => (HashKind::Tea, false),
            _ => return None,
        })
    }
}

/// Descends to the lowest node. Entries that continue a hash sort after it, because their lowest
/// bit is set: a node that begins with one is entered at its first.
fn descend<S: BlockSource>(
    fs: &Ext4<S>,
    inode: &Inode,
    mut path: Vec<IndexNode>,
    levels: usize,
) -> Result<Vec<IndexNode>, Error> {
    while path.len() <= levels {
        let above = path.last().expect("the path begins with the root, which is never popped");
        let node = IndexNode::read(fs, inode, above.block())?;
        let wanted = above.wanted;
        path.push(node.before(wanted));
    }
    Ok(path)
}

/// Moves to the next leaf if it continues the same hash.
fn next_has(path: &mut Vec<IndexNode>, wanted: u32) -> bool {
    while path.last().is_some_and(|node| node.at + 1 == node.count) {
        path.pop();
    }
    let Some(node) = path.last_mut() else {
        return false;
    };
    node.at += 1;
    // The lowest bit marks a hash that began in an earlier leaf.
    node.hash(node.at) & !1 == wanted
}

/// Searches a leaf for the name.
fn in_leaf<S: BlockSource>(
    fs: &Ext4<S>,
    inode: &Inode,
    number: u64,
    name: &SoughtName<'_>,
) -> Result<Option<u32>, Error> {
    let place = ImageLocation::Directory { inode: inode.number, block: number };
    let bytes = block(fs, inode, number)?;
    let mut at = 0;
    while at < bytes.len() {
        let entry = RawEntry::parse(fs.superblock(), &bytes, at).map_err(|what| place.is(what))?;
        if entry.is_name() && name.is(entry.name) {
            return Ok(Some(entry.inode));
        }
        at = entry.end;
    }
    Ok(None)
}

fn block<S: BlockSource>(fs: &Ext4<S>, inode: &Inode, number: u64) -> Result<Vec<u8>, Error> {
    let place = ImageLocation::Directory { inode: inode.number, block: number };
    let end = inode.size / u64::from(fs.superblock().block_size);
    place.has(number < end, "its index refers to a block outside the directory")?;
    let at = fs.run(inode, number)?.at;
    fs.directory_block(inode, number, at.ok_or_else(|| place.is("is a hole"))?)
}

/// A node of the index, and the current entry.
struct IndexNode {
    bytes: Vec<u8>,
    place: ImageLocation,
    header: usize,
    count: usize,
    at: usize,
    wanted: u32,
}

impl IndexNode {
    fn read<S: BlockSource>(fs: &Ext4<S>, inode: &Inode, number: u64) -> Result<Self, Error> {
        let place = ImageLocation::Directory { inode: inode.number, block: number };
        let bytes = block(fs, inode, number)?;
        let header = index_header(fs.superblock(), &bytes);
        let header = header.ok_or_else(|| place.is("is not an index node"))?;
        let is_root = header == crate::dir_block::ROOT_HEADER;
        place.has(is_root == (number == 0), "is the wrong index node")?;
        let (limit, count) = limit_and_count(&bytes, header);
        let fits = (1..=limit).contains(&count) && header + limit * 8 <= bytes.len();
        place.has(fits, "has an index with an invalid size")?;
        Ok(Self { bytes, place, header, count, at: 0, wanted: 0 })
    }

    /// Moves to the last entry that does not begin after a hash.
    fn before(mut self, wanted: u32) -> Self {
        let (mut low, mut high) = (1, self.count);
        while low < high {
            let middle = usize::midpoint(low, high);
            if self.hash(middle) <= wanted { low = middle + 1 } else { high = middle }
        }
        (self.at, self.wanted) = (low - 1, wanted);
        self
    }

    /// Returns the first hash of an entry; the header is the first entry and covers all lower
    /// hashes.
    fn hash(&self, index: usize) -> u32 {
        if index == 0 { 0 } else { le32(&self.bytes, self.header + index * 8) }
    }

    /// Returns the block of the directory behind the entry; the upper bits are reserved.
    fn block(&self) -> u64 {
        u64::from(le32(&self.bytes, self.header + self.at * 8 + 4) & 0x0FFF_FFFF)
    }
}
