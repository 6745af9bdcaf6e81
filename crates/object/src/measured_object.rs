//! Measures an object: large parts over several connections, small ranges, new connections.
//!
//! The caller chooses the ranges and interprets the times. Late requests are not hedged, and all
//! bytes are of the version found at opening.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use object_store::{Extensions, GetOptions, GetRange};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::attributes::finish;
use crate::error::ObjectError;
use crate::last_failure::LastFailure;
use crate::object::Object;
use crate::object_state::ObjectState;
use crate::object_url::ObjectUrl;
use crate::response_watch::ResponseWatch;
use crate::runtime::wait_unless;
use crate::stores::Stores;
use crate::transfer::{self, RangeTime};

/// An object under measurement, pinned to the version found at opening.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// let stores = foreread_object::Stores::new(foreread_object::StoreOptions::default());
/// let object = stores.measured("s3://bucket/big.bin")?;
/// let stopped = Arc::default();
/// let times = object.small_reads(vec![0, 1 << 20], 4096, Duration::from_secs(5), &stopped)?;
/// println!("first bytes: {times:?}");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct MeasuredObject {
    object: Object,
    url: ObjectUrl,
    stores: Stores,
}

/// Times of two requests: the first opens a connection, the second reuses it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ConnectionTime {
    /// From the first request to the head of its response, including name lookup, connection and
    /// TLS.
    pub first: Duration,
    /// From the second request to the head of its response.
    pub next: Duration,
}

impl Stores {
    /// Opens an object to measure it; see [`Self::open`].
    ///
    /// # Errors
    ///
    /// The errors of [`Self::open`].
    pub fn measured(&self, url: &str) -> Result<MeasuredObject, ObjectError> {
        let object = self.open(url)?;
        Ok(MeasuredObject { object, url: ObjectUrl::parse(url)?, stores: self.clone() })
    }
}

