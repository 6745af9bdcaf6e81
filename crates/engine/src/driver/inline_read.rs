//! A miss that the thread which wants it reads itself, without the ring.
//!
//! In:    what the core wants dispatched.
//! Out:   its one request, if that is a demand read and all there is.
//! Never: read-ahead: its reader would wait for the window behind the page that it wants.

use std::ops::Range;
use std::sync::Arc;

use foreread_core::path::Tag;
use foreread_core::sched::Op;
use foreread_core::table::Frame;

use super::Driver;
use crate::backend::Backend;
use crate::pool::{PAGE, Pool};
use crate::ring;

/// A request that the thread which wants it reads itself.
pub(crate) struct InlineRead {
    tag: Tag,
    backend: Arc<Backend>,
    offset: u64,
    parts: Vec<(Frame, Range<usize>)>,
}

impl InlineRead {
    /// Does it, in this thread.
    pub(crate) fn run(&self, pool: &Pool) -> Result<u32, i32> {
        ring::pread(pool, Arc::clone(&self.backend), self.offset, &mut self.parts.iter().cloned())
    }

    /// The frames that it fills, in the order of their pages, if it fills this many whole ones and
    /// its result says that it has.
    pub(crate) fn filled(
        &self,
        pages: usize,
        result: Result<u32, i32>,
    ) -> Option<impl Iterator<Item = Frame>> {
        let is_whole = |(_, bytes): &(Frame, Range<usize>)| *bytes == (0..PAGE);
        let is_filled = self.parts.len() == pages
            && result.is_ok_and(|bytes| bytes as usize == pages * PAGE)
            && self.parts.iter().all(is_whole);
        is_filled.then(|| self.parts.iter().map(|(frame, _)| *frame))
    }

    /// Whether these are the frames that it has filled, all of them.
    pub(crate) fn has_filled(&self, frames: &[Frame]) -> bool {
        self.parts.iter().map(|(frame, _)| frame).eq(frames)
    }
}

impl Driver {
    /// Takes the one request that is to be started, if it is the only one: then the thread that
    /// wants it reads it itself.
    ///
    /// ```text
    ///   ring    push, enter, [device], completion queued, thread woken, reaped
    ///   alone   preadv(2),   [device], thread woken
    /// ```
    ///
    /// Why: the thread waits anyway, and the ring costs some microseconds more. Read-ahead is never
    /// taken: the thread would wait for the window behind the one that it wants.
    pub(crate) fn take_inline_read(&mut self) -> Option<InlineRead> {
        if self.ring.in_flight() > MOST_IN_FLIGHT_BESIDE {
            return None;
        }
        let now = self.now();
        let mut alone = None;
        while self.has_room()
            && let Some(io) = self.path.poll_dispatch(now)
        {
            if io.op == Op::Write {
                self.start(now, io);
            } else if let Some(first) = alone.replace(io) {
                self.start(now, first);
                self.start(now, io);
                return None;
            }
        }
        let alone = alone?;
        let device = self
            .devices
            .get(&alone.device)
            .expect("a device is removed after the last file that dispatches to it");
        let is_elsewhere = device.delay.is_some() || device.backend.source().is_some();
        if self.path.is_ahead(alone.tag) || is_elsewhere {
            self.start(now, alone);
            return None;
        }
        self.inline_reads += 1;
        let (tag, backend) = (alone.tag, Arc::clone(&device.backend));
        let parts = self.path.io_parts(tag).collect();
        Some(InlineRead { tag, backend, offset: alone.offset.0, parts })
    }

    /// What became of it.
    pub(crate) fn complete_inline_read(&mut self, alone: &InlineRead, result: Result<u32, i32>) {
        self.complete(alone.tag.to_bits(), result);
        self.note_ready();
    }
}

/// With more than this in the ring, a miss goes there too, so that there is always room for the two
/// requests that are looked at.
const MOST_IN_FLIGHT_BESIDE: usize = 128;
