//! The throughput that all windows are compared with: that of the best window, with its error.
//!
//! In:    the points of a curve.
//! Out:   [`Reference`].
//! Never: a window that another one surely beats; a neighbour that does not fit.
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
//! Many devices fall behind their best window: their cache or queue ends there. So the reference is
//! the largest window that no other one beats, and never less than what another one surely gives.
//!
//! Near the top a device pays a price for each window beside its rate, so that the time of a byte
//! is a line over 1 / window. Where the windows up to the reference lie on one, all of them say
//! together where its end is. Where they do not (a dip), the reference stands for itself.

use foreread_core::units::ByteCount;

use super::{CurvePoint, SURE};

/// The throughput of the best window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reference {
    /// The window.
    pub(super) window: ByteCount,
    /// The logarithm of its throughput.
    pub(super) ln: f64,
    /// The standard error of that.
    pub(super) error: f64,
}

impl Reference {
    pub(super) fn of(points: &[CurvePoint]) -> Self {
        let unbeaten = |point: &CurvePoint| !points.iter().any(|other| beats(other, point));
        let Some(last) = points.iter().rposition(unbeaten) else { return Self::default() };
        let found = Self::ending_at(&points[..=last]);
        // The line may end lower than a window that was measured well: then that one counts.
        let surely = |point: &CurvePoint| point.ln - SURE * point.error;
        let best = points.iter().max_by(|a, b| surely(a).total_cmp(&surely(b)));
        best.filter(|best| surely(best) > found.ln + TIE).map_or(found, Self::alone)
    }

    fn alone(point: &CurvePoint) -> Self {
        Self { window: point.window, ln: point.ln, error: point.error }
    }

    /// What the last of these points gives, as far as its neighbours confirm it.
    fn ending_at(points: &[CurvePoint]) -> Self {
        let Some(last) = points.last() else { return Self::default() };
        // Without noise there is nothing to gain.
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

/// Whether one window is faster than another by more than noise explains. Where noise would explain
/// anything, it is by how much that counts, unless the faster one was hardly read: a reference far
/// below another window is none.
fn beats(one: &CurvePoint, other: &CurvePoint) -> bool {
    let sure = SURE * one.error.hypot(other.error);
    let is_read = 2 * one.readings >= other.readings;
    one.ln - other.ln > if is_read { sure.min(FAR) } else { sure } + TIE
}

/// So much faster is better, however uncertain: the contender is read again until that is known.
const FAR: f64 = 0.05;

/// Logarithms that differ by less are equal: what the fit leaves of equal readings.
const TIE: f64 = 1e-9;

/// So many of the windows up to the reference may lie on the line: a price for each window that is
/// still seen over 1/32 of the largest is no longer a detail of the top.
const REACH: usize = 8;

/// The mean square distance from the line, in standard errors, up to which points lie on it.
const FITS: f64 = 3.0;

struct ReferenceLine {
    /// Time of a byte at the last window, and the variance of that.
    end: f64,
    variance: f64,
}

impl ReferenceLine {
    fn at_its_end(&self, last: &CurvePoint) -> Reference {
        let error = (self.variance.sqrt() / self.end).min(last.error);
        Reference { window: last.window, ln: last.ln - self.end.ln(), error }
    }
}

/// The line through points, by least squares of what they are off by in their standard errors;
/// None if they do not lie on one.
fn line(points: &[CurvePoint]) -> Option<ReferenceLine> {
    let last = points.last()?;
    // Times of a byte, the last window's as 1; x is 0 there.
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
    // Where points are further off than their errors say, so may its end be.
    let variance = mean_off.max(1.0) * xx / determinant;
    (mean_off <= FITS && end > 0.0).then_some(ReferenceLine { end, variance })
}
