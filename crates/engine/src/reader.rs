//! A reader: one reader's hits and misses.
//!
//! In:    offsets and buffers.
//! Out:   bytes. A full hit takes no lock, unless it met a marker.
//! Never: more than one thread at a time. Each has a reader of its own.

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
use crate::error::ReadError;
use crate::file_state::FileState;
use crate::handle::Handle;
use crate::hits::HitCount;
use crate::pool::PAGE;
use crate::spans::MissSpan;

/// What a reader remembers between its reads.
#[derive(Debug)]
pub(crate) struct StreamReader {
    /// Made when there is first something to decide: a reader that only hits never waits for one.
    id: Cell<Option<StreamId>>,
    /// The byte after the last one that a read returned.
    prev_pos: Cell<Option<ByteCount>>,
    /// What the core was told of the advice.
    told: Cell<Advised>,
    /// The submitter that it reads for.
    submitter: Cell<Submitter>,
    pub(crate) hits: HitCount,
    /// Whether the engine's observer is told of its reads.
    pub(crate) is_observed: bool,
}

/// One read: what was asked, and how far it has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadProgress {
    pub(crate) offset: u64,
    /// What the buffer holds, which the policies see; the file may end before.
    pub(crate) room: usize,
    /// What the file has of it.
    pub(crate) wanted: usize,
    pub(crate) done: usize,
    /// How long the file was known to be when the rest was last asked for.
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

    /// Ends the stream as soon as a thread drives: this one does not.
    pub(crate) fn leave(&self, mailbox: &DriverMailbox) {
        if let Some(id) = self.id.take() {
            mailbox.leave(DriverEvent::CloseStream(id));
        }
    }

    /// Whether there is a stream to end.
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

    /// What a read comes to in this file.
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

    /// Copies as much from where the read stands as is resident.
    #[inline]
    pub(crate) fn hit(
        &self,
        handle: &Handle,
        read: &mut ReadProgress,
        to: &mut [u8],
        markers: &mut Markers,
    ) {
        let file = &*handle.file;
        // A read that goes on in the middle of a page is no second use of it.
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
            // In runs, so that what is not the copy is paid once for many pages.
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

    /// Counts a full hit, and posts the markers that it met to the driver.
    #[inline]
    pub(crate) fn full_hit(&self, handle: &Handle, read: &mut ReadProgress, markers: &Markers) {
        self.hits.add_one();
        let file = &*handle.file;
        if file.len() < ByteCount(read.offset + read.wanted as u64) {
            // It shrank while we copied.
            read.shrink_to(file.len());
        }
        self.post(handle, read, markers);
    }

    /// What a read returns, once it is done.
    #[inline]
    pub(crate) fn end(&self, read: &ReadProgress) -> usize {
        if read.wanted > 0 {
            self.prev_pos.set(Some(ByteCount(read.offset + read.wanted as u64)));
        }
        read.wanted
    }
}

impl ReadProgress {
    /// The same as if no more had been wanted than has come.
    #[cfg(any(feature = "futures-io", feature = "tokio"))]
    pub(crate) fn cut_to_done(&self) -> Self {
        Self { wanted: self.done, ..*self }
    }

    /// Where it stands.
    pub(crate) fn pos(&self) -> ByteCount {
        ByteCount(self.offset + self.done as u64)
    }

    /// A reader at random leaves markers where they are: they are other readers'.
    fn may_take_markers(&self) -> bool {
        self.advised.pattern != Pattern::Random
    }

    fn end_of_room(&self) -> ByteCount {
        ByteCount(self.offset.saturating_add(self.room as u64))
    }

    /// The file has no more than this.
    fn shrink_to(&mut self, len: ByteCount) {
        let left = usize::try_from(len.0.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        self.wanted = self.wanted.min(left);
    }
}

impl Handle {
    /// How long the file is, for a read that reaches the end that we know of.
    pub(crate) fn len_now(&self, offset: u64) -> Result<u64, ReadError> {
        let len = self.file.refresh_if_changed();
        let failed = |source| ReadError::Io { path: self.path.clone(), offset, source };
        len.map(|len| len.0).map_err(failed)
    }

    /// Refuses an offset past the end: for calls whose result cannot say that there is nothing.
    pub(crate) fn check_not_past_end(&self, offset: u64) -> Result<(), ReadError> {
        let len = self.file.len().0;
        if offset > len {
            return Err(ReadError::PastEnd { path: self.path.clone(), offset, len });
        }
        Ok(())
    }
}

/// Where in its page a byte lies.
#[expect(clippy::cast_possible_truncation, reason = "less than a page")]
pub(crate) fn in_page(pos: ByteCount) -> usize {
    (pos - pos.page().offset()).0 as usize
}
