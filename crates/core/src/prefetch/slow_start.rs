//! Slow start: the window of a far device that is not known grows fourfold with each round trip.
//!
//! In:    the ends of reads of a device; its largest window so far.
//! Out:   a larger window to try; or the one that latency and throughput come to ([`SlowStartStep`]).
//! Never: a model. That needs eight requests of two sizes that go alone ([`crate::device_model`]).
//!
//! ```text
//!   window    128K |====|                        each round trip tells what the window brings
//!             512K       |=====|
//!               2M              |=======|
//!               8M                       |=======|
//!              32M                                |=======|       no more: bandwidth x latency
//! ```
//!
//! As in congestion control: a round trip ends when a request is back that was sent after the last
//! one ended. Design and figures: docs/devices.md.

use crate::units::{ByteCount, Nanos, PAGE_SIZE, Pages};

/// The first windows of a device of which nothing is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowStart {
    /// When this round trip began; None: none has.
    round: Option<Nanos>,
    /// What came since.
    bytes: u64,
    /// The most bytes a second that a round trip brought, and the least time of one as large.
    best: f64,
    latency_ns: u64,
    /// How many round trips in a row brought no more.
    misses: u8,
    is_over: bool,
}

/// What follows from a round trip.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum SlowStartStep {
    /// This window is tried next.
    Try(Pages),
    /// More bring nothing: the device is this large.
    Settle(Pages),
}

/// A read that has ended, as far as it is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoundTripEnd {
    pub(super) now: Nanos,
    /// How long it was at the device.
    pub(super) ns: u64,
    pub(super) bytes: ByteCount,
    /// The largest window now.
    pub(super) window: Pages,
}

impl SlowStart {
    pub(super) const fn new() -> Self {
        Self { round: None, bytes: 0, best: 0.0, latency_ns: 0, misses: 0, is_over: false }
    }

    /// Of a device that is known.
    pub(super) const fn over() -> Self {
        Self { is_over: true, ..Self::new() }
    }

    /// Whether larger windows were of use, and still larger ones are tried.
    pub(super) fn is_growing(&self) -> bool {
        !self.is_over && self.best > 0.0
    }

    /// A read has ended.
    ///
    /// ```text
    ///   the device answers within a millisecond     learnt as it is: slow start is over
    ///   less came than half of a window             its readers do not want more: nothing is told
    ///   a quarter more a second than ever           a window four times as large
    ///   not so, three times in a row                bandwidth x latency, and over
    /// ```
    pub(super) fn ended(&mut self, end: RoundTripEnd) -> Option<SlowStartStep> {
        let RoundTripEnd { now, ns, bytes, window } = end;
        if self.is_over {
            return None;
        }
        let sent = Nanos(now.0.saturating_sub(ns));
        let round = *self.round.get_or_insert(sent);
        self.bytes += bytes.0;
        if sent < round {
            return None;
        }
        if ns < NEAR_NS {
            *self = Self::over();
            return None;
        }
        let (came, took_ns) = (self.bytes, now.0.saturating_sub(round.0));
        let is_enough = came * 2 >= window.bytes().0;
        if !is_enough && took_ns <= ns.saturating_mul(LATE) {
            // Others of the same window are still to come: they are not all as fast.
            return None;
        }
        (self.bytes, self.round) = (0, Some(now));
        if !is_enough {
            return None;
        }
        let rate = float(came) / float(took_ns.max(1));
        if rate >= self.best * GAIN {
            (self.best, self.latency_ns, self.misses) = (rate, ns, 0);
            return Some(SlowStartStep::Try(Pages(window.0.saturating_mul(FACTOR))));
        }
        self.misses += 1;
        if rate > self.best {
            (self.best, self.latency_ns) = (rate, ns);
        }
        if self.misses < MISSES_MAX {
            return None;
        }
        self.is_over = true;
        Some(SlowStartStep::Settle(self.in_flight()))
    }

