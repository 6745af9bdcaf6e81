//! The read path of one stream: hits are copied without a lock, misses go to the driver.
//!
//! In:    offsets and buffers.
//! Out:   bytes. A full hit takes no lock, unless it met a marker.
//! Never: more than one thread at a time; each thread uses a separate reader.

mod copy;
mod markers;
mod miss;
mod observed;
mod pinning;
mod try_read;

pub(crate) use copy::copy_page;
use copy::copy_run;
pub(crate) use markers::Markers;
pub(crate) use miss::error;
pub(crate) use observed::observe;

use std::cell::Cell;

use foreread_core::path::StreamId;
use foreread_core::prefetch::Advice as Pattern;
use foreread_core::sched::Submitter;
use foreread_core::table::FoundPage;
use foreread_core::units::{ByteCount, PageIndex, Pages};

use crate::advice::Advised;
use crate::driver_mailbox::DriverMailbox;
use crate::driver_queue::DriverEvent;
use crate::engine_state::EngineState;
use crate::error::{ReadError, ReadErrorKind};
use crate::file_state::FileState;
use crate::handle::Handle;
use crate::hits::HitCount;
use crate::pool::PAGE;
use crate::spans::MissSpan;

/// State that a reader keeps between its reads.
#[derive(Debug)]
pub(crate) struct StreamReader {
    /// Created lazily with the first decision, so that a reader which only hits never waits for it.
    id: Cell<Option<StreamId>>,
    /// End offset of the previous read.
    prev_pos: Cell<Option<ByteCount>>,
    /// The advice last passed to the core.
    told: Cell<Advised>,
    /// The submitter of its requests.
    submitter: Cell<Submitter>,
    pub(crate) hits: HitCount,
    /// Whether the engine's observer sees its reads.
    pub(crate) is_observed: bool,
}

/// Progress of one read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadProgress {
    pub(crate) offset: u64,
    /// Length of the buffer, as policies see it; the file may end first.
    pub(crate) room: usize,
    /// The part of it within the file.
    pub(crate) wanted: usize,
    pub(crate) done: usize,
    /// Length of the file when the read last started a request.
    known_len: ByteCount,
    pub(crate) advised: Advised,
}

impl StreamReader {
    pub(crate) fn new(file: &FileState) -> Self {
        Self {
            id: Cell::new(None),
            prev_pos: Cell::new(None),
            told: Cell::default(),
            submitter: Cell::default(),
            hits: file.engine.hits.of_a_stream(),
            is_observed: file.engine.observer.is_some(),
        }
    }

    /// Ends the stream, without waiting for the driver.
    pub(crate) fn close(&self, engine: &EngineState) {
        if let Some(id) = self.id.take() {
            engine.post([DriverEvent::CloseStream(id)]);
        }
    }

    /// Ends the stream as soon as another thread drives; the calling thread does not.
    pub(crate) fn leave(&self, mailbox: &DriverMailbox) {
        if let Some(id) = self.id.take() {
            mailbox.leave(DriverEvent::CloseStream(id));
        }
    }

    /// Returns true if the core has a stream to end.
    pub(crate) fn is_open(&self) -> bool {
        self.id.get().is_some()
    }

    pub(crate) fn read_at(
        &self,
        handle: &Handle,
        advised: Advised,
        to: &mut [u8],
        offset: u64,
    ) -> Result<usize, ReadError> {
        let mut read = self.ask(handle, advised, to.len(), offset)?;
        self.observe(handle, offset, read.wanted);
        let mut markers = Markers::default();
        self.hit(handle, &mut read, to, &mut markers);
        if read.done < read.wanted {
            let span = MissSpan::new(handle, read.pos().0, read.wanted - read.done);
            span.enter(|| self.miss(handle, &mut read, to, &markers))?;
        } else {
            self.full_hit(handle, &mut read, &markers);
        }
        Ok(self.end(&read))
    }

    /// Starts a read, and cuts it at the end of the file.
    #[inline]
    pub(crate) fn ask(
        &self,
        handle: &Handle,
        advised: Advised,
        room: usize,
        offset: u64,
    ) -> Result<ReadProgress, ReadError> {
        let mut len = handle.file.len().0;
        if offset.saturating_add(room as u64) > len {
            len = handle.len_now(offset)?;
        }
        let left = len.saturating_sub(offset);
        let wanted = room.min(usize::try_from(left).unwrap_or(usize::MAX));
        Ok(ReadProgress { offset, room, wanted, done: 0, known_len: ByteCount(len), advised })
    }

