//! Partition tables of whole disks: MBR with logical partitions, and GPT.
//!
//! In:    bytes at offsets.
//! Out:   partitions with their number, byte range and type.
//! Never: a read outside of the image, more than a few hundred reads, or a GPT with wrong
//! checksums.
//!
//! ```text
//!   MBR   | table |  1  |  2  | extended: table | 5 | table | 6 |       at most LOGICAL_MAX tables
//!   GPT   | protective MBR | header | entries | 1 | 2 | 3 | entries | header |  the second is used
//!                                                                    if the first one is damaged
//! ```

mod gpt;
mod mbr;

use crate::error::Error;
use crate::partition::PartitionTable;
use crate::source::BlockSource;

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
}

/// A disk and its size.
struct Disk<'s, S> {
    source: &'s S,
    size: u64,
}

impl<S: BlockSource> Disk<'_, S> {
    /// Reads `len` bytes; None if the disk is too short.
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
