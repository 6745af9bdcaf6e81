//! The driver's table of requests in flight at sources. A source is never called under the mutex,
//! nor inside another call on the same thread: a source that answers at once would recurse once for
//! each following request.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::thread;
use std::time::Duration;

use foreread_core::table::Frame;
use foreread_core::units::Nanos;

use super::contract::Source;
use super::names::OpenSource;
use super::reply::{EventSink, FetchRequest, Reply, ReplyTarget};
use crate::pool::Pool;

/// The requests in flight at sources.
pub(crate) struct FetchTable {
    in_flight: HashMap<u64, (Arc<FetchRequest>, Nanos)>,
    /// The same requests by start time, if there is a time-out.
    by_start: BTreeSet<(Nanos, u64)>,
    post: EventSink,
    /// Time-out of a request.
    timeout: Option<Duration>,
}

/// A request for bytes of a source, and the frames that receive them.
pub(crate) struct NewFetch {
    pub(crate) tag: u64,
    /// No reader waits for it.
    pub(crate) is_read_ahead: bool,
    pub(crate) range: Range<u64>,
    pub(crate) pool: Arc<Pool>,
    /// Parts of frames, in the order of the bytes.
    pub(crate) parts: Vec<(Frame, Range<usize>)>,
}

/// A call of a source that has yet to be made.
pub(crate) struct PendingFetch {
    source: Arc<dyn Source>,
    range: Range<u64>,
    reply: Reply,
}

impl FetchTable {
    pub(crate) fn new(post: EventSink, timeout: Option<Duration>) -> Self {
        Self { in_flight: HashMap::new(), by_start: BTreeSet::new(), post, timeout }
    }

    /// Registers a request to a source.
    pub(crate) fn start(
        &mut self,
        now: Nanos,
        source: &OpenSource,
        fetch: NewFetch,
    ) -> PendingFetch {
        let (post, errors) = (Arc::clone(&self.post), Arc::clone(&source.errors));
        let NewFetch { tag, is_read_ahead, range, pool, parts } = fetch;
        let target = ReplyTarget::new(pool, parts, range.end - range.start);
        let request = Arc::new(FetchRequest::new(tag, is_read_ahead, post, errors, target));
        let before = self.in_flight.insert(tag, (Arc::clone(&request), now));
        assert!(before.is_none(), "a tag in flight is not given again");
        if self.timeout.is_some() {
            self.by_start.insert((now, tag));
        }
        PendingFetch { source: Arc::clone(&source.source), range, reply: Reply::new(request) }
    }

    /// Returns true if a request is in flight, so that its source's answers count.
    pub(crate) fn contains(&self, tag: u64) -> bool {
        self.in_flight.contains_key(&tag)
    }

    /// Notes that a reader waits for a request in flight. Returns the waker to call once the mutex
    /// is free.
    pub(crate) fn join(&self, tag: u64) -> Option<Waker> {
        self.in_flight.get(&tag)?.0.join()
    }

    /// Removes a request that has ended. Returns whether it was in flight.
    pub(crate) fn end(&mut self, tag: u64) -> bool {
        self.remove(tag).is_some()
    }

    fn remove(&mut self, tag: u64) -> Option<Arc<FetchRequest>> {
        let (request, started) = self.in_flight.remove(&tag)?;
        self.by_start.remove(&(started, tag));
        Some(request)
    }

    /// Returns the time at which the first request times out.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.first_late().map(|(_, deadline)| deadline)
    }

    /// Returns the request that times out first, and when.
    fn first_late(&self) -> Option<(u64, Nanos)> {
        let timeout = u64::try_from(self.timeout?.as_nanos()).unwrap_or(u64::MAX);
        let (started, tag) = *self.by_start.first()?;
        Some((tag, Nanos(started.0.saturating_add(timeout))))
    }

    /// Revokes a request that has timed out, which returns its frames to the core.
    pub(crate) fn take_late(&mut self, now: Nanos) -> Option<u64> {
        let (tag, _) = self.first_late().filter(|(_, deadline)| *deadline <= now)?;
        self.remove(tag)?.revoke();
        Some(tag)
    }
}

impl Drop for FetchTable {
    /// Revokes all requests: later answers of sources are discarded, because the frames are freed
    /// with the engine.
    fn drop(&mut self) {
        for (request, _) in self.in_flight.values() {
            request.revoke();
        }
    }
}

impl PendingFetch {
    /// Calls the source, or defers the call if this thread is calling a source already.
    pub(crate) fn run(self) {
        if CALLS.try_with(|_| ()).is_err() {
            // The thread is ending: this thread-local is gone, and the source's may be too. If the
            // system refuses a thread, the reply is dropped, which fails the request.
            let elsewhere = thread::Builder::new().name("foreread".to_owned());
            let _ = elsewhere.spawn(move || self.run());
            return;
        }
        let is_nested = CALLS.with_borrow_mut(|calls| match calls {
            Some(calls) => {
                calls.push_back(self);
                true
            }
            None => {
                *calls = Some(VecDeque::from([self]));
                false
            }
        });
        if is_nested {
            return;
        }
        while let Some(Self { source, range, reply }) =
            CALLS.with_borrow_mut(|calls| calls.as_mut().and_then(VecDeque::pop_front))
        {
            // A panic drops the reply, which fails the request: its readers get the error.
            let _ = catch_unwind(AssertUnwindSafe(|| source.fetch(range, reply)));
        }
        CALLS.set(None);
    }
}

impl fmt::Debug for FetchTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchTable").field("in_flight", &self.in_flight.len()).finish()
    }
}

impl fmt::Debug for PendingFetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingFetch").field("range", &self.range).finish_non_exhaustive()
    }
}

thread_local! {
    /// The deferred calls of this thread, while it is calling a source.
    static CALLS: RefCell<Option<VecDeque<PendingFetch>>> = const { RefCell::new(None) };
}
