//! Traced threads, whose stops become records.
//!
//! In:    stops, one at a time; a writer.
//! Out:   a trace; which threads are there; programs whose privileges were withheld.
//! Never: a thread that stays stopped, but with its process; a signal that is not delivered.

use std::io::Write;

use foreread_trace::TraceWriter;

use crate::interrupted_waits::{InterruptedWaits, is_endless, is_interrupted};
use crate::proc_status::process_of;
use crate::recorded_trace::RecordedTrace;
use crate::registers::refuse_call;
use crate::target;
use crate::traced_threads::TracedThreads;
use crate::tracer::{
    EnteredCall, ThreadStop, TracedCalls, detach, entered_call, event_thread, go_on, interrupt,
    listen,
};

/// What is traced, and the trace of it.
#[derive(Debug)]
pub(crate) struct TracedProgram {
    pub(crate) threads: TracedThreads,
    pub(crate) trace: RecordedTrace,
    pub(crate) calls: TracedCalls,
    waits: InterruptedWaits,
}

impl TracedProgram {
    pub(crate) fn new(calls: TracedCalls) -> Self {
        Self {
            threads: TracedThreads::default(),
            trace: RecordedTrace::new(),
            calls,
            waits: InterruptedWaits::default(),
        }
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
            self.waits.forget(thread);
            return true;
        }
        let mut is_changed = self.threads.add(thread, process_of);
        let mut read = None;
        // An error of a request means that the thread was killed meanwhile.
        let _ = match stop {
            ThreadStop::Call => {
                let mut calls = self.calls;
                if let Some(EnteredCall { call, is_refused }) = entered_call(thread) {
                    // Elsewhere than on x86-64 it is made, as a tracer of the program may want.
                    if !(is_refused && refuse_call(thread).is_ok()) {
                        read = self.trace.observe(&call);
                        if self.waits.enter(&call) {
                            calls = TracedCalls::All;
                        }
                    }
                } else {
                    self.waits.leave(thread);
                }
                go_on(thread, 0, calls)
            }
            ThreadStop::Signal(signal) => {
                let is_traced = self.waits.signalled(thread, signal);
                go_on(thread, signal, if is_traced { TracedCalls::All } else { self.calls })
            }
            ThreadStop::Group => {
                self.waits.group_stopped(thread);
                listen(thread)
            }
            ThreadStop::Begun => {
                // Its own first stop may come after the end of this thread.
                if let Some(begun) = event_thread(thread) {
                    is_changed |= self.threads.add(begun, process_of);
                }
                go_on(thread, 0, self.calls)
            }
            ThreadStop::Exec => {
                // It will not end under the number that it had.
                self.waits.forget(thread);
                if let Some(before) = event_thread(thread).filter(|before| *before != thread) {
                    self.threads.remove(before);
                    self.waits.forget(before);
                    is_changed = true;
                }
                if let Some(program) = target::unprivileged(thread) {
                    self.trace.note_unprivileged(program);
                }
                go_on(thread, 0, self.calls)
            }
            ThreadStop::Attached => {
                self.waits.stopped(thread);
                go_on(thread, 0, self.calls)
            }
            ThreadStop::Ended(_) => Ok(()),
        };
        // The thread goes on while the record is written.
        self.trace.add(read, writer);
        is_changed
    }
    /// Lets a stopped thread go on untraced, or returns false if it has to stop once more before:
    /// in a wait that the recorder interrupts, and that starts again after that stop.
    pub(crate) fn release(&mut self, thread: u32, stop: ThreadStop) -> bool {
        self.waits.leave(thread);
        let is_waiting =
            || is_interrupted(thread) || entered_call(thread).is_some_and(|it| is_endless(it.call));
        if stop == ThreadStop::Call && is_waiting() {
            // This stop took the place of the one that was asked for.
            let asked = interrupt(thread);
            return asked.and_then(|()| go_on(thread, 0, TracedCalls::Filtered)).is_err();
        }
        if stop == ThreadStop::Attached {
            self.waits.stopped(thread);
        }
        self.waits.forget(thread);
        let signal = if let ThreadStop::Signal(signal) = stop { signal } else { 0 };
        // An error means that the thread was killed meanwhile.
        let _ = detach(thread, signal);
        true
    }
}
