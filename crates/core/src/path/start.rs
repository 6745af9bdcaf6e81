//! How a read starts: when it gets its frames, and what the policy makes of it.
//!
//! In:    a read that was asked for; frames that came free.
//! Out:   requests in the queue of its device, and frames held; or a place in the line.
//! Never: half a read. It starts when all that it lacks can be had, or not at all.

use alloc::vec::Vec;

use super::fetching::{PageInWalk, ReadFrames};
use super::job::PageRun;
use super::law::PrefetchTerms;
use super::waiters::Waiter;
use super::{
    DeviceId, FileId, IoPath, OpenFile, PageRead, PathStream, ReadId, ReadReady, StreamId,
    largest_read,
};
use crate::prefetch::walk::{PolicyMemory, ReadWalk};
use crate::prefetch::{Advice, Decided, Policy, WindowLimits};
use crate::sched::{Class, Op, Origin};
use crate::trace::EventKind;
use crate::units::{ByteCount, Nanos, PageIndex, Pages};

impl IoPath {
    /// Lets everything go on that can: writes that have their pages, those that wait for room, and
    /// what waits for frames; then the flusher looks what is due.
    pub(super) fn admit(&mut self, now: Nanos) {
        self.continue_rewrites(now);
        loop {
            self.give_frames(now);
            self.give_pages(now);
            self.give_room(now);
            // A write that is abandoned may give its pages to another one.
            if self.unlocked.is_empty() {
                break;
            }
        }
        self.write_out(now);
    }

    /// Starts what waits for frames, as far as there are frames.
    fn give_frames(&mut self, now: Nanos) {
        while let Some(waiter) = self.queued.pop_front() {
            let has_started = match waiter {
                Waiter::Read(id) => self.try_start(now, id, true),
                Waiter::Write(id) => self.try_frames(now, id, true),
            };
            if !has_started {
                self.queued.push_front(waiter);
                return;
            }
        }
    }

    /// Starts a read if all frames that it lacks can be had now; else leaves everything as it was.
    ///
    /// All or none, and in the order of arrival: two reads that each hold half of the frames would
    /// deadlock. A read that lacks no frame starts at once.
    pub(super) fn try_start(&mut self, now: Nanos, id: ReadId, is_its_turn: bool) -> bool {
        let PageRead { stream, file, count, prev_pos, wanted, .. } =
            self.reads.get_mut(id).expect("a read");
        let (stream, file, count, prev_pos) = (*stream, *file, *count, *prev_pos);
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
            |reader, memory, cache, decided| {
                reader.read(memory, cache, first, count, decided);
            },
        );
        assert!(wanted.missing == Pages::ZERO, "a read that is started has all its pages");
        let read = self.reads.get_mut(id).expect("a read");
        read.wanted = wanted;
        if read.wanted.outstanding == 0 {
            self.watch.end();
            self.ready.push_back(ReadReady { id, len: read.len, fault: None });
        }
        true
    }

    /// Lets `run` ask the policy over the cache, and queues the requests that come of it.
    pub(super) fn walk(
        &mut self,
        now: Nanos,
        stream: StreamId,
        file: FileId,
        prev_pos: Option<ByteCount>,
        wanted: Option<&mut ReadFrames>,
        run: impl FnOnce(&ReadWalk, PolicyMemory<'_>, &mut PageInWalk<'_>, &mut dyn FnMut(Decided)),
    ) {
        let Some(OpenFile { len, device, remembered, .. }) = self.files.get_mut(file) else {
            return;
        };
        let (len, device) = (*len, *device);
        // Taken out while the walk runs, which looks at the other files.
        let is_shared = self.policy == Policy::Adaptive;
        let mut remembered = core::mem::take(remembered);
        // A read whose caller has left may outlive its stream.
        let mut forgotten = PathStream::new(file);
        let PathStream { state, advice, no_reuse, submitter, blocked_ns, .. } =
            self.streams.get_mut(stream).unwrap_or(&mut forgotten);
        let state_of_device = self.devices.get(device).expect("a file's device outlives it");
        let (geometry, useful) = (state_of_device.geometry, state_of_device.useful);
        let largest = largest_read(&self.cache);
        let is_learnt = self.is_window_learnt;
        let max = if is_learnt { useful.window().min(largest) } else { self.max_window };
        // Twice as much for a sequential stream, but no more than one read may hold, and no more
        // than is of use. Where that is one page, half of it would be none.
        let max = match advice {
            Advice::Sequential if is_learnt => Pages((max.0 / 2).max(1)),
            Advice::Sequential => max.min(Pages(largest.0 / 2)),
            Advice::Normal | Advice::Random => max,
        };
        let reader = ReadWalk {
            policy: self.policy,
            limits: WindowLimits { max, io_pages: geometry.max_io.min(largest) },
            prev_pos,
            end: PageIndex(len.pages_up().0),
            advice: *advice,
            rules: self.rules,
        };
        let origin = Origin { op: Op::Read, class: Class::BestEffort, submitter: *submitter };
        let mut runs = Vec::new();
        let mut fetching = PageInWalk {
            cache: &mut self.cache,
            waiters: &mut self.waiters,
            stats: &mut self.stats,
            runs: &mut runs,
            file: Self::slot(file),
            parts: &mut self.parts,
            place: &self.files.get(file).expect("it is open").place,
            near: 0,
            file_len: len,
            max_io: geometry.max_io,
            may_read_ahead: self.queued.is_empty(),
            no_reuse: *no_reuse,
            hints: None,
            law: is_shared.then_some(PrefetchTerms {
                shares: &mut self.shares,
                files: &self.files,
                now,
                without: self.rules.without,
                submitter: *submitter,
                blocked_ns,
                // What is set is set.
                patient: if is_learnt { geometry.max_io } else { Pages(u64::MAX) },
                latency_ns: useful.latency_ns(),
                puts_off: is_learnt && state_of_device.wants_it_alone(),
                room: None,
                pace: None,
                asked: None,
            }),
            cut_at: None,
            wanted,
        };
        let memory = PolicyMemory { stream: state, file: &mut remembered };
        let (trace, windows) = (&mut self.trace, &mut self.windows);
        run(&reader, memory, &mut fetching, &mut |decided| {
            windows.add(decided.submitted);
            trace.push(now, || EventKind::Decided { stream, decided });
        });
        self.files.get_mut(file).expect("it is open").remembered = remembered;
        self.queue(now, device, runs, origin);
    }

    /// Queues requests of an open file.
    pub(super) fn queue(
        &mut self,
        now: Nanos,
        device: DeviceId,
        runs: Vec<PageRun>,
        origin: Origin,
    ) {
        let state = self.devices.get_mut(device).expect("a file's device outlives it");
        for run in runs {
            state.queue.add(now, run.request(now, origin));
        }
        self.note_busy(device);
    }
}
