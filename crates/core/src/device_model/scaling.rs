//! Parallelism of a device, from the latency of reads at different queue depths.
//!
//! ```text
//!   in flight    1 |==========|                a device that serves 4 at once
//!                2 |==========|                latency is flat: twice the throughput
//!                4 |==========|
//!                8 |==========|==========|     latency doubles: no more throughput than with 4
//! ```
//!
//! By Little's law, n requests in flight with latency L are n / L requests per second. The
//! throughput at each depth therefore follows from the latency of single requests, and the gain of
//! a deeper queue is known once both depths were seen: delay-based congestion control for a disk.
//! Neither an idle device nor a low load is needed. Design: docs/design/devices.md.

use super::cost::OUTLIER;
use super::float;
use crate::units::{ByteCount, Nanos};

/// Throughput by the number of requests in flight, for reads of one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScalingCurve {
    levels: [ScalingLevel; LEVELS],
    /// Size class that counts: a power of two of pages.
    class: u32,
    /// Reads of smaller sizes since the last one of this class.
    others: u32,
    /// Reads that counted.
    samples: u32,
    known: Option<Scaling>,
    slow: SlowRounds,
}

/// Parallelism of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scaling {
    /// Lower bound of the requests served at once.
    pub(super) served: f64,
    /// A deeper queue was seen to gain nothing.
    pub(super) is_limit: bool,
}

/// Reads dispatched at about one queue depth, themselves included.
#[derive(Clone, Copy, Debug)]
struct ScalingLevel {
    count: f64,
    /// Sums over the reads; older ones are halved repeatedly.
    in_flight: f64,
    ns: f64,
    /// Value of `samples` at its last read.
    last: u32,
}

/// Counts consecutive rounds of reads that took more than twice the mean latency at their queue
/// depth or a larger one.
///
/// ```text
///   in flight  4  4  4  4  4 |4        4        2        2          the device is slower: smaller
///   latency    |==|==|==|==|==|========|========|========|========| queues take as long
///                             ^1       ^2       ^3       ^4 rounds: discard the curve
/// ```
///
/// A device that is never idle reveals no cost. If it becomes three times as slow, its old cost
/// makes it look a third as parallel; with a third in flight, a ninth. Rounds are counted instead
/// of reads, because one hiccup delays all requests in flight.
#[derive(Clone, Copy, Debug)]
struct SlowRounds {
    /// 0 if the last read was not slow.
    count: u32,
    /// Reads at a greater depth do not count as slow: they may wait for each other.
    level: usize,
    /// Latency above which a read is slow.
    limit_ns: f64,
    /// End of the last round; reads dispatched before belong to it.
    last: Nanos,
    /// Parallelism before the slowdown.
    served: f64,
}

impl ScalingCurve {
    pub(super) const fn new() -> Self {
        let (levels, slow) = ([ScalingLevel::NEW; LEVELS], SlowRounds::NONE);
        Self { levels, class: 0, others: 0, samples: 0, known: None, slow }
    }

    /// Returns the parallelism, or None before a deeper queue was seen to gain throughput.
    pub(super) const fn known(&self) -> Option<Scaling> {
        self.known
    }

    /// Discards the curve because the device has changed. The estimate restarts from the old
    /// parallelism.
    pub(super) fn forget(&mut self) {
        let known = self.known.map(|known| Scaling { is_limit: false, ..known });
        *self = Self { known, ..Self::new() };
    }

    /// Ends the run of slow rounds when a write is dispatched or completed: reads take longer
    /// beside writes on an unchanged device.
    pub(super) fn has_written(&mut self) {
        self.slow = SlowRounds::NONE;
    }

    /// Adds a completed read that was one of `in_flight` at dispatch. Returns true if the device
    /// has become slower; the estimate then restarts from the old parallelism.
    pub(super) fn add(
        &mut self,
        in_flight: u32,
        bytes: ByteCount,
        sent: Nanos,
        now: Nanos,
    ) -> bool {
        debug_assert!(in_flight > 0, "a read that was sent was in flight");
        let ns = float(now.0.saturating_sub(sent.0));
        let class = bytes.pages_up().0.max(1).ilog2();
        if class != self.class {
            self.others += 1;
            if class < self.class && self.others < OTHERS_MAX {
                return false;
            }
            // The parallelism at the old size is a bound for the new size.
            *self = Self { class, known: self.known, ..Self::new() };
        }
        self.others = 0;
        self.samples = self.samples.wrapping_add(1);
        let at = (in_flight.max(1).ilog2() as usize).min(LEVELS - 1);
        let has_slowed = self.has_slowed(at, ns, sent, now);
        let level = &mut self.levels[at];
        if self.samples.wrapping_sub(level.last) > FRESH {
            *level = ScalingLevel::NEW;
        } else if level.count >= COUNT_MAX {
            level.count /= 2.0;
            level.in_flight /= 2.0;
            level.ns /= 2.0;
        }
        level.count += 1.0;
        level.in_flight += f64::from(in_flight);
        level.ns += ns;
        level.last = self.samples;
        self.look();
        if has_slowed {
            let served = self.slow.served;
            *self = Self { known: Some(Scaling { served, is_limit: false }), ..Self::new() };
        }
        has_slowed
    }

