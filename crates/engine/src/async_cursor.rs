//! Asynchronous file cursor with the traits of `futures-io` and of `tokio`.
//!
//! In:    polls, each with a possibly different buffer; seeks.
//! Out:   bytes; reads may be short, as the traits allow.
//! Never: a blocked thread; more bytes copied than one write of [`COPIED`].
//!
//! ```text
//!   read     copies from the cache into the caller's buffer; a miss does not keep that buffer
//!   write    copies into the cache if that does not wait; else keeps a copy and writes it later
//!   flush    waits until that copy is written; File::sync_data_async makes it durable
//! ```

#[cfg(feature = "futures-io")]
mod futures_traits;
#[cfg(feature = "tokio")]
mod tokio_traits;

use std::fmt;
use std::future::Future;
use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use foreread_core::path::WriteMode;

use crate::file::File;
use crate::file_cursor::seek_target;
use crate::len_async::AppendFrom;
use crate::read_async::ReadFuture;
use crate::stream::ReadStream;
use crate::write_async::WriteFrom;

/// A file with a position that implements `AsyncRead`, `AsyncSeek` and `AsyncWrite` of `futures-io`
/// and of tokio, each behind the feature of that name. Created by [`File::async_cursor`].
///
/// Its reads form a separate stream, so that a scan is read ahead. A write may return before the
/// bytes are in memory; the next call then reports its error. Flush before dropping the cursor:
/// dropping it also drops a pending write, as described at [`File::write_from`]. A flush does not
/// make writes durable; [`File::sync_data_async`] does. If the file was opened for appending, each
/// write goes to the end, and the position follows.
///
/// ```no_run
/// # #[cfg(feature = "tokio")]
/// async fn copy(file: &foreread::File, to: &mut tokio::net::TcpStream) -> std::io::Result<u64> {
///     tokio::io::copy(&mut file.async_cursor(), to).await
/// }
/// ```
pub struct AsyncCursor {
    file: File,
    stream: ReadStream,
    pos: u64,
    read: Option<PendingRead>,
    write: Option<PendingWrite>,
    #[cfg_attr(not(feature = "tokio"), expect(dead_code, reason = "tokio seeks in two calls"))]
    seek: Option<SeekFrom>,
}

/// A read that has not copied any bytes yet: the next poll may pass another buffer.
struct PendingRead {
    at: u64,
    room: usize,
    future: ReadFuture,
}

/// A copy that is being written.
enum PendingWrite {
    At(u64, WriteFrom<Vec<u8>>),
    End(AppendFrom<Vec<u8>>),
}

impl File {
    /// Returns a cursor at the start of the file.
    #[must_use]
    pub fn async_cursor(&self) -> AsyncCursor {
        let (file, stream) = (self.clone(), self.stream());
        AsyncCursor { file, stream, pos: 0, read: None, write: None, seek: None }
    }
}

impl AsyncCursor {
    /// Returns the file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the position, in bytes.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.pos
    }

    /// Sets the position, in bytes. Past the end, a read returns no bytes, and a write extends the
    /// file if it can grow.
    pub fn set_position(&mut self, pos: u64) {
        self.pos = pos;
    }

    fn poll_read_to(&mut self, context: &Context<'_>, to: &mut [u8]) -> Poll<io::Result<usize>> {
        // A read sees the cursor's earlier writes.
        ready!(self.poll_written(context))?;
        if to.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if let Some(read) = &mut self.read
            && (read.at != self.pos || read.room > to.len())
        {
            read.future.abandon(&self.stream.handle.file);
            self.read = None;
        }
        if self.read.is_none() && self.pos > self.file.len() && self.pos > self.file.refresh()? {
            return Poll::Ready(Ok(0));
        }
        let read = self.read.get_or_insert_with(|| PendingRead {
            at: self.pos,
            room: to.len().min(READ_MAX),
            future: ReadFuture::lone(self.pos),
        });
        let to = &mut to[..read.room];
        let result = ready!(read.future.poll_some(&self.stream, to, context));
        self.read = None;
        let bytes = result?;
        self.pos += bytes as u64;
        Poll::Ready(Ok(bytes))
    }

    fn poll_write_from(&mut self, context: &Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_written(context))?;
        let handle = self.file.handle();
        if !handle.appends && handle.write_mode == WriteMode::WriteBack {
            let written = self.file.try_write_at(from, self.pos)?;
            if written > 0 || from.is_empty() {
                self.pos += written as u64;
                return Poll::Ready(Ok(written));
            }
        }
        let bytes = from[..from.len().min(COPIED)].to_vec();
        let count = bytes.len();
        self.write = Some(if handle.appends {
            PendingWrite::End(self.file.append_from(bytes))
        } else {
            let at = self.pos;
            self.pos = at.saturating_add(count as u64);
            PendingWrite::At(at, self.file.write_from(bytes, at))
        });
        match self.poll_written(context) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            // The pending write owns its bytes and goes on without the caller's buffer.
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(count)),
        }
    }

    /// Polls the pending write until it completes, and returns its error.
    fn poll_written(&mut self, context: &Context<'_>) -> Poll<io::Result<()>> {
        let context = &mut Context::from_waker(context.waker());
        while let Some(write) = &mut self.write {
            match write {
                PendingWrite::At(at, write) => {
                    let at = *at;
                    let (mut bytes, written) = ready!(Pin::new(write).poll(context));
                    self.write = None;
                    let written = written?;
                    if written < bytes.len() {
                        // After a short write, writing the rest reports the error.
                        bytes.drain(..written);
                        let at = at + written as u64;
                        let rest = self.file.write_from(bytes, at);
                        self.write = Some(PendingWrite::At(at, rest));
                    }
                }
                PendingWrite::End(append) => {
                    let (bytes, offset) = ready!(Pin::new(append).poll(context));
                    self.write = None;
                    self.pos = offset? + bytes.len() as u64;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    fn poll_seek_to(&mut self, context: &Context<'_>, to: SeekFrom) -> Poll<io::Result<u64>> {
        ready!(self.poll_written(context))?;
        self.pos = seek_target(self.pos, to, || self.file.refresh())?;
        Poll::Ready(Ok(self.pos))
    }
}

impl Drop for AsyncCursor {
    fn drop(&mut self) {
        if let Some(read) = &mut self.read {
            read.future.abandon(&self.stream.handle.file);
        }
    }
}

impl fmt::Debug for AsyncCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncCursor")
            .field("file", &self.file)
            .field("pos", &self.pos)
            .finish_non_exhaustive()
    }
}

/// Most bytes copied from a write that has to wait.
const COPIED: usize = 64 << 10;

/// Most bytes per read; large enough to read a whole file in a few calls.
const READ_MAX: usize = 1 << 20;
