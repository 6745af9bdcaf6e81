//! Means over seeds and their intervals, as a person reads them.
//!
//! A single seed has no interval.

use foreread_sim::comparison::ComparedFigure;
use foreread_sim::mean_interval::RatioInterval;

/// Formats a mean, with its interval if it has one.
pub(crate) fn mean(figure: ComparedFigure, digits: usize) -> String {
    let mean = figure.over_seeds.mean;
    match figure.over_seeds.half_width {
        Some(half_width) => format!("{mean:.digits$} +-{half_width:.digits$}"),
        None => format!("{mean:.digits$}"),
    }
}

/// Like [`mean`]; `-` for none.
pub(crate) fn some_mean(figure: Option<ComparedFigure>, digits: usize) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| mean(figure, digits))
}

/// Formats a ratio, with its interval if it has one; `-` for none.
pub(crate) fn ratio(ratio: Option<RatioInterval>) -> String {
    match ratio {
        Some(RatioInterval { ratio, low: Some(low), high: Some(high) }) => {
            format!("{ratio:.3} ({low:.3}-{high:.3})")
        }
        Some(RatioInterval { ratio, .. }) => format!("{ratio:.3}"),
        None => "-".to_owned(),
    }
}

/// Explains the intervals over `seeds` seeds.
pub(crate) fn about_means(seeds: usize) -> String {
    format!(
        "n = {seeds}: means over the seeds; +- is half the width of the 95 % confidence interval of \
         a mean over seeds (Student's t)"
    )
}

/// The note where each seed gave the same.
pub(crate) const SAME_WITH_EACH_SEED: &str =
    "each seed gave the same run: nothing that follows from the seed varies";
