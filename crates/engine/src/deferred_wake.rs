//! What the driver leaves to be done when the engine's mutex is free.
//!
//! In:    waiters to wake, handles to let go, calls of callers' code.
//! Out:   each is done, once.
//! Never: under the mutex: each of these may take it again.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::thread::Thread;

use crate::background::BackgroundWaker;
use crate::first_touch::TouchJob;
use crate::source::PendingFetch;
use crate::task_step::PendingStep;

/// What has to stay open until the device has answered an abandoned request: its file.
pub(crate) type KeepAlive = Arc<dyn Any + Send + Sync>;

/// What is done after the mutex is free: each of these may take it again.
#[derive(Debug)]
pub(crate) enum DeferredWake {
    Thread(Thread),
    Task(Waker),
    /// The background thread has something to do.
    Background(Arc<BackgroundWaker>),
    /// The last handle to a file may go with this one.
    Release(KeepAlive),
    /// A waker that is not needed any more. The last handle to a task may go with it, and with the
    /// task whatever it owns.
    Unused(Waker),
    /// A source is to be called.
    Fetch(Box<PendingFetch>),
    /// A step of a task's write is to be done.
    Step(PendingStep),
    /// Memory is to be had for frames that are used soon.
    Touch(TouchJob),
}

impl DeferredWake {
    pub(crate) fn run(self) {
        match self {
            Self::Thread(thread) => thread.unpark(),
            Self::Task(waker) => unless_it_panics(|| waker.wake()),
            Self::Background(background) => background.wake(),
            Self::Release(file) => drop(file),
            Self::Unused(waker) => unless_it_panics(|| drop(waker)),
            Self::Fetch(fetch) => fetch.run(),
            Self::Step(step) => step.run(),
            Self::Touch(job) => job.start(),
        }
    }
}

/// Calls code of an executor. If it panics, that ends neither the thread that happens to drive nor
/// the waiters behind it in the line; the panic hook has reported it.
fn unless_it_panics(call: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(call));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Wake, Waker};

    use super::DeferredWake;

    /// Counts its calls, and panics in each.
    struct Panics(Arc<AtomicU32>);

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("a waker panics in this test");
        }
    }

    #[test]
    fn a_waker_that_panics_does_not_end_the_thread_that_drives() {
        let count = Arc::new(AtomicU32::new(0));
        let waker = || Waker::from(Arc::new(Panics(Arc::clone(&count))));
        for wake in [DeferredWake::Task(waker()), DeferredWake::Task(waker())] {
            wake.run();
        }
        DeferredWake::Unused(waker()).run();
        assert_eq!(count.load(Ordering::Relaxed), 2, "the second is called, too");
    }
}
