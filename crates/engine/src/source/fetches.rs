//! The requests that sources work on, as the driver knows them.
//!
//! In:    requests of the core; arrivals and ends that replies have posted; the time.
//! Out:   calls of sources, to be made without the mutex; requests that have timed out.
//! Never: a call of a source under the mutex, or inside another one of the same thread: a source
//!        that answers at once would call itself once for each request that follows.

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
use super::reply::{EventSink, FetchRequest, Reply};
use crate::pool::Pool;

/// The requests that sources work on.
pub(crate) struct FetchTable {
    in_flight: HashMap<u64, (Arc<FetchRequest>, Nanos)>,
    /// The same by when they started, if they may take too long.
    by_start: BTreeSet<(Nanos, u64)>,
    post: EventSink,
    /// How long one may take.
    timeout: Option<Duration>,
}

/// A call of a source that is to be made.
pub(crate) struct PendingFetch {
    source: Arc<dyn Source>,
    range: Range<u64>,
    reply: Reply,
}

impl FetchTable {
    pub(crate) fn new(post: EventSink, timeout: Option<Duration>) -> Self {
        Self { in_flight: HashMap::new(), by_start: BTreeSet::new(), post, timeout }
    }

    /// Notes a request for these bytes, which go to these parts of frames; of a reader that waits,
    /// or of read-ahead.
    pub(crate) fn start(
        &mut self,
        now: Nanos,
        (tag, is_read_ahead): (u64, bool),
        source: &OpenSource,
        range: Range<u64>,
        (pool, parts): (Arc<Pool>, Vec<(Frame, Range<usize>)>),
    ) -> PendingFetch {
        let (post, errors) = (Arc::clone(&self.post), Arc::clone(&source.errors));
        let wanted = range.end - range.start;
        let request =
            Arc::new(FetchRequest::new((tag, is_read_ahead), post, errors, pool, parts, wanted));
        let before = self.in_flight.insert(tag, (Arc::clone(&request), now));
        assert!(before.is_none(), "a tag in flight is not given again");
        if self.timeout.is_some() {
            self.by_start.insert((now, tag));
        }
        PendingFetch { source: Arc::clone(&source.source), range, reply: Reply::new(request) }
    }

    /// Whether a request is in flight: what its source said of it counts.
    pub(crate) fn contains(&self, tag: u64) -> bool {
        self.in_flight.contains_key(&tag)
    }

    /// A reader has come to a request in flight. Returns whom to wake, when the mutex is free.
    pub(crate) fn join(&self, tag: u64) -> Option<Waker> {
        self.in_flight.get(&tag)?.0.join()
    }

    /// A request has ended; says whether it was in flight.
    pub(crate) fn end(&mut self, tag: u64) -> bool {
        self.remove(tag).is_some()
    }

    fn remove(&mut self, tag: u64) -> Option<Arc<FetchRequest>> {
        let (request, started) = self.in_flight.remove(&tag)?;
        self.by_start.remove(&(started, tag));
        Some(request)
    }

    /// When the first of them has taken too long.
    pub(crate) fn deadline(&self) -> Option<Nanos> {
        self.first_late().map(|(_, deadline)| deadline)
    }

    /// The request that will have taken too long first, and when.
    fn first_late(&self) -> Option<(u64, Nanos)> {
        let timeout = u64::try_from(self.timeout?.as_nanos()).unwrap_or(u64::MAX);
        let (started, tag) = *self.by_start.first()?;
        Some((tag, Nanos(started.0.saturating_add(timeout))))
    }

    /// Takes one that has taken too long from its source: its frames are the core's again.
    pub(crate) fn take_late(&mut self, now: Nanos) -> Option<u64> {
        let (tag, _) = self.first_late().filter(|(_, deadline)| *deadline <= now)?;
        self.remove(tag)?.revoke();
        Some(tag)
    }
}

impl Drop for FetchTable {
    /// What its sources still say goes nowhere, and the memory of the pages goes with the engine.
    fn drop(&mut self) {
        for (request, _) in self.in_flight.values() {
            request.revoke();
        }
    }
}

impl PendingFetch {
    /// Calls the source; if this thread is calling one already, when that call is over.
    pub(crate) fn run(self) {
        if CALLS.try_with(|_| ()).is_err() {
            // A thread that ends: this value of it is gone, and so may be those of the source. If
            // the system has no thread the reply is dropped, and so has failed.
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
            // The reply is dropped while it panics, and so has failed: its readers get the error.
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
    /// The calls that this thread has to make, if it is making one.
    static CALLS: RefCell<Option<VecDeque<PendingFetch>>> = const { RefCell::new(None) };
}
