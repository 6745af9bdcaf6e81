//! Robust centre and spread of numbers, some of which are disturbed. No single number moves them
//! far.

/// Returns the mean without the lowest and highest fifth; below five numbers, the median.
pub(crate) fn trimmed_mean(values: &mut [f64]) -> f64 {
    if values.len() < 5 {
        return median(values);
    }
    values.sort_unstable_by(f64::total_cmp);
    let cut = values.len() / 5;
    let kept = &values[cut..values.len() - cut];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// Returns the median; 0 if there are no numbers.
pub(crate) fn median(values: &mut [f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    if values.len() % 2 == 1 { values[half] } else { f64::midpoint(values[half - 1], values[half]) }
}

/// Returns the standard deviation around 0, from the median distance. Up to half of the numbers may
/// be arbitrary.
pub(crate) fn spread(values: &mut [f64]) -> f64 {
    values.iter_mut().for_each(|value| *value = value.abs());
    NORMAL * median(values)
}

/// Standard deviation of a normal distribution over its median distance from the mean.
const NORMAL: f64 = 1.4826;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_number_alone_moves_nothing_far() {
        let mut values = [1.0, 2.0, 3.0, 4.0, 1e9];
        assert!((trimmed_mean(&mut values) - 3.0).abs() < 1e-9);
        assert!((median(&mut [4.0, 1.0, 2.0, 9.0]) - 3.0).abs() < 1e-9);
        assert!((spread(&mut [-1.0, 1.0, -1.0, 1e9, 1.0]) - 1.4826).abs() < 1e-9);
        assert!(trimmed_mean(&mut []).abs() < 1e-9);
    }
}
