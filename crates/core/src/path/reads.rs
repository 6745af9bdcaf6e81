//! Calls for streams, reads, markers and hints. Hits do not come here: the caller serves them from
//! [`IoPath::table`].

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
    /// Begins a stream. Each reader of a file needs its own, in each thread.
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

    /// Ends a stream. A stream of a closed file may be ended, but need not.
    pub fn close_stream(&mut self, stream: StreamId) {
        self.did(|| PathCall::CloseStream { stream });
        self.read_path.files.close_stream(stream);
    }

    /// Sets the access pattern announced by the stream's owner, from the next decision on. Does
    /// nothing if the stream is closed.
    pub fn advise(&mut self, stream: StreamId, advice: Advice) {
        self.did(|| PathCall::Advise { stream, advice });
        if let Some(stream) = self.read_path.files.stream_mut(stream) {
            stream.reader.advice = advice;
        }
    }

    /// Sets whether the cache treats pages used by this stream as not reused: its uses never make a
    /// page active. Does nothing if the stream is closed.
    ///
    /// This applies to reads that enter the path. A caller that serves hits has to do the same with
    /// [`FoundPage::touch`](crate::table::FoundPage::touch).
    pub fn set_no_reuse(&mut self, stream: StreamId, no_reuse: bool) {
        self.did(|| PathCall::SetNoReuse { stream, no_reuse });
        if let Some(stream) = self.read_path.files.stream_mut(stream) {
            stream.no_reuse = no_reuse;
        }
    }

    /// Sets the submitter of the stream; some schedulers are fair among submitters. Initially all
    /// streams have the same one. Does nothing if the stream is closed.
    pub fn set_submitter(&mut self, stream: StreamId, submitter: Submitter) {
        self.did(|| PathCall::SetSubmitter { stream, submitter });
        if let Some(stream) = self.read_path.files.stream_mut(stream) {
            stream.reader.submitter = submitter;
        }
    }

    /// Notes that the stream's next read follows an explicit seek, which only the rule `lseek`
    /// considers. Does nothing if the stream is closed.
    pub fn seeked(&mut self, stream: StreamId) {
        self.did(|| PathCall::Seeked { stream });
        if let Some(stream) = self.read_path.files.stream_mut(stream) {
            stream.reader.stream.seeked = true;
        }
    }

    /// Sets the weight of a submitter's streams: under memory pressure, read-ahead memory is first
    /// divided by weight, and shares that a submitter cannot use are lent to the others. All
    /// submitters without a weight together count as one, of weight 1. Only `adaptive` considers
    /// weights.
    ///
    /// Weights are between 1 and 1000; larger values count as 1000. 0 removes the submitter's
    /// weight.
    ///
    /// # Errors
    ///
    /// If [`TooManyWeights::MOST`] other submitters have weights; nothing changes then.
    pub fn set_weight(&mut self, submitter: Submitter, weight: u32) -> Result<(), TooManyWeights> {
        self.did(|| PathCall::SetWeight { submitter, weight });
        self.read_path.prefetch.set_weight(submitter, weight)
    }

    /// Reads the missing pages of `len` bytes at `pos`, and the read-ahead that the policy decides
    /// on.
    ///
    /// `prev_pos` is the byte after the last one that the stream's previous read returned. One read
    /// covers at most an eighth of all frames; [`ReadReady::len`] reports the covered length. A
    /// read at or past the end of the file is ready at once, with a length of 0.
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

    /// Handles a hit that cleared the marker of `page`, with `count` pages left of its read,
    /// including that one. Does nothing if the stream is closed or the page is past the end of the
    /// file.
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

    /// Requests the missing pages among `pages` pages from `start` on, and returns their number. A
    /// later read finds them resident or joins their request.
    ///
    /// Pages past the end of the file are ignored, and so is the rest of a hint once half of the
    /// frames are unused hinted pages, or while reads wait for frames. Does nothing if the file is
    /// closed.
    pub fn will_need(&mut self, now: Nanos, file: FileId, start: PageIndex, pages: Pages) -> Pages {
        self.did(|| PathCall::WillNeed { now, file, start, pages });
        let requested = self.read_path.will_need(now, file, start, pages);
        debug_assert!(requested <= pages, "a hint asks for no more than it names");
        self.gave(|| PathOutput::Asked(requested));
        requested
    }

    /// Takes the next read that has become ready.
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

    /// Returns a read's frames, in the order of its pages, from when it is ready until it is
    /// released.
    ///
    /// # Panics
    ///
    /// If the read is not ready, or was released.
    #[must_use]
    pub fn frames(&self, id: ReadId) -> &[Frame] {
        self.read_path.reads.frames(id)
    }

    /// Releases the frames of a ready read after the driver has copied from them.
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

    /// Releases an orphan after its last pin has ended, as reported by
    /// [`PageTable::unpin`](crate::table::PageTable::unpin).
    ///
    /// # Panics
    ///
    /// If the frame is not an orphan.
    pub fn unpinned(&mut self, now: Nanos, frame: Frame) {
        self.did(|| PathCall::Unpinned { now, frame });
        self.read_path.page_in.cache.unpinned(frame);
        self.make_progress(now);
    }

    /// Returns true if [`Self::fill_holes`] has work to do.
    #[must_use]
    pub fn has_holes(&self) -> bool {
        self.read_path.page_in.partial.has_holes()
    }

    /// Lets the driver zero the bytes of frames that are holes of an [extent-mapped
    /// file](Self::open_extents), which need no device I/O. Reads may be ready afterwards.
    ///
    /// Call it after every call that may start a read while such files are open; without them it
    /// does nothing.
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
            // Reads that waited for frames may have added holes.
            self.make_progress(now);
        }
    }
}
