//! Reads get their frames in order of arrival, consult the prefetcher, and become ready. A read
//! starts only when all frames that it lacks are available.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::planned::PlannedReads;
use super::{ReadPath, Telemetry, file_pages};
use crate::driver_io::{Fault, ReadReady};
use crate::files::PathStream;
use crate::ids::{FileId, ReadId, ReadKind, StreamId, Waiter, slot_of};
use crate::page_in::read::{PageRead, ReadFrames};
use crate::page_in::walk::{PageInWalk, Purpose};
use crate::prefetch::prefetcher::Prefetcher;
use crate::prefetch::question::{Question, ReaderState, WindowBounds};
use crate::prefetch::walk::{PageMet, ReadPages, visit};
use crate::prefetch::{Decided, Trigger};
use crate::sched::{Class, Op, Origin};
use crate::slab::Slab;
use crate::table::Frame;
use crate::trace::EventKind;
use crate::units::{ByteCount, MAX_FILE_BYTES, Nanos, PageIndex, Pages};

/// The reads of a path.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    pub(super) reads: Slab<ReadKind, PageRead>,
    /// Reads and writes that wait for frames, first come, first served.
    pub(crate) frame_line: VecDeque<Waiter>,
    pub(super) planned: PlannedReads,
    ready: VecDeque<ReadReady>,
    /// Files being cut by their drivers, with the new length.
    pub(super) cuts: Vec<(FileId, ByteCount)>,
}

/// Reason for a walk.
#[derive(Clone, Copy, Debug)]
enum WalkFor {
    /// A read, with its first page and its number of pages.
    Read(ReadId, PageIndex, Pages),
    /// A marker, with the number of pages left of its read.
    Marker(PageIndex, Pages),
}

impl Reads {
    pub(crate) fn get(&self, id: ReadId) -> Option<&PageRead> {
        self.reads.get(id)
    }

    pub(super) fn get_mut(&mut self, id: ReadId) -> &mut PageRead {
        self.reads.get_mut(id).expect("a read is not released before it is ready")
    }

    /// Returns the smallest length that a read of the file which begins now may find: the length
    /// that a driver is cutting the file to, if any.
    pub(super) fn least_len_of(&self, file: FileId) -> ByteCount {
        let cut = self.cuts.iter().find(|(other, _)| *other == file);
        cut.map_or(MAX_FILE_BYTES, |(_, len)| *len)
    }

    pub(crate) fn pop_ready(&mut self) -> Option<ReadReady> {
        self.ready.pop_front()
    }

    /// Returns true if the read waits for nothing more and its driver has been notified.
    pub(crate) fn is_ready(&self, id: ReadId) -> bool {
        self.reads.get(id).is_some_and(|read| read.frames.outstanding == 0)
            && !self.is_queued(id)
            && !self.ready.iter().any(|ready| ready.id == id)
    }

    /// Returns true if the read waits for frames or budget.
    pub(super) fn is_queued(&self, id: ReadId) -> bool {
        self.frame_line.contains(&Waiter::Read(id)) || self.planned.line.contains(&id)
    }

    /// Makes a read ready and returns its budget.
    fn end(&mut self, ready: ReadReady) {
        let budget = core::mem::take(&mut self.get_mut(ready.id).budget);
        self.planned.give_back(budget);
        self.ready.push_back(ready);
    }

    /// Ends a read that was removed from its queue without getting a frame.
    fn end_unstarted(&mut self, id: ReadId) {
        let read = self.get_mut(id);
        assert!(read.frames.frames.is_empty(), "{id:?} has started");
        read.len = ByteCount::ZERO;
        read.frames.pages.end = read.frames.pages.start;
        self.end(ReadReady { id, len: ByteCount::ZERO, fault: None });
    }

    /// Returns the number of frames that reads wait for.
    pub(crate) fn waits(&self) -> usize {
        self.reads.iter().map(|(_, read)| read.frames.outstanding as usize).sum()
    }

