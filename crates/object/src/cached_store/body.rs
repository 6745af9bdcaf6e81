//! Body of a response: streams a range of an engine's file in chunks, with the engine's read-ahead.
//! Only the last chunk may be short.

use std::ops::Range;
use std::task::{Poll, ready};

use bytes::Bytes;
use foreread::{File, ReadError, ReadStream};

/// A response body that holds one chunk, read but not yet handed out.
pub(super) struct Body {
    chunk: Bytes,
    stream: ReadStream,
    /// The range behind the chunk.
    rest: Range<u64>,
}

impl Body {
    /// Reads the first chunk. Returns None if the range is empty.
    pub(super) async fn start(file: &File, range: Range<u64>) -> Result<Option<Self>, ReadError> {
        if range.is_empty() {
            return Ok(None);
        }
        let mut body = Self { chunk: Bytes::new(), stream: file.stream(), rest: range };
        body = body.read().await?;
        Ok(Some(body))
    }

    /// Hands out the chunk. The returned body holds no chunk until its next call reads one; the
    /// first chunk is read by [`Self::start`].
    pub(super) async fn next(mut self) -> Result<(Bytes, Option<Self>), ReadError> {
        if self.chunk.is_empty() {
            self = self.read().await?;
        }
        let chunk = std::mem::take(&mut self.chunk);
        let rest = (!self.rest.is_empty()).then_some(self);
        Ok((chunk, rest))
    }

    /// Reads the next chunk.
    async fn read(self) -> Result<Self, ReadError> {
        let Self { stream, rest, .. } = self;
        let len = (rest.end - rest.start).min(CHUNK);
        let buffer = vec![0; usize::try_from(len).expect("a chunk is a megabyte at most")];
        let read = stream.read_owned(buffer, rest.start);
        let mut on_its_way = Some((read, stream));
        // The future owns the read and its stream: a stream may move to another thread, but threads
        // cannot share it.
        let over = std::future::poll_fn(move |context| {
            let (read, stream) = on_its_way.as_mut().expect("it is not polled after its end");
            let got = ready!(read.poll(stream, context));
            let (read, stream) = on_its_way.take().expect("it was there a moment ago");
            Poll::Ready((got, read.into_buffer(), stream))
        });
        let (got, mut buffer, stream) = over.await;
        buffer.truncate(got?);
        assert!(!buffer.is_empty(), "the range ends within the file, whose length is fixed");
        let rest = rest.start + buffer.len() as u64..rest.end;
        Ok(Self { chunk: Bytes::from(buffer), stream, rest })
    }
}

/// Size of a chunk: one request of the engine.
const CHUNK: u64 = 1 << 20;
