//! Event queue for threads that may outlive the engine. It never keeps the engine alive, and takes
//! no lock in a forked child.

use std::sync::Arc;

use crate::background::BackgroundWaker;
use crate::driver_queue::{DriverEvent, DriverQueue};

/// Event queue of an engine and the waker of its background thread, without the engine itself.
///
/// An exiting thread posts the end of its streams here from a thread-local destructor. It must not
/// hold the engine there, however briefly: if the last handle were dropped at that moment, the
/// engine would shut down inside the destructor. It would join its threads, write its records, and
/// drop sources, whose own thread-local values would already be gone.
#[derive(Debug)]
pub(crate) struct DriverMailbox {
    queue: DriverQueue,
    background: Arc<BackgroundWaker>,
    /// Process of the engine. The check through the page pool would need the engine.
    process: u32,
}

impl DriverMailbox {
    /// Creates the mailbox of an engine of this process.
    pub(crate) fn new(background: Arc<BackgroundWaker>) -> Self {
        Self { queue: DriverQueue::new(), background, process: std::process::id() }
    }

    pub(crate) fn queue(&self) -> &DriverQueue {
        &self.queue
    }

    /// Posts an event to the next driver: the background thread, if it has been started. A forked
    /// child drops the event, since a thread that exists only in the parent may hold the lock.
    pub(crate) fn leave(&self, event: DriverEvent) {
        if self.process == std::process::id() {
            self.queue.post(event);
            self.background.wake_if_started();
        }
    }
}
