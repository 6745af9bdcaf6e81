//! How a read starts: when it gets its frames, and what the policy makes of it.
//!
//! In:    a read that was asked for; frames that came free.
//! Out:   requests in the queue of its device, and frames held; or a place in the line.
//! Never: half a read. It starts when all that it lacks can be had, or not at all.

use alloc::vec::Vec;

use super::fetching::{Fetching, Wanted};
use super::{File, FileId, IoPath, Read, ReadId, Ready, StreamId, largest_read};
use crate::readahead::walk::Reader;
use crate::readahead::{Decided, Limits, Window};
use crate::trace::What;
use crate::units::{Bytes, Instant, PageIndex, Pages};

impl IoPath {
    /// Starts the reads that wait for frames, as far as there are frames.
    pub(super) fn admit(&mut self, now: Instant) {
        while let Some(id) = self.queued.pop_front() {
            if !self.try_start(now, id, true) {
                self.queued.push_front(id);
                return;
            }
        }
    }

    /// Starts a read if all frames that it lacks can be had now; else leaves everything as it was.
    ///
    /// All or none, and in the order of arrival: two reads that each hold half of the frames would
    /// wait for each other for ever. A read that lacks no frame waits for nobody.
    pub(super) fn try_start(&mut self, now: Instant, id: ReadId, is_its_turn: bool) -> bool {
        let Read { stream, count, prev_pos, wanted, .. } = self.reads.get_mut(id).expect("a read");
        let (stream, count, prev_pos) = (*stream, *count, *prev_pos);
        let file = self.streams.get(stream).expect("a stream outlives its reads").file;
        wanted.hold_what_is_resident(&mut self.cache, Self::slot(file));
        let lacks = wanted.missing;
        if lacks > Pages::ZERO && (!is_its_turn || self.cache.available() < lacks) {
            wanted.let_go(&mut self.cache);
            return false;
        }
        // Taken out while the walk runs, which needs the rest of the path.
        let mut wanted = core::mem::take(wanted);
        let first = wanted.pages.start;
        self.walk(
            now,
            stream,
            file,
            prev_pos,
            Some(&mut wanted),
            |reader, window, cache, decided| {
                reader.read(window, cache, first, count, decided);
            },
        );
        assert!(wanted.missing == Pages::ZERO, "a read that is started has all its pages");
        let read = self.reads.get_mut(id).expect("a read");
        read.wanted = wanted;
        if read.wanted.outstanding == 0 {
            self.watch.end();
            self.ready.push_back(Ready { id, len: read.len, fault: None });
        }
        true
    }

    /// Lets `run` ask the policy over the cache, and queues the requests that come of it.
    pub(super) fn walk(
        &mut self,
        now: Instant,
        stream: StreamId,
        file: FileId,
        prev_pos: Option<Bytes>,
        wanted: Option<&mut Wanted>,
        run: impl FnOnce(&Reader, &mut Window, &mut Fetching<'_>, &mut dyn FnMut(Decided)),
    ) {
        let Some(&File { len, device, .. }) = self.files.get(file) else { return };
        let geometry = self.devices.get(device).expect("a file's device outlives it").geometry;
        let largest = largest_read(&self.cache);
        let reader = Reader {
            policy: self.policy,
            limits: Limits { max: self.max_window, io_pages: geometry.max_io.min(largest) },
            prev_pos,
            end: PageIndex(len.pages_up().0),
        };
        let mut requests = Vec::new();
        let mut fetching = Fetching {
            now,
            cache: &mut self.cache,
            waiters: &mut self.waiters,
            stats: &mut self.stats,
            requests: &mut requests,
            file: Self::slot(file),
            file_len: len,
            max_io: geometry.max_io,
            may_read_ahead: self.queued.is_empty(),
            wanted,
        };
        let window = &mut self.streams.get_mut(stream).expect("the stream is open").window;
        let trace = &mut self.trace;
        run(&reader, window, &mut fetching, &mut |decided| {
            trace.push(now, || What::Decided { stream, decided });
        });
        let state = self.devices.get_mut(device).expect("a file's device outlives it");
        for request in requests {
            state.queue.add(request);
        }
        self.note_busy(device);
    }
}
