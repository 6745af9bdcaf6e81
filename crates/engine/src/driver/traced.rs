//! Records the core's trace while a subscriber of the `tracing` crate is interested, checked
//! whenever a thread becomes the driver. A trace enabled by [`crate::EngineBuilder::trace`] is left
//! alone.

use super::Driver;
use crate::spans::{TracedEvents, is_wanted};

impl Driver {
    /// Starts or stops recording, depending on whether a subscriber is interested.
    pub(crate) fn follow_subscriber(&mut self) {
        let is_wanted = is_wanted();
        if is_wanted == self.is_traced {
            return;
        }
        let has_own_trace = !self.is_traced && self.path.trace_capacity() > 0;
        if !has_own_trace {
            // Events are taken at the end of each turn, so there are never many.
            self.path.set_trace(if is_wanted { usize::MAX } else { 0 });
            self.is_traced = is_wanted;
        }
    }

    /// Takes the events of this turn, to be emitted once the mutex is released.
    pub(crate) fn take_traced(&mut self) -> TracedEvents {
        if self.is_traced { TracedEvents::take(&mut self.path) } else { TracedEvents::NONE }
    }
}
