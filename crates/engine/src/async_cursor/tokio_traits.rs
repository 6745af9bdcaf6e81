//! Traits of tokio for [`AsyncCursor`], each method forwarding to the cursor. No runtime is needed.

use std::io::{self, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

use super::AsyncCursor;

impl AsyncRead for AsyncCursor {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let bytes = ready!(self.get_mut().poll_read_to(context, to.initialize_unfilled()))?;
        to.advance(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for AsyncCursor {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_write_from(context, from)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_written(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_written(context)
    }
}

impl AsyncSeek for AsyncCursor {
    fn start_seek(self: Pin<&mut Self>, to: SeekFrom) -> io::Result<()> {
        self.get_mut().seek = Some(to);
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let this = self.get_mut();
        let to = this.seek.unwrap_or(SeekFrom::Current(0));
        let pos = ready!(this.poll_seek_to(context, to));
        this.seek = None;
        Poll::Ready(pos)
    }
}
