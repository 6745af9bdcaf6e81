//! Finds the plateau of a noisy curve: throughput by window, and the smallest sufficient window.
//!
//! In:    readings: throughput of a window, and its round.
//! Out:   [`Curve`], a point with its uncertainty for each window; [`Plateau`].
//! Never: a device or a clock. The same readings give the same plateau.
//!
//! ```text
//!   MB/s   |                 o   o         <- 98 % of the best window's and more
//!          |             o   ^       o     <- behind the best: devices fall again
//!          |         o       plateau
//!          |     o
//!          +---------------------------> window
//! ```
//!
//! The curve may fall: real devices lose throughput at some windows, or beyond their best one. The
//! reference is the best measured window, not the largest.

mod block_reading;
mod comparison;
mod noise;
mod reference;
pub(crate) mod robust;

use foreread_core::units::ByteCount;

pub use block_reading::Reading;
use block_reading::{BlockReading, count, fastest, heights, sorted, values};
pub use comparison::{Certainty, MeasuredWindow};
use noise::Noise;
use reference::Reference;
use robust::{median, trimmed_mean};

/// Share of the best window's throughput that counts as all of it.
///
/// With this value the rule finds the right row in all eight published sweeps
/// (docs/design/devices.md).
pub const SHARE: f64 = 0.98;

/// Throughput by window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// Points in ascending order of window.
    pub points: Vec<CurvePoint>,
    /// Relative standard deviation of one reading.
    pub noise: f64,
    /// Reference for all comparisons: the best window, refined by its neighbours.
    reference: Reference,
    /// Variation of the device's own speed during the run, as logarithms.
    levels: Vec<RoundLevel>,
    /// Share of the best window's throughput that counts as all of it.
    share: f64,
}

/// One window of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Window size.
    pub window: ByteCount,
    /// Number of readings.
    pub readings: u32,
    /// Logarithm of its throughput.
    ln: f64,
    /// Standard error of `ln`.
    error: f64,
    /// Logarithm of its fastest reading.
    fastest: f64,
}

/// Neighbouring rounds, and the device's relative speed in them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RoundLevel {
    ln: f64,
    readings: u32,
}

/// The smallest sufficient window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Plateau {
    /// Window size.
    pub window: ByteCount,
    /// Lower end of the 95 % confidence interval.
    pub low: ByteCount,
    /// Upper end of the 95 % confidence interval.
    pub high: ByteCount,
    /// Reference window: the largest that no other window surely beats.
    pub best: ByteCount,
}

/// Position of a window relative to the threshold.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// Surely below.
    Below,
    /// Surely above.
    Above,
    /// Still unknown.
    Open,
    /// Too close to the threshold for the side to matter.
    Near,
}

impl Curve {
    /// Fits the curve to readings, in the order in which they were taken.
    ///
    /// Each reading is a product of the window's throughput, the device's speed at that time, and
    /// noise. In logarithms that is a sum, and its first two terms are fitted alternately. Windows
    /// of one round were measured side by side, so a device that slows down during the run does not
    /// penalise the last windows.
    ///
    /// The fit uses trimmed means. A shared machine has stalls: slow readings without fast ones to
    /// balance them. A mean follows each stall; a median ignores them but wastes a third of the
    /// readings. A mean without the outer fifths does neither.
    #[must_use]
    pub fn of(readings: &[Reading]) -> Self {
        Self::with_share(readings, SHARE)
    }

