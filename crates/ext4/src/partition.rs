//! The partitions of a disk: byte ranges, and a line for users.

use std::fmt;
use std::ops::Range;

/// The partitions of a disk, by number.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PartitionTable {
    /// Partitions with a nonzero length, without the extended one.
    pub partitions: Vec<Partition>,
}

/// One partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Partition {
    /// Number as in the kernel's device names, from 1; logical partitions begin with 5.
    pub number: u32,
    /// First byte on the disk.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Type, such as "Linux", or the type's number or GUID if it has no well-known name.
    pub kind: String,
}

impl PartitionTable {
    /// Returns the partition with this number.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<&Partition> {
        self.partitions.iter().find(|partition| partition.number == number)
    }
}

impl Partition {
    /// Returns its byte range on a disk of `size` bytes; None if the disk is too short.
    #[must_use]
    pub fn range(&self, size: u64) -> Option<Range<u64>> {
        let end = self.start.checked_add(self.len)?;
        (end <= size).then_some(self.start..end)
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

/// Most partitions named in one line.
const SHOWN_MAX: usize = 16;

/// Formats a length in the largest unit that is exact.
fn size_text(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let exact = units.iter().find(|(shift, _)| bytes != 0 && bytes.trailing_zeros() >= *shift);
    exact.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}
