//! Reads extended attributes from an inode, its attribute block, and value inodes.
//!
//! Part of inline data is stored as an attribute, too. Values above 64 KiB, which Linux cannot set,
//! are damage. Internal attributes are not returned.
//!
//! ```text
//!   in the inode   |magic| entry | entry | 0 |      ...      | value | value |
//!                        ^ offsets of values count from here
//!   in a block     |header, 32 | entry | 0 |        ...              | value |
//!                  ^ and here from here
//!   in an inode    the value is the contents of a file without a name
//! ```

use crate::Ext4;
use crate::acl;
use crate::crc::crc32c;
use crate::error::{Error, ImageLocation};
use crate::features;
use crate::fields::{le16, le32};
use crate::inode::{FileKind, Inode};
use crate::source::BlockSource;

/// Magic number of a list of attributes.
const MAGIC: u32 = 0xEA02_0000;

/// Length of the header of an attribute block.
const HEADER_LEN: usize = 32;

/// Offset of the checksum in the header.
const SUM: usize = 0x10;

/// Largest value that Linux accepts.
const VALUE_MAX: usize = 64 << 10;

/// Prefix index of `system.` names internal to ext4.
const SYSTEM: u8 = 7;

const ACCESS_ACL: u8 = 2;
const DEFAULT_ACL: u8 = 3;

impl<S: BlockSource> Ext4<S> {
    /// Returns the names of a file's extended attributes, as `listxattr` returns them to root.
    ///
    /// # Errors
    ///
    /// If they are damaged or cannot be read.
    pub fn attribute_names(&self, inode: &Inode) -> Result<Vec<Vec<u8>>, Error> {
        let block = self.attribute_block(inode)?;
        let lists =
            [AttributeList::in_inode(inode)?, AttributeList::in_block(inode, block.as_deref())];
        let mut names = Vec::new();
        for entry in lists.into_iter().flatten().flat_map(AttributeList::entries) {
            names.extend(entry?.name());
        }
        Ok(names)
    }

    /// Returns the value of an extended attribute; None if the file has no attribute of that name.
    ///
    /// # Errors
    ///
    /// If the attributes are damaged or cannot be read.
    pub fn attribute(&self, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let own = AttributeList::in_inode(inode)?.map(|list| self.value(inode, list, name));
        if let Some(value) = own.transpose()?.flatten() {
            return Ok(Some(value));
        }
        let block = self.attribute_block(inode)?;
        let list = AttributeList::in_block(inode, block.as_deref());
        Ok(list.map(|list| self.value(inode, list, name)).transpose()?.flatten())
    }

    fn value(
        &self,
        inode: &Inode,
        list: AttributeList,
        name: &[u8],
    ) -> Result<Option<Vec<u8>>, Error> {
        let place = list.place;
        for entry in list.entries() {
            let entry = entry?;
            if entry.name().is_none_or(|its| its != name) {
                continue;
            }
            let value = match entry.inode {
                0 => list.value(&entry)?.to_vec(),
                holder => self.value_in_inode(inode, holder, entry.len, place)?,
            };
            return match entry.index {
                ACCESS_ACL | DEFAULT_ACL => {
                    let acl = acl::for_users(&value);
                    acl.map(Some).ok_or_else(|| place.is("has an invalid ACL"))
                }
                _ => Ok(Some(value)),
            };
        }
        Ok(None)
    }

    /// Returns the block with a file's attributes, if it has one.
    fn attribute_block(&self, inode: &Inode) -> Result<Option<Vec<u8>>, Error> {
        let (at, place) =
            (inode.attribute_block, ImageLocation::Attributes { inode: inode.number });
        if at == 0 {
            return Ok(None);
        }
        let block = self.block(at, place)?;
        place.has(le32(&block, 0) == MAGIC, "its block has no valid header")?;
        place.has(le32(&block, 8) == 1, "has more than one block")?;
        if self.superblock().has_checksums() {
            let crc = crc32c(self.superblock().seed, &at.to_le_bytes());
            let crc = crc32c(crc32c(crc, &block[..SUM]), &[0; 4]);
            let crc = crc32c(crc, &block[SUM + 4..]);
            place.has(crc == le32(&block, SUM), "its block's checksum does not match")?;
        }
        Ok(Some(block))
    }

    /// Returns a value that is stored as the contents of an inode.
    fn value_in_inode(
        &self,
        inode: &Inode,
        holder: u32,
        len: usize,
        place: ImageLocation,
    ) -> Result<Vec<u8>, Error> {
        let may_be = self.superblock().features.incompat(features::EA_INODE);
        place.has(may_be, "has a value in an inode, which its features do not allow")?;
        let holder = self.inode(holder)?;
        let is_one = holder.kind == FileKind::Regular && holder.holds_attribute();
        place.has(is_one, "has its value in an inode that is not a value inode")?;
        place.has(len <= VALUE_MAX, "has a value that is too large")?;
        place.has(
            holder.size == len as u64,
            "has a value whose length differs from the stated one",
        )?;
        let mut value = vec![0; len];
        self.fill(&holder, 0, &mut value)?;
        // The timestamp fields hold the value's checksum, or, before checksums existed, the owner's
        // number.
        let sum = crc32c(self.superblock().seed, &value);
        let is_owned =
            le32(&holder.raw, 0x10) == inode.number && holder.generation == inode.generation;
        place.has(
            sum == le32(&holder.raw, 0x8) || is_owned,
            "the checksum of a value does not match",
        )?;
        Ok(value)
    }
}

