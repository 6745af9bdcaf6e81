//! Decides how large a gap in an inode table is read along between directories' inodes.
//!
//! The gap widens only after evidence from the same walk.
//!
//! ```text
//!   table     |D|f f f|D|f f|D|. . . . .|D|       D  the inode of a directory that comes next
//!   asked     |---------------|         |-|       f  of a file in one of them: the third trip
//!                                                    finds it here
//! ```
//!
//! Inodes of files are mostly after that of their directory. A gap without needed inodes is worth
//! the cost of a request. If a fraction p of the bytes in gaps is needed anyway, only the rest is
//! wasted: the gap may be wider by 1 / (1 - p).

use std::ops::Range;

use crate::inodes::AskedBlocks;

/// Use of the gaps in a walk.
#[derive(Debug, Default)]
pub(crate) struct TableGaps {
    /// Bytes read in gaps.
    read: u64,
    /// Bytes of them that were needed.
    needed: u64,
}

impl TableGaps {
    /// Returns the gap that is worth reading, if a gap without needed bytes is worth `gap`.
    pub(crate) fn widened(&self, gap: u64) -> u64 {
        let in_vain = self.read - self.needed;
        let ratio = (self.read + FEW_BYTES) / (in_vain + FEW_BYTES);
        gap.saturating_mul(ratio)
    }

    /// Counts the bytes read along for directories; `names` are the blocks needed by their names,
    /// in order of offset.
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

/// Returns the total length of the ranges.
pub(crate) fn bytes<'r>(ranges: impl IntoIterator<Item = &'r Range<u64>>) -> u64 {
    ranges.into_iter().map(|range| range.end - range.start).sum()
}

/// Fewer bytes in gaps are weak evidence.
const FEW_BYTES: u64 = 64 << 10;

/// Bytes after which older evidence decays.
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
