//! Files: opened, changed under their readers (other lengths, pages that are out of date), closed.
//!
//! In:    where a file is on its device; what became of it.
//! Out:   ids; pages forgotten; reads that wait for frames cut to what there is.
//! Never: a read lost. What is on its way ends, whatever becomes of its file meanwhile.

use alloc::sync::Arc;
use core::ops::Range;

use super::layout::{ExtentMap, FileLocation, OpenError};
use super::waiters::Waiter;
use super::{DeviceId, FileId, IoPath, OpenFile, PageRead, ReadReady};
use crate::prefetch::Streams;
use crate::replay::{PathCall, PathOutput};
use crate::table::FILES_MAX;
use crate::units::{ByteCount, MAX_FILE_BYTES, Nanos, PageIndex, Sector};

impl IoPath {
    /// Opens a file of `len` bytes that begins at the start of the device and lies there in one
    /// run. None if too many files are open.
    pub fn open(&mut self, device: DeviceId, len: ByteCount) -> Option<FileId> {
        self.open_at(device, Sector(0), len)
    }

    /// The same for a file that begins elsewhere: several may lie on one device.
    pub fn open_at(&mut self, device: DeviceId, start: Sector, len: ByteCount) -> Option<FileId> {
        self.log().did(|| PathCall::Open { device, start, len });
        let id = self.open_place(device, FileLocation::Run(start), len).ok();
        self.log().gave(|| PathOutput::File(id));
        id
    }

    /// Opens a file of `len` bytes whose pages lie where its layout says: it is read only.
    ///
    /// A page may lie anywhere, or in several places, and is asked for with as many requests. Of
    /// holes the driver makes zeros: see [`Self::fill_holes`]. What the layout names behind the end
    /// of the device fails with [`Fault::Short`](super::Fault::Short).
    ///
    /// # Errors
    ///
    /// If too many files are open, or if the layouts of open files would take too much: a sixteenth
    /// of the memory, which they take beside it.
    pub fn open_layout(
        &mut self,
        device: DeviceId,
        len: ByteCount,
        layout: Arc<ExtentMap>,
    ) -> Result<FileId, OpenError> {
        self.log().did(|| {
            let layout = Arc::clone(&layout);
            PathCall::OpenLayout { device, len, layout }
        });
        let limit = self.layouts_limit();
        let opened = if self.layouts + layout.bytes() > limit {
            Err(OpenError::Layouts { limit })
        } else {
            self.open_place(device, FileLocation::Pieces(layout), len)
        };
        self.log().gave(|| PathOutput::File(opened.ok()));
        opened
    }

    /// How much all layouts may take together.
    #[must_use]
    pub fn layouts_limit(&self) -> ByteCount {
        ByteCount(self.config.memory.0 / SHARE_OF_LAYOUTS)
    }

    fn open_place(
        &mut self,
        device: DeviceId,
        place: FileLocation,
        len: ByteCount,
    ) -> Result<FileId, OpenError> {
        assert!(self.devices.get(device).is_some(), "{device:?} is no device");
        assert!(len <= MAX_FILE_BYTES, "a file of {len} bytes");
        if self.files.len() >= FILES_MAX as usize {
            return Err(OpenError::TooMany);
        }
        self.layouts += place.bytes();
        Ok(self.files.insert(OpenFile {
            len,
            device,
            place,
            newest_stream: None,
            remembered: Streams::default(),
            reads: 0,
            writes: 0,
            debts: None,
            is_closing: false,
        }))
    }

    /// Closes a file: its streams end and its pages leave the cache.
    ///
    /// ```text
    ///   its reads              what becomes of them
    ///   that wait for frames   end now, with a length of 0
    ///   on their way           end as they would have
    /// ```
    ///
    /// Dirty pages are dropped: to keep them, [flush](Self::flush) first. Writes and flushes that
    /// wait end now, with [`Fault::Short`](super::Fault::Short); those whose driver copies or acts
    /// end when it is done.
    ///
    /// The file itself goes with the last of them that is released: until then its
    /// [slot](Self::slot) is no other file's. Nothing else may be done with a closed file; to close
    /// it again does nothing.
    pub fn close(&mut self, now: Nanos, file: FileId) {
        self.log().did(|| PathCall::Close { now, file });
        let Some(state) = self.files.get_mut(file).filter(|state| !state.is_closing) else {
            return;
        };
        state.is_closing = true;
        Self::end_shares(&mut self.shares, &mut state.remembered);
        let (pages, streams) = (state.len.pages_up(), state.newest_stream.take());
        state.len = ByteCount::ZERO;
        // It must not go before all is done.
        state.writes += 1;
        self.close_streams(streams);
        self.end_waiting_flushes(file);
        self.end_waiting_writes(file);
        self.drop_debts(file, PageIndex(0));
        self.cache.forget_file(Self::slot(file), pages);
        self.cover_queued(file, ByteCount::ZERO);
        self.files.get_mut(file).expect("it is kept").writes -= 1;
        self.end_if_over(file);
        self.admit(now);
    }

