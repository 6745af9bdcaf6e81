//! Reads that do not block: a future for any executor.
//!
//! In:    polls.
//! Out:   bytes, copied while it is polled.
//! Never: a buffer that the kernel writes to: pages go to frames of the engine. So a future may be
//!        dropped at any time, and its buffer is its owner's again at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use foreread_core::path::{Fault, ReadId};

use crate::error::ReadError;
use crate::file::FileShared;
use crate::lead::NotReady;
use crate::reader::{Asked, Markers, error};
use crate::stream::ReadStream;
use crate::waiting::{Ticket, Waiter};

/// A read on its way. Made by [`crate::File::read_at_async`] and [`ReadStream::read_at_async`].
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct ReadAt<'a> {
    stream: Source<'a>,
    to: &'a mut [u8],
    progress: Progress,
}

#[derive(Debug)]
enum Source<'a> {
    Borrowed(&'a mut ReadStream),
    Own(Box<ReadStream>),
}

/// How far a read that does not block has come.
#[derive(Debug)]
pub(crate) struct Progress {
    offset: u64,
    /// Others of its stream may be on their way, too.
    is_one_of_several: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    NotPolled,
    Waiting(Asked, ReadId),
    Done,
}

impl<'a> ReadAt<'a> {
    pub(crate) fn of_stream(stream: &'a mut ReadStream, to: &'a mut [u8], offset: u64) -> Self {
        Self { stream: Source::Borrowed(stream), to, progress: Progress::lone(offset) }
    }

    pub(crate) fn alone(stream: ReadStream, to: &'a mut [u8], offset: u64) -> Self {
        Self { stream: Source::Own(Box::new(stream)), to, progress: Progress::lone(offset) }
    }
}

impl Progress {
    fn lone(offset: u64) -> Self {
        Self { offset, is_one_of_several: false, state: State::NotPolled }
    }

    pub(crate) fn one_of_several(offset: u64) -> Self {
        Self { is_one_of_several: true, ..Self::lone(offset) }
    }

    pub(crate) fn poll(
        &mut self,
        stream: &ReadStream,
        to: &mut [u8],
        context: &Context<'_>,
    ) -> Poll<Result<usize, ReadError>> {
        match self.step(stream, to, context) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(bytes)) => {
                self.state = State::Done;
                Poll::Ready(Ok(bytes))
            }
            Err(error) => {
                self.state = State::Done;
                Poll::Ready(Err(error))
            }
        }
    }

    /// Abandons the read. Requests in flight go on, and later reads find their pages.
    pub(crate) fn abandon(&mut self, file: &Arc<FileShared>) {
        let State::Waiting(_, id) = std::mem::replace(&mut self.state, State::Done) else { return };
        if !file.engine.is_forked() && !file.engine.driver.is_poisoned() {
            file.engine.drive().abandon(id, Arc::clone(file));
        }
    }

    fn step(
        &mut self,
        stream: &ReadStream,
        to: &mut [u8],
        context: &Context<'_>,
    ) -> Result<Poll<usize>, ReadError> {
        let (handle, reader) = (&stream.handle, &stream.reader);
        let mut read = match self.state {
            State::NotPolled => {
                let advised = stream.advised.get();
                let mut read = reader.ask(handle, advised, to.len(), self.offset)?;
                let mut markers = Markers::default();
                reader.hit(handle, &mut read, to, &mut markers);
                if read.done >= read.wanted {
                    reader.full_hit(handle, &mut read, &markers);
                    return Ok(Poll::Ready(reader.end(&read)));
                }
                if !begin(stream, &mut read, to, Some(&markers), context, &mut self.state)? {
                    return Ok(Poll::Ready(reader.end(&read)));
                }
                if self.is_one_of_several {
                    // The next one goes on where this one will have ended.
                    reader.end(&read);
                }
                read
            }
            State::Waiting(read, _) => read,
            State::Done => panic!("a read is not polled after it has ended"),
        };
        while let State::Waiting(_, id) = self.state {
            if handle.file.engine.is_forked() {
                return Err(ReadError::Forked { path: handle.path.clone() });
            }
            let mut driving = handle.file.engine.drive();
            let Some(ready) = driving.waiting.take_ready(id) else {
                if let Some(errno) = driving.broken() {
                    driving.waiting.forget(Ticket::Read(id));
                    return Err(error(handle, read.offset, Fault::Io(errno)));
                }
                driving.waiting.set_waker(id, context.waker());
                return Ok(Poll::Pending);
            };
            self.state = State::Done;
            if let Some(fault) = ready.fault {
                driving.release(id);
                drop(driving);
                reader.fail(handle, &mut read, NotReady::Fault(fault))?;
            } else {
                let frames = driving.path.frames(id).to_vec();
                drop(driving);
                reader.copy(&handle.file, &mut read, to, &frames, ready.len);
                handle.file.engine.drive().release(id);
            }
            if read.done < read.wanted {
                begin(stream, &mut read, to, None, context, &mut self.state)?;
            }
        }
        Ok(Poll::Ready(if self.is_one_of_several { read.wanted } else { reader.end(&read) }))
    }
}

impl Future for ReadAt<'_> {
    type Output = Result<usize, ReadError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.progress.poll(this.stream.get(), this.to, context)
    }
}

impl Drop for ReadAt<'_> {
    fn drop(&mut self) {
        self.progress.abandon(&self.stream.get().handle.file);
    }
}

impl Source<'_> {
    fn get(&self) -> &ReadStream {
        match self {
            Self::Borrowed(stream) => stream,
            Self::Own(stream) => stream,
        }
    }
}

/// Begins to read what is left; false if nothing is.
fn begin(
    stream: &ReadStream,
    read: &mut Asked,
    to: &mut [u8],
    markers: Option<&Markers>,
    context: &Context<'_>,
    state: &mut State,
) -> Result<bool, ReadError> {
    let handle = &stream.handle;
    // The background thread drives while all tasks wait.
    handle.file.engine.bell.start().map_err(|source| {
        let (path, offset) = (handle.path.clone(), read.offset);
        ReadError::Io { path, offset, source }
    })?;
    let waiter = || Waiter::Task(context.waker().clone());
    let begun = stream.reader.begin(handle, read, to, markers, waiter)?;
    let Some((mut driving, id)) = begun else { return Ok(false) };
    driving.start_all();
    drop(driving);
    *state = State::Waiting(*read, id);
    Ok(true)
}
