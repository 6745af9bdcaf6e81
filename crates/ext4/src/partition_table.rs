//! Partition tables of whole disks: MBR with logical partitions, and GPT.
//!
//! In:    bytes at offsets.
//! Out:   partitions with their number, bytes and type.
//! Never: a read outside of the image, more than a few hundred reads, or a GPT whose checksums are
//!        wrong.
//!
//! ```text
//!   MBR   | table |  1  |  2  | extended: table | 5 | table | 6 |       at most LOGICAL_MAX tables
//!   GPT   | protective MBR | header | entries | 1 | 2 | 3 | entries | header |  the second is used
//!                                                                    if the first one is damaged
//! ```

mod gpt;
mod mbr;

use std::fmt;
use std::ops::Range;

use crate::error::Error;
use crate::source::BlockSource;

/// The partitions of a disk, by number.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PartitionTable {
    /// Those that have a length, without the extended one.
    pub partitions: Vec<Partition>,
}

/// One partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Partition {
    /// Its number as in the names of the kernel's devices, from 1; logical ones begin with 5.
    pub number: u32,
    /// Its first byte on the disk.
    pub start: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Its type, such as "Linux", or the type's number or GUID if it has no well-known name.
    pub kind: String,
}

impl PartitionTable {
    /// Reads the table of a disk, if it has one.
    ///
    /// # Errors
    ///
    /// If the table is damaged, or cannot be read.
    pub fn read(source: &impl BlockSource) -> Result<Option<Self>, Error> {
        let size = source.size().map_err(|source| Error::Io { offset: 0, source })?;
        let disk = Disk { source, size };
        let boot_sector = disk.read(0, mbr::SECTOR)?;
        let entries = boot_sector.as_deref().and_then(mbr::entries);
        let partitions = match entries {
            Some(entries) if !mbr::is_protective(&entries) => Some(mbr::read(&disk, &entries)?),
            Some(_) => Some(gpt::read(&disk)?.ok_or(Error::PartitionTable {
                what: "neither the header of its GPT nor the backup at its end is intact",
            })?),
            None => gpt::read(&disk)?,
        };
        Ok(partitions.map(|partitions| Self { partitions }))
    }

    /// Returns the partition with a number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.number == number)
    }
}

impl Partition {
    /// Returns its bytes on a disk of `size` bytes.
    ///
    /// # Errors
    ///
    /// If the disk ends before the partition does.
    pub fn range(&self, size: u64) -> Result<Range<u64>, Error> {
        let end = self.start.saturating_add(self.len);
        if end > size {
            Err(Error::Short { wanted: end, found: size })
        } else {
            Ok(self.start..end)
        }
    }
}

impl fmt::Display for PartitionTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.partitions.is_empty() {
            return write!(f, "it has none");
        }
        for (index, Partition { number, len, kind, .. }) in self.partitions.iter().enumerate() {
            if index == SHOWN_MAX {
                return write!(f, ", and {} others", self.partitions.len() - index);
            }
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{number} ({}, {kind})", size_text(*len))?;
        }
        Ok(())
    }
}

/// Partitions that one line names.
const SHOWN_MAX: usize = 16;

/// A length in the largest unit that shows it exactly.
fn size_text(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let exact = units.iter().find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift);
    exact.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// The bytes of a disk, and where they end.
struct Disk<'s, S> {
    source: &'s S,
    size: u64,
}

impl<S: BlockSource> Disk<'_, S> {
    /// Reads `len` bytes, or nothing if the disk ends before them.
    fn read(&self, offset: u64, len: usize) -> Result<Option<Vec<u8>>, Error> {
        if offset.checked_add(len as u64).is_none_or(|end| end > self.size) {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        self.source.read(offset, &mut bytes).map_err(|source| Error::Io { offset, source })?;
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests;
