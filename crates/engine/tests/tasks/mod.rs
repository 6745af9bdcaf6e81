//! Executors of tasks, small enough to see through.
//!
//! In:    futures.
//! Out:   their values: of one in the calling thread, of many on a few workers; or of one poll.
//! Never: a poll that no waker asked for.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test crates")]

use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// A task runs in the thread that waits for it, which parks meanwhile.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Parked {
        thread: Thread,
        is_woken: AtomicBool,
    }

    impl Wake for Parked {
        fn wake(self: Arc<Self>) {
            self.is_woken.store(true, Ordering::Release);
            self.thread.unpark();
        }
    }

    let parked = Parked { thread: std::thread::current(), is_woken: AtomicBool::new(false) };
    let parked = Arc::new(parked);
    let waker = Waker::from(Arc::clone(&parked));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        while !parked.is_woken.swap(false, Ordering::Acquire) {
            std::thread::park();
        }
    }
}

/// Counts how often it was called.
#[derive(Default)]
pub struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

impl Counter {
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// One poll, with a waker that counts.
pub fn poll_once<F: Future + Unpin>(future: &mut F, counter: &Arc<Counter>) -> Poll<F::Output> {
    let waker = Waker::from(Arc::clone(counter));
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Some workers and one queue: a task is polled by whichever worker comes first, so it moves from
/// thread to thread, and it gets a new waker with each poll.
pub struct Executor {
    queue: Mutex<VecDeque<Arc<Task>>>,
    has_work: Condvar,
    left: AtomicUsize,
}

struct Task {
    work: Mutex<Option<Work>>,
    executor: Arc<Executor>,
}

/// The waker of one poll.
struct Ticket(Arc<Task>);

impl Wake for Ticket {
    fn wake(self: Arc<Self>) {
        let executor = &self.0.executor;
        executor.queue.lock().unwrap().push_back(Arc::clone(&self.0));
        executor.has_work.notify_one();
    }
}

impl Executor {
    pub fn run(tasks: Vec<Work>, workers: usize) {
        let executor = Arc::new(Self {
            queue: Mutex::default(),
            has_work: Condvar::new(),
            left: AtomicUsize::new(tasks.len()),
        });
        for work in tasks {
            let (work, executor) = (Mutex::new(Some(work)), Arc::clone(&executor));
            Waker::from(Arc::new(Ticket(Arc::new(Task { work, executor })))).wake();
        }
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| executor.work());
            }
        });
    }

    fn work(&self) {
        loop {
            let is_idle =
                |queue: &mut VecDeque<_>| queue.is_empty() && self.left.load(Ordering::Acquire) > 0;
            let queue = self.queue.lock().unwrap();
            let Some(task) = self.has_work.wait_while(queue, is_idle).unwrap().pop_front() else {
                return;
            };
            let waker = Waker::from(Arc::new(Ticket(Arc::clone(&task))));
            let mut work = task.work.lock().unwrap();
            let Some(running) = work.as_mut() else { continue };
            if running.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                *work = None;
                if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    // Under the lock, so that no worker is between a look and its wait.
                    let _queue = self.queue.lock().unwrap();
                    self.has_work.notify_all();
                }
            }
        }
    }
}
