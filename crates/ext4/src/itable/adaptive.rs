//! Inode-table read-ahead by expected benefit: extends a window while the next block pays off.
//!
//! Memory is bounded by [`Adaptive::MEMORY_BYTES`]. Design, measured tables: docs/design/itable.md.

use std::ops::Range;

use super::record::{CLASSES, ItableCounts, REACH, Records, Side, class_end, class_of};
use super::{BlockIndex, InodeTable};

/// Read cost of a device: a request of n bytes takes `fixed_ns + n x ns_per_byte`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Fixed cost of a request.
    pub fixed_ns: f64,
    /// Cost of a byte.
    pub ns_per_byte: f64,
}

/// Blocks to read, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct ItableDecision {
    /// Blocks to read, including the requested one.
    pub blocks: Range<BlockIndex>,
    /// Reason for the extent.
    pub why: Why,
}

/// Reason for the size of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// The block is past the used ones: its neighbours were never written.
    Unused,
    /// No recent look-up nearby: a single file, not a tree walk.
    Single,
    /// Cost and chance were compared.
    Weighed {
        /// Break-even chance of an extra block: its cost along with others, divided by its cost
        /// alone.
        pays: f64,
        /// Chance of the first block of the window or, without a block before the requested one, of
        /// the nearest one there. None if there is none, or it was already read.
        back: Option<f64>,
        /// The same chance, for the end of the window.
        ahead: Option<f64>,
    },
}

/// Windows that end where one more block would cost more than it saves.
///
/// ```text
///   chance that a block at this distance    1.0 |#
///   of a requested one is needed soon           |## #
///                                               |######  #
///                              pays  - - - - - -|- - - - - - - - -    transfer / whole cost
///                                               |###########  ##
///                                               +----------------> distance
///                                                ^ read along      ^ not
/// ```
///
/// A block read along costs its transfer; read alone later it costs a request as well. So it pays
/// to read it along while its chance exceeds the ratio of the two: 1 in 26 with 1 ms per request
/// and 100 MB/s, 1 in 110 on a disk that seeks 7 ms, 1 in 6 on flash that answers in 10 us. That is
/// Andreas Dilger's marginal argument, with measured chances.
///
/// The chances come from the last misses: which blocks near a miss were needed afterwards, by
/// distance. Blocks that were not read along count, too, so that the benefit of a larger window is
/// known without trying it. Blocks that were already read do not count, as they could not be read
/// along. Blocks read along but evicted before use count as not needed.
#[derive(Clone, Debug, Default)]
pub struct Adaptive {
    records: Records,
    kept: KeptWindow,
}

/// Blocks that were read along and needed later: still cached, or evicted by then.
#[derive(Clone, Copy, Debug)]
struct KeptWindow {
    there: f64,
    gone: f64,
}

impl Cost {
    /// Cost of an unknown device: a request costs as much as 64 KiB, as on disks of 2008. Only the
    /// ratio of the two matters.
    pub const UNKNOWN: Self = Self { fixed_ns: 65536.0, ns_per_byte: 1.0 };

    /// Returns the cost that was measured on a device. Without the cost of a KiB, all requests were
    /// of one size and the fixed part of their cost is unknown.
    #[must_use]
    pub fn measured(per_request_ns: f64, per_kib_ns: Option<f64>) -> Self {
        per_kib_ns
            .map_or(Self::UNKNOWN, |ns| Self { fixed_ns: per_request_ns, ns_per_byte: ns / 1024.0 })
    }

    /// Returns the chance of a later use at which reading a block along breaks even.
    #[must_use]
    pub fn pays(self, block_bytes: u32) -> f64 {
        let along_ns = self.ns_per_byte.max(0.0) * f64::from(block_bytes);
        let alone_ns = self.fixed_ns.max(0.0) + along_ns;
        // A device without cost needs no read-ahead.
        if alone_ns > 0.0 { along_ns / alone_ns } else { 1.0 }
    }
}

impl Adaptive {
    /// Most blocks read along on either side of the requested one.
    pub const REACH_BLOCKS: u64 = REACH;

    /// Upper bound of its memory in bytes.
    pub const MEMORY_BYTES: usize = size_of::<Self>() + Records::HEAP_BYTES;

