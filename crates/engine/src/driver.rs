//! The driver: between the core, which decides, and the ring, which does.
//!
//! In:    reads that missed, and what hits have posted.
//! Out:   reads that are ready.
//! Never: a decision. It carries values from one to the other and knows what time it is.
//!
//! ```text
//!   reader --> core.read() --> poll_dispatch() --> ring --> completion --> complete() --+
//!     ^                             ^------------------------------------------------- -|
//!     +------------------------------------- poll_ready() <-----------------------------+
//! ```
//!
//! A role, not a thread: whoever holds the engine's mutex drives, and a reader that misses drives
//! itself; a hop to another thread would cost more than fifteen hits.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use foreread_core::path::{
    DeviceId, DeviceIo, Fault, FileId, IoPath, ReadId, Ready, StreamId, Tag,
};
use foreread_core::units::{Bytes, Instant};

use crate::backend::Backend;
use crate::delay::{Delay, DelayModel};
use crate::inbox::{Inbox, Marker, Post};
use crate::pool::{PAGE, Pool};
use crate::ring::{Completion, Ring};

#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) path: IoPath,
    ring: Ring,
    pool: Arc<Pool>,
    devices: HashMap<DeviceId, OpenDevice>,
    /// Results that came before their slow device would have had them, the earliest first.
    early: BinaryHeap<Reverse<Early>>,
    /// When a delayed request is done, by its tag.
    done_at: HashMap<u64, Instant>,
    started: Clock,
    /// What the kernel said when it would not have the ring used any more.
    broken: Option<i32>,
}

#[derive(Debug)]
struct OpenDevice {
    backend: Arc<Backend>,
    delay: Option<DelayModel>,
}

/// A result that is held back, in the order of its time.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Early {
    at: Instant,
    tag: u64,
    result: Result<u32, i32>,
}

/// What became of a read: how many bytes were copied, or what is wrong.
pub(crate) enum Outcome {
    Copied(usize),
    Failed(Fault),
}

impl Driver {
    pub(crate) fn new(path: IoPath, pool: Arc<Pool>) -> Result<Self, crate::EngineError> {
        Ok(Self {
            path,
            ring: Ring::new(Arc::clone(&pool))?,
            pool,
            devices: HashMap::new(),
            early: BinaryHeap::new(),
            done_at: HashMap::new(),
            started: read_clock(),
            broken: None,
        })
    }

    /// Takes a file in: it is its own device, as nobody knows where it lies on the real one.
    pub(crate) fn open(
        &mut self,
        backend: &Arc<Backend>,
        delay: Option<Delay>,
    ) -> Option<(DeviceId, FileId)> {
        let device = self.path.add_device(backend.geometry);
        let Some(file) = self.path.open(device, backend.len) else {
            self.path.remove_device(self.now(), device);
            return None;
        };
        let backend = Arc::clone(backend);
        self.devices.insert(device, OpenDevice { backend, delay: delay.map(DelayModel::new) });
        Some((device, file))
    }

    /// What the kernel said when it would not have the ring used any more.
    pub(crate) fn broken(&self) -> Option<i32> {
        self.broken
    }

    /// As if the kernel had said so.
    #[cfg(test)]
    pub(crate) fn break_down(&mut self, errno: i32) {
        self.broken = Some(errno);
    }

