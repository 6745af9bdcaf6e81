//! Events for the driver, from threads that may outlive the engine.
//!
//! In:    events; the waker of the background thread.
//! Out:   the events, to the next driver; or to nothing, if the engine has ended.
//! Never: an engine that is kept because of it. A lock in a forked child.

use std::sync::Arc;

use crate::background::BackgroundWaker;
use crate::driver_queue::{DriverEvent, DriverQueue};

/// The queue of an engine, and what wakes its background thread, without the engine.
///
/// A thread that ends leaves its streams here, in the destructor of a thread-local value. It must
/// not have the engine itself there, for however short a time: if the last handle ended just then,
/// the engine would end in that destructor. It would join its threads and write its records there,
/// and drop sources, which would find their thread-local values gone.
#[derive(Debug)]
pub(crate) struct DriverMailbox {
    queue: DriverQueue,
    background: Arc<BackgroundWaker>,
    /// The process of the engine. The engine's own look at its memory would need the engine.
    process: u32,
}

impl DriverMailbox {
    /// The mailbox of an engine of this process.
    pub(crate) fn new(background: Arc<BackgroundWaker>) -> Self {
        Self { queue: DriverQueue::new(), background, process: std::process::id() }
    }

    pub(crate) fn queue(&self) -> &DriverQueue {
        &self.queue
    }

    /// Posts an event to the next driver: the background thread, if the engine has needed one. In a
    /// forked child it is dropped: there a lock may be held by a thread that only the parent has.
    pub(crate) fn leave(&self, event: DriverEvent) {
        if self.process == std::process::id() {
            self.queue.post(event);
            self.background.wake_if_started();
        }
    }
}
