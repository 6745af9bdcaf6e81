//! As much of HTTP/1.1 as clients of object stores send.
//!
//! In:    the bytes of a connection.
//! Out:   requests without bodies; answers with a length.
//! Never: a header that no store looks at.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::ops::Range;

/// A request, as far as a store looks at it.
#[derive(Debug)]
pub struct Request {
    pub is_head: bool,
    pub target: String,
    pub range: Option<ByteRange>,
    pub if_match: Option<String>,
    pub authorization: Option<String>,
    /// Whether the client wants the connection for no other request.
    pub is_last: bool,
}

/// The value of `Range`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ByteRange {
    /// From an offset, to the end or to another one, which is not part of it.
    From(u64, Option<u64>),
    /// So many bytes at the end.
    Last(u64),
}

impl ByteRange {
    fn parse(value: &str) -> Option<Self> {
        let (start, end) = value.strip_prefix("bytes=")?.split_once('-')?;
        if start.is_empty() {
            return Some(Self::Last(end.parse().ok()?));
        }
        let end = match end {
            "" => None,
            end => Some(end.parse::<u64>().ok()?.checked_add(1)?),
        };
        Some(Self::From(start.parse().ok()?, end))
    }

    /// The bytes of an object of this length; None if it has none of them.
    #[must_use]
    pub fn within(self, len: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::From(start, end) => start..end.unwrap_or(len).min(len),
            Self::Last(count) => len.saturating_sub(count)..len,
        };
        (range.start < range.end).then_some(range)
    }
}

impl Request {
    /// Reads the next request; None at the end of the connection.
    pub fn read<R: Read>(from: &mut BufReader<R>) -> std::io::Result<Option<Self>> {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let is_head = words.next() == Some("HEAD");
        let target = words.next().unwrap_or_default().to_owned();
        let (if_match, authorization) = (None, None);
        let mut request =
            Self { is_head, target, range: None, if_match, authorization, is_last: false };
        loop {
            line.clear();
            from.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(':') else {
                return Ok(Some(request));
            };
            let value = value.trim();
            match &*name.to_ascii_lowercase() {
                "range" => request.range = ByteRange::parse(value),
                "if-match" => request.if_match = Some(value.to_owned()),
                "authorization" => request.authorization = Some(value.to_owned()),
                "connection" => request.is_last = value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
    }
}

/// Writes the head of an answer, and its body if the request wants one.
pub fn answer(
    to: &mut impl Write,
    request: &Request,
    status: u16,
    head: &str,
    body: &[u8],
) -> std::io::Result<()> {
    to.write_all(head_of(status, head, body.len() as u64).as_bytes())?;
    if !request.is_head {
        to.write_all(body)?;
    }
    Ok(())
}

/// The head of an answer with a body of this length.
#[must_use]
pub fn head_of(status: u16, head: &str, len: u64) -> String {
    format!("HTTP/1.1 {status} X\r\n{head}Content-Length: {len}\r\n\r\n")
}

/// What a part of a URL says: `%2F` is a slash.
///
/// # Panics
///
/// If it is not UTF-8: keys are.
#[must_use]
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let hex = std::str::from_utf8(&tail[..tail.len().min(2)]).unwrap_or_default();
        match u8::from_str_radix(hex, 16) {
            Ok(byte) if *first == b'%' && hex.len() == 2 => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).expect("keys are UTF-8")
}
