//! Tests whether one window keeps the throughput of another, before a setting is changed.
//!
//! A few readings may all have been stalls, so they never give a certain answer.
//!
//! ```text
//!              98 % of the window in force
//!   surely not |
//!    |--o--|   |     |--o--|  surely
//!            |-|-o--|  not known: nothing is changed
//! ```

use super::{CurvePoint, FEW, SHARE, Z};
use crate::report::WindowResult;

/// Measurement of one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredWindow {
    /// Logarithm of its throughput.
    ln: f64,
    /// Standard error of `ln`.
    error: f64,
    /// Number of readings.
    readings: u32,
}

/// Answer to whether a window gives at least 98 % of another's throughput.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Certainty {
    /// The window is as good, beyond doubt.
    Surely,
    /// The window gives less, beyond doubt.
    SurelyNot,
    /// Undecided without more readings.
    Unknown,
}

impl MeasuredWindow {
    /// Tests whether it keeps 98 % of the throughput of `now`. `bias` is the relative difference
    /// that causes other than the windows may produce.
    #[must_use]
    pub fn keeps(&self, now: &Self, bias: f64) -> Certainty {
        let (apart, error) = (self.ln - now.ln, self.error.hypot(now.error));
        if !(self.is_enough() && now.is_enough()) {
            return Certainty::Unknown;
        }
        // Equal readings compare as equal, despite rounding.
        let line = SHARE.ln() - 1e-9;
        let doubt = errors_beyond_doubt(self.readings.min(now.readings)) * error + bias;
        match (apart - doubt >= line, apart + doubt < line) {
            (true, _) => Certainty::Surely,
            (false, true) => Certainty::SurelyNot,
            (false, false) => Certainty::Unknown,
        }
    }

    /// Returns whether there are enough readings to rule out stalls, unless they hardly differ.
    fn is_enough(&self) -> bool {
        self.readings > FEW || self.error < CALM_ERROR
    }
}

impl From<&CurvePoint> for MeasuredWindow {
    fn from(point: &CurvePoint) -> Self {
        Self { ln: point.ln, error: point.error, readings: point.readings }
    }
}

impl From<&WindowResult> for MeasuredWindow {
    fn from(row: &WindowResult) -> Self {
        let error = (row.high / row.low).ln() / (2.0 * Z);
        let is_known = row.mb_per_s > 0.0 && error.is_finite();
        let error = if is_known { error.max(0.0) } else { f64::INFINITY };
        Self { ln: row.mb_per_s.ln(), error, readings: row.samples }
    }
}

/// Returns the number of standard errors that are beyond doubt for a window with this many
/// readings.
///
/// A setting stays for years, and the deviation is estimated from a few dozen readings: the tails
/// are heavier than the normal distribution's. This is Student's t at the probability that
/// [`DOUBTLESS`] has for a known deviation, by the first two terms of its Cornish-Fisher expansion.
fn errors_beyond_doubt(readings: u32) -> f64 {
    let z = DOUBTLESS;
    let freedom = (f64::from(readings) - 1.0 + SHARED_READINGS).max(1.0);
    let first = (z.powi(3) + z) / (4.0 * freedom);
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * freedom * freedom);
    z + first + second
}

/// Standard errors that are beyond doubt if the deviation is known.
const DOUBTLESS: f64 = 4.0;

/// Weight of the common deviation of all windows, in readings of one window.
const SHARED_READINGS: f64 = 8.0;

/// Standard error that three calm readings reach.
const CALM_ERROR: f64 = 0.004;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(mb_per_s: f64, error: f64, samples: u32) -> MeasuredWindow {
        let bound = |errors: f64| mb_per_s * (errors * Z * error).exp();
        let (low, high) = (bound(-1.0), bound(1.0));
        MeasuredWindow::from(&WindowResult { window_kib: 128, mb_per_s, low, high, samples })
    }

    #[test]
    fn a_window_keeps_what_it_surely_keeps() {
        let now = row(100.0, 0.002, 20);
        assert_eq!(row(99.5, 0.002, 20).keeps(&now, 0.0), Certainty::Surely);
        assert_eq!(row(98.5, 0.002, 20).keeps(&now, 0.0), Certainty::Unknown);
        assert_eq!(row(97.5, 0.002, 20).keeps(&now, 0.0), Certainty::Unknown);
        assert_eq!(row(90.0, 0.002, 20).keeps(&now, 0.0), Certainty::SurelyNot);
        assert_eq!(row(140.0, 0.02, 20).keeps(&now, 0.0), Certainty::Surely);
        assert_eq!(row(100.0, 0.002, 20).keeps(&now, 0.1), Certainty::Unknown, "it may be credit");
    }

    #[test]
    fn fewer_readings_have_to_be_further_apart() {
        let now = |samples| row(100.0, 0.012, samples);
        assert_eq!(row(105.5, 0.012, 300).keeps(&now(300), 0.0), Certainty::Surely);
        assert_eq!(row(105.5, 0.012, 11).keeps(&now(11), 0.0), Certainty::Unknown);
        assert!(errors_beyond_doubt(3) > 6.0 && errors_beyond_doubt(300) < 4.1);
    }

    #[test]
    fn three_readings_that_differ_tell_nothing() {
        let now = row(60.0, 0.03, 3);
        assert_eq!(
            row(100.0, 0.01, 20).keeps(&now, 0.0),
            Certainty::Unknown,
            "it may have been stalled"
        );
        assert_eq!(row(100.0, 0.01, 20).keeps(&row(60.0, 0.03, 9), 0.0), Certainty::Surely);
        assert_eq!(row(100.0, 0.0, 3).keeps(&row(100.0, 0.0, 3), 0.0), Certainty::Surely);
        assert_eq!(row(0.0, 0.0, 30).keeps(&now, 0.0), Certainty::Unknown, "nothing was read");
    }
}
