//! Completions by callback, for programs that own their loop: submit, then run.
//!
//! [`CompletionQueue::run`] calls each callback once, in the thread that runs the queue: never
//! inside a submission, and never under a lock.
//!
//! ```text
//!   the loop      submit .. submit | run: sleep .. callback, callback | submit ..
//!   the driver         requests, completions, wakes -->'
//! ```

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::engine::Engine;
use crate::error::{ReadError, WriteError};
use crate::file::File;

/// A queue of requests with callbacks, for a program that owns its loop. Created by
/// [`Engine::completion_queue`].
///
/// The thread that calls [`Self::run`] or [`Self::run_ready`] calls the callback of each request
/// exactly once, one callback after the other, with no lock held. A callback may submit more
/// requests (also to this queue, its first argument), block, or run the queue. A panic in a
/// callback propagates out of `run`; the queue and its other requests are unaffected. A queue and
/// its callbacks belong to one thread.
///
/// Dropping a queue runs it until every callback has been called, unless its thread is panicking:
/// then requests are dropped like futures, and their callbacks are not called. [`Self::abandon`]
/// does that at any time. Requests keep their file open. In a forked child, each request completes
/// with the error for a fork.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = foreread::Engine::builder().build()?;
/// let table = engine.open("/var/lib/db/table")?;
/// let queue = engine.completion_queue();
/// for page in 0..64 {
///     queue.read(&table, vec![0; 4096], page * 4096, move |_, _buffer, result| match result {
///         Ok(bytes) => println!("page {page}: {bytes} bytes"),
///         Err(error) => eprintln!("{error}"),
///     });
/// }
/// while queue.pending() > 0 {
///     queue.run(None); // the loop of the program
/// }
/// # Ok(()) }
/// ```
pub struct CompletionQueue {
    ready: Arc<ReadyRequests>,
    requests: RefCell<HashMap<u64, Request>>,
    submitted: RefCell<u64>,
    /// Requests that completed during submission.
    ended: RefCell<VecDeque<Ended>>,
}

/// A request in flight, which completes with the call of its callback.
struct Request {
    future: Pin<Box<dyn Future<Output = Ended>>>,
    waker: Arc<RequestWaker>,
}

type Ended = Box<dyn FnOnce(&CompletionQueue)>;

/// Numbers of the requests to poll.
struct ReadyRequests {
    numbers: Mutex<VecDeque<u64>>,
    changed: Condvar,
    notify: Option<Box<dyn Fn() + Send + Sync>>,
}

struct RequestWaker {
    number: u64,
    is_ready: AtomicBool,
    ready: Arc<ReadyRequests>,
}

impl Engine {
    /// Returns a queue that calls its callbacks in the thread that runs it.
    #[must_use]
    pub fn completion_queue(&self) -> CompletionQueue {
        CompletionQueue::new(None)
    }

    /// Returns a queue that calls `notify` when callbacks may be ready, for loops that sleep
    /// elsewhere, such as in `epoll_wait(2)`. Any thread may call `notify`, without holding a lock
    /// of the engine. It should be short, such as a write to an `eventfd(2)`; the loop then calls
    /// [`CompletionQueue::run_ready`].
    #[must_use]
    pub fn completion_queue_with(
        &self,
        notify: impl Fn() + Send + Sync + 'static,
    ) -> CompletionQueue {
        CompletionQueue::new(Some(Box::new(notify)))
    }
}

impl CompletionQueue {
    fn new(notify: Option<Box<dyn Fn() + Send + Sync>>) -> Self {
        let (numbers, changed) = (Mutex::default(), Condvar::new());
        let ready = Arc::new(ReadyRequests { numbers, changed, notify });
        let (requests, submitted, ended) = Default::default();
        Self { ready, requests, submitted, ended }
    }

    /// Submits a read, as [`File::read_into`] does.
    pub fn read<B, F>(&self, file: &File, buffer: B, offset: u64, callback: F)
    where
        B: AsMut<[u8]> + 'static,
        F: FnOnce(&Self, B, Result<usize, ReadError>) + 'static,
    {
        let read = file.read_into(buffer, offset);
        self.submit(async move {
            let (buffer, result) = read.await;
            Box::new(move |queue: &Self| callback(queue, buffer, result)) as Ended
        });
    }

    /// Submits a write, as [`File::write_from`] does.
    pub fn write<B, F>(&self, file: &File, buffer: B, offset: u64, callback: F)
    where
        B: AsRef<[u8]> + Send + Sync + 'static,
        F: FnOnce(&Self, B, Result<usize, WriteError>) + 'static,
    {
        let write = file.write_from(buffer, offset);
        self.submit(async move {
            let (buffer, result) = write.await;
            Box::new(move |queue: &Self| callback(queue, buffer, result)) as Ended
        });
    }

