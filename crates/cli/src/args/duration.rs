//! Durations with a unit (`5s`, `500ms`), as arguments.

use std::time::Duration;

/// Parses a duration.
pub fn duration(text: &str) -> Result<Duration, String> {
    with_unit(text, &[MILLISECOND, SECOND])
        .ok_or_else(|| "write seconds (5s) or milliseconds (500ms), up to an hour".to_owned())
}

/// Parses a whole number with one of these units, up to an hour.
pub fn with_unit(text: &str, units: &[(&str, Duration)]) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (_, unit) = units.iter().find(|(name, _)| *name == &text[digits.len()..])?;
    // Numbers that overflow exceed an hour in any unit.
    let number: u32 = digits.parse().ok()?;
    unit.checked_mul(number).filter(|duration| *duration <= LONGEST)
}

pub const MICROSECOND: (&str, Duration) = ("us", Duration::from_micros(1));
pub const MILLISECOND: (&str, Duration) = ("ms", Duration::from_millis(1));
pub const SECOND: (&str, Duration) = ("s", Duration::from_secs(1));

const LONGEST: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "5", "s", "-5s", "5m", "5 s", "1.5s", "3601s", "99999999999999999999s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
