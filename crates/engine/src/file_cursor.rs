//! A position in a file, with the traits of `std::io`; the buffer of its reads is the cache itself.
//!
//! `fill_buf` lends a pinned page, at most one at a time, and copies the page at the pin limit.
//! Writes are not buffered.

use std::fmt;
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};

use foreread_core::units::ByteCount;

use crate::error::{ReadError, ReadErrorKind};
use crate::file::File;
use crate::page_ref::PageRef;
use crate::pool::PAGE;
use crate::reader::in_page;
use crate::stream::ReadStream;

/// A file with a position that implements [`Read`], [`BufRead`], [`Seek`] and [`Write`]. Created
/// by [`File::cursor`].
///
/// Its reads form a separate stream, so that a scan is read ahead. [`BufRead::fill_buf`] lends the
/// rest of a cached page without a copy: a [`BufReader`](io::BufReader) around the cursor is not
/// needed. The page stays pinned until the cursor moves to the next one, seeks or writes. Like a
/// buffer, it keeps its bytes while others write the file. At the limit of pinned pages, the cursor
/// copies one page at a time instead.
///
/// A write is in memory when it returns, or on the device, as
/// [`OpenOptions::write_mode`](crate::OpenOptions::write_mode) says; [`Write::flush`] does nothing
/// more, and [`File::sync_data`] makes writes durable. If the file was opened for appending, each
/// write goes to the end, and the position follows. Reading at a position past the end returns no
/// bytes, as with [`std::fs::File`].
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::io::{BufRead as _, Seek as _, SeekFrom};
///
/// # let engine = foreread::Engine::builder().build()?;
/// let mut log = engine.open("/var/log/syslog")?.cursor();
/// log.seek(SeekFrom::Start(1 << 20))?;
/// for line in log.lines() {
///     println!("{}", line?);
/// }
/// # Ok(()) }
/// ```
pub struct FileCursor {
    file: File,
    stream: ReadStream,
    /// Offset of the next byte to read or write.
    pos: u64,
    lent: LentBytes,
    /// Number of bytes lent, and the number already consumed.
    len: usize,
    consumed: usize,
}

enum LentBytes {
    Pinned(PageRef),
    /// A copy, because the limit of pinned pages is reached.
    Copied(Vec<u8>),
}

impl LentBytes {
    const NONE: Self = Self::Copied(Vec::new());
}

impl File {
    /// Returns a cursor at the start of the file, for code that uses the traits of `std::io`.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let mut table = engine.open("/var/lib/db/table")?.cursor();
    /// let mut header = [0; 64];
    /// std::io::Read::read_exact(&mut table, &mut header)?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn cursor(&self) -> FileCursor {
        let (file, stream, lent) = (self.clone(), self.stream(), LentBytes::NONE);
        FileCursor { file, stream, pos: 0, lent, len: 0, consumed: 0 }
    }
}

impl FileCursor {
    /// Returns the cursor's stream, for advice and for reads at other offsets.
    #[must_use]
    pub fn stream(&self) -> &ReadStream {
        &self.stream
    }

    /// Returns the lent bytes that are not consumed yet.
    #[inline]
    fn lent(&self) -> &[u8] {
        let bytes: &[u8] = match &self.lent {
            LentBytes::Pinned(page) => page,
            LentBytes::Copied(copy) => copy,
        };
        &bytes[self.consumed..self.len]
    }

    /// Consumes `len` of the lent bytes.
    #[inline]
    fn advance(&mut self, len: usize) {
        self.consumed += len;
        self.pos += len as u64;
    }

    /// Ends the loan and unpins its page.
    fn end_loan(&mut self) {
        (self.len, self.consumed) = (0, 0);
        self.lent = LentBytes::NONE;
    }

    #[cold]
    fn copy_page(&self) -> Result<LentBytes, ReadError> {
        let mut copy = vec![0; PAGE - in_page(ByteCount(self.pos))];
        let len = self.stream.read_at(&mut copy, self.pos)?;
        copy.truncate(len);
        Ok(LentBytes::Copied(copy))
    }

