//! Requests of sources: started, as their bytes come, and when they take too long.
//!
//! In:    requests of the core for sources; what replies have posted; the time.
//! Out:   calls of sources, for when the mutex is free; arrivals and completions for the core.
//! Never: a frame given back to the core that a reply may still write to.

use foreread_core::path::{DeviceIo, Tag};
use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos};

use super::Driver;
use crate::deferred_wake::DeferredWake;

impl Driver {
    /// Has a source called for a request, as far as its bytes go.
    pub(super) fn start_fetch(&mut self, now: Nanos, io: &DeviceIo) {
        assert!(io.op == Op::Read, "a source is never written");
        let found = self.source_at(io.device, io.offset.0);
        let Some((backend, start)) = found else {
            // What was read ahead of a source that is closed now: no reader waits for it.
            self.path.complete(now, io.tag, Err(libc::ECANCELED));
            self.note_ready();
            return;
        };
        let source = backend.source().expect("a source's device has sources only");
        let (offset, len) = (io.offset.0 - start, backend.len.0);
        assert!(offset < len, "a request begins within its source");
        let range = offset..(offset + io.len.0).min(len);
        let target = (self.ring.pool(), self.path.io_parts(io.tag).collect());
        let request = (io.tag.to_bits(), self.path.is_ahead(io.tag));
        let fetch = self.fetches.start(now, request, source, range, target);
        self.waiting.call_source(fetch);
    }

    /// Tells sources which of their requests a reader has come to.
    pub(super) fn note_joined(&mut self) {
        while let Some((_, tag)) = self.path.poll_joined() {
            if let Some(waker) = self.fetches.join(tag.to_bits()) {
                self.waiting.run_later(DeferredWake::Task(waker));
            }
        }
    }

    /// So many bytes of a request have come.
    pub(super) fn fetch_arrived(&mut self, tag: u64, bytes: u64) {
        // A request that has timed out has ended.
        if self.fetches.contains(tag) {
            self.path.arrived(self.now(), Tag::from_bits(tag), ByteCount(bytes));
            self.note_ready();
            self.start_all();
        }
    }

    /// A source has ended its answer.
    pub(super) fn fetch_ended(&mut self, tag: u64, result: Result<u64, i32>) {
        if self.fetches.end(tag) {
            self.path.complete(self.now(), Tag::from_bits(tag), result.map(ByteCount));
            self.note_ready();
            self.start_all();
        }
    }

    /// Takes requests from their sources that have taken too long: they have failed.
    pub(super) fn end_late_fetches(&mut self) {
        // Without a deadline the clock is not read, and before it no request is looked for again.
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
