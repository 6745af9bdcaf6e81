//! Lower bound of a device's parallelism, from requests that were sent together.
//!
//! ```text
//!   sent together   |== service ==|
//!                   |== service ==| .
//!                   |== service ==|  . . .
//!                   |<------------- T -------->|       at least n x service / T; T ends when
//!                   start           seen back          the driver notices that all are back
//! ```
//!
//! A last completion that is noticed late only lowers the bound.
//!
//! A reader that waits for the first page of a window and then computes notices only the first of
//! its completions in time. For a remote device this bound is therefore all that can be measured.
//! The reader requests the next window when the first request of this one is back, so two bursts
//! overlap:
//!
//! ```text
//!   burst k       |== service ==|
//!                 |== service ==| .
//!   burst k + 1                 |== service ==|      the rest of k may delay it, which only
//!                               |== service ==|      lowers the bound
//! ```

use super::float;
use crate::units::Nanos;

#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// Bursts so far.
    number: u32,
    older: SentTogether,
    /// Began when the first request of the older one was back.
    newer: SentTogether,
    /// Rate of the previous burst. The bound is the lower of two in a row, to rule out chance.
    before: f64,
}

/// Requests of one burst.
#[derive(Clone, Copy, Debug)]
struct SentTogether {
    number: u32,
    start: Nanos,
    count: u32,
    left: u32,
    /// Sum of the service times of the completed requests.
    work_ns: f64,
}

impl Burst {
    pub(super) const fn new() -> Self {
        let none = SentTogether::NONE;
        Self { number: 0, older: none, newer: none, before: 0.0 }
    }

    /// Discards the previous rate, because the costs have changed.
    pub(super) fn forget(&mut self) {
        self.before = 0.0;
    }

    /// Records a dispatch. Returns its burst: one burst ends when its first request completes.
    pub(super) fn dispatched(&mut self, now: Nanos) -> Option<u32> {
        if self.older.left == 0 {
            self.older = core::mem::replace(&mut self.newer, SentTogether::NONE);
        }
        let burst = if self.older.is_open() { &mut self.older } else { &mut self.newer };
        if burst.left == 0 {
            self.number = self.number.wrapping_add(1);
            *burst = SentTogether { number: self.number, start: now, ..SentTogether::NONE };
        } else if !burst.is_open() {
            return None;
        }
        burst.count += 1;
        burst.left += 1;
        Some(burst.number)
    }

    /// Records a completion. When its burst is complete, returns the lower of its rate and the
    /// previous burst's.
    pub(super) fn completed(
        &mut self,
        now: Nanos,
        burst: Option<u32>,
        service_ns: Option<f64>,
    ) -> Option<f64> {
        let number = burst?;
        let bursts = [&mut self.older, &mut self.newer];
        let burst = bursts.into_iter().find(|burst| burst.left > 0 && burst.number == number)?;
        burst.left -= 1;
        burst.work_ns += service_ns.unwrap_or(0.0);
        if burst.left > 0 {
            return None;
        }
        let ns = float(now.0.saturating_sub(burst.start.0)).max(1.0);
        let rate = (burst.work_ns / ns).min(f64::from(burst.count));
        let told = rate.min(self.before);
        self.before = rate;
        Some(told)
    }
}

impl SentTogether {
    const NONE: Self = Self { number: 0, start: Nanos(0), count: 0, left: 0, work_ns: 0.0 };

    /// Returns true if the next request still belongs to it: none of its requests is back.
    fn is_open(&self) -> bool {
        self.left == self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Sends `count` requests at once; returns the number of their burst.
    fn send(burst: &mut Burst, ms: u64, count: u32) -> Option<u32> {
        let numbers: Vec<_> = (0..count).map(|_| burst.dispatched(Nanos(ms * MS))).collect();
        assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
        numbers[0]
    }

    fn back(burst: &mut Burst, ms: u64, number: Option<u32>, count: u32) -> Option<f64> {
        let one = |_| burst.completed(Nanos(ms * MS), number, Some(1e7));
        (0..count).map(one).last().flatten()
    }

    #[test]
    fn two_bursts_in_a_row_give_the_parallelism() {
        let mut burst = Burst::new();
        let first = send(&mut burst, 0, 4);
        assert_eq!(back(&mut burst, 10, first, 4), Some(0.0), "one may be chance");
        let second = send(&mut burst, 20, 4);
        assert_eq!(back(&mut burst, 30, second, 4), Some(4.0));
    }

    /// A reader asks for each window when it enters the one before.
    #[test]
    fn a_burst_that_begins_while_another_ends_counts_as_well() {
        let mut burst = Burst::new();
        let first = send(&mut burst, 0, 4);
        assert_eq!(back(&mut burst, 10, first, 1), None);
        let second = send(&mut burst, 10, 4);
        assert_ne!(first, second);
        assert_eq!(back(&mut burst, 11, first, 3), Some(0.0));
        assert_eq!(back(&mut burst, 20, second, 1), None);
        let third = send(&mut burst, 20, 4);
        // 40 ms of work in 11: the first one, which took a ms longer, says less.
        let told = back(&mut burst, 21, second, 3).unwrap();
        assert!((told - 40.0 / 11.0).abs() < 1e-9, "{told}");
        assert!(back(&mut burst, 31, third, 4).unwrap() > 3.6);
    }

    #[test]
    fn no_burst_overestimates_a_serial_device() {
        let mut burst = Burst::new();
        let mut told: f64 = 0.0;
        let mut earlier = send(&mut burst, 0, 2);
        for round in 1..6 {
            assert_eq!(back(&mut burst, 20 * round - 10, earlier, 1), None);
            let later = send(&mut burst, 20 * round - 10, 2);
            told = told.max(back(&mut burst, 20 * round, earlier, 1).unwrap());
            earlier = later;
        }
        assert!(told <= 1.0, "{told}");
    }

    #[test]
    fn a_request_that_comes_while_two_bursts_end_belongs_to_none() {
        let mut burst = Burst::new();
        let first = send(&mut burst, 0, 2);
        back(&mut burst, 10, first, 1);
        let second = send(&mut burst, 10, 2);
        back(&mut burst, 20, second, 1);
        assert_eq!(burst.dispatched(Nanos(20 * MS)), None);
        // The newer one may end first.
        assert!(back(&mut burst, 21, second, 1).is_some());
        let third = send(&mut burst, 22, 2);
        assert_ne!(third, second);
        assert!(back(&mut burst, 30, first, 1).is_some());
        assert!(back(&mut burst, 32, third, 2).is_some());
    }
}
