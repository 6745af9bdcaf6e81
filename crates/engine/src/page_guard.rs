//! Pages that a stream pins and reads in place, without a copy. At most a quarter of the memory is
//! pinned at a time. A pinned page neither changes nor loses its frame: if it leaves the cache, the
//! frame is reused only after the last pin.

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
use crate::reader::{Markers, ReadProgress, StreamReader, in_page};
use crate::stream::ReadStream;

/// Bytes of a file in the cache's own memory, pinned for one stream. Returned by
/// [`ReadStream::pin`].
///
/// The guard borrows its stream and touches no counter that threads share, so that threads which
/// pin do not slow each other down. [`Self::into_owned`] turns it into a [`PageRef`]. The bytes of
/// both are immutable: a write to the file gives the page another frame, and the guard keeps the
/// old bytes.
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
    /// Pins the page that contains `offset`, and returns its bytes from `offset` to the end of the
    /// page or of the file, whichever comes first: none at the end of the file. Reads the page
    /// first if it is not resident.
    ///
    /// # Errors
    ///
    /// [`PinLimit`](crate::ReadErrorKind::PinLimit) if a quarter of the memory is pinned already:
    /// drop some pinned pages, copy with [`Self::read_at`], or give the engine more memory.
    /// Otherwise as [`Self::read_at`].
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

    /// Pins the page that contains `offset`, as [`Self::pin`] does, if it is resident. Returns None
    /// if the page has to be read or the pin limit is reached. Never blocks.
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

    /// Pins all pages of one read of `len` bytes, in order, and returns whether it succeeded: if a
    /// page is not resident, the file is shorter, or the pin limit is reached, it pins none. Never
    /// blocks.
    ///
    /// Read-ahead policies see one read, as with [`Self::read_at`], not one for each page.
    pub fn try_pin_all<'s>(
        &'s self,
        offset: u64,
        len: usize,
        pins: &mut Vec<PageGuard<'s>>,
    ) -> bool {
        let file = &*self.handle.file;
        let (table, before, known_len) = (&file.engine.table, pins.len(), file.len());
        let end = ByteCount(offset.saturating_add(len as u64));
        let is_there = || StreamReader::is_all_there(file, ByteCount(offset), len);
        if len == 0 || end > known_len || !is_there() {
            return false;
        }
        let advised = self.advised.get();
        let mut read = ReadProgress::within(known_len, advised, offset, len);
        let mut markers = Markers::default();
        while read.done < len {
            if !self.pins.take_one(table) {
                break;
            }
            let Some((page, found, file_len)) = file.pin_page(read.pos()) else {
                self.pins.put_back(table);
                break;
            };
            let from = in_page(read.pos());
            let to = PAGE.min(from + (len - read.done));
            pins.push(PageGuard { stream: self, page, from, to });
            if file_len < end {
                break;
            }
            self.reader.used(file, &read, &found, &mut markers);
            read.done += to - from;
        }
        let is_whole = read.done == len;
        if !is_whole {
            pins.truncate(before);
        }
        self.reader.pinned_all(&self.handle, &read, &markers, is_whole);
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

    /// Reads the page and pins it.
    #[cold]
    fn pin_missing(&self, offset: u64, is_taken: bool) -> Result<PageGuard<'_>, ReadError> {
        let engine = &self.handle.file.engine;
        let mut page = PageRange::empty(engine);
        if is_taken {
            self.pins.hand_over(&engine.table);
            page.take_over_permit();
        }
        let room = PAGE - in_page(ByteCount(offset));
        self.reader.pin_missing(&self.handle, self.advised.get(), offset, room, &mut page)?;
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
    /// Converts the guard into a page that borrows nothing, without a copy. It can move to another
    /// thread, and outlive its stream, file and engine.
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
        // The pin and its permit move to the new owner.
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

/// Placeholder for the missing page at the end of a file.
const NO_FRAME: Frame = Frame(u32::MAX);
