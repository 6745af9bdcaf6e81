//! Converts between milliseconds, seconds, and nanoseconds of virtual time, and checks times of
//! scenarios.

/// Converts milliseconds to nanoseconds. Values above the range of `u64` saturate.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
pub(crate) fn ns_of_ms(ms: f64) -> u64 {
    debug_assert!(ms >= 0.0, "check_time refuses negative times");
    (ms * 1e6).round() as u64
}

/// Converts nanoseconds to seconds.
#[expect(clippy::cast_precision_loss, reason = "53 bits of nanoseconds are a hundred days")]
pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Returns an error unless the time is between 0 and [`MAX_MS`].
pub(crate) fn check_time(ms: f64, parameter: &str) -> Result<(), String> {
    if ms.is_finite() && (0.0..=MAX_MS).contains(&ms) {
        Ok(())
    } else {
        Err(format!("{parameter}: must be a time from 0 to less than thirty years"))
    }
}

/// Thirty years, in ms: so that no sum of times leaves the range of `u64` nanoseconds.
pub(crate) const MAX_MS: f64 = 1e12;