    /// Copies resident pages from the current position on, up to the first missing one.
    #[inline]
    pub(crate) fn hit(
        &self,
        handle: &Handle,
        read: &mut ReadProgress,
        to: &mut [u8],
        markers: &mut Markers,
    ) {
        let file = &*handle.file;
        // A read that continues in the middle of a page does not count as a second use of the page.
        let pos = read.pos();
        let mut continues = in_page(pos) > 0 && self.prev_pos.get() == Some(pos);
        let mut note_use = |found: &FoundPage<'_>, page: PageIndex| {
            found.touch(continues || read.advised.is_used_once);
            if found.entry().has_marker()
                && read.may_take_markers()
                && markers.has_room()
                && self.has_stream(file)
            {
                markers.take(found, page);
            }
            continues = false;
        };
        let (mut done, wanted) = (read.done, read.wanted);
        while done < wanted {
            let pos = ByteCount(read.offset + done as u64);
            let (page, from, to) = (pos.page(), in_page(pos), &mut to[done..wanted]);
            // Look pages up in runs, to spread the fixed cost over many of them.
            if from + to.len() > PAGE {
                let (run, held) = copy_run(file, page, from, to);
                for index in 0..held {
                    note_use(&run.page(index), page + Pages(index as u64));
                }
                if held > 0 {
                    done = wanted.min(done + held * PAGE - from);
                    continue;
                }
            }
            let part = to.len().min(PAGE - from);
            let Some(found) = copy_page(file, page, from, &mut to[..part]) else { break };
            note_use(&found, page);
            done += part;
        }
        read.done = done;
    }

    /// Counts a full hit, and posts its markers to the driver.
    #[inline]
    pub(crate) fn full_hit(&self, handle: &Handle, read: &mut ReadProgress, markers: &Markers) {
        self.hits.add_one();
        let file = &*handle.file;
        if file.len() < ByteCount(read.offset + read.wanted as u64) {
            // The file shrank during the copy.
            read.shrink_to(file.len());
        }
        self.post(handle, read, markers);
    }

    /// Ends a read, and returns the number of bytes read.
    #[inline]
    pub(crate) fn end(&self, read: &ReadProgress) -> usize {
        if read.wanted > 0 {
            self.prev_pos.set(Some(ByteCount(read.offset + read.wanted as u64)));
        }
        read.wanted
    }
}

impl ReadProgress {
    /// Creates a read of `room` bytes that all are in a file of this length.
    pub(crate) fn within(known_len: ByteCount, advised: Advised, offset: u64, room: usize) -> Self {
        debug_assert!(offset + room as u64 <= known_len.0, "the file ends before the read");
        Self { offset, room, wanted: room, done: 0, known_len, advised }
    }

    /// Returns a copy that is cut to the bytes copied so far.
    #[cfg(any(feature = "futures-io", feature = "tokio"))]
    pub(crate) fn cut_to_done(&self) -> Self {
        Self { wanted: self.done, ..*self }
    }

    /// Returns the current position.
    pub(crate) fn pos(&self) -> ByteCount {
        ByteCount(self.offset + self.done as u64)
    }

    /// Returns false for a random reader: it leaves markers to other readers.
    fn may_take_markers(&self) -> bool {
        self.advised.pattern != Pattern::Random
    }

    fn end_of_room(&self) -> ByteCount {
        ByteCount(self.offset.saturating_add(self.room as u64))
    }

    /// Cuts the read at this length of the file.
    fn shrink_to(&mut self, len: ByteCount) {
        let left = usize::try_from(len.0.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        self.wanted = self.wanted.min(left);
    }
}

impl Handle {
    /// Returns the current length of the file, for a read that reaches the known end.
    pub(crate) fn len_now(&self, offset: u64) -> Result<u64, ReadError> {
        let len = self.file.refresh_if_changed();
        let failed = |source| ReadErrorKind::Io { offset, source }.of(self.path.clone());
        len.map(|len| len.0).map_err(failed)
    }

    /// Refuses an offset past the end, for calls whose result cannot be empty.
    pub(crate) fn check_not_past_end(&self, offset: u64) -> Result<(), ReadError> {
        let len = self.file.len().0;
        if offset > len {
            return Err(ReadErrorKind::PastEnd { offset, len }.of(self.path.clone()));
        }
        Ok(())
    }
}

/// Returns the offset of a byte in its page.
#[expect(clippy::cast_possible_truncation, reason = "less than a page")]
pub(crate) fn in_page(pos: ByteCount) -> usize {
    (pos - pos.page().offset()).0 as usize
}
