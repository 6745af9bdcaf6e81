//! Cost of a request by its size, from requests that find the device idle.
//!
//! Requests that had to queue behind others are ignored. Design: docs/design/devices.md.

use super::float;
use crate::units::ByteCount;

/// Costs of the requests of one direction.
#[derive(Clone, Debug)]
pub(super) struct Costs {
    classes: [Class; CLASSES],
    /// Fit through the current classes.
    line: Option<CostLine>,
    samples: u64,
    /// Consecutive outliers: positive above, negative below the mean.
    run: i32,
}

/// Result of adding a sample.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum CostVerdict {
    /// Within the usual range of its class, or its class has no mean yet.
    Usual,
    /// The class has its first mean.
    NewSize,
    /// The device has changed for this size.
    SizeChanged,
    /// The device has changed: all costs are discarded.
    Changed,
}

/// Requests of about one size that found the device idle.
#[derive(Clone, Copy, Debug)]
struct Class {
    count: u64,
    /// Moving means.
    bytes: f64,
    ns: f64,
    /// Share in the recent requests of all sizes, discounted by age.
    weight: f64,
    /// Consecutive outliers of this class.
    run: i32,
}

/// Linear cost of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct CostLine {
    pub(super) start_ns: f64,
    /// None if all sizes were about equal: `start_ns` then includes the bytes.
    pub(super) per_byte_ns: Option<f64>,
}

impl Costs {
    pub(super) const fn new() -> Self {
        Self { classes: [Class::NEW; CLASSES], line: None, samples: 0, run: 0 }
    }

    /// Returns the number of samples since the device was first seen or last changed.
    pub(super) const fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns true if enough requests of about this size were measured.
    pub(super) fn has_mean(&self, bytes: ByteCount) -> bool {
        self.classes[class_of(bytes)].count >= COUNT_MIN
    }

    /// Returns the fit through all sizes, or None before eight requests.
    pub(super) fn known_line(&self) -> Option<CostLine> {
        self.line.filter(|_| self.samples >= SAMPLES_MIN)
    }

    /// Reduces the weight of the known costs to a few samples, so that a few new ones make up half.
    pub(super) fn renew(&mut self) {
        for class in &mut self.classes {
            class.weight = class.weight.min(float(RARE));
        }
    }

    /// Adds a request that found the device idle.
    ///
    /// ```text
    ///   within a factor of 2 of its class     counts as it is
    ///   outside                               clamped to the factor: a hiccup
    ///   the eighth in a row on one side,
    ///     of all sizes                        the device has changed: discard everything
    ///     of this class                       it has changed for this size, or the class began
    ///                                         with a hiccup: discard class and parallelism
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

    /// Fits a line through the classes.
    ///
    /// Each class is weighted by its samples and by the inverse square of its time, so that errors
    /// count in relative terms: noise of 10 % at 1 MiB exceeds the whole cost of 4 KiB.
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
        // The fixed cost cannot be negative: refit through the origin.
        Some(CostLine { start_ns: 0.0, per_byte_ns: Some(xy / xx) })
    }

    /// Returns the service time of a request of this size, if it is known.
    pub(super) fn service_ns(&self, bytes: ByteCount) -> Option<f64> {
        let class = &self.classes[class_of(bytes)];
        let slope = self.line.and_then(|line| line.per_byte_ns);
        match (self.line, slope) {
            (Some(CostLine { start_ns, .. }), Some(slope)) if class.count < COUNT_MIN => {
                Some(start_ns + slope * float(bytes.0))
            }
            _ if class.count < COUNT_MIN => None,
            // The mean of its class is better than the fit, which the device need not follow.
            _ => Some((class.ns + slope.unwrap_or(0.0) * (float(bytes.0) - class.bytes)).max(0.0)),
        }
    }
}

impl Class {
    const NEW: Self = Self { count: 0, bytes: 0.0, ns: 0.0, weight: 0.0, run: 0 };
}

/// Extends a run of outliers: `side` is 1 above, -1 below; 0 ends the run.
fn longer(run: i32, side: i32) -> i32 {
    if side * run > 0 { run + side } else { side }
}

/// Returns the class of a size: one for each power of two of pages.
fn class_of(bytes: ByteCount) -> usize {
    let pages = bytes.pages_up().0.max(1);
    (pages.ilog2() as usize).min(CLASSES - 1)
}

/// 4 KiB to 128 MiB and above.
const CLASSES: usize = 16;

/// Weight of a new sample: half is forgotten after 128 samples, 1 - 2^(-1/128). Noise of 10 % then
/// is 0.5 % of the mean (370 samples count). After 400 requests, two seconds of a disk, a ninth of
/// a small change is left; a large change is detected at once.
const FORGET: f64 = 0.005_400_7;

/// Deviation from the class mean, as a factor, from which a sample is an outlier. A disk's seek and
/// rotation vary by about that much.
pub(super) const OUTLIER: f64 = 2.0;

/// Consecutive outliers on one side that mean a change. If one in twenty is an outlier by chance,
/// this happens by chance once in 4 x 10^10 requests.
const RUN: i32 = 8;

/// Samples that a class needs for a mean.
const COUNT_MIN: u64 = 4;

/// Least weight of a class: a class without any of the last 256 samples is stale.
const WEIGHT_MIN: f64 = 0.25;

/// Least number of samples in the mean of a rare size, however old they are.
const RARE: u64 = 8;

/// Samples that a model needs.
const SAMPLES_MIN: u64 = 8;

/// Least ratio of the largest to the smallest size for a slope: at 4, noise of 1 % in the means is
/// an error of 2 % of a request in the cost of its bytes.
const SPREAD_MIN: f64 = 4.0;
