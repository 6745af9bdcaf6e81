//! Write requests: their payload goes to the cache as it arrives.
//!
//! A connection buffers at most one receive buffer of payload. If the cache is full, or if the
//! write is FUA, a future or the blocking pool copies and writes the bytes, and the connection
//! receives nothing more until part of the write is done.

use super::Connection;
use super::payload::{Incoming, to_page_end};
use super::receive_buffer::{INPUT, LARGE_INPUT};
use super::wait::GROWTH;
use crate::blocking_pool::BlockingWork;
use crate::nbd::{NbdErrno, reply};

/// Destination of payload bytes.
enum PayloadEnd {
    Cached,
    Failed(NbdErrno),
    /// This work writes the bytes, and holds `paid` bytes of the server's budget.
    Waits {
        work: BlockingWork,
        paid: usize,
    },
}

impl Connection<'_> {
    /// Takes payload of the write in progress; returns false if more of it must arrive first.
    pub(super) fn take_payload(&mut self) -> bool {
        let Some(mut write) = self.incoming else { return true };
        let Some(arrived) = self.payload_to_take(&write) else { return false };
        let (taken, end) = if write.result.is_ok() {
            let (taken, end) = self.store_payload(&write, arrived);
            self.counters.bytes_written += taken as u64;
            (taken, end)
        } else {
            (arrived, PayloadEnd::Cached)
        };
        self.input.consume(taken);
        write.advance(taken);
        match end {
            PayloadEnd::Cached => {}
            PayloadEnd::Failed(errno) => write.result = Err(errno),
            PayloadEnd::Waits { work, paid } => {
                write.is_waiting = true;
                // A whole write replies by itself, and the next request may follow it.
                let is_part = matches!(work, BlockingWork::Part { .. });
                self.incoming = is_part.then_some(write);
                self.begin_work(work, paid);
                return true;
            }
        }
        self.incoming = Some(write);
        self.end_write();
        true
    }

    /// Returns the number of payload bytes to take now. None: more must arrive, and the buffer has
    /// room for it.
    fn payload_to_take(&mut self, write: &Incoming) -> Option<usize> {
        let arrived = self.input.bytes().len();
        let needs_more = write.result.is_ok() && arrived < write.left;
        let is_long = needs_more && write.left > POOR;
        if is_long && !self.input.is_large() && self.output.budget.take(GROWTH) {
            self.input.grow(LARGE_INPUT);
        }
        let enough = if self.input.is_large() { ENOUGH } else { POOR };
        let bytes = write.bytes_to_take(arrived, enough);
        if bytes.is_none() && needs_more {
            self.input.grow(INPUT);
        }
        bytes
    }

    /// Writes payload to the cache, as far as that does not block. Returns the bytes that are taken
    /// from the input.
    fn store_payload(&mut self, write: &Incoming, arrived: usize) -> (usize, PayloadEnd) {
        let bytes = &self.input.bytes()[..arrived];
        let cached = if write.fua { Ok(0) } else { self.shared.store.try_write(bytes, write.at) };
        match cached {
            Err(errno) => (arrived, PayloadEnd::Failed(errno)),
            Ok(cached) if cached == arrived => (arrived, PayloadEnd::Cached),
            Ok(cached) => self.copy_payload(write, cached, arrived),
        }
    }

    /// Copies the payload behind the first `cached` bytes for work that may wait: all that has
    /// arrived if the server's budget allows, else a small part.
    fn copy_payload(
        &mut self,
        write: &Incoming,
        cached: usize,
        arrived: usize,
    ) -> (usize, PayloadEnd) {
        let (offset, fua) = (write.at + cached as u64, write.fua);
        let is_paid = self.output.budget.take(arrived - cached);
        let taken = if is_paid || arrived - cached <= POOR_PART {
            arrived
        } else {
            cached + to_page_end(offset..offset + POOR_PART as u64)
        };
        let paid = if is_paid { taken - cached } else { 0 };
        let bytes = self.input.bytes()[cached..taken].to_vec();
        let work = if fua && is_paid && taken == write.left {
            BlockingWork::Write { cookie: write.cookie, bytes, offset }
        } else {
            BlockingWork::Part { bytes, offset, fua }
        };
        (taken, PayloadEnd::Waits { work, paid })
    }

    /// Continues the write in progress after the part that had to wait.
    pub(super) fn written(&mut self, result: Result<(), NbdErrno>) {
        if let Some(write) = &mut self.incoming {
            write.is_waiting = false;
            write.result = result;
            self.end_write();
        }
    }

    /// Replies to the write in progress once all of its payload was taken.
    fn end_write(&mut self) {
        let Some(Incoming { cookie, left: 0, result, .. }) = self.incoming else { return };
        self.incoming = None;
        self.end_request(cookie, result);
    }

    /// Queues a reply without data.
    pub(super) fn end_request(&mut self, cookie: u64, result: Result<(), NbdErrno>) {
        self.counters.errors += u64::from(result.is_err());
        self.output.push(&reply::simple(cookie, result));
    }
}

/// Least part of a long payload to write to the cache, if the input buffer is large.
const ENOUGH: usize = 128 << 10;
/// Least part of a payload to write to the cache while the input buffer is small.
const POOR: usize = 64 << 10;
/// Largest copied part of a payload when the server's budget is spent.
const POOR_PART: usize = 32 << 10;
