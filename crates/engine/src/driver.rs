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
//! A role, not a thread: the thread that holds the engine's mutex drives. `leader.rs`
//! says which threads wait, and where.

mod fetch;
mod files;
mod inline_io;
mod planned;
mod requests;
mod sleep;
mod source_devices;
mod traced;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use foreread_core::path::{DeviceId, DeviceIo, IoPath, Tag, WriteReady};
use foreread_core::sched::Op;
use foreread_core::units::{ByteCount, Nanos};

pub(crate) use self::inline_io::InlineIo;
use self::planned::Batches;
pub(crate) use self::planned::EndedRead;
use self::source_devices::SourceDevices;
use crate::backend::Backend;
use crate::deferred_wake::DeferredWake;
use crate::delay::DelayModel;
use crate::first_touch::FirstTouch;
use crate::id_hasher::IdHasher;
use crate::pool::PAGE;
use crate::ring::{Completion, Ring};
use crate::source::FetchTable;
use crate::wait_table::{Notification, Ticket};
use crate::waiters::{Delivery, Waiters};

/// Joins the core and the ring, and knows the waiters of both.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) path: IoPath,
    pub(crate) waiting: Waiters,
    ring: Ring,
    fetches: FetchTable,
    batches: Batches,
    first_touch: FirstTouch,
    devices: HashMap<DeviceId, OpenDevice, BuildHasherDefault<IdHasher>>,
    source_devices: SourceDevices,
    /// Results that came before their slow device would have had them, the earliest first.
    early: BinaryHeap<Reverse<Early>>,
    /// When a delayed request is done, by its tag.
    done_at: HashMap<u64, Nanos, BuildHasherDefault<IdHasher>>,
    /// The tags of writes that are on their way.
    writing: HashSet<u64, BuildHasherDefault<IdHasher>>,
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
    /// The core keeps a trace because a subscriber wants it.
    is_traced: bool,
    /// Misses that were read by the thread that missed, without the ring.
    pub(crate) inline_reads: u64,
    /// Durable writes that were made by the thread that waited for them, without the ring.
    pub(crate) inline_writes: u64,
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

impl Driver {
    pub(crate) fn new(path: IoPath, ring: Ring, waiting: Waiters, fetches: FetchTable) -> Self {
        let first_touch = FirstTouch::new(ring.pool(), path.frame_count());
        Self {
            path,
            waiting,
            ring,
            fetches,
            batches: Batches::default(),
            first_touch,
            devices: HashMap::default(),
            source_devices: SourceDevices::default(),
            early: BinaryHeap::new(),
            done_at: HashMap::default(),
            writing: HashSet::default(),
            sleeps_until: None,
            is_falling_asleep: false,
            rests_until: None,
            told: Nanos(0),
            started: read_clock(),
            broken: None,
            is_traced: false,
            inline_reads: 0,
            inline_writes: 0,
        }
    }

    /// Passes completions to the core, unless a leader does that. Returns whether there were any.
    pub(crate) fn reap_unless_led(&mut self) -> bool {
        if self.is_idle() {
            return false;
        }
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
        self.note_joined();
        // Mostly there is nothing, and then the clock is not read.
        if !self.has_room() || !self.path.is_dispatch_pending() {
            return;
        }
        let now = self.now();
        while self.has_room()
            && let Some(io) = self.path.poll_dispatch(now)
        {
            self.start(now, io);
        }
    }

    /// Whether another request may be started. Those of sources need no room in the ring, and one
    /// that never answers holds back no other: each source has a limit of its own.
    fn has_room(&self) -> bool {
        self.ring.has_room()
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
    pub(crate) fn wake_all_waiters(&mut self) -> Vec<DeferredWake> {
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
        let device = self
            .devices
            .get_mut(&device)
            .expect("a device is removed after the last file that dispatches to it");
        let bits = tag.to_bits();
        if let Some(delay) = &mut device.delay {
            self.done_at.insert(bits, Nanos(delay.finish_ns(now.0, len.0)));
        }
        let backend = Arc::clone(&device.backend);
        if backend.source().is_some() {
            self.start_fetch(now, &io);
            return;
        }
        match op {
            Op::Read => self.ring.read(bits, backend, offset.0, self.path.io_parts(tag)),
            Op::Write => {
                let is_new = self.writing.insert(bits);
                assert!(is_new, "a tag in flight is not given again");
                let frames = self.path.io_frames(tag);
                self.ring.write(bits, backend, (offset.0, len.0), fua, frames);
            }
        }
    }

    fn complete(&mut self, tag: u64, result: Result<u32, i32>) {
        debug_assert!(!self.done_at.contains_key(&tag), "a delayed result waits for its time");
        let is_read = !self.writing.remove(&tag);
        if is_read && let Ok(bytes) = result {
            self.zero_rest(Tag::from_bits(tag), bytes as usize);
        }
        let result = result.map(|bytes| ByteCount(u64::from(bytes)));
        self.path.complete(self.now(), Tag::from_bits(tag), result);
    }

    /// A read has ended inside a page, where its file ends: fills the rest of the page with zeros,
    /// which are the file's bytes when it grows.
    fn zero_rest(&self, tag: Tag, bytes: usize) {
        if bytes.is_multiple_of(PAGE) {
            return;
        }
        let mut end = 0;
        for (frame, part) in self.path.io_parts(tag) {
            end += part.len();
            if let Some(missing @ 1..) = end.checked_sub(bytes) {
                self.ring.pool().copy_in(frame, part.end - missing, &[0; PAGE][..missing]);
                return;
            }
        }
    }

    /// Notifies the waiters of reads that are ready and of writes that have come to a step;
    /// releases abandoned requests.
    ///
    /// Not when the ring is broken: then each waiter gets that error, and leaves its request.
    pub(crate) fn note_ready(&mut self) {
        while self.broken.is_none() {
            self.fill_holes();
            if let Some(ready) = self.path.poll_ready() {
                if self.note_planned(&ready) {
                    continue;
                }
                match self.waiting.note(Ticket::Read(ready.id), Notification::Read(ready)) {
                    Delivery::Waiter => {}
                    Delivery::SleepingLeader => self.ring.wake(),
                    Delivery::Abandoned => self.path.release(self.now(), ready.id),
                }
            } else if let Some(WriteReady { id, step }) = self.path.poll_write() {
                if self.begin_step(id, step) {
                    continue;
                }
                match self.waiting.note(Ticket::Write(id), Notification::Write(step)) {
                    Delivery::Waiter => {}
                    Delivery::SleepingLeader => self.ring.wake(),
                    Delivery::Abandoned => self.step_alone(id, step),
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
