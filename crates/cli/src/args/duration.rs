//! Durations with a unit (`5s`, `500ms`), as arguments.

use std::time::Duration;

/// Parses a duration.
pub fn duration(text: &str) -> Result<Duration, String> {
    with_unit(text)
        .ok_or_else(|| "write seconds (5s) or milliseconds (500ms), up to an hour".to_owned())
}

/// Parses a whole number with its unit, up to an hour.
fn with_unit(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == &text[digits.len()..])?;
    // Numbers that overflow exceed an hour in any unit.
    let number: u32 = digits.parse().ok()?;
    unit.checked_mul(number).filter(|duration| *duration <= LONGEST)
}

const UNITS: [(&str, Duration); 2] =
    [("ms", Duration::from_millis(1)), ("s", Duration::from_secs(1))];

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
