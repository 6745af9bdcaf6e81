//! The plateau of a noisy curve: throughput by window, and the smallest window that is enough.
//!
//! In:    readings: what a window delivered, and in which round.
//! Out:   [`Curve`], a point with its uncertainty for each window; [`Plateau`].
//! Never: a device, a clock, an order of its own. The same readings are the same plateau.
//!
//! ```text
//!   MB/s   |                 o   o         <- 98 % of the best window's and more
//!          |             o   ^       o     <- behind the best: devices fall again
//!          |         o       plateau
//!          |     o
//!          +---------------------------> window
//! ```
//!
//! A curve is not taken to rise: devices whose throughput falls, in between or behind their best
//! window, are real. The reference is the best window that was read, not the largest.

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

/// The share of the best window's throughput that counts as all of it.
///
/// With it the rule marks the right row in all eight published sweeps (docs/devices.md).
pub const SHARE: f64 = 0.98;

/// Throughput by window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    /// One for each window, the smallest first.
    pub points: Vec<CurvePoint>,
    /// The deviation of one reading, as a share.
    pub noise: f64,
    /// What all are compared with: the best window, and what its neighbours say of it.
    reference: Reference,
    /// By how much the device itself was faster or slower while the run went on, as logarithms.
    levels: Vec<RoundLevel>,
    /// The share of the best window's throughput that counts as all of it.
    share: f64,
}

/// One window of a curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// The window.
    pub window: ByteCount,
    /// How many readings it has.
    pub readings: u32,
    /// The logarithm of its throughput.
    ln: f64,
    /// The standard error of that.
    error: f64,
    /// The logarithm of its fastest reading.
    fastest: f64,
}

/// Neighbouring rounds, and how fast the device was in them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct RoundLevel {
    ln: f64,
    readings: u32,
}

/// The smallest window that is enough.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Plateau {
    /// It.
    pub window: ByteCount,
    /// With 95 % confidence it is not smaller than this,
    pub low: ByteCount,
    /// and not larger than this.
    pub high: ByteCount,
    /// The window that it is compared with: the largest that no other one surely beats.
    pub best: ByteCount,
}

/// Where a window stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Standing {
    /// Surely below the line.
    Below,
    /// Surely not.
    Above,
    /// Not known yet.
    Open,
    /// So near the line that it does not matter on which side.
    Near,
}

impl Curve {
    /// The curve of these readings, in the order in which they were taken.
    ///
    /// Each reading is a product: what the window delivers, how fast the device was just then, and
    /// noise. In logarithms that is a sum, and its first two terms are fitted in turns. Windows of
    /// one round were measured side by side, so a device that gets slower while it is measured
    /// takes nothing from the windows that come last.
    ///
    /// Why trimmed means: a shared machine has stalls, slow readings without fast ones to balance
    /// them. A mean follows each of them; a median ignores them, but wastes a third of the
    /// readings. Without its outer fifths a mean does neither.
    #[must_use]
    pub fn of(readings: &[Reading]) -> Self {
        Self::with_share(readings, SHARE)
    }

    /// The same, where another share of the best window's throughput than [`SHARE`] counts as all
    /// of it.
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

    /// Its plateau; None if it has no points.
    ///
    /// In doubt it is the larger window: one that is too large costs memory, one that is too small
    /// costs throughput each time. So a window has to clear the line by a little more than its
    /// standard error, up to a bound. Without noise that is the rule as it was published.
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

    /// Where each window stands, the smallest first.
    #[must_use]
    pub fn standings(&self) -> Vec<Standing> {
        self.points.iter().map(|point| self.standing(point)).collect()
    }

    fn standing(&self, point: &CurvePoint) -> Standing {
        let ratio = self.ratio(point);
        // Few readings may all have been stalls: then the fastest of them has to be below, too.
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

    /// Its throughput as a share of the best window's.
    fn ratio(&self, point: &CurvePoint) -> Ratio {
        if self.reference.window == point.window {
            return Ratio { value: 1.0, error: 0.0, is_exact: true };
        }
        let error = point.error.hypot(self.reference.error);
        Ratio { value: (point.ln - self.reference.ln).exp(), error, is_exact: false }
    }

    /// The window that all are compared with; None without points.
    #[must_use]
    pub fn best(&self) -> Option<ByteCount> {
        (!self.points.is_empty()).then_some(self.reference.window)
    }

    /// The window that could be better than the reference by enough to move the plateau, and most
    /// likely is; None if no window can.
    ///
    /// Reading that one next takes away what is only luck, and finds the reference otherwise.
    #[must_use]
    pub fn contender(&self) -> Option<ByteCount> {
        let could_be = |point: &CurvePoint| {
            let few = point.readings <= self.few() && self.noise > 0.0;
            // Few readings may all have been stalls: then the fastest of them counts.
            let fastest = if few { point.fastest } else { f64::NEG_INFINITY };
            fastest.max(point.ln + Z * point.error)
        };
        let others = self.points.iter().filter(|point| point.window != self.reference.window);
        let open = others.filter(|point| could_be(point) > self.reference.ln - self.share.ln());
        let found = open.max_by(|a, b| could_be(a).total_cmp(&could_be(b)));
        found.map(|point| point.window)
    }

    /// The point of a window.
    #[must_use]
    pub fn at(&self, window: ByteCount) -> Option<&CurvePoint> {
        self.points.iter().find(|point| point.window == window)
    }

    /// By which share the device's speed moved while it was measured, beyond noise: the fastest
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
    /// The logarithm of its throughput.
    #[must_use]
    pub fn ln(&self) -> f64 {
        self.ln
    }

    /// The standard error of that.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.error
    }

    /// Throughput.
    #[must_use]
    pub fn mb_per_s(&self) -> f64 {
        self.ln.exp()
    }

    /// It is between here
    #[must_use]
    pub fn low(&self) -> f64 {
        (self.ln - Z * self.error).exp()
    }

    /// and here, with 95 % confidence.
    #[must_use]
    pub fn high(&self) -> f64 {
        (self.ln + Z * self.error).exp()
    }
}

/// How many standard errors are 95 % to both sides: a little more than the normal distribution's
/// 1.96, since the deviation itself is known from some tens of readings only.
pub(crate) const Z: f64 = 2.05;

/// By how many standard errors a window has to clear the line,
const GUARD: f64 = 1.5;

/// and by how much at the most, as a share of what lies between the line and the top.
const GUARD_MAX: f64 = 0.65;

/// A window that is known this well needs no more readings, wherever it stands: what could be
/// wrong by it is little beside what the rule itself gives away.
const NEAR: f64 = 0.003;

/// How many standard errors from the line settle a window. The question is asked after each few
/// rounds: 95 % each time would often be wrong once.
const SURE: f64 = 3.0;

/// So many readings may all have been disturbed, and say little of how much they differ.
pub(crate) const FEW: u32 = 8;

/// Where readings hardly differ, so many.
const FEW_OF_CALM: u32 = 3;

/// A deviation of less is calm.
pub(crate) const CALM: f64 = 0.005;

/// How often windows and levels are fitted in turns. Windows that are in all rounds tie these
/// together, so that there is little left to move after the second.
const TURNS: usize = 3;

/// A drift of less is not worth a word.
const DRIFT_MIN: f64 = 0.05;

struct Ratio {
    value: f64,
    error: f64,
    /// It is the reference itself.
    is_exact: bool,
}

impl Ratio {
    /// The bounds that are so many standard errors away.
    fn within(&self, errors: f64) -> (f64, f64) {
        (self.value * (1.0 - errors * self.error), self.value * (1.0 + errors * self.error))
    }
}

#[cfg(test)]
mod tests;
