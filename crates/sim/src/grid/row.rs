//! The figures of one cell, and their distribution over all cells.

use serde::Serialize;

use super::{GridCell, GridTime};

/// Learnt windows compared with the best fixed window in a cell.
#[derive(Clone, Debug, Serialize)]
pub struct GridRow {
    /// The cell.
    #[serde(flatten)]
    pub cell: GridCell,
    /// Best fixed window over the whole run, in bytes.
    pub best_window: u64,
    /// Combined throughput with that window, in MB/s.
    pub best_mb_per_s: f64,
    /// Combined throughput with learnt windows, including the learning phase, in MB/s.
    pub learnt_mb_per_s: f64,
    /// Ratio of learnt to best throughput.
    pub whole: f64,
    /// The same ratio for the second half of the run, against the best window there.
    pub second_half: f64,
}

/// Distribution of a ratio over cells.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GridSpread {
    /// Minimum.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Number of cells below 0.90.
    pub below_90: usize,
    /// Number of cells below 0.95.
    pub below_95: usize,
    /// Number of cells below 0.97.
    pub below_97: usize,
}

impl GridRow {
    #[expect(clippy::cast_precision_loss, reason = "bytes, of which 53 bits are enough")]
    pub(super) fn new(cell: &GridCell, fixed: &[(u64, GridTime)], learnt: GridTime) -> Self {
        assert!(!fixed.is_empty(), "a cell is compared with at least one window");
        let least = |of: fn(&GridTime) -> f64| {
            let times = fixed.iter().map(|(window, time)| (of(time), *window));
            times.fold((f64::MAX, 0), |best, next| if next.0 < best.0 { next } else { best })
        };
        let (best_s, best_window) = least(|time| time.whole_s);
        let (best_half_s, _) = least(|time| time.second_half_s);
        let mb = cell.total_bytes() as f64 / 1e6;
        Self {
            cell: *cell,
            best_window,
            best_mb_per_s: mb / best_s,
            learnt_mb_per_s: mb / learnt.whole_s,
            whole: best_s / learnt.whole_s,
            second_half: best_half_s / learnt.second_half_s,
        }
    }
}

impl GridSpread {
    /// Returns the distribution of these ratios; None without any.
    #[must_use]
    pub fn of(ratios: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut ratios: Vec<f64> = ratios.into_iter().collect();
        ratios.sort_by(f64::total_cmp);
        let below = |limit: f64| ratios.partition_point(|ratio| *ratio < limit);
        let upper = ratios.len() / 2;
        let (min, lower) = (*ratios.first()?, upper - usize::from(ratios.len().is_multiple_of(2)));
        Some(Self {
            min,
            median: f64::midpoint(ratios[lower], ratios[upper]),
            below_90: below(0.90),
            below_95: below(0.95),
            below_97: below(0.97),
        })
    }
}
