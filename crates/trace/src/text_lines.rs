//! The lines of a text format, with their numbers and a bound on their length.
//!
//! In:    bytes.
//! Out:   lines without their end.
//! Never: a line in memory that is longer than the bound.

use std::borrow::Cow;
use std::io::{self, BufRead};

/// Reads lines.
pub(crate) struct TextLines<R> {
    input: R,
    line: Vec<u8>,
    /// The number of the last line, from 1.
    pub(crate) number: u64,
}

/// Why there is no line.
pub(crate) enum NoLine {
    Failed(io::Error),
    TooLong,
}

impl<R: BufRead> TextLines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0 }
    }

    /// Reads the next line; false at the end.
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

    /// The line that was read last, without white space around it. A byte that is no text becomes
    /// `\\x` and two hexadecimal digits.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        let line = if self.number == 1 { without_mark(&self.line) } else { &self.line };
        text_of(line.trim_ascii())
    }
}

/// Bytes without the mark that some programs begin a text with.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// Bytes as text: names of processes are cut within a letter, and may have any bytes.
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

/// The longest line: two names of `PATH_MAX` and all numbers fit in it several times.
pub(crate) const MAX_LINE: usize = 64 << 10;
