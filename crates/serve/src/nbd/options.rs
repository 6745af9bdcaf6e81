//! What is in an option.
//!
//! In:    the option's bytes, all of them.
//! Out:   names, questions; None if they are not what they should be.
//! Never: memory: what it gives lies in the bytes.

use super::wire::MAX_NAME;
use super::{be_u16, be_u32};

/// Bytes that are taken from the front.
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

    /// A length, and as many bytes of text.
    fn text(&mut self) -> Option<&'b str> {
        let len = usize::try_from(self.u32()?).ok()?;
        if len > MAX_NAME {
            return None;
        }
        std::str::from_utf8(self.bytes(len)?).ok()
    }
}

/// What `INFO` and `GO` ask: which export, and what about it.
pub(super) fn info(data: &[u8]) -> Option<(&str, impl Iterator<Item = u16>)> {
    let mut front = Front(data);
    let name = front.text()?;
    let count = usize::from(front.u16()?);
    let wanted = front.bytes(2 * count)?;
    front.0.is_empty().then(|| (name, wanted.chunks_exact(2).map(be_u16)))
}

/// What `LIST_META_CONTEXT` and `SET_META_CONTEXT` ask: which export, how many questions, and
/// those.
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
