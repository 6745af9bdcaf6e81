//! What a request costs, by its size: told by those that find the device idle.
//!
//! In:    how long a lone request took, and its bytes.
//! Out:   the service time of any request, as far as it can be told.
//! Never: a request that waited for others. Design: docs/devices.md.

use super::float;
use crate::units::ByteCount;

/// What requests of one direction cost.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    classes: [Class; CLASSES],
    /// Through the classes as they are.
    line: Option<CostLine>,
    samples: u64,
    /// How many outliers came in a row: above if positive, below if negative.
    run: i32,
}

/// What a sample says of the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CostVerdict {
    /// It is like its kind, or nothing was known of its kind.
    Usual,
    /// It is the first that makes a mean of its size.
    NewSize,
    /// The device has changed for this size.
    SizeChanged,
    /// The device has changed: all costs are forgotten.
    Changed,
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
pub(super) struct CostLine {
    pub(super) start_ns: f64,
    /// None if all were of about one size: `start_ns` is with the bytes then.
    pub(super) per_byte_ns: Option<f64>,
}

impl Costs {
    pub(super) const fn new() -> Self {
        Self { classes: [Class::NEW; CLASSES], line: None, samples: 0, run: 0 }
    }

    /// How many told them, since the device was first seen or last changed.
    pub(super) const fn samples(&self) -> u64 {
        self.samples
    }

    /// Whether enough requests of about this size told what they cost.
    pub(super) fn has_mean(&self, bytes: ByteCount) -> bool {
        self.classes[class_of(bytes)].count >= COUNT_MIN
    }

    /// The line through the costs of all sizes. None before eight requests.
    pub(super) fn known_line(&self) -> Option<CostLine> {
        self.line.filter(|_| self.samples >= SAMPLES_MIN)
    }

    /// What is known counts as much as a few samples, so that a few new ones are half of it.
    pub(super) fn renew(&mut self) {
        for class in &mut self.classes {
            class.weight = class.weight.min(float(RARE));
        }
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
    pub(super) fn learn(&mut self, bytes: ByteCount, ns: u64) -> CostVerdict {
        let mut ns = float(ns);
        let mut verdict = CostVerdict::Usual;
        let at = class_of(bytes);
        if self.classes[at].count >= COUNT_MIN {
            let (low, high) = (self.classes[at].ns / OUTLIER, self.classes[at].ns * OUTLIER);
            let side = i32::from(ns > high) - i32::from(ns < low);
            let class = &mut self.classes[at];
            (self.run, class.run) = (longer(self.run, side), longer(class.run, side));
            if self.run.abs() >= RUN {
                *self = Self::new();
                verdict = CostVerdict::Changed;
            } else if class.run.abs() >= RUN {
                *class = Class::NEW;
                verdict = CostVerdict::SizeChanged;
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
        if class.count == COUNT_MIN {
            verdict = CostVerdict::NewSize;
        }
        self.line = self.line();
        verdict
    }

    /// The line through the classes.
    ///
    /// Each class weighs by its samples and by the inverse square of its time, so that errors count
    /// as parts of what they are errors of: noise of a tenth on 1 MiB is more than all of 4 KiB.
    fn line(&self) -> Option<CostLine> {
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
            return Some(CostLine { start_ns: y / all, per_byte_ns: None });
        }
        let slope = ((xy - x * y / all) / (xx - x * x / all)).max(0.0);
        let start_ns = (y - slope * x) / all;
        if start_ns >= 0.0 {
            return Some(CostLine { start_ns, per_byte_ns: Some(slope) });
        }
        // Nothing costs less than nothing: then the line goes through the origin.
        Some(CostLine { start_ns: 0.0, per_byte_ns: Some(xy / xx) })
    }

    /// The service time of a request of this size.
    pub(super) fn service_ns(&self, bytes: ByteCount) -> Option<f64> {
        let class = &self.classes[class_of(bytes)];
        let slope = self.line.and_then(|line| line.per_byte_ns);
        match (self.line, slope) {
            (Some(CostLine { start_ns, .. }), Some(slope)) if class.count < COUNT_MIN => {
                Some(start_ns + slope * float(bytes.0))
            }
            _ if class.count < COUNT_MIN => None,
            // Its class knows it better than the line, which the device need not follow.
            _ => Some((class.ns + slope.unwrap_or(0.0) * (float(bytes.0) - class.bytes)).max(0.0)),
        }
    }
}

impl Class {
    const NEW: Self = Self { count: 0, bytes: 0.0, ns: 0.0, weight: 0.0, run: 0 };
}

/// A run of outliers with one more: above if `side` is 1, below if -1; 0 ends it.
fn longer(run: i32, side: i32) -> i32 {
    if side * run > 0 { run + side } else { side }
}

/// Each power of two of pages has its own.
fn class_of(bytes: ByteCount) -> usize {
    let pages = bytes.pages_up().0.max(1);
    (pages.ilog2() as usize).min(CLASSES - 1)
}

/// 4 KiB to 128 MiB and above.
const CLASSES: usize = 16;

/// The part of what is known that each new sample takes over: half is forgotten after 128 samples,
/// 1 - 2^(-1/128). Noise of a tenth is then 0.5 % of the mean (370 samples count), and after 400
/// requests, two seconds of a disk, a ninth of a small change is left; a large one is known at
/// once.
const FORGET: f64 = 0.005_400_7;

/// Slower or faster than its kind by this factor is an outlier. A disk's own spread, a turn and the
/// way of its arm, is about that around the middle.
pub(super) const OUTLIER: f64 = 2.0;

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
