//! Least squares of relative errors with non-negative coefficients.
//!
//! Closed form, for at most three unknowns. Coefficients are never negative, because no device is
//! paid for a request.

/// One measured value and its terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Equation<const N: usize> {
    /// Factor of each coefficient.
    pub(super) parts: [f64; N],
    /// Measured sum.
    pub(super) sum: f64,
    /// Scale to which the error is relative.
    pub(super) scale: f64,
}

/// Returns the coefficients with the least sum of squares; None if the equations do not determine
/// them.
///
/// ```text
///   solve --> all at least 0? --yes--> done
///     ^            | no
///     '-- without the most negative one, which is 0
/// ```
pub(super) fn solve<const N: usize>(equations: &[Equation<N>]) -> Option<[f64; N]> {
    let mut is_used = [true; N];
    loop {
        let found = solve_for(equations, is_used)?;
        let lowest = (0..N).min_by(|a, b| found[*a].total_cmp(&found[*b]))?;
        if found[lowest] >= 0.0 {
            return Some(found);
        }
        is_used[lowest] = false;
    }
}

/// Returns the sum of squared relative errors.
pub(super) fn squares<const N: usize>(equations: &[Equation<N>], found: &[f64; N]) -> f64 {
    let off = |equation: &Equation<N>| {
        let sum: f64 = equation.parts.iter().zip(found).map(|(part, by)| part * by).sum();
        ((sum - equation.sum) / equation.scale).powi(2)
    };
    equations.iter().map(off).sum()
}

/// Solves the normal equations by elimination; unused coefficients are 0.
fn solve_for<const N: usize>(equations: &[Equation<N>], is_used: [bool; N]) -> Option<[f64; N]> {
    let used: Vec<usize> = (0..N).filter(|index| is_used[*index]).collect();
    if used.is_empty() || equations.len() < used.len() {
        return None;
    }
    let product = |one: usize, other: Option<usize>| -> f64 {
        let of = |equation: &Equation<N>| {
            let right = other.map_or(equation.sum, |other| equation.parts[other]);
            equation.parts[one] * right / equation.scale.powi(2)
        };
        equations.iter().map(of).sum()
    };
    let row = |one: &usize| -> Vec<f64> {
        let parts = used.iter().map(|other| product(*one, Some(*other)));
        parts.chain([product(*one, None)]).collect()
    };
    let mut rows: Vec<Vec<f64>> = used.iter().map(row).collect();
    for pivot in 0..rows.len() {
        // The matrix is symmetric and positive semidefinite, so the diagonal is the pivot.
        let head = rows[pivot].clone();
        let largest = head[pivot];
        if !largest.is_finite() || largest <= f64::MIN_POSITIVE {
            return None;
        }
        for (index, row) in rows.iter_mut().enumerate().filter(|(index, _)| *index != pivot) {
            let factor = row[pivot] / largest;
            row.iter_mut().zip(&head).for_each(|(cell, of_head)| *cell -= factor * of_head);
            let is_left = index > pivot;
            // A diagonal that elimination reduces this far is rounding error.
            if is_left && row[index].abs() <= RANK * product(used[index], Some(used[index])) {
                return None;
            }
        }
    }
    let mut found = [0.0; N];
    for (index, row) in rows.iter().enumerate() {
        found[used[index]] = row[used.len()] / row[index];
    }
    Some(found)
}

/// A column this close to a linear combination of others carries no information.
const RANK: f64 = 1e-12;

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[(f64, f64)]) -> Option<[f64; 2]> {
        let equation = |(x, y): &(f64, f64)| Equation { parts: [1.0, *x], sum: *y, scale: *y };
        solve(&points.iter().map(equation).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_through_exact_points_is_found() {
        let [at_zero, slope] = line(&[(1.0, 5.0), (2.0, 7.0), (10.0, 23.0)]).expect("a line");
        assert!((at_zero - 3.0).abs() < 1e-9 && (slope - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_negative_coefficient_is_left_out() {
        let [at_zero, slope] = line(&[(1.0, 1.0), (2.0, 3.0), (3.0, 5.0)]).expect("a line");
        assert!(at_zero.abs() < 1e-12, "{at_zero}");
        // Of y = slope x alone, by relative errors: the mean of x / y over that of its square.
        let ratios = [1.0, 2.0 / 3.0, 3.0 / 5.0];
        let best = ratios.iter().sum::<f64>() / ratios.iter().map(|r| r * r).sum::<f64>();
        assert!((slope - best).abs() < 1e-9, "{slope} {best}");
    }

    #[test]
    fn what_cannot_be_told_apart_is_not_guessed() {
        assert_eq!(line(&[(1.0, 5.0)]), None);
        assert_eq!(line(&[(2.0, 5.0), (2.0, 5.0), (2.0, 5.0)]), None);
        assert_eq!(line(&[]), None);
    }
}
