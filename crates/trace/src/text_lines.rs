//! Lines of a text format, with their numbers and a limit on their length.

use std::borrow::Cow;
use std::io::{self, BufRead};

/// Reader of lines with a bounded length.
pub(crate) struct TextLines<R> {
    input: R,
    line: Vec<u8>,
    /// Number of the last line, from 1.
    pub(crate) number: u64,
}

/// Reason for a missing line.
pub(crate) enum NoLine {
    Failed(io::Error),
    TooLong,
}

impl<R: BufRead> TextLines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0 }
    }

    /// Reads the next line. Returns false at the end.
    pub(crate) fn advance(&mut self) -> Result<bool, NoLine> {
        self.line.clear();
        self.number += 1;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(NoLine::Failed(error)),
            };
            if available.is_empty() {
                return Ok(!self.line.is_empty());
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            let part = &available[..end.unwrap_or(available.len())];
            if self.line.len() + part.len() > MAX_LINE {
                return Err(NoLine::TooLong);
            }
            self.line.extend_from_slice(part);
            self.input.consume(taken);
            if end.is_some() {
                return Ok(true);
            }
        }
    }

    /// Returns the last line without surrounding white space except tabs. A byte that is not UTF-8
    /// becomes `\\x` and two hexadecimal digits.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        let line = if self.number == 1 { without_mark(&self.line) } else { &self.line };
        text_of(trimmed(line))
    }
}

/// Returns the bytes without a leading byte-order mark.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// Returns the line without surrounding white space except tabs: a field between tabs may be empty.
pub(crate) fn trimmed(line: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() && *byte != b'\t';
    let start = line.iter().position(|byte| !is_blank(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    &line[start..end]
}

/// Converts bytes to text: process names are truncated within a character, and may contain any
/// bytes.
pub(crate) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text += &format!("\\x{byte:02x}");
        }
    }
    Cow::Owned(text)
}

/// Longest line: two names of `PATH_MAX` and all numbers fit several times.
pub(crate) const MAX_LINE: usize = 64 << 10;
