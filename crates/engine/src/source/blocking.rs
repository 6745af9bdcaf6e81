//! Sources that block: a pool of at most [`THREADS_MAX`] threads serves the requests of one source,
//! and ends when there are none.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::contract::Source;
use super::identity::SourceIdentity;
use super::reply::Reply;

/// A blocking reader of ranges, which [`Blocking`] turns into a [`Source`].
pub trait ReadRange: Send + Sync + 'static {
    /// Returns the name and the version of the contents, as [`Source::identity`] does.
    fn identity(&self) -> SourceIdentity;

    /// Returns the length in bytes.
    ///
    /// # Errors
    ///
    /// If the length cannot be determined.
    fn length(&self) -> io::Result<u64>;

    /// Reads the range and passes its bytes to `reply`, in order, as they arrive. Returning `Ok`
    /// ends the reply, as [`Reply::finish`] does.
    ///
    /// # Errors
    ///
    /// The cause of the failure, which readers get as with [`Reply::fail`].
    fn read_range(&self, range: Range<u64>, reply: &mut Reply) -> io::Result<()>;

    /// Returns the name of the device that the source shares with others, as [`Source::device`]
    /// does.
    fn device(&self) -> Option<String> {
        None
    }
}

/// A source that blocks, served by at most 16 threads, which end when idle. If the system refuses a
/// thread, the reader's own thread serves the request.
///
/// ```no_run
/// use std::ops::Range;
/// use foreread::{Blocking, ReadRange, Reply, SourceIdentity};
///
/// struct Tape;
///
/// impl ReadRange for Tape {
///     fn identity(&self) -> SourceIdentity {
///         SourceIdentity::new("tape:7", "1")
///     }
///
///     fn length(&self) -> std::io::Result<u64> {
///         Ok(1 << 30)
///     }
///
///     fn read_range(&self, range: Range<u64>, reply: &mut Reply) -> std::io::Result<()> {
///         reply.write(&vec![0; (range.end - range.start) as usize])
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = foreread::Engine::builder().build()?;
/// let file = engine.open_source(Blocking::new(Tape))?;
/// # Ok(()) }
/// ```
pub struct Blocking<S>(Arc<BlockingState<S>>);

struct BlockingState<S> {
    source: S,
    requests: Mutex<BlockingQueue>,
}

#[derive(Default)]
struct BlockingQueue {
    waiting: VecDeque<(Range<u64>, Reply)>,
    threads: usize,
}

impl<S: ReadRange> Blocking<S> {
    /// Creates a source that calls `source` on a pool of threads.
    pub fn new(source: S) -> Self {
        Self(Arc::new(BlockingState { source, requests: Mutex::default() }))
    }
}

impl<S: ReadRange> Source for Blocking<S> {
    fn identity(&self) -> SourceIdentity {
        self.0.source.identity()
    }

    fn length(&self) -> io::Result<u64> {
        self.0.source.length()
    }

    fn device(&self) -> Option<String> {
        self.0.source.device()
    }

    fn fetch(&self, range: Range<u64>, reply: Reply) {
        let mut requests = self.0.lock();
        requests.waiting.push_back((range, reply));
        if requests.threads == THREADS_MAX {
            return;
        }
        requests.threads += 1;
        drop(requests);
        let state = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("foreread-source".into());
        if thread.spawn(move || state.work()).is_ok() {
            return;
        }
        let mut requests = self.0.lock();
        requests.threads -= 1;
        if requests.threads > 0 {
            // The existing threads serve it.
            return;
        }
        // The system refuses a thread: serve the request here, slowly, instead of failing it.
        requests.threads = 1;
        drop(requests);
        self.0.work();
    }
}

impl<S: ReadRange> BlockingState<S> {
    fn work(&self) {
        loop {
            let mut requests = self.lock();
            let Some((range, mut reply)) = requests.waiting.pop_front() else {
                requests.threads -= 1;
                return;
            };
            drop(requests);
            let read = std::panic::AssertUnwindSafe(|| self.source.read_range(range, &mut reply));
            match std::panic::catch_unwind(read) {
                Ok(Ok(())) => reply.finish(),
                Ok(Err(error)) => reply.fail(error),
                Err(_) => reply.fail(io::Error::other("the source panicked")),
            }
        }
    }
}

impl<S> BlockingState<S> {
    fn lock(&self) -> MutexGuard<'_, BlockingQueue> {
        // No code panics while it holds this lock.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> fmt::Debug for Blocking<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("threads", &self.0.lock().threads).finish_non_exhaustive()
    }
}

/// Largest number of threads, the same as for the ring's fallback.
const THREADS_MAX: usize = 16;
