//! Pins by a reader: pages are read if necessary and pinned in place. A read holds its pages until
//! they are pinned, so that none is evicted in between.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use foreread_core::table::FoundPage;
use foreread_core::units::{ByteCount, PAGE_SIZE, Pages};

use super::{Markers, ReadProgress, StreamReader, in_page, observe};
use crate::advice::Advised;
use crate::deferred_wake::KeepAlive;
use crate::error::{ReadError, ReadErrorKind};
use crate::file_state::FileState;
use crate::handle::Handle;
use crate::page_range::PageRange;
use crate::page_ref::PageRef;
use crate::pins::PinnedFrame;
use crate::pool::PAGE;
use crate::wait_table::Waiter;

impl StreamReader {
    /// Pins the page at `pos` if it is resident, and returns the range of its bytes from there on.
    /// The caller has taken a permit and checked that `pos` is in the file.
    #[inline]
    pub(crate) fn pin_if_resident(
        &self,
        handle: &Handle,
        advised: Advised,
        pos: ByteCount,
    ) -> Option<(PinnedFrame, Range<usize>)> {
        let (page, found, len) = handle.file.pin_page(pos)?;
        let end = (pos.page() + Pages(1)).offset().min(len);
        let to = in_page(pos)
            + usize::try_from(end.saturating_sub(pos).0)
                .expect("a page of 4096 bytes ends after it begins");
        self.pinned_hit(handle, advised, &found, pos..end);
        self.prev_pos.set(Some(end));
        Some((page, in_page(pos)..to))
    }

    /// Records a pin as a cache hit of a read of `bytes`.
    #[inline]
    fn pinned_hit(
        &self,
        handle: &Handle,
        advised: Advised,
        found: &FoundPage<'_>,
        bytes: Range<ByteCount>,
    ) {
        let Range { start: pos, end } = bytes;
        let continues = in_page(pos) > 0 && self.prev_pos.get() == Some(pos);
        found.touch(continues || advised.is_used_once);
        self.hits.add_one();
        if self.is_observed {
            observe(handle, pos.0, end.saturating_sub(pos).0);
        }
        if found.entry().has_marker() {
            let room = (in_page(end) + PAGE - in_page(pos)).min(PAGE);
            let known_len = handle.file.len();
            let read = ReadProgress { offset: pos.0, room, wanted: 0, done: 0, known_len, advised };
            let mut markers = Markers::default();
            if read.may_take_markers() && self.has_stream(&handle.file) {
                markers.take(found, pos.page());
            }
            self.post(handle, &read, &markers);
        }
    }

    /// Pins the page that contains `offset`, for an owner other than this reader.
    pub(crate) fn pin_owned(
        &self,
        handle: &Handle,
        advised: Advised,
        offset: u64,
    ) -> Result<PageRef, ReadError> {
        let (pos, engine) = (ByteCount(offset), &handle.file.engine);
        let budget = engine.table.pin_budget();
        if pos < handle.file.len() && budget.try_take(1) == 1 {
            if let Some((page, bytes)) = self.pin_if_resident(handle, advised, pos) {
                return Ok(PageRef::new(Arc::clone(engine), page, bytes));
            }
            budget.give_back(1);
        }
        let mut pages = PageRange::empty(engine);
        self.pin_missing(handle, advised, offset, PAGE - in_page(pos), &mut pages)?;
        Ok(pages.into_pages().pop().unwrap_or_else(PageRef::empty))
    }

    /// Pins the pages of a range, cut at the end of the file.
    pub(crate) fn pin_range(
        &self,
        handle: &Handle,
        advised: Advised,
        range: &Range<u64>,
    ) -> Result<PageRange, ReadError> {
        let file = &handle.file;
        // No range larger than the address space can be pinned.
        let len = range.end.saturating_sub(range.start);
        let room = usize::try_from(len).unwrap_or(usize::MAX);
        let mut pages = PageRange::empty(&file.engine);
        if !self.pin_range_if_resident(handle, advised, range.start, room, &mut pages) {
            self.pin_missing(handle, advised, range.start, room, &mut pages)?;
        }
        Ok(pages)
    }

    /// Pins all pages of a read if all of its bytes are in the file and all are resident; otherwise
    /// pins none.
    fn pin_range_if_resident(
        &self,
        handle: &Handle,
        advised: Advised,
        offset: u64,
        room: usize,
        pages: &mut PageRange,
    ) -> bool {
        let (file, pos) = (&*handle.file, ByteCount(offset));
        let (known_len, end) = (file.len(), offset.saturating_add(room as u64));
        if room == 0
            || end > known_len.0
            || !Self::is_all_there(file, pos, room)
            || !pages.take_permits(page_count(offset, end))
        {
            return false;
        }
        let mut read = ReadProgress::within(known_len, advised, offset, room);
        let mut markers = Markers::default();
        self.pin_hits(file, &mut read, pages, &mut markers);
        let is_whole = read.done == room;
        if !is_whole {
            pages.unpin_all();
        }
        self.pinned_all(handle, &read, &markers, is_whole);
        is_whole
    }

