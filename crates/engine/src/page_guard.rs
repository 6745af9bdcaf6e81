//! Pins of a stream: pages read where they lie, without a copy.
//!
//! In:    an offset.
//! Out:   the page's bytes from there on, which stay as they are for as long as the pin lives.
//! Never: more than a quarter of the memory pinned. A page that changes or goes while it is pinned:
//!        if it leaves the cache, its frame waits for the last pin.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, Range};
use std::sync::Arc;

use foreread_core::table::{Frame, Generation};
use foreread_core::units::ByteCount;

use crate::error::ReadError;
use crate::page_range::PageRange;
use crate::page_ref::PageRef;
use crate::pins::PinnedFrame;
use crate::pool::PAGE;
use crate::reader::{Markers, StreamReader, in_page};
use crate::stream::ReadStream;

/// Some bytes of a file, in the cache's own memory. Made by [`ReadStream::pin`].
///
/// It borrows its stream, and changes no count that threads share: threads that pin do not slow
/// each other down. [`Self::into_owned`] makes a [`PageRef`] of it. Neither changes while it lives:
/// a write to the file gives the page another frame, and this keeps the old bytes.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let engine = foreread::Engine::builder().build()?;
/// let stream = engine.open("/var/lib/db/table")?.stream();
/// let page = stream.pin(8192)?; // no copy: the bytes lie in the cache until `page` is dropped
/// let sum: u64 = page.iter().map(|byte| u64::from(*byte)).sum();
/// # let _ = sum;
/// # Ok(()) }
/// ```
#[must_use = "a pin ends when it is dropped"]
pub struct PageGuard<'s> {
    stream: &'s ReadStream,
    page: PinnedFrame,
    from: usize,
    to: usize,
}

