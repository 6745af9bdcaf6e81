//! How many requests a device serves at once, told by how long reads take beside others.
//!
//! In:    how many requests were in flight when a read was sent, and when it came back.
//! Out:   how many are served at once, at least; whether more than that bring nothing; whether the
//!        device has become slower.
//! Never: a need for an idle device. A number that only the lowest load would tell.
//!
//! ```text
//!   in flight    1 |==========|                a device that serves 4 at once
//!                2 |==========|                latency stays: twice as much in the same time
//!                4 |==========|
//!                8 |==========|==========|     latency doubles: no more than with 4
//! ```
//!
//! By Little's law n requests in flight that take L each are n / L a second. So throughput at each
//! depth follows from the latency of single requests, and what doubling the depth brings is known
//! as soon as both were seen: congestion control by delay, for a disk. Design: docs/devices.md.

use super::cost::OUTLIER;
use super::float;
use crate::units::{ByteCount, Nanos};

/// Throughput by the number of requests in flight, for reads of one size.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScalingCurve {
    levels: [ScalingLevel; LEVELS],
    /// Which sizes count: a power of two of pages.
    class: u32,
    /// How many reads of smaller sizes came since one of this.
    others: u32,
    /// How many counted.
    samples: u32,
    known: Option<Scaling>,
    slow: SlowRounds,
}

/// How many requests a device serves at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scaling {
    /// So many at least.
    pub(super) served: f64,
    /// Whether more in flight were seen to bring nothing.
    pub(super) is_limit: bool,
}

/// Reads that were sent when about so many requests were in flight, themselves included.
#[derive(Clone, Copy, Debug)]
struct ScalingLevel {
    count: f64,
    /// Sums over them; the older ones count half, a quarter, and so on.
    in_flight: f64,
    ns: f64,
    /// How many had counted when the last of them came.
    last: u32,
}

/// Counts consecutive rounds of reads that took more than twice the mean latency of reads at their
/// queue depth, or at a larger one.
///
/// ```text
///   in flight  4  4  4  4  4 |4        4        2        2          the device is slower: fewer in
///   latency    |==|==|==|==|==|========|========|========|========| flight take as long
///                             ^1       ^2       ^3       ^4 rounds: what was learnt is forgotten
/// ```
///
/// A device that is never idle tells no cost. One that takes three times as long looks by its old
/// cost as if it served a third as many at once; with a third in flight, a ninth. Rounds and not
/// reads, because one hiccup of a device delays all that are in flight.
#[derive(Clone, Copy, Debug)]
struct SlowRounds {
    /// 0: the last read was not slow.
    count: u32,
    /// Slow reads of greater depths tell nothing: they may wait for each other.
    level: usize,
    /// A read is slow that takes longer.
    limit_ns: f64,
    /// When the last round ended. A read that was sent before belongs to it.
    last: Nanos,
    /// How many were served at once before.
    served: f64,
}

impl ScalingCurve {
    pub(super) const fn new() -> Self {
        let (levels, slow) = ([ScalingLevel::NEW; LEVELS], SlowRounds::NONE);
        Self { levels, class: 0, others: 0, samples: 0, known: None, slow }
    }

    /// How many are served at once; None before more in flight were seen to bring more.
    pub(super) const fn known(&self) -> Option<Scaling> {
        self.known
    }

    /// The device has changed. What it served is where the next estimate begins.
    pub(super) fn forget(&mut self) {
        let known = self.known.map(|known| Scaling { is_limit: false, ..known });
        *self = Self { known, ..Self::new() };
    }

    /// A write is sent, or back: reads beside it take longer, on a device that is what it was.
    pub(super) fn has_written(&mut self) {
        self.slow = SlowRounds::NONE;
    }

