//! The driver: between the core, which decides, and the ring, which does.
//!
//! In:    reads that missed, writes, what hits have posted, completions, the time.
//! Out:   reads that are ready, steps of writes, and the waiters to notify.
//! Never: a decision, a wait. It carries values from one to the other and knows what time it is.
//!
//! ```text
//!   reader --> core.read() --> poll_dispatch() --> ring --> completion --> complete() --+
//!     ^                             ^--------------------------------------------------|
//!     +------------------------------------- poll_ready() <-----------------------------+
//! ```
//!
//! A role, not a thread: the thread that holds the engine's mutex drives. `lead.rs` has which
//! threads wait, and where.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use foreread_core::path::{
    DeviceId, DeviceIo, ExtentMap, FileId, IoPath, OpenError, ReadId, StreamId, Tag, WriteId,
    WriteReady,
};
use foreread_core::sched::{Choice, Op};
use foreread_core::table::Frame;
use foreread_core::units::{ByteCount, Nanos, PageIndex, Pages};

use crate::advice::Advised;
use crate::backend::Backend;
use crate::delay::{Delay, DelayModel};
use crate::file::FileShared;
use crate::inbox::{Inbox, Marker, Post};
use crate::ring::{Completion, Ring};
use crate::waiting::{News, Ticket, Told, Waiter, Waiting, Wake};

#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) path: IoPath,
    pub(crate) waiting: Waiting,
    ring: Ring,
    devices: HashMap<DeviceId, OpenDevice>,
    /// Results that came before their slow device would have had them, the earliest first.
    early: BinaryHeap<Reverse<Early>>,
    /// When a delayed request is done, by its tag.
    done_at: HashMap<u64, Nanos>,
    /// The tags of writes that are on their way.
    writing: HashSet<u64>,
    /// When the leader wakes up by itself, if it sleeps and does.
    sleeps_until: Option<Nanos>,
    /// The leader goes to sleep in the ring once the mutex is free, and submits there.
    is_falling_asleep: bool,
    /// When the background thread comes by itself, if it does.
    pub(crate) rests_until: Option<Nanos>,
    /// The time that the core was last told.
    told: Nanos,
    started: Clock,
    /// What the kernel said when it would not have the ring used any more.
    broken: Option<i32>,
    /// Misses that were read by the thread that missed, without the ring.
    pub(crate) read_alone: u64,
}

#[derive(Debug)]
struct OpenDevice {
    backend: Arc<Backend>,
    delay: Option<DelayModel>,
}

/// A result that is held back, in the order of its time.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Early {
    at: Nanos,
    tag: u64,
    result: Result<u32, i32>,
}

/// A request that the thread which wants it reads itself.
pub(crate) struct Alone {
    pub(crate) tag: Tag,
    pub(crate) backend: Arc<Backend>,
    pub(crate) offset: u64,
    pub(crate) parts: Vec<(Frame, Range<usize>)>,
}

impl Driver {
    pub(crate) fn new(path: IoPath, ring: Ring, waiting: Waiting) -> Self {
        Self {
            path,
            waiting,
            ring,
            devices: HashMap::new(),
            early: BinaryHeap::new(),
            done_at: HashMap::new(),
            writing: HashSet::new(),
            sleeps_until: None,
            is_falling_asleep: false,
            rests_until: None,
            told: Nanos(0),
            started: read_clock(),
            broken: None,
            read_alone: 0,
        }
    }

    /// Adds a file as a device of its own, as its location on the real one is not known.
    pub(crate) fn open(
        &mut self,
        backend: &Arc<Backend>,
        len: ByteCount,
        delay: Option<Delay>,
        scheduler: &Choice,
    ) -> Option<(DeviceId, FileId)> {
        // One that is slowed down is not like its neighbours.
        let disk = backend.disk().filter(|_| delay.is_none());
        let device = self.path.add_device_on(disk, backend.geometry, scheduler);
        let Some(file) = self.path.open(device, len) else {
            self.path.remove_device(self.now(), device);
            return None;
        };
        let backend = Arc::clone(backend);
        self.devices.insert(device, OpenDevice { backend, delay: delay.map(DelayModel::new) });
        Some((device, file))
    }

