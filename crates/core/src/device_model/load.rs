//! Parallelism of a device under load, from the time between completions.
//!
//! It counts how many service times end per service time. Requests of unknown cost are only
//! counted.

use super::cost::OUTLIER;
use super::float;

/// Load on a device, both directions together.
#[derive(Clone, Debug)]
pub(super) struct LoadMeter {
    levels: [Level; LEVELS.len()],
    past: Past,
    /// Completions under load with a known service time.
    known: f64,
    /// Completions under load with an unknown service time.
    unknown: f64,
    /// Parallelism when requests were last seen to queue.
    parallel: Option<f64>,
    /// Lower bound: the highest rate observed, or the parallelism when requests were last seen to
    /// queue.
    most: f64,
    /// Completions under load since old ones were last discounted.
    since_forgot: u32,
}

/// Time spent with a given number of requests at the device.
#[derive(Clone, Copy, Debug)]
struct Level {
    ns: f64,
    /// Service time completed meanwhile.
    work_ns: f64,
    /// Requests begun then, if that is known.
    count: f64,
}

/// The latest observed gaps with the device busy, newest last.
///
/// ```text
///   gaps     |--- sealed ---|--- not yet ---|
///   counted  in its level    here            a later completion may have worked in it: if that
///                                            is noticed late, the gap is not counted at all
/// ```
#[derive(Clone, Debug)]
struct Past {
    gaps: [PastGap; PAST],
    /// Gaps ever added; the next one replaces the oldest.
    added: usize,
    kept: usize,
    /// Newest gaps that are not sealed yet.
    unsealed: usize,
}

/// Nanoseconds to seven digits, to save memory: every open file has these.
#[derive(Clone, Copy, Debug)]
struct PastGap {
    ns: f32,
    work_ns: f32,
    count: u16,
    level: u8,
}

impl LoadMeter {
    pub(super) const fn new() -> Self {
        Self {
            levels: [Level::NEW; LEVELS.len()],
            past: Past { gaps: [PastGap::NEW; PAST], added: 0, kept: 0, unsealed: 0 },
            known: 0.0,
            unknown: 0.0,
            parallel: None,
            most: 1.0,
            since_forgot: 0,
        }
    }

    /// Returns the parallelism, or None until requests were seen to queue in the device.
    pub(super) fn parallel(&self) -> Option<u32> {
        self.parallel.map(whole)
    }

    /// Returns a lower bound of the parallelism.
    pub(super) fn min_parallel(&self) -> u32 {
        whole(self.most)
    }

    /// Returns true if the service times of too many requests are unknown.
    pub(super) fn is_blind(&self) -> bool {
        self.unknown > self.known * UNKNOWN_MAX
    }

    /// Separates past from future completions: the work done in the last gaps stays unknown.
    pub(super) fn break_off(&mut self) {
        (self.past.kept, self.past.unsealed) = (0, 0);
    }

    /// Seals all gaps: every request has completed, so no more work belongs to them.
    pub(super) fn is_idle(&mut self) {
        self.seal(0);
    }

    /// Raises the lower bound to the parallelism of a burst. A value from queueing requests is more
    /// reliable: a burst consists of neighbours, which may cost a disk less than lone requests.
    pub(super) fn serves_at_least(&mut self, rate: f64) {
        if self.parallel.is_none() {
            self.most = self.most.max(rate);
        }
    }

    /// Discards the levels when a new service time becomes known: part of the load was missing from
    /// them.
    pub(super) fn learnt_size(&mut self) {
        if self.unknown > 0.0 {
            self.forget_levels();
        }
    }

    /// Discards everything, because the service times have changed.
    pub(super) fn forget_all(&mut self) {
        self.forget_levels();
        (self.parallel, self.most) = (None, 1.0);
    }

    /// Counts the time since the last completion, and the work of this one.
    ///
    /// ```text
    ///   at the device    |8      |7      |6    |5        |4
    ///   gap              |-------|-------|-----|---------|
    ///   this request     . . waited . . |=== service ====|   counts as work in three gaps
    /// ```
    ///
    /// Requests only arrive between two completions, so at least as many as after the first one
    /// were present throughout. Work counts in the gap in which it was done, not where it ended:
    /// bursts are short, and the half-finished work at their end would be missing otherwise. While
    /// requests wait, a gap never exceeds the service time of the request that ends it; a longer
    /// one is a hiccup.
    ///
    /// `is_whole`: the request was sent within the known gaps, so none of its work was done before.
    pub(super) fn count(
        &mut self,
        gap_ns: u64,
        in_flight: u32,
        service_ns: Option<f64>,
        is_whole: bool,
    ) {
        let Some(service_ns) = service_ns else {
            self.unknown += 1.0;
            self.since_forgot += 1;
            return;
        };
        if gap_ns > 0 {
            if self.since_forgot >= FORGET_EVERY {
                self.look_at_parallel();
                self.forget_some();
            }
            let (gap_ns, level) = (float(gap_ns), level_of(in_flight));
            let gap_ns = gap_ns.min(service_ns * OUTLIER);
            if self.past.unsealed == PAST {
                self.seal(PAST - 1);
            }
            self.past.add(gap_ns, level);
        }
        self.since_forgot += 1;
        self.known += 1.0;
        let (mut left_ns, mut back) = (service_ns, 0);
        while left_ns > 0.0 && back < self.past.kept {
            back += 1;
            let part_ns = left_ns.min(f64::from(self.past.back(back).ns));
            left_ns -= part_ns;
            self.work(back, part_ns, 0);
        }
        if back > 0 {
            // It was faster than its class, but the device did the same work.
            self.work(back, if is_whole { left_ns } else { 0.0 }, 1);
            self.seal(back);
        }
    }

