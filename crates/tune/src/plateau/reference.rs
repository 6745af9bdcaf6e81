//! What all windows are compared with: the throughput of the largest.
//!
//! In:    the points of a curve.
//! Out:   [`Reference`].
//! Never: a neighbour that does not fit.
//!
//! The largest window costs the most to read, and its error is in each comparison. Near the top a
//! device pays a price for each window beside its rate, so that the time of a byte is a line over
//! 1 / window; where the largest windows lie on one, all of them together say where its end is.
//! Where they do not (a dip, a fall behind the top), the largest window stands for itself.

use super::Point;

/// The throughput of the largest window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reference {
    /// Its logarithm.
    pub(super) ln: f64,
    /// The standard error of that.
    pub(super) error: f64,
}

impl Reference {
    pub(super) fn of(points: &[Point]) -> Self {
        let Some(last) = points.last() else { return Self::default() };
        let alone = Self { ln: last.ln, error: last.error };
        // Without noise there is nothing to gain.
        if last.error <= 0.0 {
            return alone;
        }
        let reach = points.len().saturating_sub(REACH);
        let lines =
            (reach..points.len().saturating_sub(2)).filter_map(|from| line(&points[from..]));
        lines.map(|line| line.at_its_end(last)).next().unwrap_or(alone)
    }
}

/// So many of the largest windows may lie on the line: a price for each window that is still seen
/// over 1/32 of the largest is no longer a detail of the top.
const REACH: usize = 8;

/// The mean square distance from the line, in standard errors, up to which points lie on it.
const FITS: f64 = 3.0;

struct Line {
    /// Time of a byte at the largest window, and the variance of that.
    end: f64,
    variance: f64,
}

impl Line {
    fn at_its_end(&self, last: &Point) -> Reference {
        let error = self.variance.sqrt() / self.end;
        Reference { ln: last.ln - self.end.ln(), error: error.min(last.error) }
    }
}

/// The line through points, by least squares of what they are off by in their standard errors;
/// None if they do not lie on one.
fn line(points: &[Point]) -> Option<Line> {
    let last = points.last()?;
    // Times of a byte, the largest window's as 1; x is 0 there.
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
    (mean_off <= FITS && end > 0.0).then_some(Line { end, variance })
}
