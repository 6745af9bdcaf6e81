//! Payload of a write request: which of the bytes that have arrived are taken now.

use std::ops::Range;

use crate::nbd::NbdErrno;
use crate::nbd::request::NbdRequest;

/// A write request whose payload is still arriving.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) cookie: u64,
    /// File offset of the next byte.
    pub(super) at: u64,
    /// Payload bytes that are still to be taken.
    pub(super) left: usize,
    pub(super) fua: bool,
    /// After an error, the rest of the payload is discarded.
    pub(super) result: Result<(), NbdErrno>,
    /// A part of it is being written by another thread.
    pub(super) is_waiting: bool,
}

impl Incoming {
    pub(super) fn new(request: &NbdRequest, fua: bool) -> Self {
        let left = usize::try_from(request.payload())
            .expect("a request's length is a u32, and usize has 32 bits at least");
        let NbdRequest { cookie, offset: at, .. } = *request;
        Self { cookie, at, left, fua, result: Ok(()), is_waiting: false }
    }

    /// Creates a write that is answered with an error once its payload has been discarded.
    pub(super) fn refused(request: &NbdRequest, errno: NbdErrno) -> Self {
        Self { result: Err(errno), ..Self::new(request, false) }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Returns the number of bytes to take now, of those that have arrived: all of the rest, or
    /// whole pages of at least `enough` bytes. None: wait for more.
    pub(super) fn bytes_to_take(&self, arrived: usize, enough: usize) -> Option<usize> {
        if arrived >= self.left {
            return Some(self.left);
        }
        let here = match self.result {
            Ok(()) if arrived < enough => 0,
            Ok(()) => to_page_end(self.at..self.at + arrived as u64),
            Err(_) => arrived,
        };
        (here > 0).then_some(here)
    }

    pub(super) fn advance(&mut self, bytes: usize) {
        self.at += bytes as u64;
        self.left -= bytes;
    }
}

/// Returns the length of a range of bytes up to the end of the last page that it has whole.
pub(super) fn to_page_end(range: Range<u64>) -> usize {
    let end = range.end & !(PAGE - 1);
    usize::try_from(end.saturating_sub(range.start)).expect("a part of a payload")
}

const PAGE: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::wire;

    fn write(offset: u64, len: u32) -> NbdRequest {
        NbdRequest { command: wire::CMD_WRITE, cookie: 1, offset, len, flags: 0 }
    }

    #[test]
    fn a_part_of_a_payload_ends_with_a_page_and_the_last_one_with_the_request() {
        let mut incoming = Incoming::new(&write(1000, 300_000), false);
        assert_eq!(incoming.bytes_to_take(65_535, 65_536), None);
        assert_eq!(incoming.bytes_to_take(65_536, 65_536), Some(16 * 4096 - 1000));
        incoming.advance(16 * 4096 - 1000);
        assert_eq!((incoming.at, incoming.left), (16 * 4096, 300_000 - 16 * 4096 + 1000));
        assert_eq!(incoming.bytes_to_take(4095, 1), None, "no page is whole");
        assert_eq!(incoming.bytes_to_take(1 << 20, 1 << 21), Some(incoming.left));
        incoming.advance(incoming.left);
        assert_eq!(incoming.bytes_to_take(0, 1), Some(0));
    }

    #[test]
    fn a_payload_that_is_discarded_is_taken_as_it_arrives() {
        let refused = Incoming::refused(&write(1000, 9000), NbdErrno::NoSpc);
        assert_eq!(refused.bytes_to_take(0, 4096), None);
        assert_eq!(refused.bytes_to_take(1, 4096), Some(1));
        assert_eq!(refused.bytes_to_take(10_000, 4096), Some(9000));
    }
}
