//! A task's write from its first poll to its end: grows the file if necessary, then writes one
//! piece after another. No thread waits for it.
//!
//! ```text
//!   New --> Growing --> Writing, a piece --> Writing, the next --> .. --> Over
//!     |                    ^
//!     '-- inside the file -'
//! ```

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use foreread_core::path::{IoPath, LenChange, WriteId, WriteMode, WriteRange};
use foreread_core::units::{ByteCount, Nanos};

use super::length::length_error;
use super::pieces::{PIECE, begin_piece};
use super::{WriteBytes, WriteTask, usize_of};
use crate::error::WriteError;
use crate::handle::Handle;
use crate::task_step::TaskStep;

/// Progress of a write.
#[derive(Debug)]
pub(crate) struct WriteProgress {
    handle: Arc<Handle>,
    place: WritePlace,
    pub(crate) mode: WriteMode,
    /// Start offset, once it is known.
    offset: u64,
    done: usize,
    task: WriteTask,
    stage: WriteStage,
    /// The length change of an append in progress.
    append: Option<WriteId>,
}

/// Destination of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WritePlace {
    At(u64),
    /// At the end of the file.
    End,
    /// Sets this length, and writes no bytes.
    Length(u64),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WriteStage {
    New,
    /// To this length; an append may find that the file is longer, and grow it further.
    Growing(u64),
    Writing,
    Over,
}

/// The outcome of a task's write.
#[derive(Debug)]
pub(crate) struct WriteEnd {
    /// Offset of its first byte.
    pub(crate) offset: u64,
    pub(crate) done: usize,
    pub(crate) result: Result<(), WriteError>,
}

impl WriteProgress {
    pub(crate) fn new(handle: &Arc<Handle>, place: WritePlace) -> Self {
        let (handle, task) = (Arc::clone(handle), WriteTask::default());
        let (mode, stage) = (handle.write_mode, WriteStage::New);
        Self { handle, place, mode, offset: 0, done: 0, task, stage, append: None }
    }

    pub(crate) fn poll(&mut self, bytes: WriteBytes<'_>, context: &Context<'_>) -> Poll<WriteEnd> {
        let result = loop {
            let step = match self.stage {
                WriteStage::New => self.begin(bytes.len()),
                WriteStage::Growing(target) => {
                    match ready!(self.task.poll(&self.handle, WriteBytes::None, context)) {
                        Ok(before) => self.has_grown(before.0),
                        Err(error) => Err(length_error(error, target)),
                    }
                }
                WriteStage::Writing if self.done == bytes.len() => break Ok(()),
                WriteStage::Writing if !self.task.is_begun() => self.begin_piece(bytes),
                WriteStage::Writing => {
                    let piece = self.rest(bytes);
                    match ready!(self.task.poll(&self.handle, piece, context)) {
                        Ok(len) => {
                            self.has_written(len, bytes.len());
                            Ok(())
                        }
                        Err(error) => Err(error),
                    }
                }
                WriteStage::Over => panic!("a write is not polled after it has ended"),
            };
            if let Err(error) = step {
                break Err(error);
            }
        };
        self.stage = WriteStage::Over;
        self.end_append();
        Poll::Ready(WriteEnd { offset: self.offset, done: self.done, result })
    }

    /// Abandons the unfinished part.
    pub(crate) fn abandon(&mut self, bytes: WriteBytes<'_>) {
        let piece = self.rest(bytes);
        self.task.abandon(&self.handle.file, piece);
        self.end_append();
    }

    fn end_append(&mut self) {
        if let Some(append) = self.append.take() {
            self.handle.file.end_append(append);
        }
    }

    /// Starts with the length change, if one is necessary.
    fn begin(&mut self, len: usize) -> Result<(), WriteError> {
        let (handle, len) = (&self.handle, len as u64);
        let (target, change) = match self.place {
            WritePlace::At(offset) => {
                handle.check_may_overwrite()?;
                self.offset = offset;
                let Some(end) = handle.growth_for(offset, len)? else {
                    self.stage = WriteStage::Writing;
                    return Ok(());
                };
                (end, LenChange::AtLeast(ByteCount(end)))
            }
            WritePlace::End => {
                handle.check_may_write()?;
                let target = handle.file.len().0.saturating_add(len);
                (target, LenChange::Append(ByteCount(len)))
            }
            WritePlace::Length(len) => {
                handle.check_may_write()?;
                (len, LenChange::Exact(ByteCount(len)))
            }
        };
        handle.check_len_change(target)?;
        let (file, step) = (&handle.file, TaskStep::set_len(&handle.file, len));
        let begin = |path: &mut IoPath, now: Nanos| match change {
            LenChange::Append(_) | LenChange::AtLeast(_) => path.begin_append(now, file.id, change),
            LenChange::Exact(_) => path.change_len(now, file.id, change),
        };
        self.task.begin(handle, "change of length", 0, Some(step), begin)?;
        self.append = self.task.id().filter(|_| !matches!(change, LenChange::Exact(_)));
        self.stage = WriteStage::Growing(target);
        Ok(())
    }

    /// Continues after the file has grown from the length `before`.
    fn has_grown(&mut self, before: u64) -> Result<(), WriteError> {
        if let WritePlace::End = self.place {
            self.offset = before;
        }
        self.stage = WriteStage::Writing;
        Ok(())
    }

    /// Starts the next piece.
    fn begin_piece(&mut self, bytes: WriteBytes<'_>) -> Result<(), WriteError> {
        let at = self.pos();
        let len = (bytes.len() - self.done).min(PIECE);
        let (file, mode) = (&self.handle.file, self.mode);
        let step = match bytes {
            WriteBytes::Owned(bytes) => {
                Some(TaskStep::fill(file, bytes.part(self.done..self.done + len), at))
            }
            WriteBytes::Borrowed(_) | WriteBytes::None => None,
        };
        let (pos, len, append) = (ByteCount(at), ByteCount(len as u64), self.append);
        let range = WriteRange { file: file.id, pos, len };
        let begin = |path: &mut IoPath, now: Nanos| begin_piece(path, now, range, mode, append);
        self.task.begin(&self.handle, "write", at, step, begin)
    }

    fn has_written(&mut self, len: ByteCount, of: usize) {
        if len == ByteCount::ZERO {
            // The file has shrunk: treat the write as if it came before the truncation.
            self.done = of;
        }
        self.done += usize_of(len);
    }

    fn pos(&self) -> u64 {
        self.offset + self.done as u64
    }

    /// Returns the rest of the bytes.
    fn rest<'b>(&self, bytes: WriteBytes<'b>) -> WriteBytes<'b> {
        match bytes {
            WriteBytes::Borrowed(from) => WriteBytes::Borrowed(&from[self.done..]),
            WriteBytes::Owned(_) | WriteBytes::None => bytes,
        }
    }
}

impl WriteEnd {
    /// Returns the result of a write that may be short: an error only if nothing was written.
    pub(crate) fn or_written(self) -> Result<usize, WriteError> {
        if self.done > 0 { Ok(self.done) } else { self.result.map(|()| 0) }
    }

    /// Returns the result of an append.
    pub(crate) fn or_offset(self) -> Result<u64, WriteError> {
        self.result.map(|()| self.offset)
    }
}
