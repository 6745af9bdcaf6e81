//! Recording of a process that is already running, by ptrace. The process survives the recording
//! and is never left stopped.
//!
//! ```text
//!   SEIZE, INTERRUPT   each thread, until no other is found
//!   SYSCALL            to the next call, which is examined as one that stops at the filter; to
//!                      its end; to the next call
//!   INTERRUPT, DETACH  each thread, when the user ends the recording
//! ```

use std::fs;
use std::io::{self, Write};
use std::time::Duration;

use foreread_trace::TraceWriter;

use crate::error::RecordError;
use crate::left_behind::{self, LeftProcess};
use crate::proc_status;
use crate::recorded_trace::RecordTotals;
use crate::traced_program::TracedProgram;
use crate::tracer::{BlockedSignals, ThreadStop, TracedCalls, WakeUp, interrupt, next_stop, seize};

/// Outcome of the recording of a process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AttachSummary {
    /// True if the process has ended; false if the recording was ended and the process runs on.
    pub has_ended: bool,
    /// Contents of the trace.
    pub totals: RecordTotals,
}

/// Records the file reads of a running process until it ends, or until this process receives
/// SIGINT, SIGTERM, SIGHUP or SIGQUIT. `attached` gets the number of threads. If the process ends
/// before some of its children, `left` gets these, once; their reads are recorded, too.
///
/// The calling thread must be the only one, or the others must have these signals blocked.
///
/// # Errors
///
/// If attaching fails, or the trace cannot be written. The latter ends the recording, and the
/// process runs on.
pub fn record_process<W: Write>(
    process: u32,
    writer: &mut TraceWriter<W>,
    attached: impl FnOnce(usize),
    left: impl FnOnce(&[LeftProcess]),
) -> Result<AttachSummary, RecordError> {
    proc_status::check_mounted()?;
    let failed = |error| RecordError::Attach { process, error };
    let of_user = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
    let signals = BlockedSignals::new(&of_user).map_err(failed)?;
    let program = TracedProgram::new(TracedCalls::All);
    let mut attachment = Attachment { process, program, left: Some(left) };
    if let Err(error) = attachment.attach() {
        attachment.detach(&signals);
        return Err(match proc_status::without_program(process) {
            Some(what) => RecordError::NoProgram { process, what },
            None => failed(error),
        });
    }
    attached(attachment.program.threads.len());
    let has_ended = attachment.run(&signals, writer);
    if !has_ended {
        attachment.detach(&signals);
    }
    Ok(AttachSummary { has_ended, totals: attachment.program.trace.end()? })
}

/// The traced threads.
struct Attachment<F> {
    process: u32,
    program: TracedProgram,
    /// Called with the processes that outlive the first one.
    left: Option<F>,
}

impl<F: FnOnce(&[LeftProcess])> Attachment<F> {
    /// Attaches to all threads, including threads that they start during the loop. Ended threads
    /// are left out; an ended main thread stays a zombie until the other threads have ended.
    fn attach(&mut self) -> io::Result<()> {
        loop {
            let mut found = false;
            let mut refused = None;
            for entry in fs::read_dir(format!("/proc/{}/task", self.process))? {
                let name = entry?.file_name();
                let thread = name.to_str().and_then(|name| name.parse::<u32>().ok());
                let Some(thread) = thread.filter(|it| !self.program.threads.contains(*it)) else {
                    continue;
                };
                match seize(thread, TracedCalls::All) {
                    Ok(()) => {
                        self.program.threads.add(thread, |_| self.process);
                        found = true;
                        // The thread may have ended.
                        let _ = interrupt(thread);
                    }
                    // It has ended, or one of our threads has started it and it is attached
                    // already.
                    Err(error) => refused = Some(error),
                }
            }
            match refused {
                _ if found => {}
                Some(error) if self.program.threads.is_empty() => return Err(error),
                _ => return Ok(()),
            }
        }
    }

    /// Records until all threads have ended (true), or the user ends it, or the trace cannot be
    /// written. Also waits for other children of this process: a shell with background jobs may
    /// have become the recorder by exec.
    fn run<W: Write>(&mut self, signals: &BlockedSignals, writer: &mut TraceWriter<W>) -> bool {
        loop {
            for _ in 0..STOPS_BETWEEN_LOOKS {
                match next_stop() {
                    Ok(Some((thread, stop))) => self.handle(thread, stop, writer),
                    Ok(None) if self.program.trace.has_failed() => return false,
                    Ok(None) if self.program.threads.is_empty() => return true,
                    Ok(None) => {
                        if signals.wait(IDLE) == WakeUp::Stop {
                            return false;
                        }
                    }
                    Err(_) => return true,
                }
            }
            // Threads that never block must not hide the user's signal.
            if signals.wait(Duration::ZERO) == WakeUp::Stop || self.program.trace.has_failed() {
                return false;
            }
        }
    }

    fn handle<W: Write>(&mut self, thread: u32, stop: ThreadStop, writer: &mut TraceWriter<W>) {
        if self.program.handle(thread, stop, writer) {
            self.tell_left();
        }
    }

    /// Reports the remaining processes once, when the first one has ended.
    fn tell_left(&mut self) {
        if self.left.is_none() || self.program.threads.has_process(self.process) {
            return;
        }
        let processes = left_behind::running(self.program.threads.processes());
        if !processes.is_empty()
            && let Some(left) = self.left.take()
        {
            left(&processes);
        }
    }

    /// Detaches from all threads. A thread in an uninterruptible wait does not stop; the kernel
    /// detaches it when this process ends.
    fn detach(&mut self, signals: &BlockedSignals) {
        self.program.threads.retain(|thread| interrupt(thread).is_ok());
        let mut patience = DETACH_WAITS;
        while !self.program.threads.is_empty() && patience > 0 {
            match next_stop() {
                Ok(Some((thread, stop))) => {
                    if matches!(stop, ThreadStop::Ended(_)) || self.program.release(thread, stop) {
                        self.program.threads.remove(thread);
                    }
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

/// Stops handled between two checks for the user's signals.
const STOPS_BETWEEN_LOOKS: u32 = 64;

/// Poll interval in case a signal is lost; normally a signal ends the wait for stops.
const IDLE: Duration = Duration::from_secs(1);

/// Longest detach, in hundredths of a second.
const DETACH_WAITS: u32 = 100;
