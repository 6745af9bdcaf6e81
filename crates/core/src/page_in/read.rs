//! A read in progress: its byte range, and the frames that it holds.

use alloc::vec::Vec;
use core::ops::Range;

use crate::cache::PageCache;
use crate::driver_io::Fault;
use crate::ids::{FileId, ReadId, StreamId};
use crate::table::{FileSlot, Frame};
use crate::units::{ByteCount, Nanos, PageIndex, Pages};

/// A read in progress.
#[derive(Debug)]
pub(crate) struct PageRead {
    /// None for a planned read, which consults no policy.
    pub(crate) stream: Option<StreamId>,
    pub(crate) file: FileId,
    pub(crate) pos: ByteCount,
    /// Requested length.
    pub(crate) requested: ByteCount,
    /// Length in bytes that this read covers.
    pub(crate) len: ByteCount,
    /// The requested pages, not clipped at the end of the file: policies see the full request.
    pub(crate) count: Pages,
    pub(crate) prev_pos: Option<ByteCount>,
    pub(crate) began: Nanos,
    pub(crate) frames: ReadFrames,
    /// Pages taken from the budget of planned reads.
    pub(crate) budget: Pages,
    pub(crate) fault: Option<Fault>,
    /// Smallest length that its file has had since the read began, or is being cut to; the maximum
    /// file length if it was not cut.
    pub(crate) least_len: ByteCount,
}

impl PageRead {
    /// Computes the covered range in a file of this length: shorter than requested if the file ends
    /// earlier or the read would need too many frames.
    pub(crate) fn cover(&mut self, file_len: ByteCount) {
        let first = self.pos.page();
        if self.pos >= file_len {
            self.len = ByteCount::ZERO;
            self.frames.pages = first..first;
            return;
        }
        assert!(self.requested > ByteCount::ZERO, "a read asks for at least one byte");
        assert!(self.frames.frames.is_empty(), "a read that has frames keeps its range");
        let last = first + self.count;
        self.len = (self.pos + self.requested).min(file_len).min(last.offset()) - self.pos;
        self.frames.pages = first..last.min(PageIndex(file_len.pages_up().0));
        assert!(self.len <= self.requested, "a read covers no more than was asked for");
        assert!(!self.frames.pages.is_empty(), "a read that is not over has a page");
    }

    /// Returns the frames of the covered range. The read may hold more if the file was cut in the
    /// meantime.
    pub(crate) fn covered_frames(&self) -> &[Frame] {
        let end =
            if self.is_over() { self.pos.page().0 } else { (self.pos + self.len).pages_up().0 };
        let pages =
            usize::try_from(end - self.pos.page().0).expect("a read is smaller than memory");
        &self.frames.frames[..pages]
    }

    /// Returns the fault for the read of a page of which only `got` bytes arrived. If the file was
    /// cut in the meantime and ended there, the read ends at that point instead, without a fault.
    pub(crate) fn fault_of(&mut self, frame: Frame, fault: Fault, got: u32) -> Option<Fault> {
        let index = self.frames.frames.iter().position(|it| *it == frame);
        let index = index.expect("a read waits for frames of its own");
        let page = self.frames.pages.start + Pages(index as u64);
        let has_all = page.offset() + ByteCount(u64::from(got)) >= self.least_len;
        if fault != Fault::Short || !has_all {
            return Some(fault);
        }
        self.len = self.len.min(self.least_len.saturating_sub(self.pos));
        None
    }

    /// Returns true if the read covers nothing.
    pub(crate) fn is_over(&self) -> bool {
        self.len == ByteCount::ZERO
    }
}

/// The pages and frames of a read.
#[derive(Debug)]
pub(crate) struct ReadFrames {
    pub(crate) id: Option<ReadId>,
    /// Pages that the read covers, clipped at the end of the file.
    pub(crate) pages: Range<PageIndex>,
    /// Frames of the pages, in order; [`NO_FRAME`] until the page is fetched.
    pub(crate) frames: Vec<Frame>,
    /// Pages still to be fetched; this many frames are set aside.
    pub(crate) missing: Pages,
    /// Frames still being filled.
    pub(crate) outstanding: u32,
    /// The first page, if the read continues in the middle of the page where the last one ended.
    pub(crate) continues: Option<PageIndex>,
}

impl Default for ReadFrames {
    fn default() -> Self {
        let nothing = PageIndex(0)..PageIndex(0);
        Self {
            id: None,
            pages: nothing,
            frames: Vec::new(),
            missing: Pages::ZERO,
            outstanding: 0,
            continues: None,
        }
    }
}

impl ReadFrames {
    /// Holds the frames of all pages that are resident or in flight, and counts the missing ones.
    pub(crate) fn hold_what_is_resident(&mut self, cache: &mut PageCache, file: FileSlot) {
        assert!(self.frames.is_empty(), "a read starts once");
        self.missing = Pages::ZERO;
        let mut page = self.pages.start;
        while page < self.pages.end {
            match cache.look_up(file, page) {
                Some(entry) => {
                    cache.hold(entry.frame());
                    self.frames.push(entry.frame());
                }
                None => {
                    self.missing += Pages(1);
                    self.frames.push(NO_FRAME);
                }
            }
            page = page + Pages(1);
        }
        let pages = self.pages.end - self.pages.start;
        assert!(self.missing <= pages, "{:?} of {pages:?} are missing", self.missing);
    }

    /// Notes that the reader takes a page in `frame`; returns true if the page had no frame before.
    pub(super) fn take(&mut self, page: PageIndex, frame: Frame) -> bool {
        assert!(self.pages.contains(&page), "{page:?} is not the read's");
        let index = usize::try_from((page - self.pages.start).0)
            .expect("a read has fewer pages than there are frames");
        let is_new = self.frames[index] == NO_FRAME;
        assert!(is_new || self.frames[index] == frame, "{page:?} has moved while it was held");
        self.frames[index] = frame;
        is_new
    }

    /// Returns true if a page has no frame yet.
    pub(crate) fn has_unknown(&self) -> bool {
        debug_assert!(self.outstanding as usize <= self.frames.len(), "one wait for each page");
        self.frames.contains(&NO_FRAME)
    }

    /// Undoes [`Self::hold_what_is_resident`].
    pub(crate) fn release(&mut self, cache: &mut PageCache) {
        assert!(self.outstanding == 0, "a read that has begun to wait keeps its frames");
        for frame in self.frames.drain(..).filter(|frame| *frame != NO_FRAME) {
            cache.release(frame);
        }
    }
}

/// Stands for a frame that is not known yet.
const NO_FRAME: Frame = Frame(u32::MAX);