    /// Takes in a file in pieces of an open device.
    pub(crate) fn open_layout(
        &mut self,
        device: DeviceId,
        len: ByteCount,
        layout: Arc<ExtentMap>,
    ) -> Result<FileId, OpenError> {
        self.path.open_layout(device, len, layout)
    }

    /// Lets such a file go. Its device stays.
    pub(crate) fn close_layout(&mut self, file: FileId) {
        if self.broken.is_none() {
            self.path.close(self.now(), file);
            self.note_ready();
            self.start_all();
        }
    }

    /// Lets a file go. What is still read of it ends on its own.
    pub(crate) fn close(&mut self, device: DeviceId, file: FileId) {
        if self.broken.is_some() {
            // Reads that will never end still hold frames of it: the core is left as it is.
            self.devices.remove(&device);
            return;
        }
        let now = self.now();
        self.path.close(now, file);
        self.path.remove_device(now, device);
        self.devices.remove(&device);
        self.note_ready();
        self.start_all();
    }

    /// Begins a read of `len` bytes at `pos`.
    pub(crate) fn begin(
        &mut self,
        stream: StreamId,
        pos: ByteCount,
        len: ByteCount,
        prev_pos: Option<ByteCount>,
        waiter: Waiter,
    ) -> ReadId {
        let id = self.path.read(self.now(), stream, pos, len, prev_pos);
        self.waiting.add(Ticket::Read(id), waiter);
        self.note_ready();
        id
    }

    /// Begins a write, a zero or a flush, for the calling thread.
    pub(crate) fn begin_write(
        &mut self,
        begin: impl FnOnce(&mut IoPath, Nanos) -> WriteId,
    ) -> WriteId {
        let now = self.now();
        let id = begin(&mut self.path, now);
        self.waiting.add(Ticket::Write(id), Waiter::Thread(std::thread::current()));
        self.note_ready();
        id
    }

    /// The thread that had a step of a write in hand has done it.
    pub(crate) fn stepped(&mut self, id: WriteId, tell: impl FnOnce(&mut IoPath, Nanos)) {
        self.waiting.set_away(Ticket::Write(id), false);
        let now = self.now();
        tell(&mut self.path, now);
        self.note_ready();
        self.queue_all();
    }

    /// A waiter gives a read up.
    pub(crate) fn abandon(&mut self, id: ReadId, file: Arc<FileShared>) {
        if self.broken.is_some() {
            // It will not be ready, and the file need not stay open for it.
            self.waiting.forget(Ticket::Read(id));
            return;
        }
        if self.waiting.abandon(Ticket::Read(id), file).is_some() {
            self.release(id);
        }
    }

    /// A reader has copied what it wanted.
    pub(crate) fn release(&mut self, id: ReadId) {
        self.path.release(self.now(), id);
        self.note_ready();
        self.start_all();
    }

    pub(crate) fn marker(&mut self, marker: Marker) {
        let Marker { stream, page, count, prev_pos, advised } = marker;
        if self.broken.is_some() {
            return;
        }
        if let Some(advised) = advised {
            self.advise(stream, advised);
        }
        self.path.marker(self.now(), stream, page, count, prev_pos);
        self.start_all();
    }

    /// Does what hits have posted.
    pub(crate) fn take_posts(&mut self, inbox: &Inbox) {
        if inbox.is_empty() {
            return;
        }
        if self.waiting.leader().is_none() {
            // While all reads are hits, no other thread reaps.
            self.reap();
        }
        while let Some(post) = inbox.take() {
            match post {
                Post::Marker(marker) => self.marker(marker),
                Post::CloseStream(stream) => self.path.close_stream(stream),
                Post::Unpinned(frame) => {
                    self.path.unpinned(self.now(), frame);
                    self.note_ready();
                    self.start_all();
                }
            }
        }
    }

