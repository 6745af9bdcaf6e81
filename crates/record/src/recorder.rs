//! Records a command: runs it until its last process has ended, because without a listener their
//! reads would fail, and turns its reads into records.

use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use foreread_trace::TraceWriter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::clock::now;
use crate::error::RecordError;
use crate::filter::StopsAt;
use crate::left_behind::{self, LeftProcess};
use crate::listener::CallListener;
use crate::proc_status::check_mounted;
use crate::recorded_trace::{RecordTotals, RecordedTrace};
use crate::started_command::{self, RecordCommand, StartedCommand};
use crate::traced_program::TracedProgram;
use crate::tracer::{BlockedSignals, ThreadStop, TracedCalls, next_stop, seize, wait_for_stop};

/// Outcome of a recording.
#[derive(Debug)]
pub struct RecordSummary {
    /// Exit status of the program.
    pub status: ExitStatus,
    /// Totals of the trace.
    pub totals: RecordTotals,
    /// The error if the program could not be traced. A signal may then have made a recorded call
    /// fail with EINTR.
    pub untraced: Option<io::Error>,
}

/// Runs a command, and records its file reads until all its processes have ended. `started` gets
/// the id of its first process. If other processes outlive it by a second, `waits` gets the ones
/// that can be found, once: without the recorder their reads would fail.
///
/// The calling thread becomes the tracer of the command. It waits for all children of this process,
/// even unrecorded ones.
///
/// # Errors
///
/// If the command cannot be started or watched, or the trace cannot be written; in the last case
/// the program has run to its end.
pub fn record<W: Write>(
    command: &RecordCommand,
    writer: &mut TraceWriter<W>,
    started: impl FnOnce(u32),
    waits: impl FnMut(&[LeftProcess]),
) -> Result<RecordSummary, RecordError> {
    check_mounted()?;
    let running = started_command::start(command)?;
    started(running.process);
    // A signal cannot interrupt a call before a tracer sees it; a listener must receive it first.
    let untraced = seize(running.process, TracedCalls::Filtered).err();
    let recorded = match untraced {
        None => traced(&running, writer, waits),
        Some(_) => listened(&running, writer, waits),
    };
    running.has_started(command)?;
    let (status, trace) = recorded?;
    Ok(RecordSummary { status, totals: trace.end()?, untraced })
}

/// Records a traced command.
fn traced<W: Write>(
    running: &StartedCommand,
    writer: &mut TraceWriter<W>,
    mut waits: impl FnMut(&[LeftProcess]),
) -> Result<(ExitStatus, RecordedTrace), RecordError> {
    let signals = BlockedSignals::new(&[]).map_err(RecordError::Unsupported)?;
    let first = running.process;
    let mut program = TracedProgram::new(TracedCalls::Filtered);
    program.threads.add(first, |_| first);
    running.go(StopsAt::Tracer)?;
    let mut status = None;
    // Time to report the remaining processes, once.
    let mut tell_at: Option<Instant> = None;
    loop {
        // A process begun by a killed thread may stop only after the end of that thread.
        let may_wait = tell_at.is_none() && !program.threads.is_empty();
        match if may_wait { wait_for_stop() } else { next_stop() } {
            Ok(Some((thread, stop))) => {
                if let ThreadStop::Ended(raw) = stop
                    && thread == first
                {
                    status = Some(ExitStatus::from_raw(raw));
                    tell_at = Some(now() + TELL_AFTER);
                }
                program.handle(thread, stop, writer);
            }
            Ok(None) if program.threads.is_empty() => break,
            Ok(None) => {
                if let Some(at) = tell_at {
                    signals.wait(at.saturating_duration_since(now()));
                }
            }
            Err(_) => break,
        }
        if tell_at.is_some_and(|at| at <= now()) && !program.threads.is_empty() {
            tell_at = None;
            waits(&left_behind::running(program.threads.processes()));
        }
    }
    let unknown = || RecordError::Unsupported(io::Error::from_raw_os_error(libc::ECHILD));
    Ok((status.ok_or_else(unknown)?, program.trace))
}

/// Records a command whose calls stop at a listener.
fn listened<W: Write>(
    running: &StartedCommand,
    writer: &mut TraceWriter<W>,
    waits: impl FnMut(&[LeftProcess]),
) -> Result<(ExitStatus, RecordedTrace), RecordError> {
    let mut recording = Recording { trace: RecordedTrace::new(), waits, status: None };
    let ended = running.go(StopsAt::Listener).and_then(|listener| match listener {
        Some(listener) => recording.run(&listener, running, writer),
        None => Ok(()),
    });
    if ended.is_err() && recording.status.is_none() {
        // Without answers its reads would fail.
        running.kill();
    }
    let status = match recording.status {
        Some(status) => status,
        None => running.wait().map_err(RecordError::Unsupported)?,
    };
    ended?;
    Ok((status, recording.trace))
}

struct Recording<F> {
    trace: RecordedTrace,
    /// Called with the processes that outlive the command.
    waits: F,
    /// Status of the first process, once it was reaped.
    status: Option<ExitStatus>,
}

impl<F: FnMut(&[LeftProcess])> Recording<F> {
    fn run<W: Write>(
        &mut self,
        listener: &CallListener,
        running: &StartedCommand,
        writer: &mut TraceWriter<W>,
    ) -> Result<(), RecordError> {
        let id = i32::try_from(running.process).ok().and_then(Pid::from_raw);
        let pidfd = id.and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
        let since = left_behind::start_of(running.process);
        // Time to report the remaining processes, once.
        let mut tell_at = None;
        loop {
            let is_reaped = self.status.is_some();
            let (calls, end) = (listener.as_fd(), pidfd.as_ref().filter(|_| !is_reaped));
            let mut polled = vec![PollFd::from_borrowed_fd(calls, PollFlags::IN)];
            polled.extend(end.map(|end| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN)));
            let left = tell_at.map(|at: Instant| timespec(at.saturating_duration_since(now())));
            match poll(&mut polled, left.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(RecordError::Unsupported(error.into())),
            }
            let (event, has_ended) =
                (polled[0].revents(), polled.get(1).is_some_and(|end| !end.revents().is_empty()));
            if has_ended {
                // Before Linux 6.11 a process uses the filter until its parent has reaped it.
                self.status = running.wait().ok();
                tell_at = Some(now() + TELL_AFTER);
            }
            if tell_at.is_some_and(|at| at <= now()) && !event.contains(PollFlags::HUP) {
                tell_at = None;
                (self.waits)(&left_behind::processes(since));
            }
            if event.contains(PollFlags::IN) {
                let call = listener.receive().map_err(RecordError::Unsupported)?;
                if let Some(call) = call {
                    let read = self.trace.observe(&call);
                    // The program continues while the record is written.
                    listener.let_go(&call);
                    self.trace.add(read, writer);
                }
            } else if event.intersects(PollFlags::HUP | PollFlags::ERR) {
                return Ok(());
            }
        }
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec::try_from(time).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 })
}

/// Most processes end with their command, or shortly after.
const TELL_AFTER: Duration = Duration::from_secs(1);
