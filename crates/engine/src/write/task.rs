//! One write or flush that no thread waits for: begun, polled or abandoned. An abandoned write
//! never keeps pages locked.
//!
//! ```text
//!   bytes are     Fill is done by             a drop then
//!   borrowed      the poll, or the drop       the bytes are still written
//!   owned         the driving thread          the same
//! ```
//!
//! A write dropped before its Fill leaves nothing behind; after it, none of it can be undone.

use std::sync::Arc;
use std::task::{Context, Poll};

use foreread_core::path::{Fault, IoPath, WriteFill, WriteId, WriteStep};
use foreread_core::units::{ByteCount, Nanos};

use super::steps::{fill, keep_open};
use super::usize_of;
use crate::blocking_pool::BlocksOn;
use crate::driver_queue::DriverEvent;
use crate::error::WriteError;
use crate::file_state::FileState;
use crate::handle::Handle;
use crate::leader::NotReady;
use crate::owned_bytes::OwnedBytes;
use crate::task_step::TaskStep;
use crate::wait_table::{Notification, Ticket};

/// A task's write or flush.
#[derive(Debug, Default)]
pub(crate) struct WriteTask {
    begun: Option<BegunWrite>,
}

/// An operation in progress.
#[derive(Clone, Copy, Debug)]
struct BegunWrite {
    id: WriteId,
    /// Its name in errors.
    what: &'static str,
    /// Offset of its first byte.
    offset: u64,
}

