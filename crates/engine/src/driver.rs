//! Connects the core, which decides, to the ring, which does the I/O.
//!
//! In:    missed reads, writes, events posted by hits, completions, the time.
//! Out:   ready reads, write steps, waiters to notify.
//! Never: a decision or a wait. The driver passes values on and reads the clock.
//!
//! ```text
//!   reader --> core.read() --> poll_dispatch() --> ring --> completion --> complete() --+
//!     ^                             ^--------------------------------------------------|
//!     +------------------------------------- poll_ready() <-----------------------------+
//! ```
//!
//! The driver is a role, not a thread: whichever thread holds the engine's mutex drives.
//! `leader.rs` describes which threads wait, and where.

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

/// Core, ring and waiters of one engine.
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
    /// Completions held back until their simulated slow device would have finished, earliest first.
    early: BinaryHeap<Reverse<Early>>,
    /// Finish times of delayed requests, by tag.
    done_at: HashMap<u64, Nanos, BuildHasherDefault<IdHasher>>,
    /// Tags of writes in flight.
    writing: HashSet<u64, BuildHasherDefault<IdHasher>>,
    /// Deadline of the sleeping leader, if it has one.
    sleeps_until: Option<Nanos>,
    /// The leader enters the ring as soon as it releases the mutex, and submits with the same call.
    is_falling_asleep: bool,
    /// Time at which the background thread wakes on its own, if any.
    pub(crate) rests_until: Option<Nanos>,
    /// Time last passed to the core.
    told: Nanos,
    started: Clock,
    /// Error number with which the kernel rejected the ring, once it has.
    broken: Option<i32>,
    /// The core records a trace for a `tracing` subscriber.
    is_traced: bool,
    /// Misses read by the missing thread itself, bypassing the ring.
    pub(crate) inline_reads: u64,
    /// Durable writes issued by the waiting thread itself, bypassing the ring.
    pub(crate) inline_writes: u64,
}

#[derive(Debug)]
struct OpenDevice {
    backend: Arc<Backend>,
    delay: Option<DelayModel>,
}

/// Completion held back, ordered by its due time.
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

    /// Passes completions to the core unless a leader does. Returns true if there were any.
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

    /// Passes completions to the core, then queues its pending requests.
    ///
    /// Only the leader may reap, or any thread while there is no leader. Otherwise the leader could
    /// sleep waiting for a completion that another thread has already taken.
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

    /// Submits all pending requests of the core, without waiting for them.
    pub(crate) fn start_all(&mut self) {
        self.queue_all();
        // Requests the kernel refuses are resubmitted before the mutex is released.
        let _ = self.ring.submit();
    }

    /// Moves pending requests of the core into the ring, as far as there is room. The kernel sees
    /// them at the next submission, at the latest [before the mutex is
    /// released](Self::before_unlock).
    pub(crate) fn queue_all(&mut self) {
        if self.path.has_holes() {
            self.note_ready();
        }
        self.note_joined();
        // Usually nothing is pending; skip reading the clock then.
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

    /// Returns true if the ring can take another request. Source requests need no room in the ring,
    /// and each source has its own limit, so a source that never answers delays no other.
    fn has_room(&self) -> bool {
        self.ring.has_room()
    }

    /// Returns the error number with which the kernel rejected the ring, once it has.
    pub(crate) fn broken(&self) -> Option<i32> {
        self.broken
    }

    /// Marks the ring as broken and wakes all waiters: it delivers no more completions.
    pub(crate) fn break_down(&mut self, errno: i32) {
        self.broken = Some(errno);
        self.waiting.wake_all();
    }

    /// Wakes the leader after a driver panicked, and returns all other waiters to wake.
    pub(crate) fn wake_all_waiters(&mut self) -> Vec<DeferredWake> {
        self.waiting.wake_all();
        self.ring.wake();
        self.waiting.take_wakes()
    }

    pub(crate) fn now(&self) -> Nanos {
        let ns = read_clock().duration_since(self.started).as_nanos();
        Nanos(u64::try_from(ns).expect("an engine runs for less than 584 years"))
    }

    /// Returns the time left until `then`.
    pub(crate) fn until(&self, then: Nanos) -> Duration {
        Duration::from_nanos(then.0.saturating_sub(self.now().0))
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Fills holes with zeros here and now: they are not on the device. It costs as much as copying
    /// the pages, some 30 us for a 1 MiB window.
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
                self.ring.write(bits, backend, offset.0..(offset + len).0, fua, frames);
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

    /// Zeroes the rest of the last page of a read that ended at the end of its file inside a page.
    /// If the file grows, these zeros are its bytes.
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

    /// Notifies the waiters of ready reads and of writes that reached a step, and releases
    /// abandoned requests.
    ///
    /// Does nothing once the ring is broken: each waiter then gets that error and abandons its
    /// request.
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

/// Reads the clock. No other code in the engine does.
#[expect(clippy::disallowed_methods, reason = "the driver tells the core the time")]
fn read_clock() -> Clock {
    Clock::now()
}