impl Inode {
    /// Returns the two parts of inline data: the one in place of the map, and the one stored as an
    /// attribute. Beyond them the file is zeros.
    pub(crate) fn inline_parts(&self) -> Result<(&[u8], &[u8]), Error> {
        assert!(self.is_inline());
        let place = ImageLocation::Inode(self.number);
        let size = usize::try_from(self.size).map_err(|_| place.is("too large to be inline"))?;
        let head = &self.area()[..size.min(self.area().len())];
        if size == head.len() {
            return Ok((head, &[]));
        }
        let Some(list) = AttributeList::in_inode(self)? else {
            return Err(place.is("has incomplete inline data"));
        };
        for entry in list.entries() {
            let entry = entry?;
            if entry.index == SYSTEM && entry.rest == b"data" && entry.inode == 0 {
                let (tail, wanted) = (list.value(&entry)?, size - head.len());
                let may_be_hole = self.kind == FileKind::Regular;
                let is_all = may_be_hole || tail.len() >= wanted;
                place.has(is_all, "has incomplete inline data")?;
                return Ok((head, &tail[..wanted.min(tail.len())]));
            }
        }
        Err(place.is("has incomplete inline data"))
    }
}

/// A list of attributes, and the bytes that contain their values.
#[derive(Clone, Copy)]
struct AttributeList<'b> {
    place: ImageLocation,
    entries: &'b [u8],
    values: &'b [u8],
}

/// An entry of an attribute list.
struct AttributeEntry<'b> {
    /// Index of the name's prefix.
    index: u8,
    rest: &'b [u8],
    offset: usize,
    len: usize,
    /// Inode that holds the value; 0 if it is stored next to the list.
    inode: u32,
}

impl<'b> AttributeList<'b> {
    fn in_inode(inode: &'b Inode) -> Result<Option<Self>, Error> {
        let place = ImageLocation::Attributes { inode: inode.number };
        let region = inode.attributes_at.map_or(&[][..], |at| &inode.raw[at..]);
        if region.len() < 8 || le32(region, 0) != MAGIC {
            return Ok(None);
        }
        Ok(Some(Self { place, entries: &region[4..], values: &region[4..] }))
    }

    fn in_block(inode: &Inode, block: Option<&'b [u8]>) -> Option<Self> {
        let place = ImageLocation::Attributes { inode: inode.number };
        block.map(|block| Self { place, entries: &block[HEADER_LEN..], values: block })
    }

    fn entries(self) -> impl Iterator<Item = Result<AttributeEntry<'b>, Error>> {
        let mut rest = Some(self.entries);
        std::iter::from_fn(move || {
            let bytes = rest.take()?;
            if bytes.len() >= 4 && le32(bytes, 0) == 0 {
                return None;
            }
            let entry =
                AttributeEntry::parse(bytes).ok_or_else(|| self.place.is("the list has no end"));
            Some(entry.map(|(entry, after)| {
                rest = Some(after);
                entry
            }))
        })
    }

    fn value(self, entry: &AttributeEntry) -> Result<&'b [u8], Error> {
        let bytes = self.values.get(entry.offset..).and_then(|rest| rest.get(..entry.len));
        bytes.ok_or_else(|| self.place.is("has an incomplete value"))
    }
}

impl<'b> AttributeEntry<'b> {
    /// Returns the first entry of a list and the remaining list; None if it is truncated.
    fn parse(bytes: &'b [u8]) -> Option<(Self, &'b [u8])> {
        let head = bytes.get(..16)?;
        let name_len = usize::from(head[0]);
        let entry = Self {
            index: head[1],
            rest: bytes.get(16..16 + name_len)?,
            offset: usize::from(le16(head, 2)),
            inode: le32(head, 4),
            len: usize::try_from(le32(head, 8)).ok()?,
        };
        Some((entry, bytes.get((16 + name_len).next_multiple_of(4)..)?))
    }

    /// Returns the whole name; None for internal attributes.
    fn name(&self) -> Option<Vec<u8>> {
        let prefix: &[u8] = match self.index {
            1 => b"user.",
            ACCESS_ACL if self.rest.is_empty() => b"system.posix_acl_access",
            DEFAULT_ACL if self.rest.is_empty() => b"system.posix_acl_default",
            4 => b"trusted.",
            6 => b"security.",
            10 => b"gnu.",
            _ => return None,
        };
        Some([prefix, self.rest].concat())
    }
}
