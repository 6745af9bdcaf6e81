//! Asynchronous reads: a future for any executor. The kernel writes to frames of the engine, never
//! to the caller's buffer, so that a future can be dropped at any time. Bytes are copied during
//! polls.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use foreread_core::path::{Fault, ReadId};

use crate::error::{ForkedError, ReadError, ReadErrorKind};
use crate::file::File;
use crate::file_state::FileState;
use crate::leader::NotReady;
use crate::reader::{Markers, ReadProgress, error};
use crate::spans::MissSpan;
use crate::stream::ReadStream;
use crate::wait_table::{Ticket, Waiter};

/// A read in flight. Returned by [`crate::File::read_at_async`] and [`ReadStream::read_at_async`].
///
/// ```no_run
/// async fn header(file: &foreread::File) -> Result<[u8; 512], foreread::ReadError> {
///     let mut header = [0; 512];
///     file.read_at_async(&mut header, 0).await?;
///     Ok(header)
/// }
/// ```
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct ReadAt<'a> {
    stream: Source<'a>,
    to: &'a mut [u8],
    progress: ReadFuture,
}

#[derive(Debug)]
enum Source<'a> {
    Borrowed(&'a mut ReadStream),
    Own(Box<ReadStream>),
}

/// Progress of an asynchronous read.
#[derive(Debug)]
pub(crate) struct ReadFuture {
    offset: u64,
    /// The stream may have other reads in flight.
    is_one_of_several: bool,
    state: ReadFutureState,
    /// Open since the cache miss.
    span: Option<MissSpan>,
}

#[derive(Debug)]
enum ReadFutureState {
    NotPolled,
    Waiting(ReadProgress, ReadId),
    Done,
}

impl<'a> ReadAt<'a> {
    pub(crate) fn of_stream(stream: &'a mut ReadStream, to: &'a mut [u8], offset: u64) -> Self {
        Self { stream: Source::Borrowed(stream), to, progress: ReadFuture::lone(offset) }
    }

    pub(crate) fn owned(stream: ReadStream, to: &'a mut [u8], offset: u64) -> Self {
        Self { stream: Source::Own(Box::new(stream)), to, progress: ReadFuture::lone(offset) }
    }
}

impl File {
    /// Reads as [`Self::read_at`] does, without blocking the thread: for tasks of any executor.
    ///
    /// Dropping the future cancels the read; the buffer is written to only during polls. Each call
    /// is a separate stream, so that a scan should use [`ReadStream::read_at_async`]. A future that
    /// waits, or is ready and not polled, holds memory: up to an eighth of the engine's for a read
    /// of that size.
    ///
    /// ```no_run
    /// async fn header(file: &foreread::File) -> Result<[u8; 512], foreread::ReadError> {
    ///     let mut header = [0; 512];
    ///     file.read_at_async(&mut header, 0).await?;
    ///     Ok(header)
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The future fails as [`Self::read_at`] does.
    pub fn read_at_async<'b>(&self, to: &'b mut [u8], offset: u64) -> ReadAt<'b> {
        ReadAt::owned(self.stream(), to, offset)
    }
}

impl ReadStream {
    /// Reads as [`Self::read_at`] does, without blocking the thread: for tasks of any executor.
    ///
    /// Dropping the future cancels the read; the buffer is written to only during polls. Time-outs
    /// are up to the executor: [`crate::EngineBuilder::timeout`] applies to blocking reads.
    pub fn read_at_async<'a>(&'a mut self, to: &'a mut [u8], offset: u64) -> ReadAt<'a> {
        ReadAt::of_stream(self, to, offset)
    }
}

