//! The table in a disk's first sector (MBR), and those of logical partitions. The chain of logical
//! partitions is bounded.

use super::Disk;
use crate::error::Error;
use crate::fields::{le16, le32};
use crate::partition::Partition;
use crate::source::BlockSource;

/// An MBR counts in these units, regardless of the device's sector size.
pub(super) const SECTOR: usize = 512;

/// One of the four entries.
#[derive(Clone, Copy)]
pub(super) struct MbrEntry {
    kind: u8,
    first: u32,
    sectors: u32,
}

impl MbrEntry {
    fn is_used(self) -> bool {
        self.kind != 0 && self.sectors != 0
    }

    fn is_extended(self) -> bool {
        matches!(self.kind, 0x05 | 0x0F | 0x85)
    }

    fn partition(self, number: u32, from: u64) -> Partition {
        Partition {
            number,
            start: bytes(from + u64::from(self.first)),
            len: bytes(u64::from(self.sectors)),
            kind: kind_text(self.kind),
        }
    }
}

/// Returns the entries of a sector, if it is a table with at least one used entry.
pub(super) fn entries(sector: &[u8]) -> Option<[MbrEntry; 4]> {
    let entries = any_entries(sector)?;
    // The first byte of an entry distinguishes a table from the boot sector of a FAT file system.
    let are_flags = (0..4).all(|index| matches!(sector[TABLE + index * ENTRY], 0 | 0x80));
    (are_flags && entries.iter().any(|entry| entry.is_used())).then_some(entries)
}

fn any_entries(sector: &[u8]) -> Option<[MbrEntry; 4]> {
    let is_signed = sector.len() == SECTOR && le16(sector, SECTOR - 2) == 0xAA55;
    is_signed.then(|| {
        [0, 1, 2, 3].map(|index| {
            let entry = &sector[TABLE + index * ENTRY..][..ENTRY];
            MbrEntry { kind: entry[4], first: le32(entry, 8), sectors: le32(entry, 12) }
        })
    })
}

/// Returns whether the table is a placeholder for a GPT.
pub(super) fn is_protective(entries: &[MbrEntry; 4]) -> bool {
    entries.iter().any(|entry| entry.kind == 0xEE)
}

pub(super) fn read<S: BlockSource>(
    disk: &Disk<'_, S>,
    entries: &[MbrEntry; 4],
) -> Result<Vec<Partition>, Error> {
    let used = (1..).zip(entries).filter(|(_, entry)| entry.is_used());
    let primary = used.clone().filter(|(_, entry)| !entry.is_extended());
    let mut partitions: Vec<_> =
        primary.map(|(number, entry)| entry.partition(number, 0)).collect();
    if let Some((_, extended)) = used.clone().find(|(_, entry)| entry.is_extended()) {
        add_logical(disk, u64::from(extended.first), &mut partitions)?;
    }
    Ok(partitions)
}

/// ```text
///   extended partition   | table 1 |  5  | .. | table 2 |  6  |
///                             '---- next -------^             from the extended partition's start
///                             '- logical -^                   from the table's own sector
/// ```
fn add_logical<S: BlockSource>(
    disk: &Disk<'_, S>,
    extended: u64,
    partitions: &mut Vec<Partition>,
) -> Result<(), Error> {
    let mut number = 5;
    let mut at = extended;
    for _ in 0..LOGICAL_MAX {
        let sector = disk.read(bytes(at), SECTOR)?.ok_or(Error::PartitionTable {
            what: "its chain of logical partitions leaves the disk",
        })?;
        // An extended partition without a logical one may have no table.
        let Some(entries) = any_entries(&sector) else { return Ok(()) };
        let used = entries.iter().filter(|entry| entry.is_used());
        for entry in used.clone().filter(|entry| !entry.is_extended()).take(1) {
            partitions.push(entry.partition(number, at));
            number += 1;
        }
        let Some(next) = used.clone().find(|entry| entry.is_extended()) else { return Ok(()) };
        at = extended + u64::from(next.first);
    }
    Err(Error::PartitionTable { what: "its chain of logical partitions does not end" })
}

/// Converts sectors to bytes. Sector numbers have 32 bits and at most three are added, so nothing
/// overflows.
fn bytes(sectors: u64) -> u64 {
    sectors * SECTOR as u64
}

fn kind_text(kind: u8) -> String {
    let name = match kind {
        0x01 | 0x04 | 0x06 | 0x0B | 0x0C | 0x0E => "FAT",
        0x07 => "NTFS or exFAT",
        0x82 => "Linux swap",
        0x83 => "Linux",
        0x8E => "Linux LVM",
        0xEF => "EFI system",
        0xFD => "Linux RAID",
        _ => return format!("type {kind:#04x}"),
    };
    name.to_owned()
}

const TABLE: usize = 446;
const ENTRY: usize = 16;
/// Largest number of logical partitions, more than any tool creates.
const LOGICAL_MAX: usize = 128;
