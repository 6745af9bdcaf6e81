//! The calls of a path for reads: streams, reads, markers, hints.
//!
//! In:    what readers do.
//! Out:   reads that are ready, and their frames.
//! Never: a hit. The caller that serves hits looks them up in [`IoPath::table`].

use alloc::vec::Vec;
use core::ops::Range;

use super::IoPath;
use crate::call_log::steps::{PathCall, PathOutput};
use crate::driver_io::ReadReady;
use crate::ids::{FileId, ReadId, StreamId};
use crate::prefetch::{Advice, TooManyWeights};
use crate::sched::Submitter;
use crate::table::Frame;
use crate::units::{ByteCount, Nanos, PageIndex, Pages};

/// # Reads
impl IoPath {
    /// Begins a stream: each reader of a file, in each thread, has one of its own.
    ///
    /// # Panics
    ///
    /// If the file is closed.
    pub fn stream(&mut self, file: FileId) -> StreamId {
        self.did(|| PathCall::Stream { file });
        let id = self.read_path.files.begin_stream(file);
        self.gave(|| PathOutput::Stream(id));
        id
    }

    /// Ends a stream. One of a closed file may be ended too, or not.
    pub fn close_stream(&mut self, stream: StreamId) {
        self.did(|| PathCall::CloseStream { stream });
        self.read_path.files.close_stream(stream);
    }

    /// Sets what the stream's owner says of it, from its next question on. Of a closed stream:
    /// nothing.
    pub fn advise(&mut self, stream: StreamId, advice: Advice) {
        self.did(|| PathCall::Advise { stream, advice });
        if let Some(stream) = self.read_path.files.stream_mut(stream) {
            stream.reader.advice = advice;
        }
    }

    /// Sets whether the pages that this stream uses are left to the cache as if they would not be
    /// used again: its uses never make a page active. Of a closed stream: nothing.
    ///
    /// Holds for reads that come here. A caller that serves hits does the same with
    /// [`FoundPage::touch`](crate::table::FoundPage::touch).
    pub fn set_no_reuse(&mut self, stream: StreamId, no_reuse: bool) {
        self.did(|| PathCall::SetNoReuse { stream, no_reuse });
        if let Some(stream) = self.read_path.files.stream_mut(stream) {
            stream.no_reuse = no_reuse;
        }
    }

    /// Sets the submitter that the stream reads for: some schedulers are fair to submitters. At
    /// first all streams are of the same. Of a closed stream: nothing.
    pub fn set_submitter(&mut self, stream: StreamId, submitter: Submitter) {
        self.did(|| PathCall::SetSubmitter { stream, submitter });
        if let Some(stream) = self.read_path.files.stream_mut(stream) {
            stream.reader.submitter = submitter;
        }
    }

    /// The stream's next read follows an explicit seek: only the rule `lseek` looks at that. Of a
    /// closed stream: nothing.
    pub fn seeked(&mut self, stream: StreamId) {
        self.did(|| PathCall::Seeked { stream });
        if let Some(stream) = self.read_path.files.stream_mut(stream) {
            stream.reader.stream.seeked = true;
        }
    }

    /// Gives the streams of `submitter` a weight of their own: under pressure, memory for
    /// read-ahead is shared by weight first, and what one cannot use is lent to the others. All
    /// submitters without a weight are one here, of weight 1. Only `adaptive` looks at it.
    ///
    /// A weight is between 1 and 1000, one above counts as 1000. One of 0 takes the submitter's own
    /// away.
    ///
    /// # Errors
    ///
    /// If [`TooManyWeights::MOST`] others have one: then nothing has changed.
    pub fn set_weight(&mut self, submitter: Submitter, weight: u32) -> Result<(), TooManyWeights> {
        self.did(|| PathCall::SetWeight { submitter, weight });
        self.read_path.prefetch.set_weight(submitter, weight)
    }

    /// Reads what is not resident of `len` bytes at `pos`, and what the policy wants ahead of it.
    ///
    /// `prev_pos` is the byte after the last one that the stream's previous read returned. At most
    /// an eighth of all frames serve one read: [`ReadReady::len`] says how much it covers. One at
    /// the end of the file, or behind it, is ready at once, with a length of 0.
    ///
    /// # Panics
    ///
    /// If the stream is closed, or `len` is 0.
    pub fn read(
        &mut self,
        now: Nanos,
        stream: StreamId,
        pos: ByteCount,
        len: ByteCount,
        prev_pos: Option<ByteCount>,
    ) -> ReadId {
        self.did(|| PathCall::Read { now, stream, pos, len, prev_pos });
        let id = self.read_path.begin_read(now, stream, pos, len, prev_pos);
        self.gave(|| PathOutput::Read(id));
        id
    }