    /// Counts slow rounds. Returns true if enough of them came in a row.
    fn has_slowed(&mut self, at: usize, ns: f64, sent: Nanos, now: Nanos) -> bool {
        let slow = &mut self.slow;
        if slow.count > 0 {
            if ns <= slow.limit_ns {
                *slow = SlowRounds::NONE;
            } else if at <= slow.level && sent >= slow.last {
                (slow.count, slow.last) = (slow.count + 1, now);
            }
            return slow.count >= SLOW_ROUNDS;
        }
        // With little parallelism, a wrong value costs little.
        let Some(Scaling { served, .. }) = self.known.filter(|known| known.served >= SEVERAL)
        else {
            return false;
        };
        let level = &self.levels[at];
        let is_fresh = self.samples.wrapping_sub(level.last) <= FRESH;
        let limit_ns = OUTLIER * level.ns / level.count.max(1.0);
        if is_fresh && level.count >= COUNT_MIN && ns > limit_ns {
            *slow = SlowRounds { count: 1, level: at, limit_ns, last: now, served };
        }
        false
    }

    /// Updates the parallelism: walks up the depths as long as a deeper queue gains throughput.
    fn look(&mut self) {
        let is_told = |level: &&ScalingLevel| {
            level.count >= COUNT_MIN && self.samples.wrapping_sub(level.last) <= FRESH
        };
        let mut told = self.levels.iter().filter(is_told);
        let Some(base) = told.next() else { return };
        let (mut last, mut most, mut is_limit, mut scales) = (base, base.rate(), false, false);
        let mut deepest = base.depth();
        for level in told {
            deepest = deepest.max(level.depth());
            let gain = level.rate() / last.rate() - 1.0;
            let full = level.depth() / last.depth() - 1.0;
            most = most.max(level.rate());
            if gain < full * SCALES {
                is_limit = true;
                break;
            }
            (last, scales) = (level, true);
        }
        // Below the least depth seen, the device may have served all requests at once, or one. It
        // cannot serve more than were in flight, whatever the noise in the latencies.
        let served = (base.depth() * most / base.rate()).min(deepest);
        let is_lone = base.depth() < LONE_DEPTH;
        self.known = match self.known {
            _ if scales && is_limit => Some(Scaling { served, is_limit }),
            _ if is_lone && is_limit => Some(Scaling { served, is_limit }),
            Some(known) if scales => {
                Some(Scaling { served: known.served.max(served), is_limit: false })
            }
            None if scales => Some(Scaling { served, is_limit }),
            // No gain even at the least depth seen, so the parallelism is at most that.
            Some(known) if is_limit => {
                Some(Scaling { served: known.served.min(base.depth()), is_limit: true })
            }
            known => known,
        };
    }
}

impl SlowRounds {
    const NONE: Self = Self { count: 0, level: 0, limit_ns: 0.0, last: Nanos(0), served: 0.0 };
}

impl ScalingLevel {
    const NEW: Self = Self { count: 0.0, in_flight: 0.0, ns: 0.0, last: 0 };

    /// Returns the mean number of requests in flight.
    fn depth(&self) -> f64 {
        self.in_flight / self.count
    }

    /// Returns the throughput at this depth, in requests per nanosecond.
    fn rate(&self) -> f64 {
        self.in_flight / self.ns.max(1.0)
    }
}

/// Depths 1, 2 to 3, 4 to 7, .., 512 and above.
const LEVELS: usize = 10;

/// Reads needed to evaluate a depth.
const COUNT_MIN: f64 = 4.0;

/// Reads at a depth from which the sums are halved.
const COUNT_MAX: f64 = 32.0;

/// A depth without any of this many recent reads is stale.
const FRESH: u32 = 128;

/// Consecutive reads of smaller sizes after which the curve switches to that size.
const OTHERS_MAX: u32 = 64;

/// Least gain of a deeper queue, as a share of the ideal gain: between one request that waits (0)
/// and none (1).
const SCALES: f64 = 0.5;

/// Rounds in a row that mean a slowdown; a single hiccup is one. On a device on which one read in
/// twenty takes twice as long by chance, four in a row happen once in 160,000 lone reads, and never
/// with several in flight, as one normal read ends the run.
const SLOW_ROUNDS: u32 = 4;

/// Parallelism from which slow rounds are counted. One head may look like two when it reads
/// neighbours.
const SEVERAL: f64 = 4.0;

