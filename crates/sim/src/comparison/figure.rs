//! A figure over seeds, and its ratio to the first policy's.

use serde::Serialize;

use crate::mean_interval::{MeanInterval, RatioInterval};

/// A figure of a combination.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// Mean over the seeds.
    #[serde(flatten)]
    pub over_seeds: MeanInterval,
    /// Ratio to the first policy; None for the first policy itself, and if a figure is 0.
    pub over_first: Option<RatioInterval>,
}

impl ComparedFigure {
    /// Returns a figure of some runs and its ratio to other runs with the same seeds; None if a run
    /// lacks the figure.
    pub(super) fn of<R>(
        runs: &[R],
        base: Option<&[R]>,
        figure: impl Fn(&R) -> Option<f64>,
    ) -> Option<Self> {
        let all = |runs: &[R]| runs.iter().map(&figure).collect::<Option<Vec<f64>>>();
        let own = all(runs)?;
        let over_first = base.and_then(all).and_then(|base| RatioInterval::of(&own, &base));
        MeanInterval::of(&own).map(|over_seeds| Self { over_seeds, over_first })
    }
}

/// Returns the count over its lower bound; None if the bound is unknown or 0.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
pub(super) fn over(count: u64, least: Option<f64>) -> Option<f64> {
    least.filter(|least| *least > 0.0).map(|least| count as f64 / least)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a run")]
pub(super) fn as_float(count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64)
}