impl ReadStream {
    /// Pins the page that `offset` lies in, and returns its bytes from there on: to the end of the
    /// page, or of the file. At the end of the file there are none. Reads the page first if it is
    /// not resident.
    ///
    /// # Errors
    ///
    /// [`ReadError::PinLimit`] if a quarter of the memory is pinned already: then drop pages that
    /// are pinned, copy with [`Self::read_at`], or give the engine more memory. Otherwise as
    /// [`Self::read_at`].
    #[inline]
    pub fn pin(&self, offset: u64) -> Result<PageGuard<'_>, ReadError> {
        let file = &*self.handle.file;
        let is_taken = self.pins.take_one(&file.engine.table);
        if is_taken
            && ByteCount(offset) < file.len()
            && let Some((page, Range { start, end })) =
                self.reader.pin_if_resident(&self.handle, self.advised.get(), ByteCount(offset))
        {
            return Ok(PageGuard { stream: self, page, from: start, to: end });
        }
        self.pin_missing(offset, is_taken)
    }

    /// Pins the page that `offset` lies in, as [`Self::pin`] does, if it is in memory; None if it
    /// has to be read, or if as many pages are pinned as may be. Never waits.
    #[inline]
    pub fn try_pin(&self, offset: u64) -> Option<PageGuard<'_>> {
        let (file, table) = (&*self.handle.file, &self.handle.file.engine.table);
        if ByteCount(offset) >= file.len() || !self.pins.take_one(table) {
            return None;
        }
        let pinned =
            self.reader.pin_if_resident(&self.handle, self.advised.get(), ByteCount(offset));
        let Some((page, Range { start, end })) = pinned else {
            self.pins.put_back(table);
            return None;
        };
        Some(PageGuard { stream: self, page, from: start, to: end })
    }

    /// Pins all pages of one read of `len` bytes, in order, and returns whether it did: if one is
    /// not in memory, or there are too many pins, none is added. Never waits. The file has to have
    /// the bytes.
    ///
    /// To the policies this is one read, as with [`Self::read_at`], not one for each page.
    #[expect(
        clippy::missing_panics_doc,
        reason = "what is left of a read fits the usize that it began with"
    )]
    pub fn try_pin_all<'s>(
        &'s self,
        offset: u64,
        len: usize,
        pins: &mut Vec<PageGuard<'s>>,
    ) -> bool {
        let file = &*self.handle.file;
        let (table, pos, before) = (&file.engine.table, ByteCount(offset), pins.len());
        let end = offset.saturating_add(len as u64);
        if len == 0 || end > file.len().0 || !StreamReader::is_all_there(file, pos, len) {
            return false;
        }
        let mut markers = Markers::default();
        let mut at = offset;
        while at < end {
            if !self.pins.take_one(table) {
                break;
            }
            let Some((page, found, file_len)) = file.pin_page(ByteCount(at)) else {
                self.pins.put_back(table);
                break;
            };
            let from = in_page(ByteCount(at));
            let to = PAGE.min(
                from + usize::try_from(end - at)
                    .expect("what is left of a read fits the usize that it began with"),
            );
            pins.push(PageGuard { stream: self, page, from, to });
            if file_len < ByteCount(end) {
                break;
            }
            let used = (ByteCount(at).page(), pos);
            self.reader.used(file, self.advised.get(), &found, used, &mut markers);
            at += (to - from) as u64;
        }
        let is_whole = at >= end;
        if !is_whole {
            pins.truncate(before);
        }
        let read = (self.advised.get(), pos, len);
        self.reader.pinned_all(&self.handle, read, &markers, is_whole);
        is_whole
    }

    /// Pins all pages of a range, as [`File::pin_range`](crate::File::pin_range) does.
    ///
    /// # Errors
    ///
    /// As [`File::pin_range`](crate::File::pin_range).
    pub fn pin_range(&self, range: Range<u64>) -> Result<PageRange, ReadError> {
        self.reader.pin_range(&self.handle, self.advised.get(), &range)
    }

    /// Reads the page, and pins it.
    #[cold]
    fn pin_missing(&self, offset: u64, is_taken: bool) -> Result<PageGuard<'_>, ReadError> {
        let engine = &self.handle.file.engine;
        let mut page = PageRange::empty(engine);
        if is_taken {
            self.pins.hand_over(&engine.table);
            page.take_over_permit();
        }
        let room = PAGE - in_page(ByteCount(offset));
        self.reader.pin_missing(&self.handle, self.advised.get(), (offset, room), &mut page)?;
        let Some((page, Range { start, end })) = page.into_one_frame() else {
            // At the end of the file.
            let page = PinnedFrame { frame: NO_FRAME, generation: Generation::default() };
            return Ok(PageGuard { stream: self, page, from: 0, to: 0 });
        };
        self.pins.take_over();
        Ok(PageGuard { stream: self, page, from: start, to: end })
    }
}

impl PageGuard<'_> {
    /// The same page, which borrows nothing: it may go to another thread, and outlive its stream,
    /// its file and its engine. Not a copy.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let engine = foreread::Engine::builder().build()?;
    /// let stream = engine.open("/var/lib/db/table")?.stream();
    /// let page = stream.pin(8192)?;
    /// if page.first() == Some(&b'L') {
    ///     let leaf = page.into_owned();
    ///     std::thread::spawn(move || println!("{} bytes", leaf.len()));
    /// }
    /// # Ok(()) }
    /// ```
    pub fn into_owned(self) -> PageRef {
        // The pin and its permit go on.
        let guard = ManuallyDrop::new(self);
        if guard.page.frame == NO_FRAME {
            return PageRef::empty();
        }
        let engine = Arc::clone(&guard.stream.handle.file.engine);
        guard.stream.pins.hand_over(&engine.table);
        PageRef::new(engine, guard.page, guard.from..guard.to)
    }
}

impl Deref for PageGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        if self.page.frame == NO_FRAME {
            return &[];
        }
        let page = self.stream.handle.file.engine.pool.pinned_page(self.page.frame);
        &page[self.from..self.to]
    }
}

impl Drop for PageGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.page.frame == NO_FRAME {
            return;
        }
        let engine = &*self.stream.handle.file.engine;
        self.page.unpin(engine);
        self.stream.pins.put_back(&engine.table);
    }
}

impl AsRef<[u8]> for PageGuard<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PageGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageGuard").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Stands for the page that is not there at the end of a file.
const NO_FRAME: Frame = Frame(u32::MAX);