impl MeasuredObject {
    /// Returns the object.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Reads parts over `connections` connections at once, and blocks until they end. When the
    /// range of a connection is complete, it calls `next` with its number for another one, and ends
    /// if there is none; `arrived` receives the number of bytes of each chunk. Returns false if
    /// `at_most` elapses first or the flag is set; requests in flight are cancelled then.
    ///
    /// # Errors
    ///
    /// The error of the first part that cannot be read; the other parts are cancelled.
    pub fn read_parts(
        &self,
        connections: u32,
        at_most: Duration,
        stopped: &Arc<AtomicBool>,
        next: impl Fn(u32) -> Option<Range<u64>> + Send + Sync + 'static,
        arrived: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<bool, ObjectError> {
        let state = Arc::clone(self.object.state());
        let all = async move { timeout(at_most, parts(state, connections, next, arrived)).await };
        match self.run(stopped, all)? {
            Some(Ok(ended)) => ended.map(|()| true),
            Some(Err(_)) | None => Ok(false),
        }
    }

    /// Reads ranges of `len` bytes, one at a time, and blocks until they end. No range begins after
    /// `at_most` has elapsed or the flag is set.
    ///
    /// # Errors
    ///
    /// The error of the first range that cannot be read.
    pub fn small_reads(
        &self,
        offsets: Vec<u64>,
        len: u64,
        at_most: Duration,
        stopped: &Arc<AtomicBool>,
    ) -> Result<Vec<RangeTime>, ObjectError> {
        let state = Arc::clone(self.object.state());
        let all = async move {
            let (began, mut times) = (Instant::now(), Vec::new());
            for offset in offsets {
                if began.elapsed() >= at_most {
                    break;
                }
                times.push(transfer::measure(&state, offset..offset + len, &|_| ()).await?);
            }
            Ok::<_, ObjectError>(times)
        };
        self.run(stopped, all)?.unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Opens `count` connections, one after the other, each by a new client that requests the first
    /// byte of the object twice. Blocks until they end.
    ///
    /// # Errors
    ///
    /// The error of the first request without an answer.
    pub fn new_connections(
        &self,
        count: u32,
        stopped: &Arc<AtomicBool>,
    ) -> Result<Vec<ConnectionTime>, ObjectError> {
        let clients: Result<Vec<_>, _> =
            (0..count).map(|_| self.stores.with_new_clients().client_of(&self.url)).collect();
        let (clients, url) = (clients?, self.url.clone());
        let deadline = self.stores.options().deadline;
        let range = (self.object.meta().size > 1).then_some(GetRange::Bounded(0..1));
        let all = async move {
            let mut times = Vec::new();
            for client in clients {
                let (first, next) = (ResponseWatch::default(), ResponseWatch::default());
                for watch in [&first, &next] {
                    let failure = LastFailure::default();
                    let extensions = failure.in_extensions(Extensions::new());
                    let range = range.clone();
                    let mut options = GetOptions { range, extensions, ..Default::default() };
                    options.extensions.insert(watch.clone());
                    let asked = async {
                        // Reading the body frees the connection for the next request.
                        finish(client.store.get_opts(&url.location, options).await?).await
                    };
                    let asked = timeout(deadline, asked);
                    let text = || url.to_string();
                    let timed_out = |_| {
                        let last_failure = failure.text();
                        ObjectError::TimedOut { url: text(), range: None, deadline, last_failure }
                    };
                    let failed = |error| ObjectError::of(&text(), None, &error);
                    asked.await.map_err(timed_out)?.map_err(failed)?;
                }
                let took = |watch: &ResponseWatch| watch.last().map(|head| head.took);
                let both = took(&first).zip(took(&next));
                times.extend(both.map(|(first, next)| ConnectionTime { first, next }));
            }
            Ok::<_, ObjectError>(times)
        };
        self.run(stopped, all)?.unwrap_or_else(|| Ok(Vec::new()))
    }

    /// Blocks for this time, or until the flag is set, without sending a request.
    ///
    /// # Errors
    ///
    /// If this process has no thread or memory for it.
    pub fn pause(&self, time: Duration, stopped: &Arc<AtomicBool>) -> Result<(), ObjectError> {
        self.run(stopped, async move { tokio::time::sleep(time).await }).map(drop)
    }

    fn run<T: Send + 'static>(
        &self,
        stopped: &AtomicBool,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Result<Option<T>, ObjectError> {
        let url = self.object.url();
        wait_unless(stopped, future).map_err(|error| ObjectError::of_process(url, &error))
    }
}

async fn parts(
    state: Arc<ObjectState>,
    connections: u32,
    next: impl Fn(u32) -> Option<Range<u64>> + Send + Sync + 'static,
    arrived: impl Fn(u64) + Send + Sync + 'static,
) -> Result<(), ObjectError> {
    let (next, arrived) = (Arc::new(next), Arc::new(arrived));
    // If one connection fails, dropping the set cancels the others.
    let mut tasks = JoinSet::new();
    for connection in 0..connections {
        let (state, next, arrived) = (Arc::clone(&state), Arc::clone(&next), Arc::clone(&arrived));
        tasks.spawn(async move {
            while let Some(range) = next(connection) {
                transfer::measure(&state, range, &*arrived).await?;
                // A store in memory never waits, and could not be cancelled without this.
                tokio::task::yield_now().await;
            }
            Ok::<_, ObjectError>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        let panicked = |error: tokio::task::JoinError| {
            ObjectError::of_process(&state.url, &std::io::Error::other(error))
        };
        ended.map_err(panicked)??;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore as _, PutOptions};

    use super::*;
    use crate::options::StoreOptions;
    use crate::runtime::OwnerProcess;

    fn object(len: usize) -> MeasuredObject {
        let (store, key) = (Arc::new(InMemory::new()), Path::from("key"));
        let (below, to) = (Arc::clone(&store), key.clone());
        let put = OwnerProcess::here().wait(async move {
            below.put_opts(&to, vec![7; len].into(), PutOptions::default()).await
        });
        put.unwrap().unwrap();
        let options = StoreOptions::default();
        let object = Object::open(store, &key, "memory:key", "memory", options).unwrap();
        let url = ObjectUrl::parse("s3://memory/key").unwrap();
        MeasuredObject { object, url, stores: Stores::new(options) }
    }

    #[test]
    fn each_connection_reads_what_it_is_given_and_all_bytes_are_told() {
        let object = object(1 << 20);
        let left = Arc::new(Mutex::new(vec![0..10, 10..30, 30..(1 << 20)]));
        let came = Arc::new(AtomicU64::new(0));
        let (next, sum) = (Arc::clone(&left), Arc::clone(&came));
        let ended = object.read_parts(
            2,
            Duration::from_secs(60),
            &Arc::default(),
            move |connection| {
                assert!(connection < 2);
                next.lock().unwrap().pop()
            },
            move |bytes| {
                sum.fetch_add(bytes, Ordering::Relaxed);
            },
        );
        assert!(ended.unwrap());
        assert_eq!((came.load(Ordering::Relaxed), left.lock().unwrap().len()), (1 << 20, 0));
    }

    #[test]
    fn an_error_ends_all_and_time_and_flag_do_so_without_one() {
        let object = object(1000);
        let minute = Duration::from_secs(60);
        let past_end = |_| Some(2000..3000);
        object.read_parts(3, minute, &Arc::default(), past_end, |_| ()).unwrap_err();
        let again = |_| Some(0..1000);
        let little = Duration::from_millis(1);
        assert!(!object.read_parts(2, little, &Arc::default(), again, |_| ()).unwrap());
        let stopped = Arc::new(AtomicBool::new(true));
        assert!(!object.read_parts(2, minute, &stopped, again, |_| ()).unwrap());
    }

    #[test]
    fn small_reads_have_a_time_each() {
        let object = object(1000);
        let minute = Duration::from_secs(60);
        let times = object.small_reads(vec![0, 900, 3], 100, minute, &Arc::default()).unwrap();
        assert_eq!(times.len(), 3);
        assert!(times.iter().all(|time| time.first_byte <= time.whole), "{times:?}");
        let none = object.small_reads(vec![0], 100, Duration::ZERO, &Arc::default()).unwrap();
        assert_eq!(none, []);
    }
}