    /// Adds work to the gap `back` steps ago, and requests begun in it.
    #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough")]
    fn work(&mut self, back: usize, work_ns: f64, count: u16) {
        let is_sealed = back > self.past.unsealed;
        let gap = self.past.back(back);
        if is_sealed {
            let level = usize::from(gap.level);
            self.levels[level].work_ns += work_ns;
            self.levels[level].count += f64::from(count);
        } else {
            gap.work_ns += work_ns as f32;
            gap.count = gap.count.saturating_add(count);
        }
    }

    /// Moves all but the newest gaps into their levels.
    fn seal(&mut self, newest: usize) {
        while self.past.unsealed > newest {
            let PastGap { ns, work_ns, count, level } = *self.past.back(self.past.unsealed);
            let level = &mut self.levels[usize::from(level)];
            level.ns += f64::from(ns);
            level.work_ns += f64::from(work_ns);
            level.count += f64::from(count);
            self.past.unsealed -= 1;
        }
    }

    fn forget_levels(&mut self) {
        self.levels = [Level::NEW; LEVELS.len()];
        (self.known, self.unknown, self.since_forgot) = (0.0, 0.0, 0);
    }

    /// Discounts old completions. This runs between two gaps: a gap and the completions that end it
    /// must be discounted alike, or a device that completes many requests together would look more
    /// parallel.
    fn forget_some(&mut self) {
        let mut keep = 1.0;
        for _ in 0..self.since_forgot {
            keep *= 1.0 - FORGET_LOAD;
        }
        self.since_forgot = 0;
        self.known *= keep;
        self.unknown *= keep;
        for level in &mut self.levels {
            level.ns *= keep;
            level.work_ns *= keep;
            level.count *= keep;
        }
    }

    /// Computes the service times that end in one service time, for each number of requests
    /// present.
    ///
    /// ```text
    ///   requests there   1    2    4    8    16   32       a device that serves 8 at once
    ///   end in one       1    2    4    8    8    8
    ///                    all are in service      |  fewer: the others wait, and this is the answer
    /// ```
    ///
    /// The value stays while the device has less to do. Only a higher rate than it allows refutes
    /// it.
    fn look_at_parallel(&mut self) {
        if self.is_blind() {
            return;
        }
        let (mut ns, mut work_ns, mut count) = (0.0, 0.0, 0.0);
        let (mut found, mut most): (Option<f64>, f64) = (None, 0.0);
        for (level, there) in self.levels.iter().zip(LEVELS).rev() {
            ns += level.ns;
            work_ns += level.work_ns;
            count += level.count;
            if count < LOAD_MIN || ns <= 0.0 {
                continue;
            }
            let rate = work_ns / ns;
            if count < (rate * ROUNDS_MIN).min(LOAD_MAX) {
                continue;
            }
            most = most.max(rate);
            if f64::from(there) >= rate * WAITS {
                found = Some(rate);
            }
        }
        let is_refuted = self.parallel.is_some_and(|parallel| most > parallel * WAITS);
        self.parallel = found.or(self.parallel.filter(|_| !is_refuted));
        self.most = found.unwrap_or(self.most.max(most));
    }
}
impl Level {
    const NEW: Self = Self { ns: 0.0, work_ns: 0.0, count: 0.0 };
}

impl Past {
    #[expect(clippy::cast_possible_truncation, reason = "few levels, and seven digits are enough")]
    fn add(&mut self, gap_ns: f64, level: usize) {
        let gap = PastGap { ns: gap_ns as f32, level: level as u8, ..PastGap::NEW };
        self.gaps[self.added % PAST] = gap;
        self.added += 1;
        self.kept = (self.kept + 1).min(PAST);
        self.unsealed += 1;
    }

    /// Returns the gap `back` steps ago; 1 is the newest.
    fn back(&mut self, back: usize) -> &mut PastGap {
        &mut self.gaps[(self.added - back) % PAST]
    }
}

impl PastGap {
    const NEW: Self = Self { ns: 0.0, work_ns: 0.0, count: 0, level: 0 };
}

fn level_of(in_flight: u32) -> usize {
    LEVELS.partition_point(|least| *least <= in_flight).saturating_sub(1)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
pub(super) fn whole(rate: f64) -> u32 {
    ((rate + 0.5) as u32).max(1)
}

/// Lower bounds of the levels, in quarters of octaves: queueing shows from a quarter more requests
/// than the device serves.
const LEVELS: [u32; 22] =
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96];

/// Gaps kept. During one service time, as many gaps end as the device serves requests at once.
const PAST: usize = 64;

/// Discount per completion under load: half after 512. They need to be many, since the
/// half-finished work at both ends of a period is an error.
const FORGET_LOAD: f64 = 0.001_352_9;

/// Requests present per request served from which some must be waiting. A smaller excess could be
/// an error of the service time.
const WAITS: f64 = 1.25;

/// Completions needed to evaluate a level.
const LOAD_MIN: f64 = 16.0;

/// Completions needed per request served at once. Requests that began together end together, so the
/// half-finished work can amount to one such round.
const ROUNDS_MIN: f64 = 8.0;

/// Completions that suffice for any device; with more, half would be discounted before they are
/// there.
const LOAD_MAX: f64 = 256.0;

/// Completions between two evaluations of the levels, each with a discount.
const FORGET_EVERY: u32 = 16;

/// Above this share of completions with sizes that never ran alone, the work done is unknown, and
/// with it the parallelism.
const UNKNOWN_MAX: f64 = 0.1;
