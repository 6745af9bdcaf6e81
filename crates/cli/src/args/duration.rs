//! Times as users write them.
//!
//! In:    `5s`, `500ms`.
//! Out:   a duration.
//! Never: a number whose unit is guessed.

use std::time::Duration;

/// Reads a time.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: Option<u64> = digits.parse().ok();
    let duration = match (number, &text[digits.len()..]) {
        (Some(number), "ms") => Some(Duration::from_millis(number)),
        (Some(number), "s") => Some(Duration::from_secs(number)),
        _ => None,
    };
    duration
        .filter(|duration| *duration <= LONGEST)
        .ok_or_else(|| "write seconds (5s) or milliseconds (500ms), up to an hour".to_owned())
}

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