    /// Returns the frames of a ready read, for the part that was read.
    pub(crate) fn frames(&self, id: ReadId) -> &[Frame] {
        let read = self.reads.get(id).expect("a read that is asked for its frames is not released");
        assert!(read.frames.outstanding == 0, "the read is not ready");
        read.covered_frames()
    }
}

impl ReadPath {
    /// Begins a read. It starts at once if no other waits for frames and enough are available.
    pub(crate) fn begin_read(
        &mut self,
        now: Nanos,
        stream: StreamId,
        pos: ByteCount,
        len: ByteCount,
        prev_pos: Option<ByteCount>,
    ) -> ReadId {
        let file = self.files.stream(stream).expect("the caller names a stream that is open").file;
        let state = self.files.get_mut(file).expect("a stream ends with its file");
        assert!(len > ByteCount::ZERO, "a read asks for at least one byte");
        assert!(!state.is_closing, "{file:?} is closed");
        state.reads += 1;
        let file_len = state.len;

        let first = pos.page();
        let end = PageIndex((pos + len).pages_up().0);
        let goes_on = prev_pos == Some(pos) && pos > first.offset();
        let frames = ReadFrames { continues: goes_on.then_some(first), ..ReadFrames::default() };
        let read = PageRead {
            stream: Some(stream),
            file,
            pos,
            requested: len,
            len,
            count: (end - first).min(self.prefetch.largest_read()),
            prev_pos,
            began: now,
            frames,
            budget: Pages::ZERO,
            fault: None,
            least_len: self.reads.least_len_of(file),
        };
        let (id, is_over) = self.add_read(now, read, file_len);
        if !is_over && !self.try_start(now, id, self.reads.frame_line.is_empty()) {
            self.telemetry.stats.waited_for_frames += 1;
            self.reads.frame_line.push_back(Waiter::Read(id));
        }
        id
    }

    /// Adds a read; also returns true if it is already over because it begins past the end of the
    /// file.
    pub(super) fn add_read(
        &mut self,
        now: Nanos,
        mut read: PageRead,
        file_len: ByteCount,
    ) -> (ReadId, bool) {
        read.cover(file_len);
        let is_over = read.is_over();
        self.devices.observer.begin(now);
        let stats = &mut self.telemetry.stats;
        stats.reads += 1;
        stats.pages_wanted += (read.frames.pages.end - read.frames.pages.start).0;
        let id = self.reads.reads.insert(read);
        self.reads.get_mut(id).frames.id = Some(id);
        if is_over {
            self.end_unstarted(id);
        }
        (id, is_over)
    }

    /// Ends a read that holds no frame, with a length of 0.
    pub(super) fn end_unstarted(&mut self, id: ReadId) {
        self.devices.observer.end();
        self.reads.end_unstarted(id);
    }

    /// Starts a read if all frames that it lacks are available; otherwise changes nothing and
    /// returns false.
    ///
    /// A read gets all of its frames or none, in order of arrival, because two reads that each hold
    /// half of the frames would deadlock. A read that lacks no frame starts at once.
    pub(crate) fn try_start(&mut self, now: Nanos, id: ReadId, is_its_turn: bool) -> bool {
        let cache = &mut self.page_in.cache;
        let read = self.reads.get_mut(id);
        assert!(!read.is_over(), "a read that covers nothing needs no frames");
        read.frames.hold_what_is_resident(cache, slot_of(read.file));
        let lacks = read.frames.missing;
        if lacks > Pages::ZERO && (!is_its_turn || cache.available() < lacks) {
            read.frames.release(cache);
            return false;
        }
        let (stream, file, prev_pos) = (read.stream, read.file, read.prev_pos);
        let what = WalkFor::Read(id, read.frames.pages.start, read.count);
        match stream {
            Some(stream) => self.walk(now, stream, file, prev_pos, what),
            None => self.walk_planned(now, id),
        }
        let read = self.reads.get_mut(id);
        assert!(read.frames.missing == Pages::ZERO, "a read that is started has all its pages");
        debug_assert!(!read.frames.has_unknown(), "a read that is started has all its frames");
        let len = read.len;
        if read.frames.outstanding == 0 {
            self.devices.observer.end();
            self.reads.end(ReadReady { id, len, fault: None });
        }
        true
    }