    /// Submits an append, as [`File::append_from`] does; the result is the offset.
    pub fn append<B, F>(&self, file: &File, buffer: B, callback: F)
    where
        B: AsRef<[u8]> + Send + Sync + 'static,
        F: FnOnce(&Self, B, Result<u64, WriteError>) + 'static,
    {
        let append = file.append_from(buffer);
        self.submit(async move {
            let (buffer, result) = append.await;
            Box::new(move |queue: &Self| callback(queue, buffer, result)) as Ended
        });
    }

    /// Submits a flush of the writes acknowledged so far, as [`File::sync_data`] does.
    pub fn sync_data<F>(&self, file: &File, callback: F)
    where
        F: FnOnce(&Self, Result<(), WriteError>) + 'static,
    {
        let flush = file.sync_data_async();
        self.submit(async move {
            let result = flush.await;
            Box::new(move |queue: &Self| callback(queue, result)) as Ended
        });
    }

    /// Returns the number of requests whose callback has not been called yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.requests.borrow().len() + self.ended.borrow().len()
    }

    /// Calls the callbacks of completed requests; if there are none, waits for the first one, for
    /// `at_most`. Returns the number called: 0 if no request is pending, or none has completed.
    pub fn run(&self, at_most: Option<Duration>) -> usize {
        loop {
            let called = self.run_ready();
            if called > 0 || self.pending() == 0 {
                return called;
            }
            self.ready.wait(at_most);
            if at_most.is_some() {
                return self.run_ready();
            }
        }
    }

    /// Calls the callbacks of completed requests without waiting. Returns the number called.
    ///
    /// Requests submitted by these callbacks are left for the next call.
    pub fn run_ready(&self) -> usize {
        let mut called = 0;
        let (mut ended, mut numbers) = (self.ended.borrow().len(), self.ready.lock().len());
        // One at a time: a callback may run the queue, too.
        while ended > 0
            && let Some(callback) = self.take_ended()
        {
            ended -= 1;
            called += 1;
            callback(self);
        }
        while numbers > 0
            && let Some(number) = self.ready.take()
        {
            numbers -= 1;
            let Some(request) = self.take_request(number) else { continue };
            if let Some(callback) = self.poll(number, request) {
                called += 1;
                callback(self);
            }
        }
        called
    }

    /// Drops all requests like futures. Their callbacks are dropped without being called.
    pub fn abandon(self) {
        self.drop_all();
    }

    fn submit(&self, future: impl Future<Output = Ended> + 'static) {
        let number = *self.submitted.borrow();
        *self.submitted.borrow_mut() += 1;
        let (is_ready, ready) = (AtomicBool::new(false), Arc::clone(&self.ready));
        let waker = Arc::new(RequestWaker { number, is_ready, ready });
        let request = Request { future: Box::pin(future), waker };
        if let Some(callback) = self.poll(number, request) {
            self.ended.borrow_mut().push_back(callback);
            self.ready.tell();
        }
    }

    /// Polls a request and keeps it if it is still pending.
    fn poll(&self, number: u64, mut request: Request) -> Option<Ended> {
        request.waker.is_ready.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&request.waker));
        match request.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(callback) => Some(callback),
            Poll::Pending => {
                self.requests.borrow_mut().insert(number, request);
                None
            }
        }
    }

    fn take_request(&self, number: u64) -> Option<Request> {
        self.requests.borrow_mut().remove(&number)
    }

    fn take_ended(&self) -> Option<Ended> {
        self.ended.borrow_mut().pop_front()
    }

    fn drop_all(&self) {
        // Drop them outside the borrow: a destructor of a callback's values may use this queue.
        let requests = std::mem::take(&mut *self.requests.borrow_mut());
        let ended = std::mem::take(&mut *self.ended.borrow_mut());
        drop((requests, ended));
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.drop_all();
        }
        while self.pending() > 0 {
            self.run(None);
        }
    }
}

impl ReadyRequests {
    fn push(&self, number: u64) {
        let mut numbers = self.lock();
        numbers.push_back(number);
        let is_first = numbers.len() == 1;
        drop(numbers);
        if is_first {
            self.tell();
        }
    }

    fn tell(&self) {
        self.changed.notify_one();
        if let Some(notify) = &self.notify {
            notify();
        }
    }

    fn take(&self) -> Option<u64> {
        self.lock().pop_front()
    }

    /// Waits until a request is ready, or the time-out has passed.
    fn wait(&self, at_most: Option<Duration>) {
        let (numbers, is_empty) = (self.lock(), |numbers: &mut VecDeque<u64>| numbers.is_empty());
        match at_most {
            None => {
                let waited = self.changed.wait_while(numbers, is_empty);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
            Some(time) => {
                let waited = self.changed.wait_timeout_while(numbers, time, is_empty);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<u64>> {
        // Nothing panics while it holds this lock.
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for RequestWaker {
    fn wake(self: Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::SeqCst) {
            self.ready.push(self.number);
        }
    }
}

impl fmt::Debug for CompletionQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompletionQueue").field("pending", &self.pending()).finish_non_exhaustive()
    }
}
