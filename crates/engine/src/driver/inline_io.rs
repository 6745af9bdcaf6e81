//! A request that the thread which waits for it does itself, without the ring.
//!
//! In:    what the core wants dispatched.
//! Out:   its one request, if that is a demand read or a durable write and all there is.
//! Never: read-ahead: its reader would wait for the window behind the page that it wants. A durable
//!        write for a reader, which would wait for the write.

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

/// A request that a thread does itself.
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
    /// Does it, in this thread.
    pub(crate) fn run(&self, pool: &Pool) -> Result<u32, i32> {
        let backend = Arc::clone(&self.backend);
        match &self.moves {
            InlineMove::Read(parts) => {
                ring::pread(pool, backend, self.offset, &mut parts.iter().cloned())
            }
            InlineMove::DurableWrite { frames, len } => {
                let place = (self.offset, *len);
                ring::pwrite_durable(pool, backend, place, &mut frames.iter().copied())
            }
        }
    }

    /// The frames that it fills, in the order of their pages, if it fills this many whole ones and
    /// its result says that it has.
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

    /// Whether these are the frames that it has filled, all of them.
    pub(crate) fn has_filled(&self, frames: &[Frame]) -> bool {
        let InlineMove::Read(parts) = &self.moves else { return false };
        parts.iter().map(|(frame, _)| frame).eq(frames)
    }
}

impl Driver {
    /// Takes the one request that is to be started, if it is the only one: then the thread that
    /// wants it does it itself.
    ///
    /// ```text
    ///   ring    push, enter, [device], completion queued, thread woken, reaped
    ///   alone   preadv(2),   [device], thread woken
    ///
    ///   ring    push, enter, [device], kernel's worker woken, [flush], completion, thread woken ..
    ///   alone   pwritev2(2), [device], thread woken,          [flush]
    /// ```
    ///
    /// Why: the thread waits anyway. For a read the ring costs some microseconds more. A durable
    /// write ends in a worker of the kernel, which waits for a processor where all are busy: some
    /// milliseconds (docs/guide/limits.md). Read-ahead is never taken: the thread would wait for
    /// the window behind the one that it wants.
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

    /// What became of it.
    pub(crate) fn complete_inline(&mut self, alone: &InlineIo, result: Result<u32, i32>) {
        let tag = alone.tag.to_bits();
        let is_write = matches!(alone.moves, InlineMove::DurableWrite { .. });
        if is_write {
            self.writing.insert(tag);
        }
        self.complete(tag, result);
        self.note_ready();
        if is_write {
            // Writes that waited for its place in the device: its thread may leave now. A reader
            // starts what is next when it releases its frames.
            self.queue_all();
        }
    }
}

/// With more than this in the ring, a request goes there too, so that there is always room for the
/// two requests that are looked at.
const MOST_IN_FLIGHT_BESIDE: usize = 128;
