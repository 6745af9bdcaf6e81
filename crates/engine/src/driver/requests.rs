//! Calls of the driving thread: reads, writes and their steps, hints, and events posted by hits.
//! None of them waits, and abandoning a request always releases its memory in the end.

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

    /// Begins a write for a task, which sets its waker when it must wait. The driver performs
    /// `step` on the task's behalf.
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

    /// Begins driving a started operation that no caller waits for.
    pub(crate) fn begin_detached(&mut self, id: WriteId, step: TaskStep, file: KeepAlive) {
        let ticket = Ticket::Write(id);
        self.waiting.add_with_step(ticket, Waiter::Abandoned(file), Some(step));
        self.go_on();
    }

    /// Notifies waiters and submits requests after a call of the path.
    pub(crate) fn go_on(&mut self) {
        self.note_ready();
        self.start_all();
    }

    /// Starts a step that the driver does for a task's write. Returns false if the task does the
    /// step itself.
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

    /// Completes a step that the driver did for a task.
    pub(crate) fn step_done(&mut self, id: WriteId, tell: impl FnOnce(&mut IoPath, Nanos)) {
        self.stepped(id, tell);
        if self.broken.is_some() {
            self.waiting.wake_or_forget(Ticket::Write(id));
        }
    }

    /// Abandons a write of a task that has taken its notification. A step that the driver does for
    /// it goes on.
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

    /// Completes a step done by the thread that held it, and queues the requests this made ready.
    pub(crate) fn stepped(&mut self, id: WriteId, tell: impl FnOnce(&mut IoPath, Nanos)) {
        self.told(id, tell);
        self.queue_all();
    }

    /// Completes a step without starting the requests this made ready.
    pub(crate) fn told(&mut self, id: WriteId, tell: impl FnOnce(&mut IoPath, Nanos)) {
        self.waiting.set_away(Ticket::Write(id), false);
        let now = self.now();
        tell(&mut self.path, now);
        self.note_ready();
    }

    /// Abandons a read.
    pub(crate) fn abandon(&mut self, id: ReadId, file: KeepAlive) {
        if self.broken.is_some() {
            // The read will never be ready, so the file need not stay open for it.
            self.waiting.forget(Ticket::Read(id));
            return;
        }
        if self.waiting.abandon(Ticket::Read(id), file).is_some() {
            self.release(id);
        }
    }

    /// Releases the frames of a read once they have been copied.
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

    /// Handles posted events.
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

    /// Abandons a write that has not reached its copy step yet.
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

    /// Ends a step of an abandoned write. An act is refused: it must not block under the engine's
    /// mutex, and no caller needs it.
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
