//! Which bytes of a target are an image or an export: `--offset` and `--partition`.
//!
//! In:    both flags; the disk that a partition table is read from.
//! Out:   a range that lies inside of the target, or why there is none.
//! Never: a read without `--partition`.

use std::ops::Range;
use std::path::Path;

use foreread_core::units::ByteCount;
use foreread_ext4::{BlockSource, PartitionTable};

use crate::output::Failure;

/// Part of a target that is an image or an export.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RangeChoice {
    /// All bytes.
    Whole,
    /// All bytes from this one on.
    From(ByteCount),
    /// The partition of this number.
    Partition(u32),
}

impl RangeChoice {
    /// Resolves --offset and --partition, of which clap accepts one.
    pub fn new(offset: Option<ByteCount>, partition: Option<u32>) -> Self {
        match (offset, partition) {
            (Some(start), _) => Self::From(start),
            (None, Some(number)) => Self::Partition(number),
            (None, None) => Self::Whole,
        }
    }

    /// Returns the flag that made the choice.
    pub fn flag(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::From(_) => Some("--offset"),
            Self::Partition(_) => Some("--partition"),
        }
    }

    /// Returns the bytes of the disk that were chosen. `target` is its name in messages.
    pub fn choose(self, target: &Path, disk: &impl BlockSource) -> Result<Range<u64>, Failure> {
        let wrong = |line: String| Failure::WrongUse(format!("{}: {line}", target.display()));
        let size = disk.size().map_err(|error| wrong(error.to_string()))?;
        let number = match self {
            Self::Whole => return Ok(0..size),
            Self::From(ByteCount(start)) if start < size => return Ok(start..size),
            Self::From(ByteCount(start)) => {
                return Err(wrong(format!("--offset {start} is not inside of its {size} bytes")));
            }
            Self::Partition(number) => number,
        };
        let table = PartitionTable::read(disk).map_err(|error| wrong(error.to_string()))?;
        let table = table.ok_or_else(|| {
            wrong(format!("has no partition table (MBR or GPT), so no partition {number}"))
        })?;
        let found = table.get(number);
        let partition = found
            .ok_or_else(|| wrong(format!("has no partition {number}; its partitions: {table}")))?;
        partition.range(size).ok_or_else(|| {
            let end = partition.start.saturating_add(partition.len);
            wrong(format!(
                "partition {number} ends at byte {end}, and there are {size}: copy the whole disk"
            ))
        })
    }
}