    fn lend(&mut self) -> Result<(), ReadError> {
        // First, so that its permit can be used again.
        self.end_loan();
        let ReadStream { reader, handle, advised, .. } = &self.stream;
        self.lent = match reader.pin_owned(handle, advised.get(), self.pos) {
            Ok(page) => LentBytes::Pinned(page),
            Err(ReadError { kind: ReadErrorKind::PinLimit { .. }, .. }) => self.copy_page()?,
            Err(error) => return Err(error),
        };
        self.len = match &self.lent {
            LentBytes::Pinned(page) => page.len(),
            LentBytes::Copied(copy) => copy.len(),
        };
        Ok(())
    }

    /// Returns the target of a seek.
    fn target(&self, to: SeekFrom) -> io::Result<u64> {
        let file = &self.stream.handle.file;
        seek_target(self.pos, to, || file.refresh_if_changed().map(|len| len.0))
    }
}

impl BufRead for FileCursor {
    #[inline]
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.consumed == self.len {
            match self.lend() {
                // Nothing is pinned past the end, and nothing is read.
                Err(ReadError { kind: ReadErrorKind::PastEnd { .. }, .. }) => {}
                lent => lent?,
            }
        }
        Ok(self.lent())
    }

    #[inline]
    fn consume(&mut self, amount: usize) {
        self.advance(amount.min(self.len - self.consumed));
    }
}

impl Read for FileCursor {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        // Copy a page or more in one read, not page by page.
        if self.consumed == self.len && to.len() >= PAGE {
            self.end_loan();
            let len = self.stream.read_at(to, self.pos)?;
            self.pos += len as u64;
            return Ok(len);
        }
        let len = self.fill_buf()?.read(to)?;
        self.advance(len);
        Ok(len)
    }

    #[inline]
    fn read_exact(&mut self, mut to: &mut [u8]) -> io::Result<()> {
        if to.len() <= self.len - self.consumed {
            to.copy_from_slice(&self.lent()[..to.len()]);
            self.advance(to.len());
            return Ok(());
        }
        while !to.is_empty() {
            let len = self.read(to)?;
            if len == 0 {
                let ended = "the file ended before the buffer was full";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, ended));
            }
            to = &mut to[len..];
        }
        Ok(())
    }
}

impl Seek for FileCursor {
    /// Always ends the loan, even if the target is in the lent page.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.pos = self.target(to)?;
        self.end_loan();
        Ok(self.pos)
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        Ok(self.pos)
    }

    /// Keeps the lent page if the target is in it.
    fn seek_relative(&mut self, offset: i64) -> io::Result<()> {
        let pos = self.target(SeekFrom::Current(offset))?;
        let within = isize::try_from(offset).ok();
        let within = within.and_then(|offset| self.consumed.checked_add_signed(offset));
        match within {
            Some(consumed) if consumed < self.len => self.consumed = consumed,
            _ => self.end_loan(),
        }
        self.pos = pos;
        Ok(())
    }
}

impl Write for FileCursor {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        if from.is_empty() {
            return Ok(0);
        }
        // The write may change the lent page.
        self.end_loan();
        if self.file.handle().appends {
            self.pos = self.file.append(from)? + from.len() as u64;
            return Ok(from.len());
        }
        let len = self.file.write_at(from, self.pos)?;
        self.pos += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for FileCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lent = self.len - self.consumed;
        f.debug_struct("FileCursor").field("pos", &self.pos).field("lent", &lent).finish()
    }
}

/// Returns the target of a seek from `pos` in a file whose length `end` returns.
pub(crate) fn seek_target(
    pos: u64,
    to: SeekFrom,
    end: impl FnOnce() -> io::Result<u64>,
) -> io::Result<u64> {
    let (base, by) = match to {
        SeekFrom::Start(pos) => (pos, 0),
        SeekFrom::Current(by) => (pos, by),
        SeekFrom::End(by) => (end()?, by),
    };
    let outside = "seek to an offset before the start of the file, or past 2^64";
    let outside = || io::Error::new(io::ErrorKind::InvalidInput, outside);
    base.checked_add_signed(by).ok_or_else(outside)
}
