//! How much of an inode table is read along between the inodes of directories.
//!
//! In:    what was read for directories, and which blocks the names in them then needed.
//! Out:   the gap between two directories that is worth reading.
//! Never: a device; a wider gap without proof from the same walk.
//!
//! ```text
//!   table     |D|f f f|D|f f|D|. . . . .|D|       D  the inode of a directory that comes next
//!   asked     |---------------|         |-|       f  of a file in one of them: the third trip
//!                                                    finds it here
//! ```
//!
//! Inodes of files mostly lie behind that of their directory. A gap of which nothing is needed is
//! worth what a request costs. If a part p of what lies in gaps is needed anyway, only the rest is
//! read in vain: the gap may be wider by 1 / (1 - p).

use std::ops::Range;

use crate::inodes::AskedBlocks;

/// What became of the gaps of a walk.
#[derive(Debug, Default)]
pub(crate) struct TableGaps {
    /// Bytes in gaps that were read along.
    read: u64,
    /// Those that were needed.
    needed: u64,
}

impl TableGaps {
    /// A gap as wide as it is worth, if one of which nothing is needed is worth `gap`.
    pub(crate) fn widened(&self, gap: u64) -> u64 {
        let in_vain = self.read - self.needed;
        let ratio = (self.read + FEW_BYTES) / (in_vain + FEW_BYTES);
        gap.saturating_mul(ratio)
    }

    /// Counts what was read along for directories; `names` are the blocks that the names in them
    /// need, in order of place.
    pub(crate) fn count(&mut self, directories: &AskedBlocks, names: &[Range<u64>]) {
        let AskedBlocks { needed, read } = directories;
        let is_directory =
            |block: &Range<u64>| needed.binary_search_by_key(&block.start, |it| it.start).is_ok();
        let is_read = |block: &Range<u64>| {
            let after = read.partition_point(|it| it.start <= block.start);
            after > 0 && block.end <= read[after - 1].end
        };
        let found = names.iter().filter(|block| is_read(block) && !is_directory(block));
        let found = bytes(found);
        let along = bytes(read).saturating_sub(bytes(needed));
        assert!(found <= along, "{found} bytes of {along} in gaps are needed");
        self.read += along;
        self.needed += found;
        if self.read > REMEMBERED_BYTES {
            self.read /= 2;
            self.needed /= 2;
        }
    }
}

/// How many bytes the ranges have.
pub(crate) fn bytes<'r>(ranges: impl IntoIterator<Item = &'r Range<u64>>) -> u64 {
    ranges.into_iter().map(|range| range.end - range.start).sum()
}

/// Gaps of fewer bytes prove little.
const FEW_BYTES: u64 = 64 << 10;

/// How much tells of the gaps.
const REMEMBERED_BYTES: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 4096;

    fn blocks(numbers: &[u64]) -> Vec<Range<u64>> {
        numbers.iter().map(|number| number * BLOCK..(number + 1) * BLOCK).collect()
    }

    /// Ten directories, eight blocks from one to the next, read as one range.
    fn ten() -> AskedBlocks {
        let numbers: Vec<u64> = (0..10).map(|n| n * 8).collect();
        AskedBlocks { needed: blocks(&numbers), read: std::iter::once(0..73 * BLOCK).collect() }
    }

    #[test]
    fn gaps_that_are_needed_become_wider_and_others_do_not() {
        let mut gaps = TableGaps::default();
        assert_eq!(gaps.widened(24 << 10), 24 << 10, "nothing is known");
        gaps.count(&ten(), &blocks(&(0..80).collect::<Vec<_>>()));
        assert!(gaps.widened(24 << 10) >= 4 * (24 << 10), "{gaps:?}");
        let mut gaps = TableGaps::default();
        // Files lie elsewhere.
        gaps.count(&ten(), &blocks(&(200..280).collect::<Vec<_>>()));
        assert_eq!(gaps.widened(24 << 10), 24 << 10);
    }

    #[test]
    fn a_walk_that_comes_to_other_tables_is_seen() {
        let mut gaps = TableGaps::default();
        for _ in 0..40 {
            gaps.count(&ten(), &blocks(&(0..80).collect::<Vec<_>>()));
        }
        let wide = gaps.widened(1 << 10);
        assert!(wide >= 64 << 10, "{gaps:?}");
        for _ in 0..40 {
            gaps.count(&ten(), &[]);
        }
        assert!(gaps.widened(1 << 10) <= 4 << 10, "{gaps:?}");
    }

    #[test]
    fn blocks_of_directories_and_blocks_outside_are_no_gaps() {
        let mut gaps = TableGaps::default();
        gaps.count(&ten(), &blocks(&[0, 8, 16, 73, 100]));
        assert_eq!((gaps.needed, gaps.read), (0, 63 * BLOCK));
    }
}
