//! What callers ask of the driver: reads, writes and their steps, hints, and what hits have posted.
//!
//! In:    calls of the thread that drives.
//! Out:   calls of the core, and what they start.
//! Never: a wait. A request that is abandoned without its memory being released.

use std::ops::Range;
use std::task::Waker;

use foreread_core::path::{FileId, IoPath, ReadId, StreamId, WriteId, WriteStep};
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages};

use super::Driver;
use crate::advice::Advised;
use crate::deferred_wake::KeepAlive;
use crate::driver_queue::{DriverEvent, DriverQueue, MarkerHit};
use crate::task_step::{PendingStep, TaskStep};
use crate::wait_table::{Ticket, Waiter};

impl Driver {
    /// Begins a read of `len` bytes at `pos`.
    pub(crate) fn begin(
        &mut self,
        stream: StreamId,
        pos: ByteCount,
        len: ByteCount,
        prev_pos: Option<ByteCount>,
        waiter: Waiter,
    ) -> ReadId {
        let id = self.path.read(self.now(), stream, pos, len, prev_pos);
        self.waiting.add(Ticket::Read(id), waiter);
        self.note_ready();
        id
    }

    /// Begins a write, a zero or a flush, for the calling thread.
    pub(crate) fn begin_write(
        &mut self,
        begin: impl FnOnce(&mut IoPath, Nanos) -> WriteId,
    ) -> WriteId {
        let now = self.now();
        let id = begin(&mut self.path, now);
        self.waiting.add(Ticket::Write(id), Waiter::Thread(std::thread::current()));
        self.note_ready();
        id
    }

    /// Begins the same for a task, which sets its waker when it has to wait. `step` is what the
    /// driver does for it.
    pub(crate) fn begin_task_write(
        &mut self,
        begin: impl FnOnce(&mut IoPath, Nanos) -> WriteId,
        step: Option<TaskStep>,
    ) -> WriteId {
        let now = self.now();
        let id = begin(&mut self.path, now);
        let waiter = Waiter::Task(Waker::noop().clone());
        self.waiting.add_with_step(Ticket::Write(id), waiter, step);
        self.note_ready();
        self.start_all();
        id
    }

    /// Has something done that no caller waits for, and that has begun.
    pub(crate) fn begin_detached(&mut self, id: WriteId, step: TaskStep, file: KeepAlive) {
        let ticket = Ticket::Write(id);
        self.waiting.add_with_step(ticket, Waiter::Abandoned(file), Some(step));
        self.go_on();
    }

    /// Starts what a call of the path has made ready.
    pub(crate) fn go_on(&mut self) {
        self.note_ready();
        self.start_all();
    }

    /// Has a step of a task's write done, if that is not the task's own to do.
    pub(super) fn begin_step(&mut self, id: WriteId, step: WriteStep) -> bool {
        let len = match step {
            WriteStep::Fill { len } | WriteStep::SetLen { len } => len,
            WriteStep::Act => ByteCount::ZERO,
            WriteStep::Done { .. } => return false,
        };
        let Some(work) = self.waiting.take_step(Ticket::Write(id)) else { return false };
        let fills = match work {
            TaskStep::Fill(_) => self.path.fills(id).to_vec(),
            TaskStep::Act(_) => Vec::new(),
        };
        self.waiting.do_step(PendingStep { id, step: work, fills, len });
        true
    }

    /// A step that the driver had done for a task is done.
    pub(crate) fn step_done(&mut self, id: WriteId, tell: impl FnOnce(&mut IoPath, Nanos)) {
        self.stepped(id, tell);
        if self.broken.is_some() {
            self.waiting.wake_or_forget(Ticket::Write(id));
        }
    }

    /// A task gives a write up, whose news it has taken. What the driver does for it goes on.
    pub(crate) fn abandon_task_write(&mut self, id: WriteId, file: KeepAlive) {
        let ticket = Ticket::Write(id);
        let is_away = self.waiting.is_away(ticket);
        if self.broken.is_some() && !is_away {
            self.waiting.forget(ticket);
            return;
        }
        self.waiting.forget_step(ticket);
        let news = self.waiting.abandon(ticket, file);
        assert!(news.is_none(), "a task takes its news before it leaves");
        if !is_away {
            let now = self.now();
            self.path.cancel_write(now, id);
            self.note_ready();
            self.start_all();
        }
    }

