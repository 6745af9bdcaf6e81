//! What a client has sent and nobody has looked at yet.
//!
//! In:    bytes of a socket.
//! Out:   the same, in one piece.
//! Never: more than its fixed size, whatever the client sends.

#[derive(Debug)]
pub(crate) struct Input {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; INPUT], start: 0, end: 0 }
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
        &mut self.buffer[self.end..]
    }

    pub(crate) fn received(&mut self, bytes: usize) {
        self.end += bytes;
        assert!(self.end <= self.buffer.len(), "no more than there was room for");
    }
}

/// Nine thousand requests, or the payload of a large write.
pub(crate) const INPUT: usize = 256 << 10;
/// So many bytes are moved sooner than the buffer's untouched end is touched.
const FEW: usize = 64;