    /// A read is back that was one of `in_flight` when it was sent. Returns whether the device has
    /// become slower: what it served before that is where the next estimate begins.
    pub(super) fn add(
        &mut self,
        in_flight: u32,
        bytes: ByteCount,
        (sent, now): (Nanos, Nanos),
    ) -> bool {
        debug_assert!(in_flight > 0, "a read that was sent was in flight");
        let ns = float(now.0.saturating_sub(sent.0));
        let class = bytes.pages_up().0.max(1).ilog2();
        if class != self.class {
            self.others += 1;
            if class < self.class && self.others < OTHERS_MAX {
                return false;
            }
            // What was known of others is a bound for these, too.
            *self = Self { class, known: self.known, ..Self::new() };
        }
        self.others = 0;
        self.samples = self.samples.wrapping_add(1);
        let at = (in_flight.max(1).ilog2() as usize).min(LEVELS - 1);
        let has_slowed = self.has_slowed(at, ns, (sent, now));
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

    /// Counts a read that took longer than others at its depth; returns whether enough of them did.
    fn has_slowed(&mut self, at: usize, ns: f64, (sent, now): (Nanos, Nanos)) -> bool {
        let slow = &mut self.slow;
        if slow.count > 0 {
            if ns <= slow.limit_ns {
                *slow = SlowRounds::NONE;
            } else if at <= slow.level && sent >= slow.last {
                (slow.count, slow.last) = (slow.count + 1, now);
            }
            return slow.count >= SLOW_ROUNDS;
        }
        // One that serves few at once loses little by windows for fewer.
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

    /// Walks up the depths for as long as more in flight bring more.
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
        // Below the least depth that was seen all may have been served at once, or one.
        // No more are served than are there, whatever single latencies say.
        let served = (base.depth() * most / base.rate()).min(deepest);
        let is_lone = base.depth() < LONE_DEPTH;
        self.known = match self.known {
            _ if scales && is_limit => Some(Scaling { served, is_limit }),
            _ if is_lone && is_limit => Some(Scaling { served, is_limit }),
            Some(known) if scales => {
                Some(Scaling { served: known.served.max(served), is_limit: false })
            }
            None if scales => Some(Scaling { served, is_limit }),
            // It serves no more than the least depth that was seen, at which nothing is gained.
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

    /// The mean number of requests in flight.
    fn depth(&self) -> f64 {
        self.in_flight / self.count
    }

    /// Requests in a nanosecond, at this depth.
    fn rate(&self) -> f64 {
        self.in_flight / self.ns.max(1.0)
    }
}

/// 1, 2 to 3, 4 to 7, .. 512 and above.
const LEVELS: usize = 10;

/// Fewer reads say nothing of a depth.
const COUNT_MIN: f64 = 4.0;

/// The last ones at a depth that count: half is forgotten with so many.
const COUNT_MAX: f64 = 32.0;

/// A depth at which none of so many reads was sent is from another time.
const FRESH: u32 = 128;

/// So many reads of smaller sizes in a row, and those are what the device is used for.
const OTHERS_MAX: u32 = 64;

/// The least part of what more requests would bring if all were served at once. Between one that
/// waits (0) and one that does not (1).
const SCALES: f64 = 0.5;

/// So many rounds in a row are no hiccup, which is one. By chance, of a device of which one read in
/// twenty takes twice as long, this happens once in 160,000 reads that go alone, and never beside
/// others: one of those that is not slow ends it.
const SLOW_ROUNDS: u32 = 4;

/// A device that serves so many at once. One head may look like two, where it reads neighbours.
const SEVERAL: f64 = 4.0;

/// Reads that found the device idle, and few others.
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
        curve.add(depth, bytes, (Nanos(0), Nanos(ns)))
    }

    fn known(served: u32, depths: &[u32]) -> Option<Scaling> {
        let mut curve = ScalingCurve::new();
        serve(&mut curve, served, 45_000_000, depths);
        curve.known()
    }

    #[test]
    fn one_depth_tells_nothing() {
        assert_eq!(known(8, &[4]), None);
        assert_eq!(known(1, &[16]), None);
    }

    #[test]
    fn as_long_as_latency_stays_at_least_so_many_are_served() {
        assert_eq!(known(64, &[2, 8]), Some(Scaling { served: 8.0, is_limit: false }));
        assert_eq!(known(64, &[2, 8, 32]), Some(Scaling { served: 32.0, is_limit: false }));
    }

    #[test]
    fn where_latency_grows_as_the_depth_does_the_others_wait() {
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
                let has_slowed = |_| self.0.add(depth, MIB, (sent, Nanos(self.1)));
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