    /// A hit met and cleared the marker of `page`, with `count` pages left of its read, that one
    /// included. Of a closed stream, or behind the end of the file: nothing.
    pub fn marker(
        &mut self,
        now: Nanos,
        stream: StreamId,
        page: PageIndex,
        count: Pages,
        prev_pos: Option<ByteCount>,
    ) {
        self.did(|| PathCall::Marker { now, stream, page, count, prev_pos });
        self.read_path.met_marker(now, stream, page, count, prev_pos);
    }

    /// Asks the device for those of `pages` pages from `start` on that are not resident, and
    /// returns how many those are. A read that comes later finds them, or joins them.
    ///
    /// Pages past the end of the file are left out; so is the rest of a hint when half of the
    /// frames hold unused hinted pages, or when reads wait for frames. Of a closed
    /// file: nothing.
    pub fn will_need(&mut self, now: Nanos, file: FileId, start: PageIndex, pages: Pages) -> Pages {
        self.did(|| PathCall::WillNeed { now, file, start, pages });
        let requested = self.read_path.will_need(now, file, start, pages);
        debug_assert!(requested <= pages, "a hint asks for no more than it names");
        self.gave(|| PathOutput::Asked(requested));
        requested
    }

    /// The next read that waits for nothing more.
    pub fn poll_ready(&mut self) -> Option<ReadReady> {
        self.did(|| PathCall::PollReady);
        let ready = self.read_path.reads.pop_ready();
        debug_assert!(ready.is_none_or(|ready| self.is_ready(ready.id)), "{ready:?} still waits");
        self.gave_with(|path| {
            let frames = |id| {
                path.read_path
                    .reads
                    .get(id)
                    .map_or_else(Vec::new, |read| read.frames.frames.clone())
            };
            PathOutput::Ready(ready.map(|ready| (ready, frames(ready.id))))
        });
        ready
    }

    /// A read's frames, in the order of its pages, once it is ready and until it is released.
    ///
    /// # Panics
    ///
    /// If the read is not ready, or was released.
    #[must_use]
    pub fn frames(&self, id: ReadId) -> &[Frame] {
        self.read_path.reads.frames(id)
    }

    /// The driver has copied what it wanted: the frames of a read that was ready may be used again.
    ///
    /// # Panics
    ///
    /// If the read is not ready, or was released before.
    pub fn release(&mut self, now: Nanos, id: ReadId) {
        self.did(|| PathCall::Release { now, id });
        let file = self.read_path.release_read(id);
        self.writeback.end_file_if_over(&mut self.read_path, file);
        self.make_progress(now);
    }

    /// The last pin of an orphan has ended, as [`PageTable::unpin`](crate::table::PageTable::unpin)
    /// said: the frame may be used again.
    ///
    /// # Panics
    ///
    /// If the frame is no orphan.
    pub fn unpinned(&mut self, now: Nanos, frame: Frame) {
        self.did(|| PathCall::Unpinned { now, frame });
        self.read_path.page_in.cache.unpinned(frame);
        self.make_progress(now);
    }

    /// Whether [`Self::fill_holes`] has anything to do.
    #[must_use]
    pub fn has_holes(&self) -> bool {
        self.read_path.page_in.partial.has_holes()
    }

    /// Has the driver write zeros into all that is to be zeros: the bytes of a frame that an
    /// [extent-mapped file](Self::open_extents) has nowhere. No device is asked for them. Reads may
    /// be ready afterwards.
    ///
    /// To be called after whatever may begin to read, wherever there are such files; without them
    /// it does nothing.
    pub fn fill_holes(&mut self, now: Nanos, mut zero: impl FnMut(Frame, Range<usize>)) {
        if !self.has_holes() {
            return;
        }
        self.did(|| PathCall::FillHoles { now });
        while self.has_holes() {
            while let Some(fill) = self.read_path.page_in.partial.pop_hole() {
                let (frame, bytes) = (fill.filling.frame(), fill.part.bytes());
                zero(frame, bytes.clone());
                self.gave(|| PathOutput::Hole { frame, bytes });
                self.read_path.end_fill(now, fill);
                self.writeback.tell_woken(&mut self.read_path);
            }
            // What waited for frames may want more of it.
            self.make_progress(now);
        }
    }
}
