//! The reply to one request of a source. It never writes to a frame after the request has ended,
//! timed out or lost its engine. Each request ends: dropping its reply is an error.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use foreread_core::table::Frame;

use super::errors::LastError;
use super::joined::{JoinSignal, Joined};
use crate::driver_queue::DriverEvent;
use crate::pool::{PAGE, Pool};

/// Posts an event to the driver of an engine, if the engine still exists.
pub(crate) type EventSink = Arc<dyn Fn(DriverEvent) + Send + Sync>;

/// Receives the bytes of one request of a [`Source`](crate::Source).
///
/// End it once, with [`Self::finish`] or [`Self::fail`]. Dropping it fails the request.
///
/// ```
/// # type Part = std::io::Result<Vec<u8>>;
/// # fn transfer(mut reply: foreread::Reply, parts: impl Iterator<Item = Part>) {
/// for part in parts {
///     match part {
///         Ok(bytes) => {
///             if reply.write(&bytes).is_err() {
///                 return; // too late, or too much: the transfer may stop
///             }
///         }
///         Err(error) => return reply.fail(error),
///     }
/// }
/// reply.finish();
/// # }
/// ```
pub struct Reply {
    request: Arc<FetchRequest>,
}

/// A request in flight at a source, shared by its driver and its reply.
pub(crate) struct FetchRequest {
    tag: u64,
    /// Whether no reader was waiting for it when it started.
    is_read_ahead: bool,
    joined: Arc<JoinSignal>,
    post: EventSink,
    errors: Arc<LastError>,
    /// None once the request has ended or was revoked.
    target: Mutex<Option<ReplyTarget>>,
}

/// Destination of the bytes.
pub(super) struct ReplyTarget {
    /// Keeps the frames' memory alive while it is being written to.
    pool: Arc<Pool>,
    parts: Vec<(Frame, Range<usize>)>,
    /// The part that receives the next byte, and the number of bytes it already has.
    part: usize,
    filled: usize,
    written: u64,
    wanted: u64,
}

impl Reply {
    pub(super) fn new(request: Arc<FetchRequest>) -> Self {
        Self { request }
    }

    /// Returns the number of bytes still missing.
    #[must_use]
    pub fn remaining(&self) -> u64 {
        self.request.lock().as_ref().map_or(0, |target| target.wanted - target.written)
    }

    /// Returns true if no reader was waiting for these bytes when the request was sent, so that a
    /// source can give other requests priority.
    #[must_use]
    pub fn is_read_ahead(&self) -> bool {
        self.request.is_read_ahead
    }

    /// Returns a future that is ready once a reader waits for bytes of this request. A prefetch is
    /// then as urgent as a demand read.
    pub fn joined(&self) -> Joined {
        Joined(Arc::clone(&self.request.joined))
    }

    /// Accepts the next bytes of the range. Readers can use each page as soon as it is complete.
    ///
    /// # Errors
    ///
    /// If the request is over (it has timed out, or its engine is gone), or if these are more bytes
    /// than requested, in which case its readers get this error too. In both cases the transfer may
    /// stop.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut guard = self.request.lock();
        let Some(target) = guard.as_mut() else { return Err(io::Error::other(OVER)) };
        if bytes.len() as u64 > target.wanted - target.written {
            let wanted = target.wanted;
            drop(guard);
            let why = format!(
                "the source returned more than the {wanted} requested bytes: check that it \
                 honours the range"
            );
            // Each part of the range would be answered with too much as well.
            let error = io::Error::new(io::ErrorKind::InvalidData, why.clone());
            self.request.fail_with(|errors| errors.keep_of_all(&error));
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let pages_before = target.written / PAGE as u64;
        target.copy_in(bytes);
        let (written, is_all) = (target.written, target.written == target.wanted);
        drop(guard);
        if written / PAGE as u64 > pages_before || (is_all && !bytes.is_empty()) {
            (self.request.post)(DriverEvent::Arrived { tag: self.request.tag, bytes: written });
        }
        Ok(())
    }