    /// Fits the curve with another share than [`SHARE`] of the best window's throughput.
    ///
    /// # Panics
    ///
    /// If the share is not between 0 and 1.
    #[must_use]
    pub fn with_share(readings: &[Reading], share: f64) -> Self {
        assert!(0.0 < share && share < 1.0, "{share} is no share");
        let (windows, entries) = sorted(readings);
        let blocks = entries.iter().map(|entry| entry.block + 1).max().unwrap_or(0);
        let mut of_window: Vec<Vec<BlockReading>> = vec![Vec::new(); windows.len()];
        let mut of_block: Vec<Vec<BlockReading>> = vec![Vec::new(); blocks];
        for entry in entries {
            of_window[entry.window].push(entry);
            of_block[entry.block].push(entry);
        }
        let mut levels = vec![0.0; blocks];
        let mut heights = heights(&of_window, &levels);
        if blocks > 1 {
            for _ in 0..TURNS {
                for (level, block) in levels.iter_mut().zip(&of_block) {
                    *level = trimmed_mean(&mut values(block, |of| of.ln - heights[of.window]));
                }
                let middle = median(&mut levels.clone());
                levels.iter_mut().for_each(|level| *level -= middle);
                heights = self::heights(&of_window, &levels);
            }
        }
        let noise = Noise::of(&of_window, &heights, &levels);
        let points = windows.iter().enumerate().map(|(index, window)| CurvePoint {
            window: *window,
            readings: count(&of_window[index]),
            ln: heights[index],
            error: noise.error_of(index, of_window[index].len()),
            fastest: fastest(&of_window[index], &levels),
        });
        let points: Vec<CurvePoint> = points.collect();
        Self {
            reference: Reference::of(&points),
            points,
            noise: noise.all,
            levels: levels
                .iter()
                .zip(&of_block)
                .map(|(ln, block)| RoundLevel { ln: *ln, readings: count(block) })
                .collect(),
            share,
        }
    }

    /// Returns the plateau; None without points.
    ///
    /// In doubt it is the larger window: a window that is too large costs memory, but one that is
    /// too small costs throughput on every stream. A window therefore has to clear the threshold by
    /// somewhat more than its standard error, up to a bound. Without noise this is the rule as
    /// published.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "its asserts are about its own result")]
    pub fn plateau(&self) -> Option<Plateau> {
        let first = |is_enough: &dyn Fn(&Ratio) -> bool| {
            let mut points = self.points.iter();
            let found = points.find(|point| is_enough(&self.ratio(point)));
            found.map(|point| point.window)
        };
        let (share, guard_max) = (self.share, GUARD_MAX * (1.0 - self.share));
        let guarded = |ratio: &Ratio| ratio.value >= share + (GUARD * ratio.error).min(guard_max);
        let (window, low, high) = (
            first(&guarded)?,
            first(&|ratio| ratio.within(Z).1 >= share)?,
            first(&|ratio| ratio.within(Z).0 >= share)?,
        );

        assert!(low <= window);
        assert!(window <= high);
        Some(Plateau { window, low, high, best: self.reference.window })
    }

    /// Returns the standing of each window, in ascending order.
    #[must_use]
    pub fn standings(&self) -> Vec<Standing> {
        self.points.iter().map(|point| self.standing(point)).collect()
    }

    fn standing(&self, point: &CurvePoint) -> Standing {
        let ratio = self.ratio(point);
        // A few readings may all have been stalls, so the fastest has to be below, too.
        let may_be_stalls = point.readings <= self.few()
            && (point.fastest - self.reference.ln).exp() + 2.0 * self.noise >= self.share
            && self.noise > 0.0;
        if ratio.is_exact {
            return Standing::Above;
        }
        if ratio.within(SURE).1 < self.share {
            return if may_be_stalls { Standing::Open } else { Standing::Below };
        }
        if point.readings <= self.few() {
            return Standing::Open;
        }
        match (ratio.within(SURE).0 >= self.share, Z * ratio.error <= NEAR) {
            (true, _) => Standing::Above,
            (false, true) => Standing::Near,
            (false, false) => Standing::Open,
        }
    }

    fn few(&self) -> u32 {
        if self.noise < CALM { FEW_OF_CALM } else { FEW }
    }

    /// Returns its throughput as a share of the best window's.
    fn ratio(&self, point: &CurvePoint) -> Ratio {
        if self.reference.window == point.window {
            return Ratio { value: 1.0, error: 0.0, is_exact: true };
        }
        let error = point.error.hypot(self.reference.error);
        Ratio { value: (point.ln - self.reference.ln).exp(), error, is_exact: false }
    }

    /// Returns the reference window; None without points.
    #[must_use]
    pub fn best(&self) -> Option<ByteCount> {
        (!self.points.is_empty()).then_some(self.reference.window)
    }