impl ReadFuture {
    pub(crate) fn lone(offset: u64) -> Self {
        Self { offset, is_one_of_several: false, state: ReadFutureState::NotPolled, span: None }
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
        let step = match self.span.take() {
            Some(span) => {
                let step = span.enter(|| self.step(stream, to, context));
                self.span = Some(span);
                step
            }
            None => self.step(stream, to, context),
        };
        match step {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(bytes)) => {
                self.state = ReadFutureState::Done;
                Poll::Ready(Ok(bytes))
            }
            Err(error) => {
                self.state = ReadFutureState::Done;
                Poll::Ready(Err(error))
            }
        }
    }

    /// Polls as [`Self::poll`] does, and is ready as soon as some bytes have arrived.
    #[cfg(any(feature = "futures-io", feature = "tokio"))]
    pub(crate) fn poll_some(
        &mut self,
        stream: &ReadStream,
        to: &mut [u8],
        context: &Context<'_>,
    ) -> Poll<Result<usize, ReadError>> {
        let polled = self.poll(stream, to, context);
        if let (Poll::Pending, ReadFutureState::Waiting(read, _)) = (&polled, &self.state)
            && read.done > 0
        {
            let some = read.cut_to_done();
            self.abandon(&stream.handle.file);
            return Poll::Ready(Ok(stream.reader.end(&some)));
        }
        polled
    }

    /// Abandons the read. Requests in flight continue, and later reads hit their pages.
    pub(crate) fn abandon(&mut self, file: &Arc<FileState>) {
        let ReadFutureState::Waiting(_, id) =
            std::mem::replace(&mut self.state, ReadFutureState::Done)
        else {
            return;
        };
        if let Some(mut driver) = file.engine.drive_in_drop() {
            driver.abandon(id, Arc::<FileState>::clone(file));
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
            ReadFutureState::NotPolled => {
                let advised = stream.advised.get();
                let mut read = reader.ask(handle, advised, to.len(), self.offset)?;
                reader.observe(handle, self.offset, read.wanted);
                let mut markers = Markers::default();
                reader.hit(handle, &mut read, to, &mut markers);
                if read.done >= read.wanted {
                    reader.full_hit(handle, &mut read, &markers);
                    return Ok(Poll::Ready(reader.end(&read)));
                }
                let span = MissSpan::new(handle, read.pos().0, read.wanted - read.done);
                let is_begun = span.enter(|| {
                    begin(stream, &mut read, to, Some(&markers), context, &mut self.state)
                })?;
                self.span = Some(span);
                if !is_begun {
                    return Ok(Poll::Ready(reader.end(&read)));
                }
                if self.is_one_of_several {
                    // The next read continues at the end of this one.
                    reader.end(&read);
                }
                read
            }
            ReadFutureState::Waiting(read, _) => read,
            ReadFutureState::Done => panic!("a read is not polled after it has ended"),
        };
        while let ReadFutureState::Waiting(_, id) = self.state {
            let forked = |ForkedError| ReadErrorKind::Forked.of(handle.path.clone());
            let mut driver = handle.file.engine.drive().map_err(forked)?;
            let Some(ready) = driver.waiting.take_ready(id) else {
                if let Some(errno) = driver.broken() {
                    driver.waiting.forget(Ticket::Read(id));
                    return Err(error(handle, read.offset, Fault::Io(errno)));
                }
                driver.waiting.set_waker(Ticket::Read(id), context.waker());
                return Ok(Poll::Pending);
            };
            self.state = ReadFutureState::Done;
            if let Some(fault) = ready.fault {
                driver.release(id);
                drop(driver);
                reader.fail(handle, &mut read, NotReady::Fault(fault))?;
            } else {
                let frames = driver.path.frames(id).to_vec();
                drop(driver);
                reader.copy(&handle.file, &mut read, to, frames.iter().copied(), ready.len);
                handle.file.engine.drive_again().release(id);
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

/// Starts to read the missing rest. Returns false if nothing is missing.
fn begin(
    stream: &ReadStream,
    read: &mut ReadProgress,
    to: &mut [u8],
    markers: Option<&Markers>,
    context: &Context<'_>,
    state: &mut ReadFutureState,
) -> Result<bool, ReadError> {
    let handle = &stream.handle;
    // The background thread drives while all tasks wait.
    handle.file.engine.background.start().map_err(|source| {
        let (path, offset) = (handle.path.clone(), read.offset);
        ReadErrorKind::Io { offset, source }.of(path)
    })?;
    let waiter = || Waiter::Task(context.waker().clone());
    let hit = |read: &mut _, markers: &mut _| stream.reader.hit(handle, read, to, markers);
    let begun = stream.reader.begin(handle, read, markers, hit, waiter)?;
    let Some((mut driver, id)) = begun else { return Ok(false) };
    driver.start_all();
    drop(driver);
    *state = ReadFutureState::Waiting(*read, id);
    Ok(true)
}
