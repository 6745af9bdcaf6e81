//! Recent misses in inode tables, and the later use of the blocks around each.
//!
//! ```text
//!   a miss        |<------ REACH back ------>#<----- REACH ahead ------>|
//!   read for it                     |========#====|
//!   open          oooooooooooo......oooooooooooooo.......oooooooooo     neither needed since, nor
//!                             ^ read for another miss                   read before, and used
//! ```

use std::collections::VecDeque;
use std::ops::Range;

use super::BlockIndex;

/// Distance up to which neighbours of a miss are watched: 512 blocks, a whole table of the usual
/// size (8192 inodes of 256 bytes in blocks of 4 KiB).
pub(super) const REACH: u64 = 512;

/// Distances 1, 2, 3-4, 5-8 and so on to 257-512.
pub(super) const CLASSES: usize = 10;

/// Most misses remembered.
const MISSES: usize = 64;

/// Discount per newer miss: half after 23.
const DECAY: f64 = 0.97;

/// Age in misses from which unused blocks count fully as not needed; before, in proportion. The
/// blocks around the youngest miss have had little time, so the uses so far are extrapolated.
const SETTLED: f64 = 64.0;

/// Side of a miss: before it, or after it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Side {
    Back,
    Ahead,
}

/// Weighted counts of a distance class on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Count {
    pub(super) wanted: f64,
    pub(super) seen: f64,
}

/// Counts by side and distance class.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ItableCounts {
    sides: [[Count; CLASSES]; 2],
}

/// Recent misses, newest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    misses: VecDeque<Miss>,
    /// Block of the last look-up: sixteen inodes share one.
    last: Option<BlockIndex>,
}

#[derive(Clone, Debug)]
struct Miss {
    block: BlockIndex,
    /// Blocks read for it, including `block`; empty once they were found evicted.
    read: Range<BlockIndex>,
    open: Bits,
    wanted: [[u16; CLASSES]; 2],
    unwanted: [[u16; CLASSES]; 2],
}

/// One bit for each neighbour, from the farthest back to the farthest ahead.
#[derive(Clone, Debug, Default)]
struct Bits([u64; BITS / 64]);

const BITS: usize = 1024;
const _: () = assert!(BITS as u64 == 2 * REACH);

impl ItableCounts {
    pub(super) const fn of(&self, side: Side) -> &[Count; CLASSES] {
        &self.sides[side as usize]
    }

    /// Returns the sum over all distances on both sides.
    pub(super) fn all(&self) -> Count {
        let mut all = Count::default();
        for count in self.sides.as_flattened() {
            all.wanted += count.wanted;
            all.seen += count.seen;
        }
        all
    }
}

impl Records {
    /// Heap memory in bytes.
    pub(super) const HEAP_BYTES: usize = MISSES * size_of::<Miss>();

    /// Records a look-up of an inode. Returns 1 for the first use of a block that was read along,
    /// else 0.
    pub(super) fn look_up(&mut self, block: BlockIndex) -> u32 {
        if self.last == Some(block) {
            return 0;
        }
        self.last = Some(block);
        let mut came_along = 0;
        for miss in &mut self.misses {
            let Some((side, distance)) = miss.place(block) else { continue };
            if miss.open.take(bit(side, distance)) {
                let class = class_of(distance);
                miss.wanted[side as usize][class] += 1;
                miss.unwanted[side as usize][class] -= 1;
                came_along |= u32::from(miss.read.contains(&block));
            }
        }
        came_along
    }

    /// Returns true if the block was read for a remembered miss.
    pub(super) fn was_read(&self, block: BlockIndex) -> bool {
        self.misses.iter().any(|miss| miss.read.contains(&block))
    }

    /// Records that a block was evicted, and probably the blocks read with it. Returns the number
    /// of those read along and never used; they stay counted as not needed, since they could not be
    /// used in time.
    pub(super) fn lose(&mut self, block: BlockIndex) -> u32 {
        let mut lost = 0;
        for miss in &mut self.misses {
            if !miss.read.contains(&block) {
                continue;
            }
            let read = miss.read.clone();
            lost += miss.open_in(&read);
            miss.close(&read);
            miss.read = block..block;
        }
        lost
    }

    /// Returns true if the block is within reach of a remembered miss and its read.
    pub(super) fn is_near(&self, block: BlockIndex) -> bool {
        self.misses.iter().any(|miss| {
            let (start, end) = (miss.block.min(miss.read.start), miss.block.max(miss.read.end));
            start.0.saturating_sub(REACH) <= block.0 && block.0 <= end.0.saturating_add(REACH)
        })
    }

    /// Returns the blocks around a block, limited by reach, table and blocks already read.
    pub(super) fn free_around(
        &self,
        block: BlockIndex,
        table: Range<BlockIndex>,
    ) -> Range<BlockIndex> {
        let mut start = table.start.0.max(block.0.saturating_sub(REACH));
        let mut end = table.end.0.min(block.0.saturating_add(REACH + 1));
        for read in self.misses.iter().map(|miss| &miss.read).filter(|read| !read.is_empty()) {
            if read.end <= block {
                start = start.max(read.end.0);
            } else if read.start > block {
                end = end.min(read.start.0);
            }
        }
        assert!(start <= block.0);
        assert!(block.0 < end);
        BlockIndex(start)..BlockIndex(end)
    }

    /// Adds a miss and the blocks read for it.
    pub(super) fn push(
        &mut self,
        block: BlockIndex,
        read: &Range<BlockIndex>,
        table: Range<BlockIndex>,
    ) {
        let mut miss = Miss::new(block, read.clone(), table);
        for other in &self.misses {
            miss.close(&other.read);
        }
        miss.count();
        self.misses.truncate(MISSES - 1);
        self.misses.push_front(miss);
    }

