//! GPT: a header and an array of entries, at the start and again at the end of a disk.
//!
//! Sectors have 512 or 4096 bytes, as shown by the header's location. Entries need correct
//! checksums and an array of at most [`ENTRIES_MAX_BYTES`].

use super::Disk;
use crate::error::Error;
use crate::fields::{halves, le16, le32};
use crate::partition::Partition;
use crate::source::BlockSource;

/// Reads the first table with correct checksums: the primary one, then the backup.
pub(super) fn read<S: BlockSource>(disk: &Disk<'_, S>) -> Result<Option<Vec<Partition>>, Error> {
    for sector in SECTORS {
        if let Some(found) = table(disk, 1, sector)? {
            return Ok(Some(found));
        }
    }
    for sector in SECTORS {
        let last = (disk.size / sector).saturating_sub(1);
        if let Some(found) = table(disk, last, sector)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the table of the header in this sector, if it is intact.
fn table<S: BlockSource>(
    disk: &Disk<'_, S>,
    at: u64,
    sector: u64,
) -> Result<Option<Vec<Partition>>, Error> {
    // A shorter disk has no such sector, and the checked product cannot overflow.
    let Some(header) =
        at.checked_mul(sector).map(|at| disk.read(at, HEADER)).transpose()?.flatten()
    else {
        return Ok(None);
    };
    let header_len = le32(&header, 12) as usize;
    if !header.starts_with(b"EFI PART") || !(HEADER_MIN..=HEADER).contains(&header_len) {
        return Ok(None);
    }
    let mut summed = header[..header_len].to_vec();
    summed[16..20].fill(0);
    if crc32(&summed) != le32(&header, 16) || le64(&header, 24) != at {
        return Ok(None);
    }
    let (count, entry_len) = (le32(&header, 80), le32(&header, 84));
    let array_len = u64::from(count) * u64::from(entry_len);
    if entry_len < ENTRY_MIN || array_len > ENTRIES_MAX_BYTES {
        return Err(Error::PartitionTable { what: "its GPT has entries of an invalid size" });
    }
    let Some(start) = le64(&header, 72).checked_mul(sector) else { return Ok(None) };
    #[expect(clippy::cast_possible_truncation, reason = "at most ENTRIES_MAX_BYTES")]
    let Some(array) = disk.read(start, array_len as usize)? else { return Ok(None) };
    if crc32(&array) != le32(&header, 88) {
        return Ok(None);
    }
    let entries = (1..).zip(array.chunks_exact(entry_len as usize));
    let used = entries.filter(|(_, entry)| entry[..16] != [0; 16]);
    used.map(|(number, entry)| partition(number, entry, sector)).collect::<Result<_, _>>().map(Some)
}

fn partition(number: u32, entry: &[u8], sector: u64) -> Result<Partition, Error> {
    let (first, last) = (le64(entry, 32), le64(entry, 40));
    let start = first.checked_mul(sector);
    let end = last.checked_add(1).and_then(|end| end.checked_mul(sector));
    let (Some(start), Some(end)) = (start, end.filter(|_| last >= first)) else {
        return Err(Error::PartitionTable {
            what: "its GPT has a partition that ends before it \
                                                  begins",
        });
    };
    Ok(Partition { number, start, len: end - start, kind: kind_text(&entry[..16]) })
}

fn kind_text(guid: &[u8]) -> String {
    let text = guid_text(guid);
    let known = KINDS.iter().find(|(known, _)| *known == text);
    known.map_or(text, |(_, name)| (*name).to_owned())
}

/// Formats a GUID, whose first three groups are little-endian numbers.
fn guid_text(guid: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    format!(
        "{:08X}-{:04X}-{:04X}-{}-{}",
        le32(guid, 0),
        le16(guid, 4),
        le16(guid, 6),
        hex(&guid[8..10]),
        hex(&guid[10..16])
    )
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    halves(le32(bytes, at), le32(bytes, at + 4))
}

/// Returns the CRC-32 of zip and Ethernet. Tables are small, so bit by bit is fast enough.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ 0xEDB8_8320 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

const SECTORS: [u64; 2] = [512, 4096];
/// Maximum length of a header: the smallest sector, although a sector may be larger.
const HEADER: usize = 512;
const HEADER_MIN: usize = 92;
const ENTRY_MIN: u32 = 128;
/// 64 times the usual array.
const ENTRIES_MAX_BYTES: u64 = 1 << 20;

/// Types with well-known names.
const KINDS: [(&str, &str); 10] = [
    ("0FC63DAF-8483-4772-8E79-3D69D8477DE4", "Linux"),
    ("4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709", "Linux root x86-64"),
    ("B921B045-1DF0-41C3-AF44-4C6F280D3FAE", "Linux root arm64"),
    ("933AC7E1-2EB4-4F13-B844-0E14E2AEF915", "Linux home"),
    ("0657FD6D-A4AB-43C4-84E5-0933C84B4F4F", "Linux swap"),
    ("E6D6D379-F507-44C2-A23C-238F2A3DF928", "Linux LVM"),
    ("C12A7328-F81F-11D2-BA4B-00A0C93EC93B", "EFI system"),
    ("21686148-6449-6E6F-744E-656564454649", "BIOS boot"),
    ("EBD0A0A2-B9E5-4433-87C0-68B6B72699C7", "Microsoft data"),
    ("E3C9E316-0B5C-4DB8-817D-F92DF00215AE", "Microsoft reserved"),
];
