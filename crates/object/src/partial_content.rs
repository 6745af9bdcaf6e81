//! Recognises responses of 200 that are partial content all the same, by their `Content-Range` and
//! `Content-Length`; rclone's `serve s3` sends them.
//!
//! Without both headers, or if they disagree, 200 means the whole object. Range, length and version
//! are then checked as in any response.

/// Returns true if a response with these headers carries a range rather than the whole object.
pub(crate) fn is_partial(content_range: Option<&str>, content_length: Option<&str>) -> bool {
    let (Some(range), Some(length)) = (content_range, content_length) else { return false };
    let parsed = || {
        let (bounds, total) = range.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = bounds.split_once('-')?;
        let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        let len = last.checked_sub(first)?.checked_add(1)?;
        let (total, length): (u64, u64) = (total.parse().ok()?, length.parse().ok()?);
        Some(len == length && last < total)
    };
    parsed().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_that_agree_say_that_it_is_a_part() {
        assert!(is_partial(Some("bytes 0-99/3000"), Some("100")));
        assert!(is_partial(Some("bytes 2900-2999/3000"), Some("100")));
        for (range, length) in [
            (None, Some("100")),
            (Some("bytes 0-99/3000"), None),
            (Some("bytes 0-99/3000"), Some("3000")),
            (Some("bytes 2901-3000/3000"), Some("100")),
            (Some("bytes 99-0/3000"), Some("100")),
            (Some("bytes 0-99/*"), Some("100")),
            (Some("bytes 0-18446744073709551615/5"), Some("0")),
            (Some("0-99/3000"), Some("100")),
        ] {
            assert!(!is_partial(range, length), "{range:?} {length:?}");
        }
    }
}