    /// Lets a file go. What the ring still reads of it ends on its own.
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
        self.start_all();
    }

    /// Reads what is missing of `to` at `pos`, waits for it, and copies it: as much as one read of
    /// the core covers.
    pub(crate) fn read(
        &mut self,
        stream: StreamId,
        pos: Bytes,
        to: &mut [u8],
        prev_pos: Option<Bytes>,
    ) -> Outcome {
        if let Some(errno) = self.broken {
            return Outcome::Failed(Fault::Io(errno));
        }
        let id = self.path.read(self.now(), stream, pos, Bytes(to.len() as u64), prev_pos);
        let ready = match self.wait_for(id) {
            Ok(ready) => ready,
            Err(error) => {
                // Nothing comes back from this ring any more, for anybody.
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                self.broken = Some(errno);
                return Outcome::Failed(Fault::Io(errno));
            }
        };
        let outcome = match ready.fault {
            Some(fault) => Outcome::Failed(fault),
            None => Outcome::Copied(self.copy(id, pos, ready.len, to)),
        };
        self.path.release(self.now(), id);
        self.start_all();
        outcome
    }

    pub(crate) fn marker(&mut self, Marker { stream, page, count, prev_pos }: Marker) {
        if self.broken.is_some() {
            return;
        }
        self.path.marker(self.now(), stream, page, count, prev_pos);
        self.start_all();
    }

    /// Does what hits have posted.
    pub(crate) fn take_posts(&mut self, inbox: &Inbox) {
        while let Some(post) = inbox.take() {
            match post {
                Post::Marker(marker) => self.marker(marker),
                Post::CloseStream(stream) => self.path.close_stream(stream),
            }
        }
    }

    /// Nothing else waits: a reader holds the engine's mutex until its read is ready.
    fn wait_for(&mut self, id: ReadId) -> io::Result<Ready> {
        loop {
            self.reap();
            if let Some(ready) = self.path.poll_ready() {
                assert!(ready.id == id, "one read at a time");
                return Ok(ready);
            }
            // One system call submits and waits.
            self.queue_all();
            self.wait()?;
        }
    }

    fn copy(&self, id: ReadId, pos: Bytes, len: Bytes, to: &mut [u8]) -> usize {
        let mut from = in_page(pos);
        let mut rest = &mut to[..usize::try_from(len.0).expect("no longer than the buffer")];
        let total = rest.len();
        for frame in self.path.frames(id) {
            let part = rest.len().min(PAGE - from);
            let (now, later) = rest.split_at_mut(part);
            self.pool.copy_out(*frame, from, now);
            (rest, from) = (later, 0);
        }
        assert!(rest.is_empty(), "the frames of a read cover it");
        total
    }

    /// Starts all that the core wants dispatched, and does not wait for it.
    fn start_all(&mut self) {
        self.queue_all();
        // What the kernel refuses this time it is offered again by the next wait.
        let _ = self.ring.submit();
    }

    /// Hands to the ring all that the core wants dispatched, as far as there is room.
    fn queue_all(&mut self) {
        let now = self.now();
        while self.ring.has_room()
            && let Some(io) = self.path.poll_dispatch(now)
        {
            self.start(now, io);
        }
    }

    fn start(&mut self, now: Instant, DeviceIo { tag, device, offset, len }: DeviceIo) {
        let device = self.devices.get_mut(&device).expect("its files are closed before a device");
        let bits = tag.to_bits();
        if let Some(delay) = &mut device.delay {
            let bytes = len.0.min(device.backend.len.saturating_sub(offset).0);
            self.done_at.insert(bits, Instant(delay.finish_ns(now.0, bytes)));
        }
        let frames = self.path.pages(tag).iter().map(|page| page.filling.frame());
        self.ring.read(bits, Arc::clone(&device.backend), offset.0, frames);
    }

    /// Gives the core all results that have come and are due.
    fn reap(&mut self) {
        while let Some(Completion { tag, result }) = self.ring.completion() {
            match self.done_at.remove(&tag) {
                Some(at) => self.early.push(Reverse(Early { at, tag, result })),
                None => self.complete(tag, result),
            }
        }
        let now = self.now();
        while let Some(Reverse(early)) = self.early.peek().copied()
            && early.at <= now
        {
            self.early.pop();
            self.complete(early.tag, early.result);
        }
    }

    fn complete(&mut self, tag: u64, result: Result<u32, i32>) {
        let result = result.map(|bytes| Bytes(u64::from(bytes)));
        self.path.complete(self.now(), Tag::from_bits(tag), result);
    }

    /// Waits until something may be due.
    fn wait(&mut self) -> io::Result<()> {
        assert!(
            self.ring.in_flight() > 0 || !self.early.is_empty(),
            "a read waits for a device, or is ready"
        );
        let due = self.early.peek().map(|Reverse(early)| early.at);
        let at_most = due.map(|at| Duration::from_nanos(at.0.saturating_sub(self.now().0)));
        match self.ring.wait(at_most) {
            // Busy: it asks us to take the completions that there are, which is what comes next.
            Err(error) if is_busy(&error) => Ok(()),
            waited => waited,
        }
    }

    fn now(&self) -> Instant {
        let ns = read_clock().duration_since(self.started).as_nanos();
        Instant(u64::try_from(ns).expect("an engine runs for less than 584 years"))
    }
}

/// The one place of the engine that asks what time it is.
#[expect(clippy::disallowed_methods, reason = "the driver is who tells the core the time")]
fn read_clock() -> Clock {
    Clock::now()
}

fn is_busy(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBUSY | libc::EAGAIN | libc::ENOMEM))
}

/// Where in its page a byte lies.
#[expect(clippy::cast_possible_truncation, reason = "less than a page")]
pub(crate) fn in_page(pos: Bytes) -> usize {
    (pos - pos.page().offset()).0 as usize
}
