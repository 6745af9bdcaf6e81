//! Parsers for the payload of NBD options. Results borrow from the payload; malformed input yields
//! None.

use super::wire::MAX_NAME;
use super::{be_u16, be_u32};

/// Cursor that consumes bytes from the front.
struct Front<'b>(&'b [u8]);

impl<'b> Front<'b> {
    fn bytes(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.bytes(2).map(be_u16)
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes(4).map(be_u32)
    }

    /// Reads a length and that number of bytes of text.
    fn text(&mut self) -> Option<&'b str> {
        let len = usize::try_from(self.u32()?).ok()?;
        if len > MAX_NAME {
            return None;
        }
        std::str::from_utf8(self.bytes(len)?).ok()
    }
}

/// Parses `INFO` and `GO`: returns the export name and the requested information types.
pub(super) fn info(data: &[u8]) -> Option<(&str, impl Iterator<Item = u16>)> {
    let mut front = Front(data);
    let name = front.text()?;
    let count = usize::from(front.u16()?);
    let wanted = front.bytes(2 * count)?;
    front.0.is_empty().then(|| (name, wanted.chunks_exact(2).map(be_u16)))
}

/// Parses `LIST_META_CONTEXT` and `SET_META_CONTEXT`: returns the export name, the number of
/// queries and the queries.
pub(super) fn meta_context(data: &[u8]) -> Option<(&str, u32, impl Iterator<Item = &str>)> {
    let mut front = Front(data);
    let name = front.text()?;
    let count = front.u32()?;
    let start = front.0;
    for _ in 0..count {
        front.text()?;
    }
    let mut again = Front(start);
    let questions = (0..count).filter_map(move |_| again.text());
    front.0.is_empty().then_some((name, count, questions))
}
