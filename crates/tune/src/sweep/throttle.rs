//! A device that is fast at first: where a series of speeds falls, if it does.
//!
//! In:    speeds, in the order of time.
//! Out:   [`SpeedDrop`]: how fast before, how fast after, and for how long.
//! Never: a fall that noise explains, or one that did not last.
//!
//! ```text
//!   MB/s  |########
//!         |########
//!         |###############      credit that was saved up, a cache that fills
//!         +---------------> s
//! ```

use crate::plateau::robust::{median, spread};

/// Where a series falls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SpeedDrop {
    /// MB/s before.
    pub(super) fast: f64,
    /// MB/s after.
    pub(super) slow: f64,
    /// The first that is slow.
    pub(super) index: usize,
}

/// The place that leaves the least distance to the medians on its two sides, if what lies between
/// them is a fall by more than `sure` standard errors, with `side` speeds or
/// more on each side.
pub(super) fn speed_drop(speeds: &[f64], sure: f64, side: usize) -> Option<SpeedDrop> {
    let n = speeds.len();
    if n < LEAST.max(2 * side) {
        return None;
    }
    let logs: Vec<f64> = speeds.iter().map(|speed| speed.max(f64::MIN_POSITIVE).ln()).collect();
    // Places one apart say the same in a long series.
    let step = n.div_ceil(64);
    let left = |index: &usize| distance(&logs[..*index]) + distance(&logs[*index..]);
    let places = (side..=n - side).step_by(step);
    let index = places.min_by(|a, b| left(a).total_cmp(&left(b)))?;
    let (before, after) = (&logs[..index], &logs[index..]);
    let (fast, slow) = (median(&mut before.to_vec()), median(&mut after.to_vec()));
    let mut residuals: Vec<f64> = before.iter().map(|log| log - fast).collect();
    residuals.extend(after.iter().map(|log| log - slow));
    let error = spread(&mut residuals) * (1.0 / index as f64 + 1.0 / (n - index) as f64).sqrt();
    // Load from another process ends; used-up credit does not come back during the run.
    let last = median(&mut logs[n - (n - index).div_ceil(4)..].to_vec());
    let lasts = last < f64::midpoint(fast, slow);
    let is_fall = fast - slow > FALL_MIN.ln() + sure * error && lasts;
    is_fall.then(|| SpeedDrop { fast: fast.exp(), slow: slow.exp(), index })
}

/// A smaller ratio of the speeds before and after is not taken for used-up credit.
const FALL_MIN: f64 = 1.06;

/// So many in all.
const LEAST: usize = 8;

fn distance(logs: &[f64]) -> f64 {
    let middle = median(&mut logs.to_vec());
    logs.iter().map(|log| (log - middle).abs()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_is_found_where_it_is() {
        let mut speeds = vec![200.0; 10];
        speeds.extend([101.0, 99.0, 100.0, 60.0, 100.0, 101.0, 99.0, 100.0, 100.0, 100.0]);
        let found = speed_drop(&speeds, 4.0, 2).expect("a fall");
        assert_eq!(found.index, 10);
        assert!((found.fast - 200.0).abs() < 1.0);
        assert!((found.slow - 100.0).abs() < 1.0);
    }

    #[test]
    fn noise_a_rise_and_a_dip_are_no_falls() {
        let noise: Vec<f64> = (0..40).map(|n| 100.0 + 8.0 * f64::from(n * 7919 % 13 - 6)).collect();
        assert_eq!(speed_drop(&noise, 4.0, 2), None);
        let mut rise = vec![100.0; 10];
        rise.extend([150.0; 10]);
        assert_eq!(speed_drop(&rise, 4.0, 2), None);
        let mut dip = vec![100.0; 10];
        dip.extend([50.0; 6]);
        dip.extend([100.0; 6]);
        assert_eq!(speed_drop(&dip, 4.0, 2), None);
        assert_eq!(speed_drop(&[], 4.0, 2), None);
    }
}
