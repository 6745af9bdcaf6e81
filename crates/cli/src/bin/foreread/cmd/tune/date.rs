//! The day, for people: when something was measured.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns today's date.
#[expect(clippy::disallowed_methods, reason = "people want to know when; nothing else asks")]
pub(super) fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    day(since.as_secs() / 86_400)
}

/// Returns the date `since_1970` days after 1970-01-01.
///
/// Years begin in March here: then the day that some years have is the last of a year, and the
/// lengths of the months before any month follow from one line, 153 days every 5 months.
pub(super) fn day(since_1970: u64) -> String {
    let days = since_1970 + 719_468; // after 0000-03-01
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(11_016), "2000-02-29");
        assert_eq!(day(11_017), "2000-03-01");
        assert_eq!(day(20_779), "2026-11-22");
        assert_eq!(day(47_540), "2100-02-28");
        assert_eq!(day(47_541), "2100-03-01");
    }
}
