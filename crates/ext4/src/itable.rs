//! Inode-table read-ahead: which blocks of the table to read along with one inode's block.
//!
//! In:    position and usage of a group's inode table ([`InodeTable`]), the read-ahead window
//!        ([`FixedWindow`]), and the block to read.
//! Out:   the blocks to read, including the requested one.
//! Never: inodes, disks or caches. A block that is already cached costs its reader nothing.
//!
//! Terms are ext4's: group, inode table, `inode_readahead_blks`, unused inodes at the end of a
//! table. Design, worked table and sources: docs/design/itable.md.

mod adaptive;
mod record;

use std::fmt;
use std::ops::Range;

pub use adaptive::{Adaptive, Cost, ItableDecision, Why};

/// Position of a block in a file system, from 0.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BlockIndex(pub u64);

impl fmt::Display for BlockIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The inode table of one group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InodeTable {
    first: BlockIndex,
    inodes_used: u32,
    inodes_per_block: u32,
}

impl InodeTable {
    /// Creates the table that starts at `first`, or None if the values are inconsistent.
    ///
    /// `inodes_unused` counts from the end of the table, as in the group's descriptor: blocks that
    /// were never written need not be read. A descriptor that claims more unused inodes than the
    /// group has is damaged; its table is taken as empty, so that nothing is read ahead because of
    /// it.
    ///
    /// A table has no blocks without inodes, and does not reach the last block number.
    #[must_use]
    pub const fn new(
        first: BlockIndex,
        inodes_per_group: u32,
        inodes_per_block: u32,
        inodes_unused: u32,
    ) -> Option<Self> {
        if inodes_per_block == 0 || first.0 >= u64::MAX - inodes_per_group as u64 {
            return None;
        }
        let inodes_used = inodes_per_group.saturating_sub(inodes_unused);
        Some(Self { first, inodes_used, inodes_per_block })
    }

    /// Returns the block that the table starts at.
    #[must_use]
    pub const fn first(self) -> BlockIndex {
        self.first
    }

    /// Returns the block after the last one with a used inode.
    #[must_use]
    pub const fn used_end(self) -> BlockIndex {
        BlockIndex(self.first.0 + self.inodes_used.div_ceil(self.inodes_per_block) as u64)
    }

    /// Returns the block after the last one with all inodes used.
    const fn full_end(self) -> BlockIndex {
        BlockIndex(self.first.0 + (self.inodes_used / self.inodes_per_block) as u64)
    }
}

/// End of a window.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ItableBound {
    /// At the last block of the window, or the last used one of the table.
    #[default]
    Exact,
    /// As in Linux, whose loop includes its bound: each window has one block more than its size,
    /// and a window at the table's end includes one block past the last used one, unless that is
    /// partial. Only for comparing with Linux block by block.
    OffByOne,
}

/// Windows of a fixed power of two of blocks, aligned to their size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FixedWindow {
    size_blocks: u64,
    bound: ItableBound,
}

impl FixedWindow {
    /// Largest window that ext4 accepts.
    pub const MAX_BLOCKS: u64 = 1 << 30;

    /// Default of ext4: 128 KiB in 4 KiB blocks.
    ///
    /// On its author's disk twice as much made a `find` another 4 % faster; on another disk it made
    /// a lone inode 13 % slower (docs/design/itable.md).
    pub const DEFAULT_BLOCKS: u64 = 32;

    /// Creates windows of `size_blocks` (ext4's `inode_readahead_blks`); 0 turns read-ahead off.
    ///
    /// None unless it is 0 or a power of two up to [`Self::MAX_BLOCKS`].
    #[must_use]
    pub const fn new(size_blocks: u64, bound: ItableBound) -> Option<Self> {
        if size_blocks > Self::MAX_BLOCKS {
            return None;
        }
        if size_blocks != 0 && !size_blocks.is_power_of_two() {
            return None;
        }
        Some(Self { size_blocks, bound })
    }

