//! A recording of a process that is already running: ptrace, for as long as the recording lasts.
//!
//! In:    a process number, a writer.
//! Out:   a trace of its reads, those of its threads and of what it starts meanwhile.
//! Never: a process that ends, or stays stopped, because its recording does.
//!
//! ```text
//!   SEIZE, INTERRUPT   each thread, until no other is found
//!   SYSCALL            to the next call: what it will read is looked at, as of a stopped call of
//!                      the filter; to its end; to the next call
//!   INTERRUPT, DETACH  each thread, when the user ends the recording
//! ```

use std::fs;
use std::io::{self, Write};
use std::time::Duration;

use foreread_trace::TraceWriter;

use crate::error::RecordError;
use crate::left_behind::{self, LeftProcess};
use crate::proc_status::{self, process_of};
use crate::recorded_trace::{RecordTotals, RecordedTrace};
use crate::traced_threads::TracedThreads;
use crate::tracer::{
    BlockedSignals, ThreadStop, WakeUp, detach, entered_call, event_thread, go_on, interrupt,
    listen, next_stop, seize,
};

/// How the recording of a process ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AttachSummary {
    /// Whether the process has ended; else the recording was, and it runs on.
    pub has_ended: bool,
    /// What the trace holds.
    pub totals: RecordTotals,
}

/// Writes what a running process reads of files, until it has ended, or until SIGINT, SIGTERM,
/// SIGHUP or SIGQUIT comes to this process. `attached` gets the number of its threads. If it has
/// ended while processes that it has started run on, `left` gets these, once: their reads are
/// recorded, too.
///
/// The calling thread must be the only one, or the others must have these signals blocked.
///
/// # Errors
///
/// If it cannot be attached to, or the trace cannot be written, which ends the recording: the
/// process runs on all the same.
pub fn record_process<W: Write>(
    process: u32,
    writer: &mut TraceWriter<W>,
    attached: impl FnOnce(usize),
    left: impl FnOnce(&[LeftProcess]),
) -> Result<AttachSummary, RecordError> {
    let failed = |error| RecordError::Attach { process, error };
    let signals = BlockedSignals::new().map_err(failed)?;
    let mut attachment = Attachment {
        process,
        threads: TracedThreads::default(),
        trace: RecordedTrace::new(),
        left: Some(left),
    };
    if let Err(error) = attachment.attach() {
        attachment.detach(&signals);
        return Err(match proc_status::without_program(process) {
            Some(what) => RecordError::NoProgram { process, what },
            None => failed(error),
        });
    }
    attached(attachment.threads.len());
    let has_ended = attachment.run(&signals, writer);
    if !has_ended {
        attachment.detach(&signals);
    }
    Ok(AttachSummary { has_ended, totals: attachment.trace.end()? })
}

/// The threads that are traced.
struct Attachment<F> {
    process: u32,
    threads: TracedThreads,
    trace: RecordedTrace,
    /// Told of the processes that it has left behind.
    left: Option<F>,
}

impl<F: FnOnce(&[LeftProcess])> Attachment<F> {
    /// Attaches to all threads, and to those that they start meanwhile. Threads that have ended are
    /// left out: the main thread stays there, as a zombie, until the others have ended, too.
    fn attach(&mut self) -> io::Result<()> {
        loop {
            let mut found = false;
            let mut refused = None;
            for entry in fs::read_dir(format!("/proc/{}/task", self.process))? {
                let name = entry?.file_name();
                let thread = name.to_str().and_then(|name| name.parse::<u32>().ok());
                let Some(thread) = thread.filter(|it| !self.threads.contains(*it)) else {
                    continue;
                };
                match seize(thread) {
                    Ok(()) => {
                        self.threads.add(thread, |_| self.process);
                        found = true;
                        // It may have ended.
                        let _ = interrupt(thread);
                    }
                    // One that has ended, or that one of ours has started and is attached already.
                    Err(error) => refused = Some(error),
                }
            }
            match refused {
                _ if found => {}
                Some(error) if self.threads.is_empty() => return Err(error),
                _ => return Ok(()),
            }
        }
    }

