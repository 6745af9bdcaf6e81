//! Traced threads, whose stops become records.
//!
//! In:    stops, one at a time; a writer.
//! Out:   a trace; which threads are there; programs whose privileges were withheld.
//! Never: a thread that stays stopped, but with its process; a signal that is not delivered.

use std::io::Write;

use foreread_trace::TraceWriter;

use crate::proc_status::process_of;
use crate::recorded_trace::RecordedTrace;
use crate::target;
use crate::traced_threads::TracedThreads;
use crate::tracer::{ThreadStop, TracedCalls, entered_call, event_thread, go_on, listen};

/// What is traced, and the trace of it.
#[derive(Debug)]
pub(crate) struct TracedProgram {
    pub(crate) threads: TracedThreads,
    pub(crate) trace: RecordedTrace,
    pub(crate) calls: TracedCalls,
}

impl TracedProgram {
    pub(crate) fn new(calls: TracedCalls) -> Self {
        Self { threads: TracedThreads::default(), trace: RecordedTrace::new(), calls }
    }

    /// Takes a stop, and lets the thread go on. Returns whether a thread has come or gone.
    pub(crate) fn handle<W: Write>(
        &mut self,
        thread: u32,
        stop: ThreadStop,
        writer: &mut TraceWriter<W>,
    ) -> bool {
        if matches!(stop, ThreadStop::Ended(_)) {
            self.threads.remove(thread);
            return true;
        }
        let mut is_changed = self.threads.add(thread, process_of);
        let mut read = None;
        // An error of a request means that the thread was killed meanwhile.
        let _ = match stop {
            ThreadStop::Call => {
                read = entered_call(thread).and_then(|call| self.trace.observe(&call));
                go_on(thread, 0, self.calls)
            }
            ThreadStop::Signal(signal) => go_on(thread, signal, self.calls),
            ThreadStop::Group => listen(thread),
            ThreadStop::Begun => {
                // Its own first stop may come after the end of this thread.
                if let Some(begun) = event_thread(thread) {
                    is_changed |= self.threads.add(begun, process_of);
                }
                go_on(thread, 0, self.calls)
            }
            ThreadStop::Exec => {
                // It will not end under the number that it had.
                if let Some(before) = event_thread(thread).filter(|before| *before != thread) {
                    self.threads.remove(before);
                    is_changed = true;
                }
                if let Some(program) = target::unprivileged(thread) {
                    self.trace.note_unprivileged(program);
                }
                go_on(thread, 0, self.calls)
            }
            ThreadStop::Attached | ThreadStop::Ended(_) => go_on(thread, 0, self.calls),
        };
        // The thread goes on while the record is written.
        self.trace.add(read, writer);
        is_changed
    }
}
