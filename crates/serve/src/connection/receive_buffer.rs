//! Buffer of received bytes that are not parsed yet, in one piece and of bounded size.

use crate::buffer_memory::{BufferMemory, ConnectionBuffer};

#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    buffer: ConnectionBuffer,
    start: usize,
    end: usize,
}

impl ReceiveBuffer {
    pub(crate) fn new(memory: &BufferMemory) -> Self {
        Self { buffer: memory.buffer(FIRST), start: 0, end: 0 }
    }

    /// Grows the buffer to `len` bytes. Above [`INPUT`], the caller has taken
    /// [`super::wait::GROWTH`] from the budget.
    pub(crate) fn grow(&mut self, len: usize) {
        if self.buffer.len() < len {
            self.buffer.grow(len);
        }
    }

    pub(crate) fn is_large(&self) -> bool {
        self.buffer.len() > INPUT
    }

    /// Shrinks an empty buffer to its first size. Returns true if it was large.
    pub(crate) fn shrink(&mut self) -> bool {
        let (is_empty, was_large) = (self.start == self.end, self.is_large());
        if is_empty && self.buffer.len() > FIRST {
            self.buffer.replace(FIRST);
        }
        is_empty && was_large
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start, "no more than there is");
        self.start += bytes;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Returns space for received bytes. It is empty only if the buffer is full of unparsed bytes.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.start > 0 && (self.end - self.start < FEW || self.end == self.buffer.len()) {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end == self.buffer.len() {
            self.grow(INPUT);
        }
        &mut self.buffer[self.end..]
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        self.end += bytes;
        assert!(self.end <= self.buffer.len(), "no more than there was room for");
    }
}

/// Initial size: some requests, enough for an idle client.
const FIRST: usize = 4 << 10;
/// Normal size: the longest option, or about 3,000 requests.
pub(super) const INPUT: usize = 80 << 10;
/// Size for clients with long writes.
pub(super) const LARGE_INPUT: usize = 256 << 10;
/// Fewer bytes than this are moved to the front rather than touching new pages at the end.
const FEW: usize = 64;