    /// Returns the window most likely to beat the reference by enough to move the plateau; None if
    /// no window can.
    ///
    /// Reading it next either refutes a lucky result or finds a better reference.
    #[must_use]
    pub fn contender(&self) -> Option<ByteCount> {
        let could_be = |point: &CurvePoint| {
            let few = point.readings <= self.few() && self.noise > 0.0;
            // A few readings may all have been stalls, so the fastest counts.
            let fastest = if few { point.fastest } else { f64::NEG_INFINITY };
            fastest.max(point.ln + Z * point.error)
        };
        let others = self.points.iter().filter(|point| point.window != self.reference.window);
        let open = others.filter(|point| could_be(point) > self.reference.ln - self.share.ln());
        let found = open.max_by(|a, b| could_be(a).total_cmp(&could_be(b)));
        found.map(|point| point.window)
    }

    /// Returns the point of a window.
    #[must_use]
    pub fn at(&self, window: ByteCount) -> Option<&CurvePoint> {
        self.points.iter().find(|point| point.window == window)
    }

    /// Returns the relative change of the device's speed during the run, beyond noise: the fastest
    /// quarter of the run against the slowest.
    #[must_use]
    pub fn drift(&self) -> Option<f64> {
        if self.levels.len() < 8 {
            return None;
        }
        let quarter = |part: &[RoundLevel]| {
            let readings: f64 = part.iter().map(|level| f64::from(level.readings)).sum();
            let mean = part.iter().map(|level| level.ln).sum::<f64>() / part.len() as f64;
            (mean, self.noise / readings.sqrt())
        };
        let parts: Vec<_> =
            self.levels.chunks(self.levels.len().div_ceil(4)).map(quarter).collect();
        let by_mean = |a: &&(f64, f64), b: &&(f64, f64)| a.0.total_cmp(&b.0);
        let (slow, fast) = (parts.iter().min_by(by_mean)?, parts.iter().max_by(by_mean)?);
        let apart = fast.0 - slow.0;
        (apart > DRIFT_MIN + 4.0 * slow.1.hypot(fast.1)).then(|| 1.0 - (-apart).exp())
    }
}

impl CurvePoint {
    /// Returns the logarithm of its throughput.
    #[must_use]
    pub fn ln(&self) -> f64 {
        self.ln
    }

    /// Returns the standard error of that logarithm.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.error
    }

    /// Returns the throughput.
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        self.ln.exp()
    }

    /// Returns the lower end of the throughput's 95 % confidence interval.
    #[must_use]
    pub fn low(&self) -> f64 {
        (self.ln - Z * self.error).exp()
    }

    /// Returns the upper end of the throughput's 95 % confidence interval.
    #[must_use]
    pub fn high(&self) -> f64 {
        (self.ln + Z * self.error).exp()
    }
}

/// Standard errors for a two-sided 95 %: slightly more than the normal distribution's 1.96, because
/// the deviation is estimated from a few dozen readings.
pub(crate) const Z: f64 = 2.05;

/// Standard errors by which a window has to clear the threshold.
const GUARD: f64 = 1.5;

/// Upper bound of that margin, as a share of the range between threshold and top.
const GUARD_MAX: f64 = 0.65;

/// A window known this precisely needs no more readings. The remaining error is small compared with
/// the slack of the rule itself.
const NEAR: f64 = 0.003;

/// Standard errors from the threshold that settle a window. The test repeats every few rounds: at
/// 95 % each, one of them would often be wrong.
const SURE: f64 = 3.0;

/// Up to this many readings may all have been disturbed, and their spread is unreliable.
pub(crate) const FEW: u32 = 8;

/// The same limit for readings that hardly differ.
const FEW_OF_CALM: u32 = 3;

/// Smaller deviations are calm.
pub(crate) const CALM: f64 = 0.005;

/// Alternations between fitting windows and levels. Windows that are in all rounds tie the levels
/// together, so little changes after the second.
const TURNS: usize = 3;

/// Smaller drift is not mentioned.
const DRIFT_MIN: f64 = 0.05;

struct Ratio {
    value: f64,
    error: f64,
    /// True for the reference itself.
    is_exact: bool,
}

impl Ratio {
    /// Returns the interval of this many standard errors to either side.
    fn within(&self, errors: f64) -> (f64, f64) {
        (self.value * (1.0 - errors * self.error), self.value * (1.0 + errors * self.error))
    }
}

#[cfg(test)]
mod tests;