    /// Passes completions to the core, unless a leader does that. Returns whether there were any.
    pub(crate) fn reap_unless_led(&mut self) -> bool {
        let in_flight = self.ring.in_flight();
        if self.waiting.leader().is_none() {
            self.reap();
        }
        self.ring.in_flight() < in_flight
    }

    /// The leader's turn: what has come is given to the core, what the core wants goes out.
    ///
    /// Only the leader may reap, or any thread while there is none: else the leader would sleep for
    /// a completion that was already taken.
    pub(crate) fn reap(&mut self) {
        while let Some(Completion { tag, result }) = self.ring.completion() {
            match self.done_at.remove(&tag) {
                Some(at) => self.early.push(Reverse(Early { at, tag, result })),
                None => self.complete(tag, result),
            }
        }
        if !self.early.is_empty() {
            let now = self.now();
            while let Some(Reverse(early)) = self.early.peek().copied()
                && early.at <= now
            {
                self.early.pop();
                self.complete(early.tag, early.result);
            }
        }
        self.note_time();
        self.note_ready();
        self.queue_all();
    }

    /// Takes the one request that is to be started, if it is the only one: then the thread that
    /// wants it reads it itself.
    ///
    /// ```text
    ///   ring    push, enter, [device], completion queued, thread woken, reaped
    ///   alone   preadv(2),   [device], thread woken
    /// ```
    ///
    /// Why: the thread waits anyway, and the ring costs some microseconds more. Read-ahead is never
    /// taken: the thread would wait for the window behind the one that it wants.
    pub(crate) fn take_alone(&mut self) -> Option<Alone> {
        if self.ring.in_flight() > MOST_IN_FLIGHT_BESIDE {
            return None;
        }
        let now = self.now();
        let mut alone = None;
        while self.ring.has_room()
            && let Some(io) = self.path.poll_dispatch(now)
        {
            if io.op == Op::Write {
                self.start(now, io);
            } else if let Some(first) = alone.replace(io) {
                self.start(now, first);
                self.start(now, io);
                return None;
            }
        }
        let alone = alone?;
        let device = self.devices.get(&alone.device).expect("a device outlives its files");
        if self.path.is_ahead(alone.tag) || device.delay.is_some() {
            self.start(now, alone);
            return None;
        }
        self.read_alone += 1;
        let (tag, backend) = (alone.tag, Arc::clone(&device.backend));
        let parts = self.path.io_parts(tag).collect();
        Some(Alone { tag, backend, offset: alone.offset.0, parts })
    }

    /// What became of it.
    pub(crate) fn complete_alone(&mut self, tag: Tag, result: Result<u32, i32>) {
        self.complete(tag.to_bits(), result);
        self.note_ready();
    }

    pub(crate) fn advise(&mut self, stream: StreamId, advised: Advised) {
        self.path.advise(stream, advised.pattern);
        self.path.set_no_reuse(stream, advised.is_used_once);
    }

    pub(crate) fn will_need(&mut self, file: FileId, pages: Range<PageIndex>) -> u64 {
        let Range { start, end } = pages;
        let count = Pages(end.0.saturating_sub(start.0));
        self.path.will_need(self.now(), file, start, count).0
    }

    pub(crate) fn set_len(&mut self, file: FileId, len: ByteCount) {
        self.path.set_len(self.now(), file, len);
        self.note_ready();
        self.start_all();
    }

    pub(crate) fn invalidate(&mut self, file: FileId, pages: Range<PageIndex>) {
        self.path.invalidate(self.now(), file, pages);
        self.note_ready();
        self.start_all();
    }

    /// Starts all that the core wants dispatched, and does not wait for it.
    pub(crate) fn start_all(&mut self) {
        self.queue_all();
        // What the kernel refuses this time it is offered again before the mutex is free.
        let _ = self.ring.submit();
    }

    /// Hands to the ring all that the core wants dispatched, as far as there is room; the kernel
    /// gets it with the next submission, at the latest [before the mutex is
    /// free](Self::before_unlock).
    pub(crate) fn queue_all(&mut self) {
        if self.path.has_holes() {
            self.note_ready();
        }
        if !self.ring.has_room() {
            return;
        }
        let now = self.now();
        while self.ring.has_room()
            && let Some(io) = self.path.poll_dispatch(now)
        {
            self.start(now, io);
        }
    }