    /// The file has another length now.
    ///
    /// ```text
    ///   grew     |=====|=====|==   |              |=====|=====|.....|.....|..
    ///                         ^ the page at the old end is forgotten: it has more bytes now
    ///
    ///   shrank   |=====|=====|=====|==            |=====|==...|
    ///                     ^ from the page at the new end on all are forgotten: if the file grows
    ///                       again, zeros follow, and not what was there
    /// ```
    ///
    /// Reads that wait for frames are cut to the new length, and end with a length of 0 if they
    /// start behind it. Reads in flight are not disturbed, and one that waits for a page that was
    /// forgotten gets it as the device had it. If it had none of it any more, that is
    /// [`Fault::Short`](super::Fault::Short): the caller that changes lengths reads again.
    ///
    /// Dirty pages behind the new end are dropped, and no flush waits for them; the others stay as
    /// they are. A device write in flight is not cancelled: the caller flushes a written file
    /// before it cuts it.
    pub fn set_len(&mut self, now: Nanos, file: FileId, len: ByteCount) {
        assert!(len <= MAX_FILE_BYTES, "a file of {len} bytes");
        self.log().did(|| PathCall::SetLen { now, file, len });
        let state = self.files.get_mut(file).expect("the file is open");
        assert!(!state.is_closing, "{file:?} is closed");
        let before = core::mem::replace(&mut state.len, len);
        if before == len {
            return;
        }
        let first = before.min(len).page();
        let end = PageIndex(before.pages_up().0);
        if len < before {
            self.drop_debts(file, PageIndex(len.pages_up().0));
        }
        let kept = PageIndex(len.min(before).pages_up().0);
        // What lies behind the new end is not lost: it is not the file's any more.
        self.forget_clean(file, first..kept.min(end), true);
        self.forget_clean(file, kept..end, false);
        self.cover_queued(file, len);
        self.check_flushes(file);
        self.admit(now);
    }

    /// These pages of the file are out of date, or not needed any more: they leave the cache. Reads
    /// on their way are not disturbed, and later ones ask the device. Pages that are dirty or being
    /// written stay: the device has nothing newer. Of a closed file: nothing.
    pub fn invalidate(&mut self, now: Nanos, file: FileId, pages: Range<PageIndex>) {
        self.log().did(|| PathCall::Invalidate { now, file, pages: pages.clone() });
        if self.files.get(file).is_none() || pages.start >= pages.end {
            return;
        }
        self.forget_clean(file, pages, true);
        self.admit(now);
    }

    /// Forgets pages that are not dirty. `is_kept` says whether the file still has their bytes, so
    /// that unstable ones are noted as out of memory.
    pub(super) fn forget_clean(&mut self, file: FileId, pages: Range<PageIndex>, is_kept: bool) {
        if pages.start >= pages.end {
            return;
        }
        let Self { cache, debts, .. } = self;
        let (slot, count) = (Self::slot(file), pages.end - pages.start);
        let is_owed = |frame| debts.of(frame).is_some();
        cache.forget_range_but(slot, pages.start, count, is_kept, is_owed);
    }

    /// Drops the dirty pages from `first` on.
    fn drop_debts(&mut self, file: FileId, first: PageIndex) {
        for id in self.all_debts(file) {
            if self.page_owed(id) >= first {
                self.drop_debt(id, Some(super::Fault::Short));
            }
        }
    }

    /// The pages that lie wholly in `len` bytes at `pos`: what goes when the application says that
    /// it does not need those any more.
    ///
    /// ```text
    ///   bytes        |-----------------------|         a part of a page may be needed by others
    ///   pages   |......|=======|=======|.......|
    ///
    ///   at the end   |------------------|              of the last page there is no other part
    ///   pages   |......|=======|========|
    /// ```
    #[must_use]
    pub fn whole_pages(&self, file: FileId, pos: ByteCount, len: ByteCount) -> Range<PageIndex> {
        let end_of_file = self.files.get(file).expect("the file is open").len;
        let start = PageIndex(pos.min(end_of_file).pages_up().0);
        let rest = end_of_file - pos.min(end_of_file);
        let end =
            if len >= rest { PageIndex(end_of_file.pages_up().0) } else { (pos + len).page() };
        start..end.max(start)
    }

    /// The reads of a file that wait for frames, as they are in a file of this length.
    pub(super) fn cover_queued(&mut self, file: FileId, len: ByteCount) {
        let Self { queued, reads, ready, watch, .. } = self;
        queued.retain(|&waiter| {
            let Waiter::Read(id) = waiter else { return true };
            let read = reads.get_mut(id).expect("a queued read is not released");
            if read.file == file {
                read.cover(len);
            }
            let is_over = read.is_over();
            if is_over {
                watch.end();
                ready.push_back(ReadReady { id, len: ByteCount::ZERO, fault: None });
            }
            !is_over
        });
    }

    /// Lets a closed file go after its last read and its last write.
    pub(super) fn end_if_over(&mut self, file: FileId) {
        let is_over = |state: &OpenFile| state.is_closing && state.reads + state.writes == 0;
        if self.files.get(file).is_some_and(is_over) {
            let mut state = self.files.remove(file).expect("it is there");
            self.layouts -= state.place.bytes();
            Self::end_shares(&mut self.shares, &mut state.remembered);
            // A zero may have ended after the file was closed.
            self.cache.forget_unstable_left(Self::slot(file));
        }
    }
}

impl PageRead {
    /// What it covers of a file of this length: less than was asked if the file ends before, or if
    /// it would need too many frames.
    pub(super) fn cover(&mut self, file_len: ByteCount) {
        let first = self.pos.page();
        if self.pos >= file_len {
            self.len = ByteCount::ZERO;
            self.wanted.pages = first..first;
            return;
        }
        let last = first + self.count;
        self.len = (self.pos + self.asked).min(file_len).min(last.offset()) - self.pos;
        self.wanted.pages = first..last.min(PageIndex(file_len.pages_up().0));
    }

    /// Whether there is nothing to read for it.
    pub(super) fn is_over(&self) -> bool {
        self.len == ByteCount::ZERO
    }
}

/// Layouts may take a sixteenth of the memory, beside it: 4096 pieces in the smallest engine, and a
/// million in one of 256 MiB.
const SHARE_OF_LAYOUTS: u64 = 16;
