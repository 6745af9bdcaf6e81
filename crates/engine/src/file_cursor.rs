//! A position in a file, with the traits of `std::io`; the buffer of its reads is the cache itself.
//!
//! In:    calls of `Read`, `BufRead`, `Seek` and `Write`.
//! Out:   the bytes where they lie: `fill_buf` lends a pinned page. Writes, which are not buffered.
//! Never: more than one page pinned. An error because others have pinned what may be: then the page
//!        is copied.

use std::fmt;
use std::io::{self, BufRead, Read, Seek, SeekFrom, Write};

use foreread_core::units::ByteCount;

use crate::error::ReadError;
use crate::file::File;
use crate::page_ref::PageRef;
use crate::pool::PAGE;
use crate::reader::in_page;
use crate::stream::ReadStream;

/// A file with a position, for code that speaks [`Read`], [`BufRead`], [`Seek`] and [`Write`]. Made
/// by [`File::cursor`].
///
/// Its reads are a stream of their own, so that a scan through it is read ahead.
/// [`BufRead::fill_buf`] lends the rest of a cached page and copies nothing, so this needs no
/// [`BufReader`](io::BufReader) around it. The page is pinned until the next one is asked for, or
/// until a seek or a write by this cursor: like a buffer, it keeps its bytes while others write the
/// file. While as many pages are pinned as may be, the cursor copies them one at a time instead.
///
/// A write is in memory when it returns, or on the device, as
/// [`OpenOptions::write_mode`](crate::OpenOptions::write_mode) says; [`Write::flush`] does nothing
/// more, and [`File::sync_data`] makes durable. Of a file opened for appending each write goes to
/// the end, and the position follows. A position past the end is not an error: there are no bytes
/// to read, as with [`std::fs::File`].
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
    /// Where the next byte comes from, or goes to.
    pos: u64,
    lent: LentBytes,
    /// How many bytes are lent in all, and how many of them are consumed.
    len: usize,
    consumed: usize,
}

enum LentBytes {
    Pinned(PageRef),
    /// As many pages are pinned as may be.
    Copied(Vec<u8>),
}

impl LentBytes {
    const NONE: Self = Self::Copied(Vec::new());
}

impl File {
    /// Returns a cursor at the start of the file, for code that speaks the traits of `std::io`.
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
    /// The stream that it reads by: for advice, and for reads at offsets of their own.
    #[must_use]
    pub fn stream(&self) -> &ReadStream {
        &self.stream
    }

    /// The bytes that are lent and not consumed.
    #[inline]
    fn lent(&self) -> &[u8] {
        let bytes: &[u8] = match &self.lent {
            LentBytes::Pinned(page) => page,
            LentBytes::Copied(copy) => copy,
        };
        &bytes[self.consumed..self.len]
    }

    /// Consumes so many of the bytes that are lent.
    #[inline]
    fn advance(&mut self, len: usize) {
        self.consumed += len;
        self.pos += len as u64;
    }

    /// Ends what is lent.
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
            Err(ReadError::PinLimit { .. }) => self.copy_page()?,
            Err(error) => return Err(error),
        };
        self.len = match &self.lent {
            LentBytes::Pinned(page) => page.len(),
            LentBytes::Copied(copy) => copy.len(),
        };
        Ok(())
    }

    /// Where a seek goes to.
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
                Err(ReadError::PastEnd { .. }) => {}
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
        // A page or more is copied at once, and not page by page.
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
    /// What was lent is asked for anew, also where the seek ends in it.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.pos = self.target(to)?;
        self.end_loan();
        Ok(self.pos)
    }

    fn stream_position(&mut self) -> io::Result<u64> {
        Ok(self.pos)
    }

    /// Keeps the page if it ends in it.
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
        // The write may be to what is lent.
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

/// Where a seek goes to from `pos` in a file that ends where `end` says.
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