/// Mean depth below which nearly all reads found the device idle.
const LONE_DEPTH: f64 = 1.5;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: ByteCount = ByteCount(1 << 20);

    /// A device that serves so many at once, in `ns` each; reads are sent in rounds of each depth.
    fn serve(curve: &mut ScalingCurve, served: u32, ns: u64, depths: &[u32]) {
        for depth in depths {
            for _ in 0..8 {
                let rounds = u64::from(depth.div_ceil(served));
                assert!(!add(curve, *depth, MIB, ns * rounds), "it is what it was");
            }
        }
    }

    /// A read of which nothing is known but how long it took.
    fn add(curve: &mut ScalingCurve, depth: u32, bytes: ByteCount, ns: u64) -> bool {
        curve.add(depth, bytes, Nanos(0), Nanos(ns))
    }

    fn known(served: u32, depths: &[u32]) -> Option<Scaling> {
        let mut curve = ScalingCurve::new();
        serve(&mut curve, served, 45_000_000, depths);
        curve.known()
    }

    #[test]
    fn a_single_depth_gives_no_estimate() {
        assert_eq!(known(8, &[4]), None);
        assert_eq!(known(1, &[16]), None);
    }

    #[test]
    fn constant_latency_gives_a_lower_bound_of_parallelism() {
        assert_eq!(known(64, &[2, 8]), Some(Scaling { served: 8.0, is_limit: false }));
        assert_eq!(known(64, &[2, 8, 32]), Some(Scaling { served: 32.0, is_limit: false }));
    }

    #[test]
    fn latency_proportional_to_depth_gives_the_parallelism() {
        assert_eq!(known(8, &[2, 4, 8, 16, 32]), Some(Scaling { served: 8.0, is_limit: true }));
        assert_eq!(known(1, &[1, 2, 4]), Some(Scaling { served: 1.0, is_limit: true }));
    }

    #[test]
    fn no_more_are_served_than_were_in_flight() {
        let mut curve = ScalingCurve::new();
        // Reads of caches came faster when many were there.
        serve(&mut curve, 64, 40_000_000, &[2]);
        serve(&mut curve, 64, 1_000_000, &[8]);
        assert_eq!(curve.known(), Some(Scaling { served: 8.0, is_limit: false }));
    }

    #[test]
    fn a_device_that_has_changed_is_known_anew() {
        let mut curve = ScalingCurve::new();
        serve(&mut curve, 8, 1_000_000, &[2, 8, 32]);
        curve.forget();
        assert_eq!(curve.known(), Some(Scaling { served: 8.0, is_limit: false }));
        serve(&mut curve, 32, 1_000_000, &[2, 8, 32, 64]);
        assert_eq!(curve.known(), Some(Scaling { served: 32.0, is_limit: true }));
    }

    #[test]
    fn smaller_reads_do_not_count_unless_there_are_no_others() {
        let mut curve = ScalingCurve::new();
        serve(&mut curve, 8, 1_000_000, &[2, 4, 8, 16]);
        let before = curve.known();
        for _ in 0..OTHERS_MAX - 1 {
            add(&mut curve, 2, ByteCount(4096), 1_000);
        }
        assert_eq!(curve.known(), before);
        for depth in [1, 2, 4] {
            for _ in 0..OTHERS_MAX {
                add(&mut curve, depth, ByteCount(4096), 1_000 * u64::from(depth));
            }
        }
        assert_eq!(curve.known(), Some(Scaling { served: 1.0, is_limit: true }));
    }

    const MS: u64 = 1_000_000;

    /// A curve, and the time.
    struct ReadRounds(ScalingCurve, u64);

    impl ReadRounds {
        /// Of a device that serves eight at once, or one, in 45 ms.
        fn of(served: u32) -> Self {
            let mut rounds = Self(ScalingCurve::new(), 0);
            for depth in [1_u32, 2, 4, 8] {
                let ms = 45 * u64::from(depth.div_ceil(served));
                assert_eq!(rounds.read(depth, ms, 8), None);
            }
            rounds
        }

        /// Rounds of `depth` reads at once, of `ms` each; which of them told that it is slower.
        fn read(&mut self, depth: u32, ms: u64, count: u64) -> Option<u64> {
            let mut told = None;
            for round in 1..=count {
                let sent = Nanos(self.1);
                self.1 += ms * MS;
                let has_slowed = |_| self.0.add(depth, MIB, sent, Nanos(self.1));
                told = told.or((0..depth).any(has_slowed).then_some(round));
            }
            told
        }
    }

    #[test]
    fn after_four_rounds_that_take_twice_as_long_the_device_is_slower() {
        let mut rounds = ReadRounds::of(8);
        assert_eq!(rounds.read(8, 135, 3), None, "it may be a hiccup");
        assert_eq!(rounds.read(8, 45, 1), None, "it was");
        let mut rounds = ReadRounds::of(8);
        let before = rounds.0.known();
        // Windows become smaller meanwhile.
        assert_eq!(rounds.read(8, 135, 2), None);
        assert_eq!(rounds.read(2, 135, 9), Some(2));
        assert_eq!(rounds.0.known(), before, "it serves as many, each for longer");
    }

    #[test]
    fn reads_that_wait_for_more_others_or_beside_writes_are_not_slow() {
        assert_eq!(ReadRounds::of(8).read(16, 135, 9), None);
        let mut rounds = ReadRounds::of(8);
        for _ in 0..9 {
            assert_eq!(rounds.read(8, 135, 1), None);
            rounds.0.has_written();
            // Nor is one that is slow only where it goes alone, as after a rest.
            assert_eq!((rounds.read(1, 135, 1), rounds.read(8, 45, 1)), (None, None));
        }
        assert_eq!(ReadRounds::of(1).read(1, 500, 4), None, "it serves one at once");
    }
}
