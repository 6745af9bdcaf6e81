//! Reference throughput of a curve: that of the best window, with its error.
//!
//! ```text
//!   MB/s |          o  o                  1M .. 2M are the best
//!        |       o        .               4M and 8M are surely slower: they are no reference
//!        |    o              o
//!        | o
//!        +---------^--^------------> window
//!             line |  `-- reference: the largest window that none surely beats
//! ```
//!
//! Many devices slow down beyond their best window, once their cache or queue is exhausted. The
//! reference is therefore the largest window that no other one beats, and never below the certain
//! throughput of another window.
//!
//! Near the top, a device pays a fixed cost for each window in addition to its rate, so the time
//! per byte is linear in 1 / window. If the windows up to the reference fit a line, all of them
//! together determine its end. If they do not (a dip), the reference stands alone.

use foreread_core::units::ByteCount;

use super::{CurvePoint, SURE};

/// Throughput of the best window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reference {
    /// Window size.
    pub(super) window: ByteCount,
    /// Logarithm of its throughput.
    pub(super) ln: f64,
    /// Standard error of `ln`.
    pub(super) error: f64,
}

impl Reference {
    pub(super) fn of(points: &[CurvePoint]) -> Self {
        let unbeaten = |point: &CurvePoint| !points.iter().any(|other| beats(other, point));
        let Some(last) = points.iter().rposition(unbeaten) else { return Self::default() };
        let found = Self::ending_at(&points[..=last]);
        // The line may end below a precisely measured window; then that window counts.
        let surely = |point: &CurvePoint| point.ln - SURE * point.error;
        let best = points.iter().max_by(|a, b| surely(a).total_cmp(&surely(b)));
        best.filter(|best| surely(best) > found.ln + TIE).map_or(found, Self::alone)
    }

    fn alone(point: &CurvePoint) -> Self {
        Self { window: point.window, ln: point.ln, error: point.error }
    }

    /// Estimates the last of these points, refined by its neighbours if they fit.
    fn ending_at(points: &[CurvePoint]) -> Self {
        let Some(last) = points.last() else { return Self::default() };
        // Without noise there is nothing to refine.
        if last.error <= 0.0 {
            return Self::alone(last);
        }
        let reach = points.len().saturating_sub(REACH);
        let lines =
            (reach..points.len().saturating_sub(2)).filter_map(|from| line(&points[from..]));
        let ends = lines.map(|line| line.at_its_end(last));
        ends.into_iter().next().unwrap_or_else(|| Self::alone(last))
    }
}

/// Returns whether one window is faster than another by more than noise explains. If noise could
/// explain any difference, its size decides, unless the faster window was hardly read: a window far
/// below another is no reference.
fn beats(one: &CurvePoint, other: &CurvePoint) -> bool {
    let sure = SURE * one.error.hypot(other.error);
    let is_read = 2 * one.readings >= other.readings;
    one.ln - other.ln > if is_read { sure.min(FAR) } else { sure } + TIE
}

/// Difference that counts despite noise: the contender is read again until it is certain.
const FAR: f64 = 0.05;

/// Logarithms that differ by less are equal: rounding in the fit of equal readings.
const TIE: f64 = 1e-9;

/// Most windows up to the reference that the line may use: a fixed cost still visible over 1/32 of
/// the largest window is no longer a detail of the top.
const REACH: usize = 8;

/// Largest mean square distance from the line, in standard errors, for points that fit.
const FITS: f64 = 3.0;

struct ReferenceLine {
    /// Time per byte at the last window, and its variance.
    end: f64,
    variance: f64,
}

impl ReferenceLine {
    fn at_its_end(&self, last: &CurvePoint) -> Reference {
        let error = (self.variance.sqrt() / self.end).min(last.error);
        Reference { window: last.window, ln: last.ln - self.end.ln(), error }
    }
}

/// Fits a line through points by weighted least squares; None if they do not fit one.
fn line(points: &[CurvePoint]) -> Option<ReferenceLine> {
    let last = points.last()?;
    // Times per byte relative to the last window, where x is 0.
    let places: Vec<(f64, f64, f64)> = points
        .iter()
        .map(|point| {
            let x = last.window.0 as f64 / point.window.0 as f64 - 1.0;
            let y = (last.ln - point.ln).exp();
            (x, y, (y * point.error).powi(-2))
        })
        .collect();
    let sum = |value: &dyn Fn(f64, f64) -> f64| -> f64 {
        places.iter().map(|(x, y, weight)| weight * value(*x, *y)).sum()
    };
    let (all, x, y) = (sum(&|_, _| 1.0), sum(&|x, _| x), sum(&|_, y| y));
    let (xx, xy) = (sum(&|x, _| x * x), sum(&|x, y| x * y));
    let determinant = all * xx - x * x;
    let (end, slope) = ((xx * y - x * xy) / determinant, (all * xy - x * y) / determinant);
    let off = sum(&|x, y| (y - end - slope * x).powi(2));
    let mean_off = off / (points.len() - 2) as f64;
    // If points scatter more than their errors, so does the end of the line.
    let variance = mean_off.max(1.0) * xx / determinant;
    (mean_off <= FITS && end > 0.0).then_some(ReferenceLine { end, variance })
}