    /// Creates a policy without history.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the blocks to read for a miss of `block` in `table`. None if the block is before the
    /// table, or is the last possible block number.
    ///
    /// Call this only for blocks that are neither cached nor in flight, and not for a block that is
    /// read to change one inode in it: that one is read alone.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "its asserts are about its own result")]
    pub fn decide(
        &mut self,
        table: InodeTable,
        block: BlockIndex,
        cost: Cost,
        block_bytes: u32,
    ) -> Option<ItableDecision> {
        if block < table.first {
            return None;
        }
        let after = BlockIndex(block.0.checked_add(1)?);
        if block >= table.used_end() {
            return Some(ItableDecision { blocks: block..after, why: Why::Unused });
        }
        if self.records.was_read(block) {
            let lost = self.records.lose(block);
            self.kept.count(0, lost);
        }
        self.records.look_up(block);

        let decision = if self.records.is_near(block) {
            self.weigh(table, block, cost.pays(block_bytes))
        } else {
            ItableDecision { blocks: block..after, why: Why::Single }
        };
        assert!(decision.blocks.contains(&block));
        assert!(decision.blocks.start >= table.first && decision.blocks.end <= table.used_end());
        self.records.push(block, &decision.blocks, table.first..table.used_end());
        Some(decision)
    }

    /// Records a look-up of an inode in a cached block.
    pub fn used(&mut self, block: BlockIndex) {
        let came_along = self.records.look_up(block);
        self.kept.count(came_along, 0);
    }

    fn weigh(&self, table: InodeTable, block: BlockIndex, pays: f64) -> ItableDecision {
        let counts = self.records.counts();
        let kept = self.kept.share();
        let free = self.records.free_around(block, table.first..table.used_end());
        let side = |side, most| extent(&chances(&counts, side, kept), pays, most);
        let (back, back_chance) = side(Side::Back, block.0 - free.start.0);
        let (ahead, ahead_chance) = side(Side::Ahead, free.end.0 - block.0 - 1);
        let blocks = BlockIndex(block.0 - back)..BlockIndex(block.0 + 1 + ahead);
        ItableDecision {
            blocks,
            why: Why::Weighed { pays, back: back_chance, ahead: ahead_chance },
        }
    }
}

/// Returns the chance of each distance class on one side.
///
/// A class with few samples takes its chance from all classes: one lucky block does not justify a
/// window.
fn chances(counts: &ItableCounts, side: Side, kept: f64) -> [f64; CLASSES] {
    let all = counts.all();
    let usual = all.wanted / (all.seen + MANY);
    counts.of(side).map(|own| (own.wanted + FEW * usual) / (own.seen + FEW) * kept)
}

/// Returns how many of `most` blocks to read along on one side, and the chance of the last one.
///
/// The extent maximises the total gain. Usually it ends where the chance drops below `pays`, but
/// unlikely nearby blocks are included if enough likely ones follow.
fn extent(chances: &[f64; CLASSES], pays: f64, most: u64) -> (u64, Option<f64>) {
    if most == 0 {
        return (0, None);
    }
    let (mut gain, mut best_gain, mut best) = (0.0, 0.0, (0, chances[0]));
    let mut from = 0;
    for (class, &chance) in chances.iter().enumerate() {
        let end = class_end(class).min(most);
        gain += blocks_f64(end - from) * (chance - pays);
        if gain > best_gain {
            (best_gain, best) = (gain, (end, chance));
        }
        from = end;
        if end == most {
            break;
        }
    }
    assert!(best.0 <= most);
    assert!(best.0 == 0 || class_of(best.0) < CLASSES);
    (best.0, Some(best.1))
}

impl KeptWindow {
    fn count(&mut self, there: u32, gone: u32) {
        self.there += f64::from(there);
        self.gone += f64::from(gone);
        if self.there + self.gone > KEPT_MEMORY {
            self.there /= 2.0;
            self.gone /= 2.0;
        }
    }

    /// Returns the share that was still cached, squared: where memory is short, an extra block is
    /// not only likely to be evicted itself, it also evicts another one.
    fn share(self) -> f64 {
        let share = (self.there + FEW) / (self.there + self.gone + FEW);
        share * share
    }
}

impl Default for KeptWindow {
    fn default() -> Self {
        Self { there: 0.0, gone: 0.0 }
    }
}

/// Samples of a class from which its own chance outweighs the average.
const FEW: f64 = 16.0;

/// Samples of all classes from which their average is reliable.
const MANY: f64 = 64.0;

/// Samples over which the share of kept blocks is averaged.
const KEPT_MEMORY: f64 = 256.0;

#[expect(clippy::cast_precision_loss, reason = "at most REACH")]
fn blocks_f64(blocks: u64) -> f64 {
    blocks as f64
}
