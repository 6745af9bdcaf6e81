//! Pins: pages read where they lie, without a copy.
//!
//! In:    an offset.
//! Out:   the page's bytes from there on, which stay as they are for as long as the pin lives.
//! Never: more than a quarter of the memory pinned. A page that changes or goes while it is pinned:
//!        if it leaves the cache, its frame waits for the last pin.

use std::ops::Deref;

use foreread_core::table::{FoundPage, Frame, Generation};
use foreread_core::units::{ByteCount, Pages};

use crate::driver_queue::DriverEvent;
use crate::engine_state::EngineState;
use crate::error::ReadError;
use crate::pool::PAGE;
use crate::reader::{Markers, StreamReader, in_page};
use crate::stream::ReadStream;

/// Some bytes of a file, in the cache's own memory. Made by [`ReadStream::pin`].
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
#[derive(Debug)]
#[must_use = "a pin ends when it is dropped"]
pub struct PageRef<'s> {
    stream: &'s ReadStream,
    page: Pinned,
    from: usize,
    to: usize,
}

/// The frame that is pinned, in the life in which it was.
#[derive(Clone, Copy, Debug)]
struct Pinned {
    frame: Frame,
    generation: Generation,
}

impl Pinned {
    #[inline]
    fn unpin(self, engine: &EngineState) {
        if engine.table.unpin(self.frame, self.generation) {
            engine.post([DriverEvent::Unpinned(self.frame)]);
        }
    }
}

impl ReadStream {
    /// Pins the page that `offset` lies in, and gives its bytes from there on: to the end of the
    /// page, or of the file, where there are none. Reads it first if it is not resident.
    ///
    /// # Errors
    ///
    /// [`ReadError::PinLimit`] if a quarter of the memory is pinned already: then copy, with
    /// [`Self::read_at`]. Else as [`Self::read_at`].
    pub fn pin(&self, offset: u64) -> Result<PageRef<'_>, ReadError> {
        let (handle, engine) = (&*self.handle, &*self.handle.file.engine);
        let mut is_miss = false;
        for _ in 0..TRIES {
            let is_read = is_miss || ByteCount(offset) >= handle.file.len();
            if is_read {
                // The shortest read that brings the page, and knows all about ends and errors.
                if self.read_at(&mut [0], offset)? == 0 {
                    return Ok(self.pin_of_nothing());
                }
            }
            if !self.pins.take_one(&engine.table) {
                break;
            }
            if let Some(pin) = self.pin_if_resident(ByteCount(offset), is_read) {
                return Ok(pin);
            }
            self.pins.put_back(&engine.table);
            is_miss = true;
        }
        Err(ReadError::PinLimit { path: handle.path.clone() })
    }

    /// Pins the page that `offset` lies in, as [`Self::pin`] does, if it is in memory; None if it
    /// has to be read, or if as many pages are pinned as may be. Never waits.
    #[inline]
    pub fn try_pin(&self, offset: u64) -> Option<PageRef<'_>> {
        let (file, table) = (&*self.handle.file, &self.handle.file.engine.table);
        if ByteCount(offset) >= file.len() || !self.pins.take_one(table) {
            return None;
        }
        let pin = self.pin_if_resident(ByteCount(offset), false);
        if pin.is_none() {
            self.pins.put_back(table);
        }
        pin
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
    pub fn try_pin_all<'s>(&'s self, offset: u64, len: usize, pins: &mut Vec<PageRef<'s>>) -> bool {
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
            let Some((page, from, found, file_len)) = self.pin_page(ByteCount(at)) else {
                self.pins.put_back(table);
                break;
            };
            let to = PAGE.min(
                from + usize::try_from(end - at)
                    .expect("what is left of a read fits the usize that it began with"),
            );
            pins.push(PageRef { stream: self, page, from, to });
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

    #[inline]
    fn pin_if_resident(&self, pos: ByteCount, is_read: bool) -> Option<PageRef<'_>> {
        let (page, from, found, len) = self.pin_page(pos)?;
        let end = (pos.page() + Pages(1)).offset().min(len);
        let to = from
            + usize::try_from(end.saturating_sub(pos).0)
                .expect("a page of 4096 bytes ends after it begins");
        let reader = &self.reader;
        // The read that brought it was its use, and was counted.
        let used = (!is_read).then_some(&found);
        reader.pinned(&self.handle, self.advised.get(), used, pos, end);
        Some(PageRef { stream: self, page, from, to })
    }

    /// Pins a page that is there; with it, how long the file is with which it is right.
    #[inline]
    fn pin_page(&self, pos: ByteCount) -> Option<(Pinned, usize, FoundPage<'_>, ByteCount)> {
        let file = &*self.handle.file;
        let found = file.engine.table.look_up(file.slot, pos.page())?;
        if !file.engine.table.pin(&found) {
            return None;
        }
        let page = Pinned { frame: found.entry().frame(), generation: found.entry().generation() };
        let len = file.len();
        // The length is that of this page only if the page is still there: where its file has grown
        // meanwhile, the frame has nothing behind the old end.
        if !found.still_holds() {
            page.unpin(&file.engine);
            return None;
        }
        Some((page, in_page(pos), found, len))
    }

    /// Of no page, at the end of the file.
    fn pin_of_nothing(&self) -> PageRef<'_> {
        let page = Pinned { frame: NO_FRAME, generation: Generation::default() };
        PageRef { stream: self, page, from: 0, to: 0 }
    }
}

impl Deref for PageRef<'_> {
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

impl Drop for PageRef<'_> {
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

/// Stands for the page that is not there at the end of a file.
const NO_FRAME: Frame = Frame(u32::MAX);

/// How often a page that was evicted between its read and its pin is read again.
const TRIES: u32 = 16;
