//! What a device is like, as far as its completions tell: the cost of a request, the cost of its
//! bytes, and how many requests it serves at once.
//!
//! In:    when requests went to the device and came back, how large they were, how many were there.
//! Out:   a [`Fit`], or None before there is enough to tell.
//! Never: a request of its own, a decision. A guess where the requests tell nothing: what they
//!        cannot tell is None.
//!
//! Design, what can be told from what, and how right it is: docs/devices.md.

use crate::units::{Bytes, Instant};

/// What a device is like. A request of n bytes takes `per_request_ns + n / 1024 x per_kib_ns`, once
/// the device has begun with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// What each request costs, whatever its size, in nanoseconds; if `per_kib_ns` is None, what a
    /// request of the sizes seen costs with its bytes.
    pub per_request_ns: f64,
    /// What 1024 bytes cost, in nanoseconds. None as long as all requests were of about one size.
    pub per_kib_ns: Option<f64>,
    /// How many requests it serves at once. None as long as it was never seen with more requests
    /// than it could serve.
    pub parallel: Option<u32>,
    /// How many requests told the cost, since the device was first seen or last changed.
    pub samples: u64,
}

/// The fit of one device in one direction, as it grows.
///
/// ```text
///   lone request     |--service--|                 service = a + b x bytes: told by requests that
///                                                  find the device idle
///   many requests    |--service--|
///                    |--service--|--service--|     served while requests wait: service times
///                      (waits)   |--service--|     completed per time = how many at once
/// ```
#[derive(Clone, Debug)]
pub struct DeviceFit {
    classes: [Class; CLASSES],
    /// Through the classes as they are.
    line: Option<Line>,
    levels: [Level; LEVELS.len()],
    gap: Gap,
    past: Past,
    samples: u64,
    /// How many outliers came in a row: above if positive, below if negative.
    run: i32,
    /// Completions under load whose service time was known, and those where it was not.
    known: f64,
    unknown: f64,
    /// The last that was seen of it.
    parallel: Option<f64>,
    /// Completions under load since any were forgotten.
    since_forgot: u32,
}

/// A request on its way: what the fit wants to know when it comes back.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    at: Instant,
    found_idle: bool,
    watch: Option<u64>,
}

/// Whether somebody waits for devices, so that completions are seen when they happen.
///
/// ```text
///   reader      |---waits---|           (works)          |---waits---|
///   completions      x   x                  x . . . . . .x      x
///                    seen at once           seen when the next one waits: tells no time
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    waiting: u32,
    serial: u64,
}

/// Requests of about one size that found the device idle.
#[derive(Clone, Copy, Debug)]
struct Class {
    count: u64,
    /// Means over the last ones.
    bytes: f64,
    ns: f64,
    /// How many of the last requests of all sizes they are, the newest counting most.
    weight: f64,
    /// How many outliers of it came in a row.
    run: i32,
}