    /// When the leader has to look again even if no completion comes.
    pub(crate) fn next_due(&self) -> Option<Nanos> {
        let early = self.early.peek().map(|Reverse(early)| early.at);
        [early, self.timer()].into_iter().flatten().min()
    }

    /// How much the layouts of files in pieces may take together.
    pub(crate) fn layouts_limit(&self) -> ByteCount {
        self.path.layouts_limit()
    }

    /// When the core wants to be told the time. None without dirty pages: nothing else waits for
    /// the time, and asking the core takes a look at each device.
    pub(crate) fn timer(&self) -> Option<Nanos> {
        if self.path.dirty() == Pages::ZERO {
            return None;
        }
        let at = self.path.poll_timeout()?;
        // What it was told did not help it: it is told again, but not at once.
        let again = Nanos(self.told.0.saturating_add(TELL_AGAIN_NS));
        Some(if at <= self.told { again } else { at })
    }

    /// Tells the core the time if it wants to be told.
    fn note_time(&mut self) {
        if let Some(at) = self.timer() {
            let now = self.now();
            if at <= now {
                self.told = now;
                self.path.timeout(now);
            }
        }
    }

    /// Whether a completion will come.
    fn is_anything_on_its_way(&self) -> bool {
        self.ring.in_flight() > 0 || !self.early.is_empty()
    }

    /// Whether a thread has to sleep in the ring: requests are in flight, and a waiter needs one,
    /// or more are to follow, or one is a write, for whose room a writer may wait.
    ///
    /// Read-ahead alone needs no leader: the next reader finds it.
    pub(crate) fn is_leader_needed(&self) -> bool {
        let is_left = self.is_something_left() || self.waiting.is_waited_for();
        self.is_anything_on_its_way() && is_left
    }

    fn is_something_left(&self) -> bool {
        !self.writing.is_empty() || self.path.is_dispatch_pending()
    }

    /// The leader goes to sleep in the ring until then, as soon as the mutex is free.
    pub(crate) fn falls_asleep(&mut self, due: Option<Nanos>) {
        self.waiting.set_asleep(true);
        self.sleeps_until = due;
        self.is_falling_asleep = true;
    }

    /// Returns what to wake once the mutex is free; if there is no leader, names one.
    ///
    /// Submits first what is queued in the ring: a leader that sleeps already does not see it. A
    /// thread that is about to sleep there submits with the same call.
    ///
    /// ```text
    ///   no leader, requests in flight              a thread that waits, or the background thread
    ///   no leader, pages will be old               the background thread sleeps until then
    ///   the leader sleeps longer than that         it is woken, and sleeps again
    /// ```
    pub(crate) fn before_unlock(&mut self) -> Vec<Wake> {
        let is_left = !std::mem::take(&mut self.is_falling_asleep) && self.ring.submit().is_err();
        if self.broken.is_none() {
            match self.waiting.leader() {
                None => self.name_leader(),
                Some(_) if self.waiting.is_leader_asleep() => {
                    let is_earlier = |due| self.sleeps_until.is_none_or(|until| due < until);
                    // What the kernel refused it offers again, for as long as it takes.
                    if is_left || self.next_due().is_some_and(is_earlier) {
                        self.waiting.set_asleep(false);
                        self.ring.wake();
                    }
                }
                Some(_) => {}
            }
        }
        self.waiting.take_wakes()
    }

    fn name_leader(&mut self) {
        let timer = self.timer();
        let is_thread_there = self.waiting.has_waiting_thread();
        if self.is_anything_on_its_way() || (timer.is_some() && is_thread_there) {
            self.waiting.name_leader(self.is_something_left());
        }
        // A thread that leads looks at the time, too.
        if let Some(due) = timer
            && !is_thread_there
            && self.rests_until.is_none_or(|until| due < until)
        {
            self.waiting.ring_bell();
            // It comes, and says anew how long it rests.
            self.rests_until = Some(Nanos(0));
        }
    }