    /// Handles a hit that cleared the marker of `page`, with `count` pages left of its read.
    pub(crate) fn met_marker(
        &mut self,
        now: Nanos,
        stream: StreamId,
        page: PageIndex,
        count: Pages,
        prev_pos: Option<ByteCount>,
    ) {
        let Some(file) = self.files.stream(stream).map(|stream| stream.file) else { return };
        if self.files.get(file).is_none_or(|open| page.offset() >= open.len) {
            return;
        }
        self.telemetry.stats.markers += 1;
        let count = count.min(self.prefetch.largest_read()).max(Pages(1));
        self.walk(now, stream, file, prev_pos, WalkFor::Marker(page, count));
    }

    /// Walks a read through its pages, or takes a marker to the prefetcher, and queues the
    /// resulting requests.
    fn walk(
        &mut self,
        now: Nanos,
        id: StreamId,
        file: FileId,
        prev_pos: Option<ByteCount>,
        of: WalkFor,
    ) {
        let Self { files, page_in, prefetch, devices, reads, telemetry, .. } = self;
        let may_read_ahead = reads.frame_line.is_empty();
        let (stream, open) = files.stream_and_file(id, file);
        let Some(open) = open else { return };
        // A read whose caller has gone may outlive its stream.
        let mut forgotten = PathStream::new(file);
        let stream = stream.unwrap_or(&mut forgotten);
        stream.reader.stream.prev_pos = prev_pos;
        let device = devices.of_file(open.device);
        let (pages, is_device_reading) = (file_pages(file, open, device), device.is_reading());
        let purpose = match of {
            WalkFor::Marker(..) => Purpose::Marker,
            WalkFor::Read(id, ..) => Purpose::Read(&mut reads.get_mut(id).frames),
        };
        let (submitter, advice) = (stream.reader.submitter, stream.reader.advice);
        let Telemetry { stats, windows, trace } = telemetry;
        let mut walk = PageInWalk::new(page_in, stats, pages, purpose, may_read_ahead);
        walk.no_reuse = stream.no_reuse;
        walk.bridge = prefetch.bridge(open.device.index());
        let mut note = |decided: Option<Decided>| {
            let Some(decided) = decided else { return };
            windows.add(decided.submitted);
            trace.push(now, || EventKind::Decided { stream: id, decided });
        };
        let mut ask = |reader: &mut ReaderState, walk: &mut PageInWalk<'_>, met, page, count| {
            let mut question = Question {
                ask: reader.stream.ask(page, count, met),
                now,
                reader,
                file: pages.slot,
                file_end: open.end(),
                device: open.device.index(),
                max_io: pages.max_io,
                is_device_reading,
                set_aside: Pages::ZERO,
                frames_ahead: None,
                bounds: WindowBounds::default(),
            };
            note(read_ahead(prefetch, &mut question, walk));
            while let Some(next) = prefetch.next_in_turn(&question, &walk.page_in.cache) {
                note(question.elsewhere(next, |question| read_ahead(prefetch, question, walk)));
            }
        };
        let reader = &mut stream.reader;
        match of {
            WalkFor::Read(_, first, count) => {
                let read = ReadPages { first, count, file_end: open.end(), advice };
                visit(&mut walk, read, |walk, met, page, count| match met {
                    PageMet::Missing => ask(reader, walk, Trigger::Miss, page, count),
                    PageMet::Marker => ask(reader, walk, Trigger::Marker, page, count),
                    PageMet::InFlight => reader.stream.has_waited = true,
                });
            }
            WalkFor::Marker(page, count) => ask(reader, &mut walk, Trigger::Marker, page, count),
        }
        let PageInWalk { runs, joined, .. } = walk;
        let origin = Origin { op: Op::Read, class: Class::BestEffort, submitter };
        for (page, frame) in joined {
            devices.promote(now, open.device, pages, page, frame);
        }
        devices.add_runs(now, open.device, runs, origin);
    }

    /// Releases a read's frames once the driver has copied from them. Returns its file.
    pub(crate) fn release_read(&mut self, id: ReadId) -> FileId {
        debug_assert!(self.reads.is_ready(id), "{id:?} is released before it is ready");
        let read = self.reads.reads.remove(id).expect("each read is released once");
        assert!(read.frames.outstanding == 0, "the read is not ready");
        for frame in read.frames.frames {
            self.page_in.cache.release(frame);
        }
        let file = self.files.used_mut(read.file);
        file.reads = file.reads.checked_sub(1).expect("a file counts its reads");
        read.file
    }

    /// Recomputes the range of a file's queued reads for a new length.
    pub(crate) fn cover_queued(&mut self, file: FileId, len: ByteCount) {
        let Self { reads: Reads { reads, frame_line, planned, .. }, .. } = self;
        let mut over = Vec::new();
        let mut stays = |id: ReadId| {
            let read = reads.get_mut(id).expect("a queued read is not released");
            if read.file == file {
                read.cover(len);
            }
            if read.is_over() {
                over.push(id);
            }
            !read.is_over()
        };
        frame_line.retain(|&waiter| match waiter {
            Waiter::Read(id) => stays(id),
            Waiter::Write(_) => true,
        });
        planned.line.retain(|id| stays(*id));
        for id in over {
            self.end_unstarted(id);
        }
    }

    /// Wakes a read whose frame could not be filled; `got` bytes of it arrived.
    pub(super) fn wake_read_failed(&mut self, id: ReadId, frame: Frame, fault: Fault, got: u32) {
        let fault = self.reads.get_mut(id).fault_of(frame, fault, got);
        self.wake_read(id, fault);
    }

    /// Ends a read's wait for a frame. After the last wait the read is ready.
    pub(super) fn wake_read(&mut self, id: ReadId, fault: Option<Fault>) {
        let read = self.reads.get_mut(id);
        read.fault = read.fault.or(fault);
        read.frames.outstanding =
            read.frames.outstanding.checked_sub(1).expect("a read is woken once for each wait");
        if read.frames.outstanding > 0 {
            return;
        }
        let ready = ReadReady { id, len: read.len, fault: read.fault };
        let (stream, began) = (read.stream, read.began);
        self.devices.observer.end();
        if let Some(stream) = stream.and_then(|stream| self.files.stream_mut(stream)) {
            let blocked_ns = self.clock.0.saturating_sub(began.0);
            // Only the policy `adaptive` reads it.
            let reader = &mut stream.reader;
            reader.blocked_ns = reader.blocked_ns.saturating_add(blocked_ns);
            reader.handle_blocked_ns = reader.handle_blocked_ns.saturating_add(blocked_ns);
        }
        self.reads.end(ready);
    }
}

/// Passes a question to the prefetcher, and starts the reads that it plans.
fn read_ahead(
    prefetch: &mut Prefetcher,
    question: &mut Question<'_>,
    walk: &mut PageInWalk<'_>,
) -> Option<Decided> {
    debug_assert!(walk.cut_at.is_none(), "the last plan was reported");
    question.set_aside = walk.set_aside();
    let plan = prefetch.plan(question, &mut walk.page_in.cache);
    if let Some(frames) = question.frames_ahead.take() {
        walk.frames_ahead = Some(frames);
    }
    let submitted = plan.as_ref().map_or(Pages::ZERO, |plan| plan.fetch(walk));
    prefetch.submitted(question, submitted, walk.cut_at.take(), &mut walk.page_in.cache);
    plan.map(|plan| plan.decided(submitted))
}