    /// The thread that had a step of a write in hand has done it.
    pub(crate) fn stepped(&mut self, id: WriteId, tell: impl FnOnce(&mut IoPath, Nanos)) {
        self.told(id, tell);
        self.queue_all();
    }

    /// The same, but what it has made ready is not started.
    pub(crate) fn told(&mut self, id: WriteId, tell: impl FnOnce(&mut IoPath, Nanos)) {
        self.waiting.set_away(Ticket::Write(id), false);
        let now = self.now();
        tell(&mut self.path, now);
        self.note_ready();
    }

    /// A waiter gives a read up.
    pub(crate) fn abandon(&mut self, id: ReadId, file: KeepAlive) {
        if self.broken.is_some() {
            // It will not be ready, and the file need not stay open for it.
            self.waiting.forget(Ticket::Read(id));
            return;
        }
        if self.waiting.abandon(Ticket::Read(id), file).is_some() {
            self.release(id);
        }
    }

    /// A reader has copied what it wanted.
    pub(crate) fn release(&mut self, id: ReadId) {
        self.path.release(self.now(), id);
        self.note_ready();
        self.start_all();
    }

    pub(crate) fn marker(&mut self, marker: MarkerHit) {
        let MarkerHit { stream, page, count, prev_pos, advised } = marker;
        if self.broken.is_some() {
            return;
        }
        if let Some(advised) = advised {
            self.advise(stream, advised);
        }
        self.path.marker(self.now(), stream, page, count, prev_pos);
        self.start_all();
    }

    /// Does what hits have posted.
    pub(crate) fn handle_events(&mut self, queue: &DriverQueue) {
        if queue.is_empty() {
            return;
        }
        if self.waiting.leader().is_none() {
            // While all reads are hits, no other thread reaps.
            self.reap();
        }
        while let Some(post) = queue.take() {
            match post {
                DriverEvent::Marker(marker) => self.marker(marker),
                DriverEvent::CloseStream(stream) => self.path.close_stream(stream),
                DriverEvent::Unpinned(frame) => {
                    self.path.unpinned(self.now(), frame);
                    self.note_ready();
                    self.start_all();
                }
                DriverEvent::Arrived { tag, bytes } => self.fetch_arrived(tag, bytes),
                DriverEvent::Fetched { tag, result } => self.fetch_ended(tag, result),
                DriverEvent::Filled(id) => self.step_done(id, |path, now| path.filled(now, id)),
            }
        }
    }

    pub(crate) fn advise(&mut self, stream: StreamId, advised: Advised) {
        self.path.advise(stream, advised.pattern);
        self.path.set_no_reuse(stream, advised.is_used_once);
    }

    pub(crate) fn will_need(&mut self, file: FileId, pages: Range<PageIndex>) -> u64 {
        let Range { start, end } = pages;
        let count = Pages(end.0.saturating_sub(start.0));
        self.path.will_need(self.now(), file, start, count).0
    }

    pub(crate) fn set_len(&mut self, file: FileId, len: ByteCount) {
        self.path.set_len(self.now(), file, len);
        self.note_ready();
        self.start_all();
    }

    pub(crate) fn invalidate(&mut self, file: FileId, pages: Range<PageIndex>) {
        self.path.invalidate(self.now(), file, pages);
        self.note_ready();
        self.start_all();
    }

    /// Abandons a write whose waiter had nothing to copy yet.
    pub(crate) fn abandon_write(&mut self, id: WriteId, file: KeepAlive) {
        if self.broken().is_some() {
            self.waiting.forget(Ticket::Write(id));
            return;
        }
        let news = self.waiting.abandon(Ticket::Write(id), file);
        assert!(news.is_none(), "a waiter with news does not leave");
        let now = self.now();
        self.path.cancel_write(now, id);
        self.note_ready();
        self.start_all();
    }

    /// A step of an abandoned write. An act is not done: it may not wait under the engine's mutex,
    /// and no caller wants it.
    pub(super) fn step_alone(&mut self, id: WriteId, step: WriteStep) {
        match step {
            WriteStep::Fill { .. } => unreachable!("{id:?} was given up"),
            WriteStep::Act | WriteStep::SetLen { .. } => {
                let now = self.now();
                self.path.not_acted(now, id, libc::ETIMEDOUT);
            }
            WriteStep::Done { .. } => {}
        }
    }
}
