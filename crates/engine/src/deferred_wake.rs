//! Wakes, drops and calls of foreign code that the driver defers until the engine's mutex is
//! released, because each of them may take it again.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;
use std::thread::Thread;

use crate::background::BackgroundWaker;
use crate::first_touch::TouchJob;
use crate::source::PendingFetch;
use crate::task_step::PendingStep;

/// Keeps the file of an abandoned request open until the device has answered.
pub(crate) type KeepAlive = Arc<dyn Any + Send + Sync>;

/// Action to run once the mutex is released.
#[derive(Debug)]
pub(crate) enum DeferredWake {
    Thread(Thread),
    Task(Waker),
    /// Wakes the background thread.
    Background(Arc<BackgroundWaker>),
    /// Drops a handle to a file, possibly the last one.
    Release(KeepAlive),
    /// Drops a waker that is no longer needed. This may drop the last handle to a task, and with it
    /// everything the task owns.
    Unused(Waker),
    /// Calls a source.
    Fetch(Box<PendingFetch>),
    /// Performs a step of a task's write.
    Step(PendingStep),
    /// Populates memory for frames that will be used soon.
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

/// Calls code of an executor and catches its panic, which must harm neither the driving thread nor
/// the waiters queued behind it. The panic hook has already reported it.
fn unless_it_panics(call: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(call));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Wake, Waker};

    use super::DeferredWake;

    /// Waker that counts its calls and panics in each.
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
