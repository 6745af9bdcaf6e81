//! Limits of a sweep, and the durations that follow from them.

use std::time::Duration;

use foreread_core::units::ByteCount;

/// Bounds of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepSettings {
    /// Hard time limit.
    pub budget: Duration,
    /// No step begins after this time.
    pub aim: Duration,
    /// Tries every second window first, then those around the plateau.
    pub is_quick: bool,
    /// Size of the device, or of its readable part.
    pub size: ByteCount,
    /// Smallest window.
    pub smallest: ByteCount,
    /// Largest window.
    pub largest: ByteCount,
    /// Window in force. It is always measured, whatever its size, so that nothing slower replaces
    /// it.
    pub now: Option<ByteCount>,
    /// Seed for the order within a round.
    pub seed: u64,
}

impl SweepSettings {
    /// Creates settings for at most a minute.
    #[must_use]
    pub fn full(size: ByteCount) -> Self {
        Self::within(size, Duration::from_secs(60))
    }

    /// Creates settings for at most a quarter of a minute.
    #[must_use]
    pub fn quick(size: ByteCount) -> Self {
        Self::within(size, Duration::from_secs(15))
    }

    /// Creates settings for this time limit; a short one works like [`SweepSettings::quick`].
    #[must_use]
    pub fn within(size: ByteCount, budget: Duration) -> Self {
        let is_quick = budget <= Duration::from_secs(20);
        // A step that has begun has to end within the budget.
        let aim = budget.mul_f64(if is_quick { 5.0 / 6.0 } else { 13.0 / 15.0 });
        // A stream needs two windows to ramp up and some more for the measurement. On a device too
        // small for them, one step would repeat most ranges.
        let fits = ByteCount(size.0 / STREAM_WINDOWS).0.max(SMALLEST.0).ilog2();
        let largest = ByteCount(LARGEST.0.min(1 << fits));
        Self { budget, aim, is_quick, size, smallest: SMALLEST, largest, now: None, seed: 1 }
    }

    /// Adds the window in force. 0 and less than a page count as one page.
    #[must_use]
    pub fn beside(self, now_kib: Option<u64>) -> Self {
        let now = now_kib.map(|kib| ByteCount(kib.saturating_mul(1024)).max(self.smallest));
        Self { now, ..self }
    }

    /// Returns whether a stream with this window is long enough to be measured on this device.
    pub(super) fn fits(&self, window: ByteCount) -> bool {
        window <= self.largest || window.0 <= self.size.0 / STREAM_WINDOWS
    }

    /// Returns the time limit for one step of the largest window.
    pub(super) fn step_ns(&self) -> f64 {
        self.aim.as_nanos() as f64 * STEP_SHARE
    }

    /// Returns the duration of the burst test with the largest window: longer than credit usually
    /// lasts, if the budget allows.
    pub(super) fn look(&self) -> Duration {
        let (most, share) = if self.is_quick { (3_500, 0.28) } else { (7_500, 0.15) };
        self.aim.mul_f64(share).min(Duration::from_millis(most))
    }

    /// Returns the total time for random reads.
    pub(super) fn random(&self) -> Duration {
        self.aim / 9
    }
}

/// Windows of the largest size that a stream needs.
const STREAM_WINDOWS: u64 = 16;

/// One page: no read-ahead at all.
const SMALLEST: ByteCount = ByteCount(4 << 10);

/// Largest window; no device in published sweeps or in our tests gained from more.
const LARGEST: ByteCount = ByteCount(16 << 20);

/// About forty steps of the largest window have to fit, because it is the reference for all others.
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
