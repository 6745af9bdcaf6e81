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

/// The flags that choose a part of a target.
#[derive(Clone, Copy, Debug)]
pub struct ByteRangeFlags<'a> {
    pub target: &'a Path,
    pub offset: Option<ByteCount>,
    pub partition: Option<u32>,
}

impl ByteRangeFlags<'_> {
    /// Returns the bytes of the disk that the flags choose: all without a flag.
    pub fn choose(&self, disk: &impl BlockSource) -> Result<Range<u64>, Failure> {
        let wrong = |line: String| Failure::WrongUse(format!("{}: {line}", self.target.display()));
        let size = disk.size().map_err(|error| wrong(error.to_string()))?;
        if let Some(ByteCount(start)) = self.offset {
            let is_inside = start < size;
            let line = || wrong(format!("--offset {start} is not inside of its {size} bytes"));
            return if is_inside { Ok(start..size) } else { Err(line()) };
        }
        let Some(number) = self.partition else { return Ok(0..size) };
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
