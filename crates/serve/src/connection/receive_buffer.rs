//! Bytes that a client has sent and that are not parsed yet.
//!
//! In:    bytes of a socket.
//! Out:   the same, in one piece.
//! Never: more than its fixed size, whatever the client sends.

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

    /// A long payload is coming. Beyond [`INPUT`] it must have been paid for.
    pub(crate) fn grow(&mut self, len: usize) {
        if self.buffer.len() < len {
            self.buffer.grow(len);
        }
    }

    pub(crate) fn is_large(&self) -> bool {
        self.buffer.len() > INPUT
    }

    /// Frees what the buffer has grown by, if it is empty; true if it was large.
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

    /// Where the next bytes go. There is room unless nothing was ever consumed.
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

/// Some requests: a client that does nothing has no more.
const FIRST: usize = 4 << 10;
/// The longest option, or some thousand requests: most clients need no more.
pub(super) const INPUT: usize = 80 << 10;
/// A large part of a large write.
pub(super) const LARGE_INPUT: usize = 256 << 10;
/// So many bytes are moved sooner than the buffer's untouched end is touched.
const FEW: usize = 64;