    /// Bandwidth x latency, in pages.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some megabytes")]
    fn in_flight(&self) -> Pages {
        let bytes = self.best * float(self.latency_ns);
        Pages((bytes as u64).div_ceil(PAGE_SIZE).max(1))
    }
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds and bytes, 53 bits are enough")]
fn float(number: u64) -> f64 {
    number as f64
}

/// What answers within a millisecond is learnt in eight, one request at a time.
const NEAR_NS: u64 = 1_000_000;

/// Each window is so many times as large as the one before. Streams that begin grow as fast.
const FACTOR: u64 = 4;

/// Four times as much in flight that brings less than a quarter more brings nothing, as in the
/// startup of BBR.
const GAIN: f64 = 1.25;

/// In so many latencies all requests of a window are back, or its readers do not want more.
const LATE: u64 = 4;

/// One round trip may be late, and the one after a larger window was asked for has the old one.
const MISSES_MAX: u8 = 3;

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const MS: u64 = 1_000_000;

    /// A device that takes so long for a round trip, and moves so many pages in a ms.
    struct FarDevice {
        latency_ms: u64,
        pages_per_ms: u64,
        most: Pages,
    }

    impl FarDevice {
        /// One window after the other, in requests of 1 MiB that are sent together; the windows
        /// that were tried, and the last one.
        fn windows(&self) -> (Vec<u64>, Option<Pages>) {
            let (mut start, mut now, mut window) = (SlowStart::new(), 0, Pages(32));
            let (mut tried, mut settled) = (Vec::new(), None);
            for _ in 0..20 {
                let sent = now;
                let mut left = window;
                while left > Pages::ZERO {
                    let part = left.min(Pages(256));
                    left = left - part;
                    let before = (window - left).0;
                    now = sent + self.latency_ms * MS + before * MS / self.pages_per_ms;
                    let (ns, bytes) = (now - sent, part.bytes());
                    match start.ended(RoundTripEnd { now: Nanos(now), ns, bytes, window }) {
                        None => {}
                        Some(SlowStartStep::Try(next)) => {
                            window = next.min(self.most);
                            tried.push(window.0);
                        }
                        Some(SlowStartStep::Settle(last)) => settled = Some(last),
                    }
                }
            }
            (tried, settled)
        }
    }

    #[test]
    fn windows_of_a_far_device_grow_fourfold_until_more_bring_nothing() {
        let device = FarDevice { latency_ms: 20, pages_per_ms: 256, most: Pages(1 << 18) };
        let (tried, settled) = device.windows();
        assert_eq!(tried[..4], [128, 512, 2048, 8192]);
        // 20 ms of 256 pages, and what waits behind others in so large a window.
        let settled = settled.expect("more bring nothing").0;
        assert!((5000..40_000).contains(&settled), "{settled} of {tried:?}");
    }

    #[test]
    fn a_window_that_memory_bounds_settles_all_the_same() {
        let device = FarDevice { latency_ms: 20, pages_per_ms: 256, most: Pages(2048) };
        let (tried, settled) = device.windows();
        assert!(tried.iter().all(|window| *window <= 2048), "{tried:?}");
        assert!(settled.is_some());
    }

    #[test]
    fn a_device_in_this_machine_has_no_slow_start() {
        let mut start = SlowStart::new();
        let end = |now| RoundTripEnd {
            now: Nanos(now),
            ns: MS / 2,
            bytes: ByteCount(128 << 10),
            window: Pages(32),
        };
        for turn in 1..100 {
            assert_eq!(start.ended(end(turn * MS)), None);
        }
        assert!(!start.is_growing());
    }

    #[test]
    fn a_reader_that_wants_less_than_a_window_tells_nothing() {
        let mut start = SlowStart::new();
        for turn in 1..100 {
            let (now, bytes) = (Nanos(turn * 100 * MS), ByteCount(32 << 10));
            let end = RoundTripEnd { now, ns: 20 * MS, bytes, window: Pages(32) };
            assert_eq!(start.ended(end), None);
        }
    }
}