    /// Ends the reply. If bytes are missing, the source is shorter than its length, and readers of
    /// the missing pages get that error.
    pub fn finish(self) {
        let Some(target) = self.request.detach() else { return };
        let result = Ok(target.written);
        (self.request.post)(DriverEvent::Fetched { tag: self.request.tag, result });
    }

    /// Ends the reply with an error. Pages that were complete stay valid; readers of the others get
    /// the error, or trigger another request for the page they wait for.
    #[expect(clippy::needless_pass_by_value, reason = "an error is reported once")]
    pub fn fail(self, error: io::Error) {
        self.request.fail(&error);
    }

    /// Ends the reply with an error that affects the whole range: the object is gone, or access is
    /// denied. The engine does not retry any of its pages.
    #[expect(clippy::needless_pass_by_value, reason = "an error is reported once")]
    pub fn fail_all(self, error: io::Error) {
        self.request.fail_with(|errors| errors.keep_of_all(&error));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.request.lock().is_some() {
            let why = if std::thread::panicking() {
                "the source panicked before it answered"
            } else {
                "the source dropped a request without an answer"
            };
            self.request.fail(&io::Error::other(why));
        }
    }
}

impl FetchRequest {
    pub(super) fn new(
        tag: u64,
        is_read_ahead: bool,
        post: EventSink,
        errors: Arc<LastError>,
        target: ReplyTarget,
    ) -> Self {
        let (joined, target) = (Arc::default(), Mutex::new(Some(target)));
        Self { tag, is_read_ahead, joined, post, errors, target }
    }

    /// Notes that a reader waits for this request. Returns the waker to call once the mutex is
    /// free.
    pub(super) fn join(&self) -> Option<Waker> {
        self.joined.join()
    }

    fn fail(&self, error: &io::Error) {
        self.fail_with(|errors| errors.keep(error));
    }

    fn fail_with(&self, keep: impl FnOnce(&LastError) -> i32) {
        if self.detach().is_some() {
            let result = Err(keep(&self.errors));
            (self.post)(DriverEvent::Fetched { tag: self.tag, result });
        }
    }

    /// Detaches the frames: they receive no more bytes once this returns.
    fn detach(&self) -> Option<ReplyTarget> {
        self.lock().take()
    }

    /// Takes the request away from the source; its later answer is discarded.
    pub(super) fn revoke(&self) {
        drop(self.detach());
    }

    fn lock(&self) -> MutexGuard<'_, Option<ReplyTarget>> {
        // No code panics while it holds this lock.
        self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReplyTarget {
    /// Creates a target for the next `wanted` bytes of a reply.
    pub(super) fn new(pool: Arc<Pool>, parts: Vec<(Frame, Range<usize>)>, wanted: u64) -> Self {
        let room: usize = parts.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(wanted > 0 && wanted <= room as u64, "the frames have room for what is asked");
        Self { pool, parts, part: 0, filled: 0, written: 0, wanted }
    }

    fn copy_in(&mut self, mut bytes: &[u8]) {
        self.written += bytes.len() as u64;
        assert!(self.written <= self.wanted, "no more than was asked for");
        while !bytes.is_empty() {
            let (frame, part) = &self.parts[self.part];
            let count = (part.len() - self.filled).min(bytes.len());
            let (now, later) = bytes.split_at(count);
            self.pool.copy_in(*frame, part.start + self.filled, now);
            self.filled += count;
            if self.filled == part.len() {
                (self.part, self.filled) = (self.part + 1, 0);
            }
            bytes = later;
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("remaining", &self.remaining()).finish_non_exhaustive()
    }
}

impl fmt::Debug for FetchRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchRequest").field("tag", &self.tag).finish_non_exhaustive()
    }
}

const OVER: &str = "the request has ended: it timed out, or its engine was dropped";
