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
use crate::proc_status;
use crate::recorded_trace::RecordTotals;
use crate::traced_program::TracedProgram;
use crate::tracer::{BlockedSignals, ThreadStop, TracedCalls, WakeUp, interrupt, next_stop, seize};

/// How the recording of a process ended.
#[derive(Clone, Debug, Eq, PartialEq)]
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

/// The threads that are traced.
struct Attachment<F> {
    process: u32,
    program: TracedProgram,
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
                let Some(thread) = thread.filter(|it| !self.program.threads.contains(*it)) else {
                    continue;
                };
                match seize(thread, TracedCalls::All) {
                    Ok(()) => {
                        self.program.threads.add(thread, |_| self.process);
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
                Some(error) if self.program.threads.is_empty() => return Err(error),
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
            // Threads that never wait must not hide the user's signal.
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

    /// Tells of the processes that are left, once the first one has ended: when it has, or when
    /// another one is seen only after that.
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

    /// Lets all threads go on untraced. One that does not stop, as it waits uninterruptibly, is let
    /// go by the kernel when this process ends.
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

/// Stops that are handled before the user's signals are looked at.
const STOPS_BETWEEN_LOOKS: u32 = 64;

/// A signal ends the wait for stops; this is for one that was lost.
const IDLE: Duration = Duration::from_secs(1);

/// Parts of a second that a detach may take.
const DETACH_WAITS: u32 = 100;
