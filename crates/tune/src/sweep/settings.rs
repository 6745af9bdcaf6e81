//! How much time a sweep has, and what it may try.
//!
//! In:    the size of the device; full or quick.
//! Out:   [`SweepSettings`], and the times that follow from them.
//! Never: a measurement.

use std::time::Duration;

use foreread_core::units::ByteCount;

/// The bounds of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepSettings {
    /// It never takes longer.
    pub budget: Duration,
    /// It begins nothing more after this.
    pub aim: Duration,
    /// Every second window first, then those around the plateau.
    pub is_quick: bool,
    /// The size of the device, or of what may be read of it.
    pub size: ByteCount,
    /// The smallest window.
    pub smallest: ByteCount,
    /// The largest window.
    pub largest: ByteCount,
    /// The window in force: it is measured beside the others, whatever its size, so that nothing
    /// worse takes its place.
    pub now: Option<ByteCount>,
    /// The order within a round follows from it.
    pub seed: u64,
}

impl SweepSettings {
    /// A minute at most.
    #[must_use]
    pub fn full(size: ByteCount) -> Self {
        Self::within(size, Duration::from_secs(60))
    }

    /// A quarter of a minute at most.
    #[must_use]
    pub fn quick(size: ByteCount) -> Self {
        Self::within(size, Duration::from_secs(15))
    }

    /// So much at most; what would be short for all windows is done as [`SweepSettings::quick`]
    /// does.
    #[must_use]
    pub fn within(size: ByteCount, budget: Duration) -> Self {
        let is_quick = budget <= Duration::from_secs(20);
        // What has begun shall end within the budget.
        let aim = budget.mul_f64(if is_quick { 5.0 / 6.0 } else { 13.0 / 15.0 });
        // A stream needs two windows to get going and some more to be measured; of a device with
        // room for fewer, most would be read twice in one step.
        let fits = ByteCount(size.0 / STREAM_WINDOWS).0.max(SMALLEST.0).ilog2();
        let largest = ByteCount(LARGEST.0.min(1 << fits));
        Self { budget, aim, is_quick, size, smallest: SMALLEST, largest, now: None, seed: 1 }
    }

    /// Measures the window in force, too. Off (0) and less than a page are one page.
    #[must_use]
    pub fn beside(self, now_kib: Option<u64>) -> Self {
        let now = now_kib.map(|kib| ByteCount(kib.saturating_mul(1024)).max(self.smallest));
        Self { now, ..self }
    }

    /// Whether a stream with this window is long enough to be measured on this device.
    pub(super) fn fits(&self, window: ByteCount) -> bool {
        window <= self.largest || window.0 <= self.size.0 / STREAM_WINDOWS
    }

    /// How long one step of the largest window may take.
    pub(super) fn step_ns(&self) -> f64 {
        self.aim.as_nanos() as f64 * STEP_SHARE
    }

    /// How long the look at the largest window takes: longer than credit usually lasts, if there is
    /// time for that.
    pub(super) fn look(&self) -> Duration {
        let (most, share) = if self.is_quick { (3_500, 0.28) } else { (7_500, 0.15) };
        self.aim.mul_f64(share).min(Duration::from_millis(most))
    }

    /// How long random reads may take in all.
    pub(super) fn random(&self) -> Duration {
        self.aim / 9
    }
}

/// A stream has room for so many of the largest windows.
const STREAM_WINDOWS: u64 = 16;

/// One page: no read-ahead at all.
const SMALLEST: ByteCount = ByteCount(4 << 10);

/// What no published sweep and no device of ours gained from any more.
const LARGEST: ByteCount = ByteCount(16 << 20);

/// Some forty steps of the largest window have to fit: it is what all others are compared with.
const STEP_SHARE: f64 = 1.0 / 42.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_window_is_small_beside_the_device() {
        let of = |size| SweepSettings::full(ByteCount(size)).largest.0;
        assert_eq!(of(505 << 10), 16 << 10);
        assert_eq!(of(64_000_000), 2 << 20);
        assert_eq!(of(1 << 40), 16 << 20);
        assert_eq!(of(0), 4 << 10);
    }
}
