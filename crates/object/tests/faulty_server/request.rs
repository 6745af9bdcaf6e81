//! A request to the faulty server.

use std::ops::Range;

/// A request, as far as the server looks at it.
pub struct Request {
    pub is_head: bool,
    pub path: String,
    pub range: Option<Range<u64>>,
    pub if_match: Option<String>,
    pub if_unmodified_since: Option<String>,
}

impl Request {
    pub fn read(from: &mut impl std::io::BufRead) -> std::io::Result<Option<Self>> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let is_head = words.next() == Some("HEAD");
        let path = words.next().unwrap_or_default().to_owned();
        let mut request =
            Self { is_head, path, range: None, if_match: None, if_unmodified_since: None };
        loop {
            let mut line = String::new();
            from.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(": ") else {
                return Ok(Some(request));
            };
            match &*name.to_ascii_lowercase() {
                "range" => request.range = range(value),
                "if-match" => request.if_match = Some(value.to_owned()),
                "if-unmodified-since" => request.if_unmodified_since = Some(value.to_owned()),
                _ => {}
            }
        }
    }
}

fn range(value: &str) -> Option<Range<u64>> {
    let (start, end) = value.strip_prefix("bytes=")?.split_once('-')?;
    Some(start.parse().ok()?..end.parse::<u64>().ok()? + 1)
}
