//! Parses the pause requested with a refusal: `Retry-After` (seconds or a date) and Azure's headers
//! in ms. A date is compared with the server's own `Date` if it sends one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::http_date;

/// Returns the pause that a response requests.
pub(crate) fn asked<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Duration> {
    for name in ["x-ms-retry-after-ms", "retry-after-ms"] {
        if let Some(ms) = header(name).and_then(|text| text.trim().parse().ok()) {
            return Some(Duration::from_millis(ms));
        }
    }
    let text = header("retry-after")?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        let is_time = seconds.is_finite() && seconds >= 0.0;
        return is_time.then(|| Duration::from_secs_f64(seconds.min(LONGEST_S)));
    }
    let at = http_date::seconds(text)?;
    let now = header("date").and_then(http_date::seconds).unwrap_or_else(wall_clock_s);
    Some(Duration::from_secs(u64::try_from(at - now).unwrap_or(0)))
}

#[expect(clippy::disallowed_methods, reason = "a server's date is beside this clock")]
fn wall_clock_s() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// A year: longer than any deadline, and within the range of a duration.
const LONGEST_S: f64 = 3.2e7;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(&str, &'static str)]) -> Option<Duration> {
        asked(|name| headers.iter().find(|(it, _)| *it == name).map(|(_, value)| *value))
    }

    /// It was ignored.
    #[test]
    fn a_pause_is_read_in_each_of_its_forms() {
        let date = ("date", "Tue, 24 Nov 2026 17:00:00 GMT");
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(of(&[("retry-after", "7")]), seconds(7));
        assert_eq!(of(&[("retry-after", " 0 ")]), seconds(0));
        assert_eq!(of(&[("retry-after", "1.5")]), Some(Duration::from_millis(1500)));
        assert_eq!(of(&[date, ("retry-after", "Tue, 24 Nov 2026 17:00:05 GMT")]), seconds(5));
        assert_eq!(of(&[date, ("retry-after", "Tuesday, 24-Nov-26 17:00:05 GMT")]), seconds(5));
        assert_eq!(of(&[date, ("retry-after", "Tue, 24 Nov 2026 16:00:00 GMT")]), seconds(0));
        assert_eq!(of(&[("x-ms-retry-after-ms", "250")]), Some(Duration::from_millis(250)));
        for wrong in ["soon", "-1", "NaN", "inf"] {
            assert_eq!(of(&[("retry-after", wrong)]), None, "{wrong}");
        }
        assert!(of(&[("retry-after", "1e300")]).is_some());
        assert_eq!(of(&[]), None);
    }
}