    /// What the kernel said when it would not have the ring used any more.
    pub(crate) fn broken(&self) -> Option<i32> {
        self.broken
    }

    /// Marks the ring as broken: no completion will come from it, for any waiter.
    pub(crate) fn break_down(&mut self, errno: i32) {
        self.broken = Some(errno);
        self.waiting.wake_all();
    }

    /// After a driver's panic: wakes the leader, and returns all other waiters to wake.
    pub(crate) fn wake_all_waiters(&mut self) -> Vec<Wake> {
        self.waiting.wake_all();
        self.ring.wake();
        self.waiting.take_wakes()
    }

    pub(crate) fn now(&self) -> Nanos {
        let ns = read_clock().duration_since(self.started).as_nanos();
        Nanos(u64::try_from(ns).expect("an engine runs for less than 584 years"))
    }

    /// How long it is until then.
    pub(crate) fn until(&self, then: Nanos) -> Duration {
        Duration::from_nanos(then.0.saturating_sub(self.now().0))
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// What a file has nowhere on its device is zeros, here and now: it costs what copying the page
    /// does, some 30 us for a window of 1 MiB.
    fn fill_holes(&mut self) {
        if self.path.has_holes() {
            let now = self.now();
            let Self { path, ring, .. } = self;
            path.fill_holes(now, |frame, bytes| ring.zero(frame, &bytes));
        }
    }

    fn start(&mut self, now: Nanos, io: DeviceIo) {
        let DeviceIo { tag, device, op, fua, offset, len } = io;
        let device = self.devices.get_mut(&device).expect("its files are closed before a device");
        let bits = tag.to_bits();
        if let Some(delay) = &mut device.delay {
            self.done_at.insert(bits, Nanos(delay.finish_ns(now.0, len.0)));
        }
        let backend = Arc::clone(&device.backend);
        match op {
            Op::Read => self.ring.read(bits, backend, offset.0, self.path.io_parts(tag)),
            Op::Write => {
                self.writing.insert(bits);
                let frames = self.path.io_frames(tag);
                self.ring.write(bits, backend, (offset.0, len.0), fua, frames);
            }
        }
    }

    fn complete(&mut self, tag: u64, result: Result<u32, i32>) {
        self.writing.remove(&tag);
        let result = result.map(|bytes| ByteCount(u64::from(bytes)));
        self.path.complete(self.now(), Tag::from_bits(tag), result);
    }

    /// Notifies the waiters of reads that are ready and of writes that have come to a step;
    /// releases abandoned requests.
    ///
    /// Not when the ring is broken: then each waiter gets that error, and leaves its request.
    pub(crate) fn note_ready(&mut self) {
        while self.broken.is_none() {
            self.fill_holes();
            if let Some(ready) = self.path.poll_ready() {
                match self.waiting.note(Ticket::Read(ready.id), News::Read(ready)) {
                    Told::Waiter => {}
                    Told::SleepingLeader => self.ring.wake(),
                    Told::Abandoned => self.path.release(self.now(), ready.id),
                }
            } else if let Some(WriteReady { id, step }) = self.path.poll_write() {
                match self.waiting.note(Ticket::Write(id), News::Write(step)) {
                    Told::Waiter => {}
                    Told::SleepingLeader => self.ring.wake(),
                    Told::Abandoned => self.step_alone(id, step),
                }
            } else {
                break;
            }
        }
    }
}

/// The one place of the engine that asks what time it is.
#[expect(clippy::disallowed_methods, reason = "the driver tells the core the time")]
fn read_clock() -> Clock {
    Clock::now()
}

/// How soon the core is told the time again when it wanted to be told of one that is over.
const TELL_AGAIN_NS: u64 = 1_000_000;

/// With more than this in the ring, a miss goes there too, so that there is always room for the two
/// requests that are looked at.
const MOST_IN_FLIGHT_BESIDE: usize = 128;