    /// Returns the blocks to read for a miss of `block` in `table`. None if the block is before the
    /// table, or is the last possible block number.
    ///
    /// ```text
    ///   block     992     1000    1008            1024   ..  1088            1104
    ///   aligned   |------ 16 -----|------ 16 -----|          |------ 16 -----|
    ///   table             |=======================================================
    ///   wanted               # 1003                                      # 1100
    ///   window            |-- 1000..1016 -|                  |-- 1088..1104 -|
    /// ```
    ///
    /// Windows are aligned instead of starting at the requested block: inodes of a directory are
    /// visited in the order of their names' hashes, so the requested block is as likely the last of
    /// its neighbours as the first, and aligned windows never overlap. Only the table's first
    /// window is shifted to the start of the table, in full size, and may overlap the next.
    ///
    /// A block past the used ones is read alone, because its neighbours were never written.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "its asserts are about its own result")]
    pub fn decide(self, table: InodeTable, block: BlockIndex) -> Option<Range<BlockIndex>> {
        if block < table.first {
            return None;
        }
        let after = BlockIndex(block.0.checked_add(1)?);
        if self.size_blocks == 0 || block >= table.used_end() {
            return Some(block..after);
        }

        let aligned = BlockIndex(block.0 & !(self.size_blocks - 1));
        let start = aligned.max(table.first);
        // Past the end of the numbers is past the end of the table, which has one.
        let full = BlockIndex(start.0.saturating_add(self.size_blocks));
        let end = match self.bound {
            ItableBound::Exact => full.min(table.used_end()),
            ItableBound::OffByOne => BlockIndex(full.min(table.full_end()).0 + 1),
        };

        assert!(start <= block);
        assert!(block < end);
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group of 8192 inodes, 16 in a block: 512 blocks from 1000 on.
    fn table(unused: u32) -> InodeTable {
        InodeTable::new(BlockIndex(1000), 8192, 16, unused).unwrap()
    }

    fn exact(blocks: u64) -> FixedWindow {
        FixedWindow::new(blocks, ItableBound::Exact).unwrap()
    }

    fn off_by_one(blocks: u64) -> FixedWindow {
        FixedWindow::new(blocks, ItableBound::OffByOne).unwrap()
    }

    /// First and last block, both included, as the worked tables print them.
    fn ends(window: FixedWindow, table: InodeTable, block: u64) -> Option<(u64, u64)> {
        let blocks = window.decide(table, BlockIndex(block))?;
        assert!(blocks.start < blocks.end);
        Some((blocks.start.0, blocks.end.0 - 1))
    }

    #[test]
    fn the_worked_examples_come_out() {
        let rows = [
            // unused, block, exact, off by one
            (0, 1000, (1000, 1015), (1000, 1016)),
            (0, 1100, (1088, 1103), (1088, 1104)),
            (0, 1505, (1504, 1511), (1504, 1512)),
            (8000, 1003, (1000, 1011), (1000, 1012)),
            // 200 used inodes: 12 blocks and a half, so the included bound is right.
            (7992, 1003, (1000, 1012), (1000, 1012)),
        ];
        for (unused, block, want, want_off_by_one) in rows {
            assert_eq!(ends(exact(16), table(unused), block), Some(want), "{block}");
            assert_eq!(
                ends(off_by_one(16), table(unused), block),
                Some(want_off_by_one),
                "{block}"
            );
        }
    }

    #[test]
    fn the_first_window_is_moved_behind_the_start_and_not_cut() {
        assert_eq!(ends(exact(16), table(0), 1003), Some((1000, 1015)));
        assert_eq!(ends(exact(16), table(0), 1007), Some((1000, 1015)));
        assert_eq!(ends(exact(16), table(0), 1008), Some((1008, 1023)));
    }

    #[test]
    fn without_readahead_a_block_comes_alone() {
        for window in [exact(0), off_by_one(0)] {
            assert_eq!(ends(window, table(0), 1300), Some((1300, 1300)));
        }
    }

    #[test]
    fn past_the_last_used_block_a_block_comes_alone() {
        for window in [exact(16), off_by_one(16)] {
            assert_eq!(ends(window, table(8000), 1012), Some((1012, 1012)));
            assert_eq!(ends(window, table(8000), 1300), Some((1300, 1300)));
            assert_eq!(ends(window, table(0), 9999), Some((9999, 9999)));
        }
    }

    #[test]
    fn a_block_before_the_table_is_the_callers_error() {
        assert_eq!(ends(exact(16), table(0), 999), None);
        assert_eq!(ends(exact(0), table(0), 0), None);
    }

    #[test]
    fn more_unused_inodes_than_the_group_has_leave_an_empty_table() {
        for unused in [8192, 8193, u32::MAX] {
            assert_eq!(table(unused).used_end(), BlockIndex(1000));
            assert_eq!(ends(exact(16), table(unused), 1000), Some((1000, 1000)));
            assert_eq!(ends(off_by_one(16), table(unused), 1001), Some((1001, 1001)));
        }
    }

    #[test]
    fn only_zero_and_powers_of_two_are_sizes() {
        for blocks in [0, 1, 2, 4, 16, 32, 1 << 29, 1 << 30] {
            assert!(FixedWindow::new(blocks, ItableBound::Exact).is_some(), "{blocks}");
        }
        for blocks in [3, 6, 15, 17, 33, (1 << 30) - 1, (1 << 30) + 1, 1 << 31, u64::MAX] {
            assert!(FixedWindow::new(blocks, ItableBound::Exact).is_none(), "{blocks}");
        }
    }

    #[test]
    fn no_table_without_inodes_in_a_block() {
        assert_eq!(InodeTable::new(BlockIndex(1000), 8192, 0, 0), None);
    }

    #[test]
    fn nothing_overflows_at_the_end_of_the_block_numbers() {
        assert_eq!(InodeTable::new(BlockIndex(u64::MAX), 0, 16, 0), None);
        assert_eq!(InodeTable::new(BlockIndex(u64::MAX - 8192), 8192, 1, 0), None);

        let last = InodeTable::new(BlockIndex(u64::MAX - 8193), 8192, 1, 0).unwrap();
        for window in [exact(1 << 30), off_by_one(1 << 30)] {
            let blocks = window.decide(last, BlockIndex(u64::MAX - 2)).unwrap();
            assert!(blocks.contains(&BlockIndex(u64::MAX - 2)));
            // The last number of all has no range: there is no number to end it with.
            assert_eq!(window.decide(last, BlockIndex(u64::MAX)), None);
            assert_eq!(ends(window, last, u64::MAX - 1), Some((u64::MAX - 1, u64::MAX - 1)));
        }
        assert_eq!(ends(exact(16), last, u64::MAX - 2), Some((u64::MAX - 15, u64::MAX - 2)));
    }

    /// Marks the blocks one by one, as the description says them, and gives the first and last.
    fn model(
        bound: ItableBound,
        size: u64,
        first: u64,
        used: u64,
        per_block: u64,
        block: u64,
    ) -> (u64, u64) {
        let in_table = |b: u64| b >= first && (b - first) * per_block < used;
        if size == 0 || !in_table(block) {
            return (block, block);
        }
        let mut start = (0..=block).rev().find(|b| b % size == 0).unwrap();
        while start < first {
            start += 1;
        }
        let mut last = start;
        for b in start..start + size {
            if in_table(b) {
                last = b;
            }
        }
        // One more, unless a block that holds used inodes only in part ended the window.
        let partial = (last + 1 - first) * per_block > used;
        (start, if bound == ItableBound::OffByOne && !partial { last + 1 } else { last })
    }

    #[test]
    fn every_small_table_agrees_with_the_description() {
        let mut cases = 0_u64;
        for size in [0, 1, 2, 4, 8] {
            for (first, per_block, per_group) in
                (0..12).flat_map(|f| (1..4).flat_map(move |b| (0..20).map(move |g| (f, b, g))))
            {
                for unused in 0..=per_group + 1 {
                    let table = InodeTable::new(BlockIndex(first), per_group, per_block, unused);
                    let used = u64::from(per_group.saturating_sub(unused));
                    for block in first..first + 24 {
                        for bound in [ItableBound::Exact, ItableBound::OffByOne] {
                            let window = FixedWindow::new(size, bound).unwrap();
                            let got = ends(window, table.unwrap(), block);
                            let want = model(bound, size, first, used, u64::from(per_block), block);
                            assert_eq!(
                                got,
                                Some(want),
                                "{bound:?} size {size} first {first} used {used} \
                                 per block {per_block} block {block}"
                            );
                            cases += 1;
                        }
                    }
                }
            }
        }
        assert_eq!(cases, 5 * 12 * 3 * (2..22).sum::<u64>() * 24 * 2);
    }
}
