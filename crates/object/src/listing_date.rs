//! Dates in listings: RFC 3339 from S3 and Google, the form of HTTP from Azure. A date in another
//! form is rewritten; text that is no date becomes the first second of 1970, which stands for none.

use std::time::{Duration, UNIX_EPOCH};

use crate::http_date;

/// Returns the date in the form of its protocol, or None if it has that form.
pub(crate) fn in_form(text: &str, is_rfc_3339: bool) -> Option<String> {
    let in_http = http_date::seconds(text);
    let is_in_form = match is_rfc_3339 {
        true => is_zoned(text),
        false => in_http.is_some_and(|seconds| http_date::text(seconds) == text),
    };
    if is_in_form {
        return None;
    }
    let seconds = in_http.or_else(|| weak_seconds(text)).unwrap_or(0);
    if !is_rfc_3339 {
        return Some(http_date::text(seconds));
    }
    let at = UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    Some(humantime::format_rfc3339_seconds(at).to_string())
}

/// Returns true for RFC 3339 with `Z` or an offset such as `+02:00`.
fn is_zoned(text: &str) -> bool {
    let with_offset = || {
        let (date, offset) = text.split_at_checked(text.len().checked_sub(6)?)?;
        let (hours, minutes) = offset.strip_prefix(['+', '-'])?.split_once(':')?;
        let is_below = |part: &str, most: u32| part.parse::<u32>().is_ok_and(|it| it < most);
        (is_below(hours, 24) && is_below(minutes, 60)).then_some(date)
    };
    match with_offset() {
        Some(date) => !date.ends_with('Z') && humantime::parse_rfc3339(&format!("{date}Z")).is_ok(),
        None => humantime::parse_rfc3339(text).is_ok(),
    }
}

/// Parses RFC 3339 with or without `T` and `Z`.
fn weak_seconds(text: &str) -> Option<i64> {
    let at = humantime::parse_rfc3339_weak(text).ok()?;
    i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_in_its_form_stays() {
        for date in
            ["2026-11-24T10:00:00.000Z", "2026-11-24T10:00:00Z", "2026-11-24T10:00:00.123456+02:00"]
        {
            assert_eq!(in_form(date, true), None, "{date}");
        }
        assert_eq!(in_form("Tue, 24 Nov 2026 10:00:00 GMT", false), None);
    }

    #[test]
    fn a_date_in_another_form_is_rewritten_and_any_other_text_is_none() {
        for date in [
            "2026-11-24T10:00:00",
            "2026-11-24 10:00:00",
            "Tue, 24 Nov 2026 10:00:00 GMT",
            "Tuesday, 24-Nov-26 10:00:00 GMT",
        ] {
            assert_eq!(in_form(date, true).as_deref(), Some("2026-11-24T10:00:00Z"), "{date}");
        }
        let in_http = Some("Tue, 24 Nov 2026 10:00:00 GMT".to_owned());
        for date in ["2026-11-24T10:00:00Z", "Tuesday, 24-Nov-26 10:00:00 GMT"] {
            assert_eq!(in_form(date, false), in_http, "{date}");
        }
        for none in ["", "0", "soon", "0001-01-01T00:00:00Z", "2026-13-24T10:00:00Z", "\u{e4}:00"] {
            assert_eq!(in_form(none, true).as_deref(), Some("1970-01-01T00:00:00Z"), "{none}");
            assert_eq!(in_form(none, false).as_deref(), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
        }
    }
}
