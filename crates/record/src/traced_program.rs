//! Handles the stops of traced threads and records their reads. No thread stays stopped without its
//! process, and no signal is lost.

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

/// Traced threads, and the trace of their reads.
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

    /// Handles a stop and resumes the thread. Returns true if a thread was added or removed.
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
        // A failed request means that the thread has been killed.
        let _ = match stop {
            ThreadStop::Call => {
                let mut calls = self.calls;
                if let Some(EnteredCall { call, is_refused }) = entered_call(thread) {
                    // On other machines than x86-64 the call is made, as a tracer of the program
                    // may intend.
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
                // The first stop of the new thread may come after the end of this one.
                if let Some(begun) = event_thread(thread) {
                    is_changed |= self.threads.add(begun, process_of);
                }
                go_on(thread, 0, self.calls)
            }
            ThreadStop::Exec => {
                // It will not end under its old number.
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
        // The thread continues while the record is written.
        self.trace.add(read, writer);
        is_changed
    }
    /// Detaches from a stopped thread. Returns false if it must stop once more first: in a wait
    /// that the recorder interrupts, which restarts after that stop.
    pub(crate) fn release(&mut self, thread: u32, stop: ThreadStop) -> bool {
        self.waits.leave(thread);
        let is_waiting =
            || is_interrupted(thread) || entered_call(thread).is_some_and(|it| is_endless(it.call));
        if stop == ThreadStop::Call && is_waiting() {
            // This stop replaced the requested one.
            let asked = interrupt(thread);
            return asked.and_then(|()| go_on(thread, 0, TracedCalls::Filtered)).is_err();
        }
        if stop == ThreadStop::Attached {
            self.waits.stopped(thread);
        }
        self.waits.forget(thread);
        let signal = if let ThreadStop::Signal(signal) = stop { signal } else { 0 };
        // An error means that the thread has been killed.
        let _ = detach(thread, signal);
        true
    }
}
