//! Limits of a store sweep, and the sizes that follow from them and the object.

use std::time::Duration;

use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;

/// Smallest measurable object: each of a few connections needs its own part.
pub const SMALLEST_OBJECT: ByteCount = ByteCount(8 << 20);

/// Bounds of a sweep.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StoreSweepSettings {
    /// Nothing starts after this time, and requests in flight are aborted.
    pub budget: Duration,
    /// Most bytes to request.
    pub bytes: ByteCount,
    /// Size of the object, at least [`SMALLEST_OBJECT`].
    pub object: ByteCount,
    /// Most connections to try, a power of two.
    pub connections_max: u32,
    /// Seed of order and offsets.
    pub seed: u64,
}

impl StoreSweepSettings {
    /// Returns the part size of the climb, unless the store is too slow for it: the default of most
    /// clients, or a 64th of the object.
    pub(super) fn part_max(&self) -> ByteCount {
        let room = self.object.0 / u64::from(self.connections_max);
        ByteCount(PART.0.min(1 << room.max(PART_MIN.0).ilog2()))
    }

    /// Returns the smallest part to try.
    pub(super) fn part_min(&self) -> ByteCount {
        ByteCount((self.part_max().0 >> STEPS_DOWN).max(PART_MIN.0))
    }

    /// Returns the part sizes around that of the climb, in ascending order.
    pub(super) fn parts_around(&self, part: ByteCount) -> Vec<ByteCount> {
        let smallest = ByteCount((part.0 >> STEPS_DOWN).max(PART_MIN.0));
        let sizes = (0..=STEPS_DOWN + STEPS_UP).map(|step| ByteCount(smallest.0 << step));
        sizes.take_while(|size| size.0 <= part.0 << STEPS_UP).collect()
    }

    /// Returns whether all parts in flight fit side by side into the object.
    pub(super) fn has_room_for(&self, in_flight: ByteCount) -> bool {
        in_flight <= self.object
    }

    /// Returns the size of a small read.
    pub(super) fn small_read(&self) -> ByteCount {
        SMALL_READ.min(self.object)
    }

    /// Returns the most requests without retries: all bytes in the smallest parts, and the small
    /// reads.
    pub(super) fn requests(&self) -> u64 {
        self.bytes.0 / self.part_min().0 + REQUESTS_BESIDE
    }

    /// Returns the minimum duration of a point's measurement.
    pub(super) fn window(&self) -> Duration {
        (self.budget / 200).clamp(Duration::from_millis(50), Duration::from_secs(1))
    }

    /// Returns notes on the effect of the object's size.
    pub(super) fn notes(&self) -> Vec<String> {
        if self.part_max() == PART {
            return Vec::new();
        }
        vec![format!(
            "the object has {} bytes, so parts of about {} were tried instead of 8M; give one of \
             512M or more for the whole sweep",
            self.object.0,
            Exact(self.part_max())
        )]
    }
}

/// Default request size of the AWS CLI, s3transfer and Mountpoint.
const PART: ByteCount = ByteCount(8 << 20);

/// Smallest part: in smaller ones, the latency of the first byte dominates.
pub(super) const PART_MIN: ByteCount = ByteCount(64 << 10);

/// Sizes below that of the climb: down to an eighth.
const STEPS_DOWN: u32 = 3;

/// Sizes above that of the climb: up to four times.
const STEPS_UP: u32 = 2;

/// Size of Parquet footers, index blocks and the like.
const SMALL_READ: ByteCount = ByteCount(16 << 10);

/// Small reads, new connections, shortened first parts.
const REQUESTS_BESIDE: u64 = 3000;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(object: u64) -> StoreSweepSettings {
        StoreSweepSettings {
            budget: Duration::from_secs(60),
            bytes: ByteCount(8 << 30),
            object: ByteCount(object),
            connections_max: 64,
            seed: 1,
        }
    }

    #[test]
    fn a_small_object_has_smaller_parts_and_says_so() {
        let sizes = |object: u64| {
            let settings = of(object);
            (settings.part_max().0 >> 10, settings.part_min().0 >> 10, settings.notes().len())
        };
        assert_eq!(sizes(1 << 30), (8192, 1024, 0));
        assert_eq!(sizes(512 << 20), (8192, 1024, 0));
        assert_eq!(sizes((512 << 20) - 1), (4096, 512, 1));
        assert_eq!(sizes(SMALLEST_OBJECT.0), (128, 64, 1));
    }

    #[test]
    fn part_sizes_are_an_eighth_to_four_times() {
        let parts = |kib: u64| -> Vec<u64> {
            let around = of(1 << 30).parts_around(ByteCount(kib << 10));
            around.iter().map(|part| part.0 >> 10).collect()
        };
        assert_eq!(parts(8192), [1024, 2048, 4096, 8192, 16384, 32768]);
        assert_eq!(parts(128), [64, 128, 256, 512]);
    }
}