/// The bytes that a task's write copies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WriteBytes<'b> {
    /// Only the poll of the future that borrows them may copy them.
    Borrowed(&'b [u8]),
    Owned(&'b OwnedBytes),
    /// A flush.
    None,
}

impl WriteTask {
    pub(crate) fn is_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Returns the operation in progress.
    pub(crate) fn id(&self) -> Option<WriteId> {
        self.begun.map(|begun| begun.id)
    }

    /// Starts the operation `what`, with the step that the driver performs for it.
    pub(crate) fn begin(
        &mut self,
        handle: &Handle,
        what: &'static str,
        offset: u64,
        step: Option<TaskStep>,
        begin: impl FnOnce(&mut IoPath, Nanos) -> WriteId,
    ) -> Result<(), WriteError> {
        assert!(self.begun.is_none(), "one after the other");
        let engine = &handle.file.engine;
        let mut driver = engine.drive().map_err(|forked| handle.forked(forked))?;
        if let Some(errno) = driver.broken() {
            return Err(handle.write_error(what, offset, NotReady::Fault(Fault::Io(errno))));
        }
        driver.take_events();
        driver.reap_unless_led();
        let id = driver.begin_task_write(begin, step);
        self.begun = Some(BegunWrite { id, what, offset });
        Ok(())
    }

    /// Makes as much progress as possible without blocking. `piece` holds the bytes of the
    /// operation started by [`Self::begin`].
    pub(crate) fn poll(
        &mut self,
        handle: &Handle,
        piece: WriteBytes<'_>,
        context: &Context<'_>,
    ) -> Poll<Result<ByteCount, WriteError>> {
        let engine = &handle.file.engine;
        let BegunWrite { id, what, offset } = self.begun.expect("what is polled has begun");
        let failed = |fault| Poll::Ready(Err(handle.write_error(what, offset, fault)));
        let ticket = Ticket::Write(id);
        loop {
            let mut driver = match engine.drive() {
                Ok(driver) => driver,
                Err(forked) => {
                    self.begun = None;
                    return Poll::Ready(Err(handle.forked(forked)));
                }
            };
            let Some(news) = driver.waiting.take_notification(ticket) else {
                // The step in progress holds the bytes: wait until it returns them.
                if let Some(errno) = driver.broken()
                    && !driver.waiting.is_away(ticket)
                {
                    driver.waiting.forget(ticket);
                    self.begun = None;
                    return failed(NotReady::Fault(Fault::Io(errno)));
                }
                driver.waiting.set_waker(ticket, context.waker());
                return Poll::Pending;
            };
            match (step_of(news), piece) {
                (WriteStep::Done { len, fault }, _) => {
                    self.begun = None;
                    return match fault {
                        None => Poll::Ready(Ok(len)),
                        Some(fault) => failed(fault.into()),
                    };
                }
                (WriteStep::Fill { len }, WriteBytes::Borrowed(from)) => {
                    let fills = driver.path.fills(id).to_vec();
                    drop(driver);
                    fill(&engine.pool, &fills, &from[..usize_of(len)], ByteCount(offset));
                    let mut driver = engine.drive_again();
                    driver.stepped(id, |path, now| path.filled(now, id));
                }
                (step, _) => unreachable!("{step:?} is not the task's own to do"),
            }
        }
    }

    /// Abandons the operation on behalf of a task that has left: cancels it if it is waiting, and
    /// completes it if it already has pages.
    pub(crate) fn abandon(&mut self, file: &Arc<FileState>, piece: WriteBytes<'_>) {
        let Some(BegunWrite { id, offset, .. }) = self.begun.take() else { return };
        let Some(mut driver) = file.engine.drive_in_drop() else { return };
        let news = driver.waiting.take_notification(Ticket::Write(id));
        match news.map(step_of) {
            None => {}
            Some(WriteStep::Done { .. }) => return,
            Some(WriteStep::Fill { len }) => {
                let WriteBytes::Borrowed(from) = piece else { unreachable!("the driver copies") };
                let fills = driver.path.fills(id).to_vec();
                drop(driver);
                fill(&file.engine.pool, &fills, &from[..usize_of(len)], ByteCount(offset));
                let Some(again) = file.engine.drive_in_drop() else { return };
                driver = again;
                driver.stepped(id, |path, now| path.filled(now, id));
                let end = driver.waiting.take_notification(Ticket::Write(id));
                if end.is_some() {
                    return;
                }
            }
            Some(step) => unreachable!("{step:?} is not the task's own to do"),
        }
        driver.abandon_task_write(id, keep_open(file));
    }
}

impl TaskStep {
    /// Creates a step that copies a piece of owned bytes to `offset` of the file.
    pub(crate) fn fill(file: &Arc<FileState>, piece: OwnedBytes, offset: u64) -> Self {
        let file = Arc::clone(file);
        Self::Fill(Box::new(move |id, fills: &[WriteFill], len| {
            let from = &piece.get()[..usize_of(len)];
            fill(&file.engine.pool, fills, from, ByteCount(offset));
            let engine = Arc::clone(&file.engine);
            // Once its future learns of the end, it alone must own the buffer and the file.
            drop((piece, file));
            engine.queue().post(DriverEvent::Filled(id));
        }))
    }

    /// Creates a step that flushes the device; if `all`, the file's metadata too.
    pub(crate) fn sync(file: &Arc<FileState>, all: bool) -> Self {
        let file = Arc::clone(file);
        Self::blocking(file, move |file, id, _| {
            let result = file.backend.sync(all);
            let engine = Arc::clone(&file.engine);
            let Some(mut driver) = engine.drive_in_drop() else { return };
            driver.step_done(id, |path, now| path.acted(now, id, result));
            driver.waiting.release(file);
        })
    }

    /// Creates a step that sets the new length of the file, whose last `written` bytes are about to
    /// be written. Readers see the length at the same point as with a blocking call.
    pub(crate) fn set_len(file: &Arc<FileState>, written: u64) -> Self {
        let file = Arc::clone(file);
        Self::blocking(file, move |file, id, len| {
            let engine = Arc::clone(&file.engine);
            let Some(driver) = engine.drive_in_drop() else { return };
            let before = file.before_len_change(len);
            drop(driver);
            let result = file.backend.set_len(len.0, written);
            let Some(mut driver) = engine.drive_in_drop() else { return };
            driver.step_done(id, |path, now| path.acted(now, id, result));
            file.after_len_change(before, len, result);
            file.end_left_append(&mut driver, id);
            driver.waiting.release(file);
        })
    }

    /// Runs `act` on the blocking pool. It releases the file before its future learns of the end,
    /// so that a caller which then closes the file finds it closed.
    fn blocking(
        file: Arc<FileState>,
        act: impl FnOnce(Arc<FileState>, WriteId, ByteCount) + Send + 'static,
    ) -> Self {
        Self::Act(Box::new(move |id, len| {
            let pool = Arc::clone(&file.engine.blocking);
            let on = file.backend.disk().map_or(BlocksOn::Device(file.device), BlocksOn::Disk);
            pool.run(on, Box::new(move || act(file, id, len)));
        }))
    }
}

fn step_of(news: Notification) -> WriteStep {
    match news {
        Notification::Write(step) => step,
        Notification::Read(_) | Notification::Batch => unreachable!("a write has a write's news"),
    }
}

impl WriteBytes<'_> {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Borrowed(bytes) => bytes.len(),
            Self::Owned(bytes) => bytes.get().len(),
            Self::None => 0,
        }
    }
}
