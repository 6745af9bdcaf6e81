//! Mean of a figure over runs with different seeds, with a 95 % confidence interval, and the ratio
//! of two policies paired by seed. A single run has no interval.

use serde::Serialize;

/// Mean of a figure over independent runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeanInterval {
    /// The mean.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval, by Student's t; None for one run.
    pub half_width: Option<f64>,
}

/// Ratio of a figure under two policies, with the same seeds.
///
/// It is the geometric mean over seeds, so the inverse comparison gives the reciprocal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RatioInterval {
    /// The ratio.
    pub ratio: f64,
    /// Lower end of the 95 % confidence interval; None for one run.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

impl MeanInterval {
    /// Returns the mean of these figures; None without any.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a number of runs")]
    pub fn of(figures: &[f64]) -> Option<Self> {
        let first = *figures.first()?;
        let count = figures.len() as f64;
        // Relative to the first: the mean of equal figures is exact.
        let mean = first + figures.iter().map(|figure| figure - first).sum::<f64>() / count;
        let squares = figures.iter().map(|figure| (figure - mean) * (figure - mean)).sum::<f64>();
        let half_width = (figures.len() > 1).then(|| {
            let variance = squares / (count - 1.0);
            student_t(figures.len() - 1) * (variance / count).sqrt()
        });
        Some(Self { mean, half_width })
    }
}

impl RatioInterval {
    /// Returns the ratio of figures to those of another policy with the same seeds; None if one of
    /// them is 0.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    #[must_use]
    pub fn of(figures: &[f64], base: &[f64]) -> Option<Self> {
        assert_eq!(figures.len(), base.len(), "both ran with the same seeds");
        if figures.iter().chain(base).any(|figure| *figure <= 0.0) {
            return None;
        }
        let ratios = figures.iter().zip(base).map(|(figure, base)| libm::log(figure / base));
        let MeanInterval { mean, half_width } = MeanInterval::of(&ratios.collect::<Vec<_>>())?;
        let end = |sign: f64| half_width.map(|half_width| libm::exp(mean + sign * half_width));
        Some(Self { ratio: libm::exp(mean), low: end(-1.0), high: end(1.0) })
    }
}

/// Returns the 97.5 % quantile of Student's t: the half width of a 95 % interval, in standard
/// errors.
///
/// Beyond the table it uses the first terms of the Cornish-Fisher expansion, accurate to 1e-5.
#[expect(clippy::cast_precision_loss, reason = "a number of runs")]
fn student_t(freedom: usize) -> f64 {
    assert!(freedom > 0, "one run has no interval");
    if let Some(quantile) = STUDENT_T.get(freedom - 1) {
        return *quantile;
    }
    let (z, freedom) = (NORMAL, freedom as f64);
    let square = z * z;
    let first = z * (square + 1.0) / 4.0;
    let second = z * ((5.0 * square + 16.0) * square + 3.0) / 96.0;
    let third = z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0;
    z + (first + (second + third / freedom) / freedom) / freedom
}

/// 97.5 % quantile of the normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;

/// 97.5 % quantiles of Student's t with 1, 2, .. degrees of freedom.
const STUDENT_T: [f64; 20] = [
    12.706_205,
    4.302_652_7,
    3.182_446_3,
    2.776_445_1,
    2.570_581_8,
    2.446_911_9,
    2.364_624_3,
    2.306_004_1,
    2.262_157_2,
    2.228_138_9,
    2.200_985_2,
    2.178_812_8,
    2.160_368_7,
    2.144_786_7,
    2.131_449_5,
    2.119_905_3,
    2.109_815_6,
    2.100_922_0,
    2.093_024_1,
    2.085_963_4,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is_near(value: f64, wanted: f64, error: f64) {
        assert!((value - wanted).abs() <= error, "{value} instead of {wanted}");
    }

    /// Ten figures with mean 5.5 and variance 55 / 6; the t quantile for 9 degrees of freedom is
    /// 2.262157.
    #[test]
    fn the_interval_of_known_figures_is_that_of_the_text_book() {
        let figures: Vec<f64> = (1..=10).map(f64::from).collect();
        let interval = MeanInterval::of(&figures).unwrap();
        is_near(interval.mean, 5.5, 1e-12);
        is_near(interval.half_width.unwrap(), 2.262_157_16 * (55.0_f64 / 60.0).sqrt(), 1e-6);
        let two = MeanInterval::of(&[3.0, 5.0]).unwrap();
        is_near(two.half_width.unwrap(), 12.706_205, 1e-6);
    }

    #[test]
    fn one_figure_has_no_interval_and_equal_ones_one_of_no_width() {
        assert_eq!(MeanInterval::of(&[7.5]), Some(MeanInterval { mean: 7.5, half_width: None }));
        let equal = MeanInterval { mean: 0.1, half_width: Some(0.0) };
        assert_eq!(MeanInterval::of(&[0.1; 3]), Some(equal));
        assert_eq!(MeanInterval::of(&[]), None);
    }

    #[test]
    fn quantiles_go_on_behind_the_table() {
        for (freedom, quantile) in
            [(1, 12.706_205), (20, 2.085_963), (21, 2.079_614), (60, 2.000_298), (999, 1.962_341)]
        {
            is_near(student_t(freedom), quantile, 1e-5);
        }
        assert!((1..2000).map(student_t).is_sorted_by(|one, next| one > next));
    }

    /// Logarithms of 2, 2 and 8 to the base 2 are 1, 1 and 3.
    #[test]
    fn ratios_are_paired_and_the_reverse_is_the_reciprocal() {
        let (figures, base) = ([20.0, 2.0, 800.0], [10.0, 1.0, 100.0]);
        let RatioInterval { ratio, low, high } = RatioInterval::of(&figures, &base).unwrap();
        is_near(ratio, 2.0_f64.powf(5.0 / 3.0), 1e-12);
        let half_width = 4.302_652_7 * (4.0_f64 / 3.0 / 3.0).sqrt();
        is_near(high.unwrap(), 2.0_f64.powf(5.0 / 3.0 + half_width), 1e-6);
        let reverse = RatioInterval::of(&base, &figures).unwrap();
        is_near(reverse.ratio, 1.0 / ratio, 1e-12);
        is_near(reverse.high.unwrap(), 1.0 / low.unwrap(), 1e-9);
        let same = RatioInterval { ratio: 1.0, low: Some(1.0), high: Some(1.0) };
        assert_eq!(RatioInterval::of(&base, &base), Some(same));
        assert_eq!(RatioInterval::of(&[3.0], &[0.0]), None, "a ratio to nothing");
    }
}
