//! A recording: the program runs, its reads become records.
//!
//! In:    a command, a writer.
//! Out:   a trace; how the program ended, and what was not seen of it.
//! Never: an end before the last process of the program has ended: without a listener their reads
//!        would fail.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use foreread_trace::TraceWriter;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::clock::now;
use crate::error::RecordError;
use crate::left_behind::{self, LeftProcess};
use crate::listener::{self, CallListener};
use crate::recorded_trace::{RecordTotals, RecordedTrace};

/// What is recorded.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RecordCommand {
    /// The program, found as a shell finds it.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// How a recording ended.
#[derive(Clone, Copy, Debug)]
pub struct RecordSummary {
    /// How the program ended.
    pub status: ExitStatus,
    /// What the trace holds.
    pub totals: RecordTotals,
}

/// Runs a command, and writes its reads of files until all its processes have ended. `started` gets
/// the number of its first process. If others are still there a second after its end, `waits` gets
/// them, as far as they can be found, once: without the recorder their reads would fail.
///
/// # Errors
///
/// If the command cannot be started or watched; or if the trace cannot be written: the program has
/// run to its end all the same.
pub fn record<W: Write>(
    command: &RecordCommand,
    writer: &mut TraceWriter<W>,
    started: impl FnOnce(u32),
    waits: impl FnMut(&[LeftProcess]),
) -> Result<RecordSummary, RecordError> {
    let mut started_command = Command::new(&command.program);
    started_command.args(&command.args);
    let socket = listener::prepare(&mut started_command).map_err(RecordError::Unsupported)?;
    let child = started_command.spawn();
    // It holds the child's end of the socket: without it, receiving ends.
    drop(started_command);
    let mut child = child.map_err(|error| start_error(command, error))?;
    started(child.id());
    let mut recording = Recording { trace: RecordedTrace::new(), waits };
    let ended = socket
        .receive()
        .map_err(RecordError::Unsupported)
        .and_then(|listener| recording.run(&listener, &mut child, writer));
    if ended.is_err() {
        // Without an answer its reads would fail one after another.
        let _ = child.kill();
    }
    let status = child.wait().map_err(RecordError::Unsupported);
    ended?;
    let status = status?;
    Ok(RecordSummary { status, totals: recording.trace.end()? })
}

/// What failed between fork and exec: the program, or the filter.
fn start_error(command: &RecordCommand, error: io::Error) -> RecordError {
    let is_filter = matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::ENOSYS | libc::EBUSY | libc::EFAULT)
    );
    if is_filter {
        return RecordError::Unsupported(error);
    }
    RecordError::Start { program: command.program.to_string_lossy().into_owned(), error }
}

struct Recording<F> {
    trace: RecordedTrace,
    /// Told of the processes that the command has left behind.
    waits: F,
}

impl<F: FnMut(&[LeftProcess])> Recording<F> {
    fn run<W: Write>(
        &mut self,
        listener: &CallListener,
        child: &mut Child,
        writer: &mut TraceWriter<W>,
    ) -> Result<(), RecordError> {
        let id = Pid::from_child(child);
        let pidfd = pidfd_open(id, PidfdFlags::empty()).ok();
        let since = left_behind::start_of(child.id());
        let mut is_reaped = false;
        // When the processes that are left are told, once.
        let mut tell_at = None;
        loop {
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
                // Before Linux 6.11 a process uses the filter until its parent knows of its end.
                is_reaped = child.wait().is_ok();
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
                    // The program goes on while the record is written.
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

/// Most processes of a command end with it, or a moment later.
const TELL_AFTER: Duration = Duration::from_secs(1);