    /// Records until all has ended (true), or the user ends it, or the trace cannot be written.
    /// This process may have children of its own, which are waited for as well: a shell that has
    /// started some may have become the recorder.
    fn run<W: Write>(&mut self, signals: &BlockedSignals, writer: &mut TraceWriter<W>) -> bool {
        loop {
            for _ in 0..STOPS_BETWEEN_LOOKS {
                match next_stop() {
                    Ok(Some((thread, stop))) => self.handle(thread, stop, writer),
                    Ok(None) if self.trace.has_failed() => return false,
                    Ok(None) if self.threads.is_empty() => return true,
                    Ok(None) => {
                        if signals.wait(IDLE) == WakeUp::Stop {
                            return false;
                        }
                    }
                    Err(_) => return true,
                }
            }
            // Threads that never wait must not hide the user's signal.
            if signals.wait(Duration::ZERO) == WakeUp::Stop || self.trace.has_failed() {
                return false;
            }
        }
    }

    fn handle<W: Write>(&mut self, thread: u32, stop: ThreadStop, writer: &mut TraceWriter<W>) {
        if stop == ThreadStop::Ended {
            self.threads.remove(thread);
            self.tell_left();
            return;
        }
        self.add(thread);
        let mut read = None;
        // An error of a request means that the thread was killed meanwhile.
        let _ = match stop {
            ThreadStop::Call => {
                read = entered_call(thread).and_then(|call| self.trace.observe(&call));
                go_on(thread, 0)
            }
            ThreadStop::Signal(signal) => go_on(thread, signal),
            ThreadStop::Group => listen(thread),
            ThreadStop::Begun => {
                // Its own first stop may come after the end of this thread.
                if let Some(begun) = event_thread(thread) {
                    self.add(begun);
                }
                go_on(thread, 0)
            }
            ThreadStop::Exec => {
                // It will not end under the number that it had.
                if let Some(before) = event_thread(thread).filter(|before| *before != thread) {
                    self.threads.remove(before);
                }
                go_on(thread, 0)
            }
            ThreadStop::Attached | ThreadStop::Ended => go_on(thread, 0),
        };
        // The thread goes on while the record is written.
        self.trace.add(read, writer);
    }

    fn add(&mut self, thread: u32) {
        if self.threads.add(thread, process_of) {
            self.tell_left();
        }
    }

    /// Tells of the processes that are left, once the first one has ended: when it has, or when
    /// another one is seen only after that.
    fn tell_left(&mut self) {
        if self.left.is_none() || self.threads.has_process(self.process) {
            return;
        }
        let processes = left_behind::running(self.threads.processes());
        if !processes.is_empty()
            && let Some(left) = self.left.take()
        {
            left(&processes);
        }
    }

    /// Lets all threads go on untraced. One that does not stop, as it waits uninterruptibly, is let
    /// go by the kernel when this process ends.
    fn detach(&mut self, signals: &BlockedSignals) {
        self.threads.retain(|thread| interrupt(thread).is_ok());
        let mut patience = DETACH_WAITS;
        while !self.threads.is_empty() && patience > 0 {
            match next_stop() {
                Ok(Some((thread, stop))) => {
                    let signal = if let ThreadStop::Signal(signal) = stop { signal } else { 0 };
                    if stop != ThreadStop::Ended {
                        let _ = detach(thread, signal);
                    }
                    self.threads.remove(thread);
                }
                Ok(None) => {
                    signals.wait(IDLE / DETACH_WAITS);
                    patience -= 1;
                }
                Err(_) => return,
            }
        }
    }
}

/// Stops that are handled before the user's signals are looked at.
const STOPS_BETWEEN_LOOKS: u32 = 64;

/// A signal ends the wait for stops; this is for one that was lost.
const IDLE: Duration = Duration::from_secs(1);

/// Parts of a second that a detach may take.
const DETACH_WAITS: u32 = 100;
