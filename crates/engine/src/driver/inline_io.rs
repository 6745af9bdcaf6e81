//! Inline I/O: the waiting thread issues its request itself, bypassing the ring, if nothing else is
//! to be dispatched.
//!
//! Never read-ahead, as the reader would wait for the window behind its page; and never a durable
//! write on behalf of a reader, which would wait for the write.

use std::ops::Range;
use std::sync::Arc;

use foreread_core::path::{DeviceIo, Tag};
use foreread_core::sched::Op;
use foreread_core::table::Frame;

use super::Driver;
use crate::backend::Backend;
use crate::pool::{PAGE, Pool};
use crate::ring;
use crate::wait_table::Ticket;

/// A request that the waiting thread issues itself.
pub(crate) struct InlineIo {
    tag: Tag,
    backend: Arc<Backend>,
    offset: u64,
    moves: InlineMove,
}

enum InlineMove {
    Read(Vec<(Frame, Range<usize>)>),
    DurableWrite { frames: Vec<Frame>, len: u64 },
}

impl InlineIo {
    /// Issues the request and blocks until it is done.
    pub(crate) fn run(&self, pool: &Pool) -> Result<u32, i32> {
        let backend = Arc::clone(&self.backend);
        match &self.moves {
            InlineMove::Read(parts) => {
                ring::pread(pool, backend, self.offset, &mut parts.iter().cloned())
            }
            InlineMove::DurableWrite { frames, len } => {
                let bytes = self.offset..self.offset + len;
                ring::pwrite_durable(pool, backend, bytes, &mut frames.iter().copied())
            }
        }
    }

    /// Returns the filled frames in page order, if the request covers exactly `pages` whole pages
    /// and `result` shows that all were read.
    pub(crate) fn filled(
        &self,
        pages: usize,
        result: Result<u32, i32>,
    ) -> Option<impl Iterator<Item = Frame>> {
        let InlineMove::Read(parts) = &self.moves else { return None };
        let is_whole = |(_, bytes): &(Frame, Range<usize>)| *bytes == (0..PAGE);
        let is_filled = parts.len() == pages
            && result.is_ok_and(|bytes| bytes as usize == pages * PAGE)
            && parts.iter().all(is_whole);
        is_filled.then(|| parts.iter().map(|(frame, _)| *frame))
    }

    /// Returns true if `frames` are exactly the frames of this read.
    pub(crate) fn has_filled(&self, frames: &[Frame]) -> bool {
        let InlineMove::Read(parts) = &self.moves else { return false };
        parts.iter().map(|(frame, _)| frame).eq(frames)
    }
}

impl Driver {
    /// Takes the only request to be dispatched, if there is just one, for its waiting thread to
    /// issue.
    ///
    /// ```text
    ///   ring    push, enter, [device], completion queued, thread woken, reaped
    ///   alone   preadv(2),   [device], thread woken
    ///
    ///   ring    push, thread woken, pwritev2(2), [device], [flush], completion, thread woken ..
    ///   alone   pwritev2(2), [device], [flush]
    /// ```
    ///
    /// The thread blocks anyway, and the ring adds some microseconds: a durable write wakes a
    /// worker thread and then the sleeper (docs/guide/limits.md). Read-ahead always goes to the
    /// ring, because the thread would block on a window that it does not need yet.
    pub(crate) fn take_inline(&mut self, ticket: Ticket) -> Option<InlineIo> {
        if self.ring.in_flight() > MOST_IN_FLIGHT_BESIDE {
            return None;
        }
        let now = self.now();
        let takes_writes = matches!(ticket, Ticket::Write(_));
        let mut alone = None;
        while self.has_room()
            && let Some(io) = self.path.poll_dispatch(now)
        {
            if io.op == Op::Write && !(io.fua && takes_writes) {
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
        if is_elsewhere || (alone.op == Op::Read && self.path.is_ahead(alone.tag)) {
            self.start(now, alone);
            return None;
        }
        let backend = Arc::clone(&device.backend);
        Some(self.inline(&alone, backend))
    }

    fn inline(&mut self, io: &DeviceIo, backend: Arc<Backend>) -> InlineIo {
        let DeviceIo { tag, op, offset, len, .. } = *io;
        let moves = match op {
            Op::Read => {
                self.inline_reads += 1;
                InlineMove::Read(self.path.io_parts(tag).collect())
            }
            Op::Write => {
                self.inline_writes += 1;
                InlineMove::DurableWrite { frames: self.path.io_frames(tag).collect(), len: len.0 }
            }
        };
        InlineIo { tag, backend, offset: offset.0, moves }
    }

    /// Passes the result of an inline request to the core.
    pub(crate) fn complete_inline(&mut self, alone: &InlineIo, result: Result<u32, i32>) {
        let tag = alone.tag.to_bits();
        let is_write = matches!(alone.moves, InlineMove::DurableWrite { .. });
        if is_write {
            self.writing.insert(tag);
        }
        self.complete(tag, result);
        self.note_ready();
        if is_write {
            // Start writes that waited for this one's slot in the device: the calling thread may
            // not drive again. A reader starts the next requests when it releases its frames.
            self.queue_all();
        }
    }
}

/// With more requests than this in flight, all go to the ring, so that it always has room for the
/// two requests that [`Driver::take_inline`] looks at.
const MOST_IN_FLIGHT_BESIDE: usize = 128;
