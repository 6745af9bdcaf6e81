//! Detects whether sequential requests cost a device less than others: a disk then saves a seek,
//! flash memory does not. The measured times are not used for anything else.
//!
//! ```text
//!   disk    |-- seek, turn --|=|-- seek, turn --|=|=|=|=|      sequential ones: shorter
//!   flash   |- cost -|=|- cost -|=|- cost -|====|                             no shorter
//! ```

use crate::units::Nanos;

/// Mean times of sequential and of other requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeekMeter {
    going_on: MeanTime,
    others: MeanTime,
    /// End of the last request.
    ended: Nanos,
}

/// A weighted mean that favours recent values.
#[derive(Clone, Copy, Debug, Default)]
struct MeanTime {
    ns: u64,
    count: u32,
}

impl SeekMeter {
    /// Records the end of a request that was at the device for `ns`; `is_seen` if the end was
    /// observed on time.
    pub(super) fn ended(&mut self, now: Nanos, ns: u64, goes_on: bool, is_seen: bool) {
        let ns = ns.min(now.0.saturating_sub(self.ended.0));
        self.ended = now;
        if is_seen {
            let mean = if goes_on { &mut self.going_on } else { &mut self.others };
            mean.add(ns);
        }
    }

    /// Returns true if a sequential request takes less than half the time of others. Assumes so
    /// until both have been measured: a sequential request then costs only its transfer.
    pub(super) fn has_arm(&self) -> bool {
        let is_known = self.going_on.count >= COUNT_MIN && self.others.count >= COUNT_MIN;
        !is_known || self.going_on.ns < self.others.ns / 2
    }
}

impl MeanTime {
    fn add(&mut self, ns: u64) {
        self.count = self.count.saturating_add(1);
        let weight = u64::from(self.count.min(WEIGHT_MAX));
        self.ns = self.ns - self.ns / weight + ns / weight;
    }
}

/// Fewer requests are not conclusive.
const COUNT_MIN: u32 = 4;

/// Largest weight of the past: each request contributes at least a sixteenth of the mean.
const WEIGHT_MAX: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the meter of a device with these times of sequential and other requests.
    fn meter(going_on_ns: u64, others_ns: u64) -> SeekMeter {
        let mut meter = SeekMeter::default();
        let mut now = Nanos(0);
        for number in 0..32 {
            let goes_on = number % 3 == 0;
            let ns = if goes_on { going_on_ns } else { others_ns };
            now = Nanos(now.0 + ns);
            meter.ended(now, ns, goes_on, true);
        }
        meter
    }

    #[test]
    fn a_disk_has_an_arm_and_flash_memory_has_none() {
        assert!(meter(1_200_000, 9_000_000).has_arm());
        assert!(!meter(2_000_000, 1_000_000).has_arm());
        assert!(!meter(900_000, 1_000_000).has_arm());
    }

    #[test]
    fn before_both_were_seen_order_is_kept() {
        assert!(SeekMeter::default().has_arm());
        let mut meter = SeekMeter::default();
        (1..9).for_each(|ms| meter.ended(Nanos(ms * 1_000_000), 1_000_000, false, true));
        assert!(meter.has_arm());
    }

    #[test]
    fn the_time_that_a_request_waited_for_others_is_theirs() {
        let mut meter = SeekMeter::default();
        for number in 1..=8 {
            meter.ended(Nanos(number * 1_000), number * 1_000, number % 2 == 0, true);
        }
        assert_eq!((meter.going_on.ns, meter.others.ns), (1_000, 1_000));
    }
}