    /// Returns the counts of all misses, discounted by age.
    pub(super) fn counts(&self) -> ItableCounts {
        let mut counts = ItableCounts::default();
        let (mut weight, mut age) = (1.0, 1.0);
        for miss in &self.misses {
            let not_wanted = weight * f64::min(age / SETTLED, 1.0);
            for side in [Side::Back as usize, Side::Ahead as usize] {
                for (class, count) in counts.sides[side].iter_mut().enumerate() {
                    let wanted = weight * f64::from(miss.wanted[side][class]);
                    count.wanted += wanted;
                    count.seen += wanted + not_wanted * f64::from(miss.unwanted[side][class]);
                }
            }
            weight *= DECAY;
            age += 1.0;
        }
        counts
    }
}

impl Miss {
    fn new(block: BlockIndex, read: Range<BlockIndex>, table: Range<BlockIndex>) -> Self {
        assert!(table.contains(&block));
        let back = (block.0 - table.start.0).min(REACH);
        let ahead = (table.end.0 - block.0 - 1).min(REACH);
        let mut open = Bits::default();
        if back > 0 {
            open.set(bit(Side::Back, back)..bit(Side::Back, 1) + 1);
        }
        if ahead > 0 {
            open.set(bit(Side::Ahead, 1)..bit(Side::Ahead, ahead) + 1);
        }
        Self { block, read, open, wanted: Default::default(), unwanted: Default::default() }
    }

    /// Returns side and distance of a neighbour.
    fn place(&self, block: BlockIndex) -> Option<(Side, u64)> {
        let (side, distance) = if block < self.block {
            (Side::Back, self.block.0 - block.0)
        } else {
            (Side::Ahead, block.0 - self.block.0)
        };
        (1..=REACH).contains(&distance).then_some((side, distance))
    }

    /// Closes these blocks.
    fn close(&mut self, read: &Range<BlockIndex>) {
        let bits = self.bits_of(read);
        self.open.clear(bits);
    }

    /// Returns the number of open blocks in the range.
    fn open_in(&mut self, read: &Range<BlockIndex>) -> u32 {
        let bits = self.bits_of(read);
        u32::from(self.open.count(bits))
    }

    /// Returns the bits of the neighbours in the range.
    fn bits_of(&self, read: &Range<BlockIndex>) -> Range<usize> {
        let position = |block: BlockIndex| {
            let low = self.block.0.saturating_sub(REACH);
            let at = block.0.clamp(low, self.block.0.saturating_add(REACH + 1));
            // The miss itself has no bit, so the blocks after it are shifted by one.
            let from_miss = REACH + at - self.block.0;
            let at = if from_miss > REACH { from_miss - 1 } else { from_miss };
            usize::try_from(at).expect("at most BITS")
        };
        let (start, end) = (position(read.start), position(read.end));
        start..end.max(start)
    }

    /// Counts the open blocks of each class.
    fn count(&mut self) {
        let mut from = 0;
        for class in 0..CLASSES {
            let end = class_end(class);
            let back = bit(Side::Back, end)..bit(Side::Back, from + 1) + 1;
            let ahead = bit(Side::Ahead, from + 1)..bit(Side::Ahead, end) + 1;
            self.unwanted[Side::Back as usize][class] = self.open.count(back);
            self.unwanted[Side::Ahead as usize][class] = self.open.count(ahead);
            from = end;
        }
    }
}

impl Bits {
    fn set(&mut self, range: Range<usize>) {
        for (word, mask) in self.words(range) {
            *word |= mask;
        }
    }

    fn clear(&mut self, range: Range<usize>) {
        for (word, mask) in self.words(range) {
            *word &= !mask;
        }
    }

    fn count(&mut self, range: Range<usize>) -> u16 {
        let ones = self.words(range).map(|(word, mask)| (*word & mask).count_ones()).sum::<u32>();
        u16::try_from(ones).expect("at most BITS")
    }

    /// Clears the bit. Returns true if it was set.
    fn take(&mut self, index: usize) -> bool {
        let (word, mask) = (&mut self.0[index / 64], 1 << (index % 64));
        let was_set = *word & mask != 0;
        *word &= !mask;
        was_set
    }

    /// Returns the words that contain the range, each with the mask of its bits.
    fn words(&mut self, range: Range<usize>) -> impl Iterator<Item = (&mut u64, u64)> {
        assert!(range.start <= range.end);
        assert!(range.end <= BITS);
        self.0.iter_mut().enumerate().filter_map(move |(index, word)| {
            let low = range.start.max(index * 64);
            let end = range.end.min(index * 64 + 64);
            let mask = |len: usize| if len == 64 { u64::MAX } else { (1 << len) - 1 };
            (low < end).then(|| (word, mask(end - low) << (low % 64)))
        })
    }
}

/// Returns the bit of a neighbour.
fn bit(side: Side, distance: u64) -> usize {
    assert!((1..=REACH).contains(&distance));
    let place = match side {
        Side::Back => REACH - distance,
        Side::Ahead => REACH - 1 + distance,
    };
    usize::try_from(place).expect("less than BITS")
}

/// Returns the class of a distance from 1 on.
pub(super) fn class_of(distance: u64) -> usize {
    assert!((1..=REACH).contains(&distance));
    (u64::BITS - (distance - 1).leading_zeros()) as usize
}

/// Returns the last distance of a class.
pub(super) const fn class_end(class: usize) -> u64 {
    1 << class
}
