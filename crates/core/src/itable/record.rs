//! The last misses in inode tables, and what became of the blocks around each.
//!
//! In:    a miss with the blocks that were read for it; each look-up.
//! Out:   by distance, how many blocks were wanted of those that could have come along.
//! Never: more than [`MISSES`] of them.
//!
//! ```text
//!   a miss        |<------ REACH back ------>#<----- REACH ahead ------>|
//!   read for it                     |========#====|
//!   open          oooooooooooo......oooooooooooooo.......oooooooooo     neither wanted since, nor
//!                             ^ read for another miss                   read before, and used
//! ```

use alloc::collections::VecDeque;
use core::ops::Range;

use super::BlockIndex;

/// How far from a miss its neighbours are watched: 512 blocks, which is a whole table of the usual
/// size (8192 inodes of 256 bytes in blocks of 4 KiB).
pub(super) const REACH: u64 = 512;

/// Distances 1, 2, 3-4, 5-8 and so on to 257-512.
pub(super) const CLASSES: usize = 10;

/// How many misses are remembered.
const MISSES: usize = 64;

/// How much less each miss counts than the one after it: half after 23.
const DECAY: f64 = 0.97;

/// From how many misses ago on unwanted blocks count as unwanted in full; before, in part. The
/// blocks around the youngest miss have had little time: how often they were wanted so far is taken
/// as the beginning of how often they will be.
const SETTLED: f64 = 64.0;

/// In front of a miss, or behind it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Side {
    Back,
    Ahead,
}

/// What is known of a class of distances on one side. Both are sums of weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Count {
    pub(super) wanted: f64,
    pub(super) seen: f64,
}

/// What is known by distance.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ItableCounts {
    sides: [[Count; CLASSES]; 2],
}

/// The last misses, the newest in front.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    misses: VecDeque<Miss>,
    /// The block of the last look-up: sixteen inodes share one.
    last: Option<BlockIndex>,
}

#[derive(Clone, Debug)]
struct Miss {
    block: BlockIndex,
    /// What was read for it, the block among them; empty once that was seen to be gone.
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

    /// Of all distances on both sides.
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
    /// Bytes beside its own.
    pub(super) const HEAP_BYTES: usize = MISSES * size_of::<Miss>();

    /// An inode in this block was looked up. Gives 1 if the block had come along with another and
    /// is wanted for the first time, else 0.
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

    /// Whether it was read for a miss that is remembered.
    pub(super) fn was_read(&self, block: BlockIndex) -> bool {
        self.misses.iter().any(|miss| miss.read.contains(&block))
    }

    /// A block that was read must be read again: it is gone, and what was read with it most likely
    /// too. Gives how many had come along and were never wanted: they stay among the unwanted ones,
    /// since they could not be used when they were.
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

    /// Whether it is within reach of what was read for a miss.
    pub(super) fn is_near(&self, block: BlockIndex) -> bool {
        self.misses.iter().any(|miss| {
            let (start, end) = (miss.block.min(miss.read.start), miss.block.max(miss.read.end));
            start.0.saturating_sub(REACH) <= block.0 && block.0 <= end.0.saturating_add(REACH)
        })
    }

    /// The blocks around one, as far as reach and table go, up to those that were read already.
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

    /// A miss, and what is read for it.
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

    /// What the misses tell, the latest the most.
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

    /// Side and distance of a neighbour.
    fn place(&self, block: BlockIndex) -> Option<(Side, u64)> {
        let (side, distance) = if block < self.block {
            (Side::Back, self.block.0 - block.0)
        } else {
            (Side::Ahead, block.0 - self.block.0)
        };
        (1..=REACH).contains(&distance).then_some((side, distance))
    }

    /// These blocks are open no more.
    fn close(&mut self, read: &Range<BlockIndex>) {
        let bits = self.bits_of(read);
        self.open.clear(bits);
    }

    /// How many of these blocks are open.
    fn open_in(&mut self, read: &Range<BlockIndex>) -> u32 {
        let bits = self.bits_of(read);
        u32::from(self.open.count(bits))
    }

    /// The bits of those of these blocks that are its neighbours.
    fn bits_of(&self, read: &Range<BlockIndex>) -> Range<usize> {
        let position = |block: BlockIndex| {
            let low = self.block.0.saturating_sub(REACH);
            let at = block.0.clamp(low, self.block.0.saturating_add(REACH + 1));
            // The miss itself has no bit: what is ahead of it lies one place nearer.
            let from_miss = REACH + at - self.block.0;
            let at = if from_miss > REACH { from_miss - 1 } else { from_miss };
            usize::try_from(at).expect("at most BITS")
        };
        let (start, end) = (position(read.start), position(read.end));
        start..end.max(start)
    }

    /// How many of each class are open.
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

    /// Whether it was set; it no longer is.
    fn take(&mut self, index: usize) -> bool {
        let (word, mask) = (&mut self.0[index / 64], 1 << (index % 64));
        let was_set = *word & mask != 0;
        *word &= !mask;
        was_set
    }

    /// The words with bits of a range, and which bits these are.
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

/// The place of a neighbour's bit.
fn bit(side: Side, distance: u64) -> usize {
    assert!((1..=REACH).contains(&distance));
    let place = match side {
        Side::Back => REACH - distance,
        Side::Ahead => REACH - 1 + distance,
    };
    usize::try_from(place).expect("less than BITS")
}

/// The class of a distance from 1 on.
pub(super) fn class_of(distance: u64) -> usize {
    assert!((1..=REACH).contains(&distance));
    (u64::BITS - (distance - 1).leading_zeros()) as usize
}

/// The last distance of a class.
pub(super) const fn class_end(class: usize) -> u64 {
    1 << class
}
