//! Inode-table read-ahead by what it brings: a block comes along while that pays.
//!
//! In:    the block that must be read and its table, what a request costs on its device ([`Cost`]);
//!        each block that an inode was looked up in.
//! Out:   the blocks to read ([`ItableDecision`]), with the chance that was compared.
//! Never: a clock, a cache. What it remembers does not grow: [`Adaptive::MEMORY_BYTES`].
//!
//! Design, measured tables: docs/itable.md.

use core::ops::Range;

use super::record::{CLASSES, ItableCounts, REACH, Records, Side, class_end, class_of};
use super::{BlockIndex, InodeTable};
use crate::device_model::DeviceModel;

/// What reading costs on a device: a request of n bytes takes `fixed_ns + n x ns_per_byte`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// What a request costs, whatever its size.
    pub fixed_ns: f64,
    /// What each byte of it costs.
    pub ns_per_byte: f64,
}

/// The blocks to read, and why these.
#[derive(Clone, Debug, PartialEq)]
pub struct ItableDecision {
    /// The blocks, the wanted one among them.
    pub blocks: Range<BlockIndex>,
    /// What decided.
    pub why: Why,
}

/// Why a window is as large as it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// The block lies behind the used ones: its neighbours were never written.
    Unused,
    /// No inode near it was wanted lately: a look-up of one file, not a walk.
    Single,
    /// Chances were weighed.
    Weighed {
        /// The chance that pays for one block along: its cost beside others, divided by its cost
        /// alone.
        pays: f64,
        /// The chance of the first block of the window; if none comes along in front of the wanted
        /// one, of the block there. None: there is none, or it was read already.
        back: Option<f64>,
        /// The same at its end.
        ahead: Option<f64>,
    },
}

/// Windows that end where one more block would cost more than it brings.
///
/// ```text
///   chance that a block at this distance    1.0 |#
///   of a wanted one is wanted soon              |## #
///                                               |######  #
///                              pays  - - - - - -|- - - - - - - - -    transfer / whole cost
///                                               |###########  ##
///                                               +----------------> distance
///                                                ^ comes along   ^ does not
/// ```
///
/// A block that comes along costs its transfer; one that is fetched alone later costs a request
/// too. So it pays to take it along while its chance is more than the one divided by the other: 1
/// in 26 with 1 ms a request and 100 MB/s, 1 in 110 on a disk that seeks 7 ms, 1 in 6 on flash that
/// answers in 10 us. That is Andreas Dilger's marginal argument, with the chances counted.
///
/// The chances are counted over the last misses: which blocks near a missed one were wanted
/// afterwards, by their distance. Blocks count that were not read along, too, so that a larger
/// window need not be tried to know what it would bring. Those that were read already do not count:
/// they could not come along. Those that came along and were gone when they were wanted count as
/// not wanted.
#[derive(Clone, Debug, Default)]
pub struct Adaptive {
    records: Records,
    kept: KeptWindow,
}

/// What became of blocks that came along and were wanted: they were there, or gone.
#[derive(Clone, Copy, Debug)]
struct KeptWindow {
    there: f64,
    gone: f64,
}

impl Cost {
    /// Of an unknown device: a request costs as much as 64 KiB do, as on the disks of 2008. Only
    /// the ratio of the two counts.
    pub const UNKNOWN: Self = Self { fixed_ns: 65536.0, ns_per_byte: 1.0 };

    /// As the completions of a device tell it.
    #[must_use]
    pub fn of_model(model: Option<DeviceModel>) -> Self {
        let Some(DeviceModel { per_request_ns, per_kib_ns, .. }) = model else {
            return Self::UNKNOWN;
        };
        match per_kib_ns {
            Some(ns) => Self { fixed_ns: per_request_ns, ns_per_byte: ns / 1024.0 },
            // All requests were of one size: their bytes are in it, and nothing tells how much.
            None => Self::UNKNOWN,
        }
    }

    /// The chance at which it is the same whether a block comes along or is fetched when wanted.
    #[must_use]
    pub fn pays(self, block_bytes: u32) -> f64 {
        let along_ns = self.ns_per_byte.max(0.0) * f64::from(block_bytes);
        let alone_ns = self.fixed_ns.max(0.0) + along_ns;
        // A device that costs nothing needs no read-ahead.
        if alone_ns > 0.0 { along_ns / alone_ns } else { 1.0 }
    }
}

impl Adaptive {
    /// The most blocks that come along on either side of the wanted one.
    pub const REACH_BLOCKS: u64 = REACH;

    /// How many bytes it keeps at most.
    pub const MEMORY_BYTES: usize = size_of::<Self>() + Records::HEAP_BYTES;

    /// That has seen nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The blocks to read when `block` of `table` must be; None if the block lies before the table
    /// or has no number after it.
    ///
    /// To be called only for blocks that are neither cached nor in flight, and not for a block that
    /// is read to change one inode in it: that is read alone.
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

    /// An inode in this block was looked up, and the block was there.
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

/// The chance of each class of distances on one side.
///
/// While few blocks of a class were seen, all of them tell of it: one that was wanted by chance is
/// no reason for a window.
fn chances(counts: &ItableCounts, side: Side, kept: f64) -> [f64; CLASSES] {
    let all = counts.all();
    let usual = all.wanted / (all.seen + MANY);
    counts.of(side).map(|own| (own.wanted + FEW * usual) / (own.seen + FEW) * kept)
}

/// How many blocks come along on a side of which so many could, and the chance of the last one.
///
/// The end is where the window has gained the most in all. Usually that is where the chance falls
/// below what pays; but near blocks of little chance come along if there is enough behind them.
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

    /// The share that was there, twice: where memory is short, a block that comes along is not only
    /// likely to be gone itself, it also drives out another.
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

/// Blocks of a class by which its chance is its own more than that of all.
const FEW: f64 = 16.0;

/// Blocks of all classes by which their chance is no guess any more.
const MANY: f64 = 64.0;

/// How many blocks that came along and were wanted tell how well they are kept.
const KEPT_MEMORY: f64 = 256.0;

#[expect(clippy::cast_precision_loss, reason = "at most REACH")]
fn blocks_f64(blocks: u64) -> f64 {
    blocks as f64
}
