//! Cost models by name, and random sets of byte ranges, for the planner's tests.

use std::ops::Range;

use foreread_core::ranges::{CostModel, RequestLimits};

use crate::random::Random;

const US: u64 = 1000;
const MS: u64 = 1_000_000;
const MB: u64 = 1_000_000;

pub(super) const ONE_HEAD: CostModel = CostModel {
    latency_ns: 4 * MS,
    connection_bytes_per_s: 100 * MB,
    total_bytes_per_s: 100 * MB,
    parallel: 1,
};
pub(super) const EIGHT_AT_ONCE: CostModel = CostModel {
    latency_ns: MS,
    connection_bytes_per_s: 1000 * MB,
    total_bytes_per_s: 1000 * MB,
    parallel: 8,
};
pub(super) const STORE: CostModel = CostModel {
    latency_ns: 20 * MS,
    connection_bytes_per_s: 80 * MB,
    total_bytes_per_s: 64 * 80 * MB,
    parallel: 64,
};
pub(super) const NVME: CostModel = CostModel {
    latency_ns: 80 * US,
    connection_bytes_per_s: 3000 * MB,
    total_bytes_per_s: 3000 * MB,
    parallel: 32,
};

pub(super) const DEVICES: [(&str, CostModel); 4] = [
    ("one head: 4 ms, 100 MB/s", ONE_HEAD),
    ("8 at once: 1 ms, 1 GB/s", EIGHT_AT_ONCE),
    ("store: 20 ms, 64 x 80 MB/s", STORE),
    ("NVMe: 80 us, 3 GB/s, 32 deep", NVME),
];

/// Few connections for many ranges, with and without a common bandwidth limit.
pub(super) const FEW_AT_ONCE: [CostModel; 5] = [
    CostModel { parallel: 2, ..ONE_HEAD },
    CostModel { parallel: 3, total_bytes_per_s: 300 * MB, ..ONE_HEAD },
    CostModel { parallel: 4, total_bytes_per_s: 320 * MB, ..STORE },
    CostModel { parallel: 6, total_bytes_per_s: 240 * MB, ..STORE },
    CostModel { connection_bytes_per_s: 125 * MB, ..EIGHT_AT_ONCE },
];

pub(super) const LIMITS: RequestLimits =
    RequestLimits { align: 4096, largest: 64 << 20, budget: 1 << 30 };

impl Random {
    /// Each power of two below 2^`bits` is equally likely.
    fn size(&mut self, bits: u64) -> u64 {
        let octave = self.below(bits);
        (1 << octave) + self.below(1 << octave)
    }

    /// Returns `count` ranges in random order: sizes up to between 8 KiB and 8 MiB, gaps up to
    /// between 4 KiB and 32 MiB. One in eight overlaps or touches the previous one.
    pub(super) fn ranges(&mut self, count: u64) -> Vec<Range<u64>> {
        let (size_bits, gap_bits) = (13 + self.below(11), 12 + self.below(14));
        let mut end = self.size(30);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for _ in 0..count {
            let start = match self.below(8) {
                0 => end - self.below(end.min(8192)),
                _ => end + self.size(gap_bits),
            };
            let range = start..start + self.size(size_bits);
            end = end.max(range.end);
            ranges.push(range);
        }
        for i in (1..ranges.len()).rev() {
            let other = usize::try_from(self.below(i as u64 + 1)).unwrap();
            ranges.swap(i, other);
        }
        ranges
    }

    /// One to twelve ranges.
    pub(super) fn few_ranges(&mut self) -> Vec<Range<u64>> {
        let count = 1 + self.below(12);
        self.ranges(count)
    }
}