/// What a request costs.
#[derive(Clone, Copy, Debug)]
struct Line {
    start_ns: f64,
    /// None if all were of about one size: `start_ns` is with the bytes then.
    per_byte_ns: Option<f64>,
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

/// The time since the last completion.
#[derive(Clone, Copy, Debug)]
struct Gap {
    start: Instant,
    /// How many requests were there as it began.
    in_flight: u32,
    watch: Option<u64>,
}

/// The last gaps in which somebody watched and the device was at work, newest last.
#[derive(Clone, Debug)]
struct Past {
    /// Nanoseconds, to seven digits: short, as each file that is read has this.
    gaps_ns: [f32; PAST],
    levels: [u8; PAST],
    /// How many were ever added; the next one takes the place of the oldest.
    added: usize,
    kept: usize,
}

impl DeviceFit {
    /// Of a device that nobody has used yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            classes: [Class::NEW; CLASSES],
            line: None,
            levels: [Level::NEW; LEVELS.len()],
            gap: Gap { start: Instant(0), in_flight: 0, watch: None },
            past: Past { gaps_ns: [0.0; PAST], levels: [0; PAST], added: 0, kept: 0 },
            samples: 0,
            run: 0,
            known: 0.0,
            unknown: 0.0,
            parallel: None,
            since_forgot: 0,
        }
    }

    /// A request goes to the device, where `in_flight` others are. `watch` is [`Watch::now`].
    #[must_use]
    pub fn dispatched(&mut self, now: Instant, in_flight: u32, watch: Option<u64>) -> Sent {
        let found_idle = in_flight == 0;
        if found_idle || watch != self.gap.watch {
            self.gap = Gap { start: now, in_flight: in_flight + 1, watch };
            self.past.kept = 0;
        } else if now == self.gap.start {
            self.gap.in_flight = in_flight + 1;
        }
        Sent { at: now, found_idle, watch }
    }

    /// It is back, with so many bytes, or None if it failed. `in_flight` counts it and the others.
    pub fn completed(
        &mut self,
        now: Instant,
        sent: Sent,
        came: Option<Bytes>,
        in_flight: u32,
        watch: Option<u64>,
    ) {
        assert!(in_flight > 0, "what comes back was there");
        let was_watched = watch.is_some() && watch == sent.watch;
        let came = came.filter(|bytes| *bytes > Bytes::ZERO);
        if !was_watched || watch != self.gap.watch {
            self.past.kept = 0;
        } else if let Some(bytes) = came {
            self.count_load(now, bytes);
        }
        self.gap = Gap { start: now, in_flight: in_flight - 1, watch };
        if let Some(bytes) = came.filter(|_| was_watched && sent.found_idle) {
            self.learn(bytes, now.0.saturating_sub(sent.at.0));
        }
    }

    /// What is known of the device. None before eight requests have found it idle.
    #[must_use]
    pub fn fit(&self) -> Option<Fit> {
        if self.samples < SAMPLES_MIN {
            return None;
        }
        let Line { start_ns: per_request_ns, per_byte_ns } = self.line?;
        let per_kib_ns = per_byte_ns.map(|ns| ns * 1024.0);
        let parallel = self.parallel.map(whole);
        Some(Fit { per_request_ns, per_kib_ns, parallel, samples: self.samples })
    }

    /// A request that found the device idle took so long.
    ///
    /// ```text
    ///   within a factor of 2 of its class     counts as it is
    ///   outside                               counts as the factor: a hiccup
    ///   the eighth in a row on one side,
    ///     of all sizes                        the device has changed: all is forgotten
    ///     of this class                       it has changed for these, or the class began with a
    ///                                         hiccup: the class is forgotten, and what load told
    /// ```
    fn learn(&mut self, bytes: Bytes, ns: u64) {
        let mut ns = float(ns);
        let at = class_of(bytes);
        if self.classes[at].count >= COUNT_MIN {
            let (low, high) = (self.classes[at].ns / OUTLIER, self.classes[at].ns * OUTLIER);
            let side = i32::from(ns > high) - i32::from(ns < low);
            let class = &mut self.classes[at];
            (self.run, class.run) = (longer(self.run, side), longer(class.run, side));
            if self.run.abs() >= RUN {
                *self = Self { gap: self.gap, ..Self::new() };
            } else if class.run.abs() >= RUN {
                *class = Class::NEW;
                self.forget_all_load();
                self.parallel = None;
            } else {
                ns = ns.clamp(low, high);
            }
        }
        self.samples += 1;
        for class in &mut self.classes {
            class.weight *= 1.0 - FORGET;
        }
        let class = &mut self.classes[at];
        class.count += 1;
        class.weight += 1.0;
        let rate = 1.0 / class.weight.max(float(class.count.min(RARE)));
        class.ns += (ns - class.ns) * rate;
        class.bytes += (float(bytes.0) - class.bytes) * rate;
        if class.count == COUNT_MIN && self.unknown > 0.0 {
            // What was seen of the load without these sizes was half of it.
            self.forget_all_load();
        }
        self.line = self.line();
    }

    /// The line through the classes.
    ///
    /// Each class weighs by its samples and by the inverse square of its time, so that errors count
    /// as parts of what they are errors of: noise of a tenth on 1 MiB is more than all of 4 KiB.
    fn line(&self) -> Option<Line> {
        let (mut all, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let (mut smallest, mut largest) = (f64::MAX, 0.0_f64);
        for Class { count, bytes, ns, weight, .. } in &self.classes {
            if *count < COUNT_MIN || *weight < WEIGHT_MIN {
                continue;
            }
            let weight = weight / (ns * ns).max(1.0);
            all += weight;
            x += weight * bytes;
            y += weight * ns;
            xx += weight * bytes * bytes;
            xy += weight * bytes * ns;
            (smallest, largest) = (smallest.min(*bytes), largest.max(*bytes));
        }
        if all <= 0.0 {
            return None;
        }
        if largest < smallest * SPREAD_MIN {
            return Some(Line { start_ns: y / all, per_byte_ns: None });
        }
        let slope = ((xy - x * y / all) / (xx - x * x / all)).max(0.0);
        let start_ns = (y - slope * x) / all;
        if start_ns >= 0.0 {
            return Some(Line { start_ns, per_byte_ns: Some(slope) });
        }
        // Nothing costs less than nothing: then the line goes through the origin.
        Some(Line { start_ns: 0.0, per_byte_ns: Some(xy / xx) })
    }

    /// The service time of a request of this size.
    fn service_ns(&self, bytes: Bytes) -> Option<f64> {
        let class = &self.classes[class_of(bytes)];
        let slope = self.line.and_then(|line| line.per_byte_ns);
        match (self.line, slope) {
            (Some(Line { start_ns, .. }), Some(slope)) if class.count < COUNT_MIN => {
                Some(start_ns + slope * float(bytes.0))
            }
            _ if class.count < COUNT_MIN => None,
            // Its class knows it better than the line, which the device need not follow.
            _ => Some((class.ns + slope.unwrap_or(0.0) * (float(bytes.0) - class.bytes)).max(0.0)),
        }
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
    fn count_load(&mut self, now: Instant, bytes: Bytes) {
        let Some(service_ns) = self.service_ns(bytes) else {
            self.unknown += 1.0;
            self.since_forgot += 1;
            return;
        };
        let gap_ns = now.0.saturating_sub(self.gap.start.0);
        if gap_ns > 0 {
            if self.since_forgot >= FORGET_EVERY {
                self.look_at_parallel();
                self.forget_load();
            }
            let (gap_ns, level) = (float(gap_ns), level_of(self.gap.in_flight));
            let gap_ns = gap_ns.min(service_ns * OUTLIER);
            self.levels[level].ns += gap_ns;
            self.past.add(gap_ns, level);
        }
        self.since_forgot += 1;
        self.known += 1.0;
        let mut left_ns = service_ns;
        let mut last = None;
        for (gap_ns, level) in self.past.newest_first() {
            let part_ns = left_ns.min(gap_ns);
            self.levels[level].work_ns += part_ns;
            left_ns -= part_ns;
            last = Some(level);
            if left_ns <= 0.0 {
                break;
            }
        }
        if let Some(level) = last {
            // It was faster than its kind: the device did that work all the same.
            self.levels[level].work_ns += left_ns;
            self.levels[level].count += 1.0;
        }
    }

    fn forget_all_load(&mut self) {
        self.levels = [Level::NEW; LEVELS.len()];
        (self.known, self.unknown, self.since_forgot) = (0.0, 0.0, 0);
    }

    /// Between two gaps: a gap and all that ended it are forgotten to the same part, or a device
    /// that serves many at once, which end together, would look as if it served more.
    fn forget_load(&mut self) {
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
        if self.unknown > self.known * UNKNOWN_MAX {
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
            most = most.max(rate);
            if f64::from(there) >= rate * WAITS {
                found = Some(rate);
            }
        }
        let is_refuted = self.parallel.is_some_and(|parallel| most > parallel * WAITS);
        self.parallel = found.or(self.parallel.filter(|_| !is_refuted));
    }
}

impl Class {
    const NEW: Self = Self { count: 0, bytes: 0.0, ns: 0.0, weight: 0.0, run: 0 };
}

impl Level {
    const NEW: Self = Self { ns: 0.0, work_ns: 0.0, count: 0.0 };
}

impl Past {
    #[expect(clippy::cast_possible_truncation, reason = "few levels, and seven digits are enough")]
    fn add(&mut self, gap_ns: f64, level: usize) {
        let at = self.added % PAST;
        (self.gaps_ns[at], self.levels[at]) = (gap_ns as f32, level as u8);
        self.added += 1;
        self.kept = (self.kept + 1).min(PAST);
    }

    fn newest_first(&self) -> impl Iterator<Item = (f64, usize)> {
        (1..=self.kept).map(|back| {
            let at = (self.added - back) % PAST;
            (f64::from(self.gaps_ns[at]), usize::from(self.levels[at]))
        })
    }
}

impl Default for DeviceFit {
    fn default() -> Self {
        Self::new()
    }
}

impl Watch {
    /// A read begins to wait.
    pub fn begin(&mut self) {
        self.serial += u64::from(self.waiting == 0);
        self.waiting += 1;
    }

    /// A read waits no more.
    pub fn end(&mut self) {
        assert!(self.waiting > 0, "what ends has begun");
        self.waiting -= 1;
    }

    /// Which watch this is; None while nobody waits. The same number at two times: somebody waited
    /// all the time between.
    #[must_use]
    pub fn now(&self) -> Option<u64> {
        (self.waiting > 0).then_some(self.serial)
    }
}

/// A run of outliers with one more: above if `side` is 1, below if -1; 0 ends it.
fn longer(run: i32, side: i32) -> i32 {
    if side * run > 0 { run + side } else { side }
}

/// Each power of two of pages has its own.
fn class_of(bytes: Bytes) -> usize {
    let pages = bytes.pages_up().0.max(1);
    (pages.ilog2() as usize).min(CLASSES - 1)
}

fn level_of(in_flight: u32) -> usize {
    LEVELS.partition_point(|least| *least <= in_flight).saturating_sub(1)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "nanoseconds and bytes, of which 53 bits are enough"
)]
fn float(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small count")]
fn whole(rate: f64) -> u32 {
    ((rate + 0.5) as u32).max(1)
}

/// 4 KiB to 128 MiB and above.
const CLASSES: usize = 16;

/// The least number of requests of each level: in quarters of octaves, as one has to see a quarter
/// more than a device can serve before it shows.
const LEVELS: [u32; 22] =
    [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96];

/// During one service time of a device that serves so many at once, so many gaps end.
const PAST: usize = 64;

/// The part of what is known that each new sample takes over: half is forgotten after 128 samples,
/// 1 - 2^(-1/128). Noise of a tenth is then 0.5 % of the mean (370 samples count), and after 400
/// requests, two seconds of a disk, a ninth of a small change is left; a large one is known at
/// once.
const FORGET: f64 = 0.005_400_7;

/// The same of completions under load: half after 512. They are many, and how much ends in a time
/// is only known to what is half done at its two ends.
const FORGET_LOAD: f64 = 0.001_352_9;

/// Slower or faster than its kind by this factor is an outlier. A disk's own spread, a turn and the
/// way of its arm, is about that around the middle.
const OUTLIER: f64 = 2.0;

/// So many outliers on one side are no outliers. If one in twenty is one by chance, this happens by
/// chance once in 4 x 10^10 requests.
const RUN: i32 = 8;

/// A class with fewer samples has no mean worth the name.
const COUNT_MIN: u64 = 4;

/// A class of which none was among the last 256 samples is from another time.
const WEIGHT_MIN: f64 = 0.25;

/// The mean of a rare size is over so many at least, however old.
const RARE: u64 = 8;

/// Fewer samples say nothing of a device.
const SAMPLES_MIN: u64 = 8;

/// The largest size by the smallest, below which a slope would be noise: at 4, noise of 1 % in the
/// means is an error of 2 % of a request in the cost of its bytes.
const SPREAD_MIN: f64 = 4.0;

/// So many requests for each one that is served: then the others wait. Less could be an error of
/// the service time.
const WAITS: f64 = 1.25;

/// Fewer completions say nothing of a level.
const LOAD_MIN: f64 = 16.0;

/// How often the levels are looked at, and forgotten in part, in completions.
const FORGET_EVERY: u32 = 16;

/// If more of the completions under load are of sizes that never came alone, what they are worth is
/// not known, nor how many were served at once.
const UNKNOWN_MAX: f64 = 0.1;
