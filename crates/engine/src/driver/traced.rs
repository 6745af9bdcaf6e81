//! The core's trace, for as long as a subscriber of the `tracing` crate wants it.
//!
//! In:    whether one does, looked up each time that a thread becomes the driver.
//! Out:   the events of its turn, to be emitted when the mutex is free.
//! Never: an event of a trace that [`crate::EngineBuilder::trace`] asked for.

use super::Driver;
use crate::spans::{TracedEvents, is_wanted};

impl Driver {
    /// Keeps a trace from now on if a subscriber wants it, and none if it does not any more.
    pub(crate) fn follow_subscriber(&mut self) {
        let is_wanted = is_wanted();
        if is_wanted == self.is_traced {
            return;
        }
        let has_own_trace = !self.is_traced && self.path.trace_capacity() > 0;
        if !has_own_trace {
            // Each turn's events are taken at its end, so there are never many.
            self.path.set_trace(if is_wanted { usize::MAX } else { 0 });
            self.is_traced = is_wanted;
        }
    }

    /// What happened in this turn.
    pub(crate) fn take_traced(&mut self) -> TracedEvents {
        if self.is_traced { TracedEvents::take(&mut self.path) } else { TracedEvents::NONE }
    }
}
