//! Axes: range, at most nine ticks at round values, and number formats.

use std::ops::RangeInclusive;

/// Axis of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartAxis {
    /// Name, with the unit if the values have none.
    pub label: String,
    /// Number format.
    pub unit: AxisUnit,
    /// Scale.
    pub scale: AxisScale,
}

/// Number format of values.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AxisUnit {
    /// As numbers.
    Number,
    /// Bytes, in binary units: 128K.
    Bytes,
    /// Seconds, in a suitable unit: 4 ms.
    Seconds,
    /// Percent.
    Percent,
}

/// Scale of an axis.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AxisScale {
    /// Linear, from 0.
    FromZero,
    /// Logarithmic; values of 0 and below are left out.
    Log,
}

/// An axis with its range; positions are values, or their logarithms to base 2.
#[derive(Clone, Debug)]
pub(super) struct AxisRange {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) ticks: Vec<f64>,
    scale: AxisScale,
    unit: AxisUnit,
}

impl ChartAxis {
    /// Returns an axis.
    #[must_use]
    pub fn new(label: &str, unit: AxisUnit, scale: AxisScale) -> Self {
        Self { label: label.to_owned(), unit, scale }
    }

    /// Returns the range of these values.
    pub(super) fn range(&self, values: impl Iterator<Item = f64>) -> AxisRange {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| self.is_shown(*value)) {
            least = least.min(value);
            most = most.max(value);
        }
        let (unit, scale) = (self.unit, self.scale);
        match scale {
            AxisScale::FromZero => {
                let most = if most > 0.0 { most } else { 1.0 };
                let ticks = linear_ticks(most, unit);
                AxisRange { from: 0.0, to: most * 1.04, ticks, scale, unit }
            }
            AxisScale::Log => {
                let (least, most) = if least <= most { (least, most) } else { (1.0, 2.0) };
                let most = most.max(least * 1.5);
                let ticks = log_ticks(least..=most, unit);
                AxisRange { from: least.log2(), to: most.log2(), ticks, scale, unit }
            }
        }
    }

    /// Returns true if a value can be shown on the axis.
    pub(super) fn is_shown(&self, value: f64) -> bool {
        let is_positive = match self.scale {
            AxisScale::FromZero => value >= 0.0,
            AxisScale::Log => value > 0.0,
        };
        value.is_finite() && is_positive
    }
}

impl AxisRange {
    /// Returns the position of a value.
    pub(super) fn position(&self, value: f64) -> f64 {
        match self.scale {
            AxisScale::FromZero => value,
            AxisScale::Log => value.log2(),
        }
    }

    /// Returns the text of a tick.
    pub(super) fn words(&self, position: f64) -> String {
        match self.scale {
            AxisScale::FromZero => self.unit.words(position),
            AxisScale::Log => self.unit.words(position.exp2()),
        }
    }
}

impl AxisUnit {
    /// Formats a value.
    pub(super) fn words(self, value: f64) -> String {
        if !value.is_finite() {
            return "-".to_owned();
        }
        match self {
            Self::Number => number(value),
            Self::Bytes => bytes(value),
            Self::Seconds => seconds(value),
            Self::Percent => format!("{} %", number(value)),
        }
    }
}

/// Returns 0 and multiples of 1, 2 or 5 times a power of ten; for bytes, of a power of two.
fn linear_ticks(most: f64, unit: AxisUnit) -> Vec<f64> {
    let step = match unit {
        AxisUnit::Bytes => (most / 4.0).max(1.0).log2().ceil().exp2(),
        AxisUnit::Number | AxisUnit::Seconds | AxisUnit::Percent => {
            let rough = most / 5.0;
            let power = 10_f64.powf(rough.log10().floor());
            let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough);
            factor.unwrap_or(10.0) * power
        }
    };
    (0..9).map(|n| f64::from(n) * step).take_while(|tick| *tick <= most * 1.02).collect()
}

/// Returns powers of two for bytes, powers of ten otherwise; every second or third if there are
/// many. These are positions, not values.
fn log_ticks(values: RangeInclusive<f64>, unit: AxisUnit) -> Vec<f64> {
    let base = match unit {
        AxisUnit::Bytes => 1.0,
        AxisUnit::Number | AxisUnit::Seconds | AxisUnit::Percent => 10_f64.log2(),
    };
    let first = (values.start().log2() / base - 1e-9).ceil();
    let last = (values.end().log2() / base + 1e-9).floor();
    let every = ((last - first + 1.0) / 6.0).ceil().max(1.0);
    let ticks: Vec<f64> =
        (0..9).map(|n| first + f64::from(n) * every).take_while(|tick| *tick <= last).collect();
    if ticks.len() > 1 {
        return ticks.into_iter().map(|tick| tick * base).collect();
    }
    // Too narrow for round values: use the ends.
    vec![values.start().log2(), values.end().log2()]
}

/// Formats a number with three digits.
fn number(value: f64) -> String {
    let (divided, suffix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    format!("{}{suffix}", digits(divided))
}

fn bytes(value: f64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let unit = units.into_iter().find(|(bits, _)| value >= f64::from(*bits).exp2());
    let (bits, suffix) = unit.unwrap_or((0, ""));
    format!("{}{suffix}", digits(value / f64::from(bits).exp2()))
}

fn seconds(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 1e-6 => format!("{} ns", digits(value * 1e9)),
        value if value < 1e-3 => format!("{} us", digits(value * 1e6)),
        value if value < 1.0 => format!("{} ms", digits(value * 1e3)),
        value => format!("{} s", number(value)),
    }
}

/// Formats at most three digits before or after the point, without trailing zeros.
fn digits(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(linear_ticks(7.3, AxisUnit::Number), [0.0, 2.0, 4.0, 6.0]);
        assert_eq!(linear_ticks(3.0 * 1024.0, AxisUnit::Bytes), [0.0, 1024.0, 2048.0, 3072.0]);
        assert_eq!(log_ticks(1024.0..=8192.0, AxisUnit::Bytes), [10.0, 11.0, 12.0, 13.0]);
        assert_eq!(log_ticks(1.0..=(1_u64 << 40) as f64, AxisUnit::Bytes).len(), 6);
        for most in [1e-12, 1e-3, 0.7, 1.0, 99.0, 1e15] {
            for unit in [AxisUnit::Number, AxisUnit::Bytes, AxisUnit::Seconds] {
                assert!((1..=9).contains(&linear_ticks(most, unit).len()), "{most} {unit:?}");
            }
        }
    }

    #[test]
    fn values_have_the_unit_that_suits() {
        let words = |unit: AxisUnit, value| unit.words(value);
        assert_eq!(words(AxisUnit::Bytes, 131_072.0), "128K");
        assert_eq!(words(AxisUnit::Seconds, 0.0042), "4.2 ms");
        assert_eq!(words(AxisUnit::Number, 1_500_000.0), "1.5M");
        assert_eq!(words(AxisUnit::Percent, 12.34), "12.3 %");
        assert_eq!(words(AxisUnit::Number, 100.0), "100");
    }

    #[test]
    fn an_axis_without_values_has_a_range() {
        for scale in [AxisScale::FromZero, AxisScale::Log] {
            let axis = ChartAxis::new("", AxisUnit::Bytes, scale);
            let range = axis.range([f64::NAN, f64::INFINITY, -1.0].into_iter());
            assert!(range.from < range.to && range.ticks.iter().all(|tick| tick.is_finite()));
        }
    }
}
