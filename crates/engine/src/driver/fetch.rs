//! Requests to sources: dispatch, arriving bytes, completion and time-outs. A frame returns to the
//! core only once no reply can write to it any more.

use foreread_core::path::{DeviceIo, Tag};
use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos};

use super::Driver;
use crate::deferred_wake::DeferredWake;
use crate::source::NewFetch;

impl Driver {
    /// Starts a request to a source, clipped to the end of the source.
    pub(super) fn start_fetch(&mut self, now: Nanos, io: &DeviceIo) {
        assert!(io.op == Op::Read, "a source is never written");
        let found = self.source_at(io.device, io.offset.0);
        let Some((backend, start)) = found else {
            // Read-ahead of a source that has been closed since: no reader waits for it.
            self.path.complete(now, io.tag, Err(libc::ECANCELED));
            self.note_ready();
            return;
        };
        let source = backend.source().expect("a source's device has sources only");
        let (offset, len) = (io.offset.0 - start, backend.len.0);
        assert!(offset < len, "a request begins within its source");
        let range = offset..(offset + io.len.0).min(len);
        let fetch = NewFetch {
            tag: io.tag.to_bits(),
            is_read_ahead: self.path.is_ahead(io.tag),
            range,
            pool: self.ring.pool(),
            parts: self.path.io_parts(io.tag).collect(),
        };
        self.waiting.call_source(self.fetches.start(now, source, fetch));
    }

    /// Notifies sources of requests that a reader has joined.
    pub(super) fn note_joined(&mut self) {
        while let Some((_, tag)) = self.path.poll_joined() {
            if let Some(waker) = self.fetches.join(tag.to_bits()) {
                self.waiting.run_later(DeferredWake::Task(waker));
            }
        }
    }

    /// Notes that the first `bytes` bytes of a request have arrived.
    pub(super) fn fetch_arrived(&mut self, tag: u64, bytes: u64) {
        // A request that timed out has already ended.
        if self.fetches.contains(tag) {
            self.path.arrived(self.now(), Tag::from_bits(tag), ByteCount(bytes));
            self.note_ready();
            self.start_all();
        }
    }

    /// Completes a request when its source finishes or fails the reply.
    pub(super) fn fetch_ended(&mut self, tag: u64, result: Result<u64, i32>) {
        if self.fetches.end(tag) {
            self.path.complete(self.now(), Tag::from_bits(tag), result.map(ByteCount));
            self.note_ready();
            self.start_all();
        }
    }

    /// Fails requests that their sources have not answered in time.
    pub(super) fn end_late_fetches(&mut self) {
        // Without a deadline, skip the clock; before the deadline, skip the search.
        let Some(deadline) = self.fetches.deadline() else { return };
        let now = self.now();
        if deadline > now {
            return;
        }
        while let Some(tag) = self.fetches.take_late(now) {
            self.path.complete(now, Tag::from_bits(tag), Err(libc::ETIMEDOUT));
        }
    }
}
