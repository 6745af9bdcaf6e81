//! How many requests a device serves at once: told by times when many are there.
//!
//! In:    the time between completions, how many requests were there, their service times.
//! Out:   how many service times end in one.
//! Never: a guess of a cost. Requests of unknown service time are counted and no more.

use super::cost::OUTLIER;
use super::float;

/// A device under load, whichever way its requests go.
#[derive(Clone, Debug)]
pub(super) struct LoadMeter {
    levels: [Level; LEVELS.len()],
    past: Past,
    /// Completions under load whose service time was known, and those where it was not.
    known: f64,
    unknown: f64,
    /// The last that was seen of it.
    parallel: Option<f64>,
    /// The most that it was seen to serve; what it serves, when some were seen to wait.
    most: f64,
    /// Completions under load since any were forgotten.
    since_forgot: u32,
}

/// Times at which so many requests were at the device.
#[derive(Clone, Copy, Debug)]
struct Level {
    ns: f64,
    /// What was done of the requests' service times then.
    work_ns: f64,
    /// How many requests were begun then, as far as that is known.
    count: f64,
}

/// The last gaps that were watched and in which the device was at work, newest last.
///
/// ```text
///   gaps     |--- sealed ---|--- not yet ---|
///   counted  in its level    here            what ends later may have done work in it: if that
///                                            is not seen in time, the gap is not counted at all
/// ```
#[derive(Clone, Debug)]
struct Past {
    gaps: [PastGap; PAST],
    /// How many were ever added; the next one takes the place of the oldest.
    added: usize,
    kept: usize,
    /// How many of those that are kept, the newest ones, are not sealed.
    unsealed: usize,
}

/// Nanoseconds to seven digits: short, as each file that is read has these.
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

    /// How many at once. None until requests were seen to wait in the device.
    pub(super) fn parallel(&self) -> Option<u32> {
        self.parallel.map(whole)
    }

    /// How many at once at least: the most that was seen since requests were last seen to wait.
    pub(super) fn min_parallel(&self) -> u32 {
        whole(self.most)
    }

    /// Whether too many requests have an unknown service time.
    pub(super) fn is_blind(&self) -> bool {
        self.unknown > self.known * UNKNOWN_MAX
    }

    /// What came before is not joined to what comes: what was done in the last gaps stays unknown.
    pub(super) fn break_off(&mut self) {
        (self.past.kept, self.past.unsealed) = (0, 0);
    }

    /// All requests have ended: no more work was done in the last gaps.
    pub(super) fn is_idle(&mut self) {
        self.seal(0);
    }

    /// So many at once were served by a burst. Where some were seen to wait, that is known better:
    /// a burst is of neighbours, which may cost a disk less than what came alone.
    pub(super) fn serves_at_least(&mut self, rate: f64) {
        if self.parallel.is_none() {
            self.most = self.most.max(rate);
        }
    }

    /// A service time is known that was not: what was seen of the load without it was half of it.
    pub(super) fn learnt_size(&mut self) {
        if self.unknown > 0.0 {
            self.forget_levels();
        }
    }

    /// Service times are not what they were: nothing is known.
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
    /// Between two completions requests only come, so as many as there were after the first one
    /// were there all the time. Work counts where it was done, not where it ended: what is half
    /// done when a burst is over would be missing otherwise, and bursts are short. A gap is never
    /// longer than the service time of what ends it, as long as requests wait: what is longer is a
    /// hiccup.
    ///
    /// `is_whole`: it was sent in the gaps that are known, and none of its work was done before.
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
            // It was faster than its kind: the device did that work all the same.
            self.work(back, if is_whole { left_ns } else { 0.0 }, 1);
            self.seal(back);
        }
    }

    /// So much work was done in a gap, so far back, and so many requests begun.
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

    /// All gaps but the newest are counted.
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

    /// Between two gaps: a gap and all that ended it are forgotten to the same part, or a device
    /// that serves many at once, which end together, would look as if it served more.
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

    /// How many service times end in one, while at least so many requests are there?
    ///
    /// ```text
    ///   requests there   1    2    4    8    16   32       a device that serves 8 at once
    ///   end in one       1    2    4    8    8    8
    ///                    no fewer than are there |  fewer: the others wait, and this is the answer
    /// ```
    ///
    /// What is known stays known while the device has less to do. Only more at once than it could
    /// serve, as it was thought, says that it was wrong.
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

    /// 1 is the newest.
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

/// The least number of requests of each level: in quarters of octaves, as one has to see a quarter
/// more than a device can serve before it shows.
const LEVELS: [u32; 22] =
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96];

/// During one service time of a device that serves so many at once, so many gaps end.
const PAST: usize = 64;

/// The same of completions under load: half after 512. They are many, and how much ends in a time
/// is only known to what is half done at its two ends.
const FORGET_LOAD: f64 = 0.001_352_9;

/// So many requests for each one that is served: then the others wait. Less could be an error of
/// the service time.
const WAITS: f64 = 1.25;

/// Fewer completions say nothing of a level.
const LOAD_MIN: f64 = 16.0;

/// And fewer than so many for each that is served at once. Requests that began together end
/// together: what is half done when it is looked at is up to one such round.
const ROUNDS_MIN: f64 = 8.0;

/// So many are enough for any device: of more, half would be forgotten meanwhile.
const LOAD_MAX: f64 = 256.0;

/// How often the levels are looked at, and forgotten in part, in completions.
const FORGET_EVERY: u32 = 16;

/// If more of the completions under load are of sizes that never came alone, what they are worth is
/// not known, nor how many were served at once.
const UNKNOWN_MAX: f64 = 0.1;
