//! Detects a device that is fast only at first, by a drop in a series of speeds. A drop has to
//! exceed noise, and to last.
//!
//! ```text
//!   MB/s  |########
//!         |########
//!         |###############      credit that was saved up, a cache that fills
//!         +---------------> s
//! ```

use crate::plateau::robust::{median, spread};

/// A drop in a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SpeedDrop {
    /// MB/s before.
    pub(super) fast: f64,
    /// MB/s after.
    pub(super) slow: f64,
    /// Index of the first slow speed.
    pub(super) index: usize,
}

/// Finds the split with the least distance to the medians of its two sides, if the drop between
/// them exceeds `sure` standard errors, with at least `side` speeds on each side.
pub(super) fn speed_drop(speeds: &[f64], sure: f64, side: usize) -> Option<SpeedDrop> {
    let n = speeds.len();
    if n < LEAST.max(2 * side) {
        return None;
    }
    let logs: Vec<f64> = speeds.iter().map(|speed| speed.max(f64::MIN_POSITIVE).ln()).collect();
    // In a long series neighbouring splits are equivalent.
    let step = n.div_ceil(64);
    let left = |index: &usize| distance(&logs[..*index]) + distance(&logs[*index..]);
    let places = (side..=n - side).step_by(step);
    let index = places.min_by(|a, b| left(a).total_cmp(&left(b)))?;
    let (before, after) = (&logs[..index], &logs[index..]);
    let (fast, slow) = (median(&mut before.to_vec()), median(&mut after.to_vec()));
    let mut residuals: Vec<f64> = before.iter().map(|log| log - fast).collect();
    residuals.extend(after.iter().map(|log| log - slow));
    let error = spread(&mut residuals) * (1.0 / index as f64 + 1.0 / (n - index) as f64).sqrt();
    // Load from another process ends; drained credit does not return during the run.
    let last = median(&mut logs[n - (n - index).div_ceil(4)..].to_vec());
    let lasts = last < f64::midpoint(fast, slow);
    let is_fall = fast - slow > FALL_MIN.ln() + sure * error && lasts;
    is_fall.then(|| SpeedDrop { fast: fast.exp(), slow: slow.exp(), index })
}

/// A smaller ratio of the speeds before and after is not attributed to drained credit.
const FALL_MIN: f64 = 1.06;

/// Minimum length of a series.
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