    /// Pins resident pages from the current position on, and records their use.
    fn pin_hits(
        &self,
        file: &FileState,
        read: &mut ReadProgress,
        pages: &mut PageRange,
        markers: &mut Markers,
    ) {
        while read.done < read.wanted {
            let pos = read.pos();
            let Some((page, found)) = file.pin_page_of(read) else { break };
            self.used(file, read, &found, markers);
            read.done += pages.push(page, in_page(pos), read.wanted - read.done);
        }
    }

    /// Reads the missing pages of `room` bytes, and pins all before their frames can be reused.
    /// Adds them to `pages`, which is empty; it stays empty at the end of the file.
    #[cold]
    pub(crate) fn pin_missing(
        &self,
        handle: &Handle,
        advised: Advised,
        offset: u64,
        room: usize,
        pages: &mut PageRange,
    ) -> Result<(), ReadError> {
        let file = &handle.file;
        let mut read = self.ask(handle, advised, room, offset)?;
        handle.check_not_past_end(offset)?;
        self.observe(handle, offset, read.wanted);
        let count = page_count(offset, offset + read.wanted as u64);
        // Fail before reading pages that could not be pinned.
        if !pages.take_permits(count) {
            let limit = file.engine.table.pin_budget().max() * PAGE_SIZE;
            let (path, len) = (handle.path.clone(), count * PAGE_SIZE);
            return Err(ReadErrorKind::PinLimit { len, limit }.of(path));
        }
        let keep_open: KeepAlive = Arc::<FileState>::clone(file);
        let mut tries = 0;
        while read.done < read.wanted {
            let before = read.done;
            let waiter = || Waiter::Thread(std::thread::current());
            let hit = |read: &mut ReadProgress, markers: &mut Markers| {
                self.pin_hits(file, read, pages, markers);
            };
            let begun = self.begin(handle, &mut read, None, hit, waiter)?;
            let Some((driver, id)) = begun else { break };
            match self.wait_to_hold(handle, driver, id, &keep_open) {
                Ok((driver, len)) => {
                    drop(driver);
                    pin_held(file, &mut read, len, pages);
                    file.engine.drive_again().release(id);
                }
                Err(why) => self.fail(handle, &mut read, why)?,
            }
            tries = if read.done > before { 0 } else { tries + 1 };
            if read.done < read.wanted && tries == TRIES {
                let path = handle.path.clone();
                let source = io::Error::new(io::ErrorKind::ResourceBusy, REPLACED);
                return Err(ReadErrorKind::Io { offset, source }.of(path));
            }
        }
        // The file may have shrunk since its first page was pinned.
        pages.truncate(read.wanted);
        self.end(&read);
        handle.check_not_past_end(offset)
    }
}

/// Pins the pages of a read that holds `len` bytes from its current position on.
fn pin_held(file: &FileState, read: &mut ReadProgress, len: ByteCount, pages: &mut PageRange) {
    let len = usize::try_from(len.0).expect("the core reads no more than was asked for");
    let end = (read.done + len).min(read.wanted);
    while read.done < end {
        // The page was rewritten or dropped since: it is read again.
        let Some((page, _)) = file.pin_page_of(read) else { return };
        read.done += pages.push(page, in_page(read.pos()), end - read.done);
    }
}

impl FileState {
    /// Pins a resident page. Returns it with a length of the file for which it is valid. The caller
    /// has taken a permit.
    #[inline]
    pub(crate) fn pin_page(
        &self,
        pos: ByteCount,
    ) -> Option<(PinnedFrame, FoundPage<'_>, ByteCount)> {
        let found = self.engine.table.look_up(self.slot, pos.page())?;
        if !self.engine.table.pin(&found) {
            return None;
        }
        let (frame, generation) = (found.entry().frame(), found.entry().generation());
        let page = PinnedFrame { frame, generation };
        let len = self.len();
        // The length is valid for this page only while the page is in place: if the file has grown
        // in between, the frame holds nothing past the old end.
        if !found.still_holds() {
            page.unpin(&self.engine);
            return None;
        }
        Some((page, found, len))
    }

    /// Pins the page at the current position, unless the file has become shorter than the read's
    /// end.
    fn pin_page_of(&self, read: &ReadProgress) -> Option<(PinnedFrame, FoundPage<'_>)> {
        let (page, found, len) = self.pin_page(read.pos())?;
        if len < ByteCount(read.offset + read.wanted as u64) {
            page.unpin(&self.engine);
            return None;
        }
        Some((page, found))
    }
}

/// Returns the number of pages that these bytes touch.
fn page_count(from: u64, to: u64) -> u64 {
    if from >= to { 0 } else { to.div_ceil(PAGE_SIZE) - from / PAGE_SIZE }
}

/// Number of times that a page is read again if it is replaced between its read and its pin.
const TRIES: u32 = 16;
const REPLACED: &str =
    "other threads keep writing or invalidating the page before it can be pinned: read a copy";
