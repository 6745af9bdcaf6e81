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
use std::time::Instant;

use foreread_core::units::Nanos;
use foreread_trace::{MAX_LENGTH, TraceOp, TraceRecord, TraceWriter};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::error::RecordError;
use crate::listener::{self, CallListener};
use crate::observer::{ObservedRead, ReadObserver};

pub use crate::observer::UnseenReads;

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
    /// Reads of files.
    pub reads: u64,
    /// Bytes of these reads.
    pub bytes: u64,
    /// Files that were read.
    pub files: usize,
    /// What was not seen.
    pub unseen: UnseenReads,
}

/// Runs a command, and writes its reads of files until all its processes have ended. `started` gets
/// the number of its first process.
///
/// # Errors
///
/// If the command cannot be started or watched; or if the trace cannot be written: the program has
/// run to its end all the same.
pub fn record<W: Write>(
    command: &RecordCommand,
    writer: &mut TraceWriter<W>,
    started: impl FnOnce(u32),
) -> Result<RecordSummary, RecordError> {
    let mut started_command = Command::new(&command.program);
    started_command.args(&command.args);
    let socket = listener::prepare(&mut started_command).map_err(RecordError::Unsupported)?;
    let child = started_command.spawn();
    // It holds the child's end of the socket: without it, receiving ends.
    drop(started_command);
    let mut child = child.map_err(|error| start_error(command, error))?;
    started(child.id());
    let mut recording = Recording {
        observer: ReadObserver::default(),
        began: now(),
        first: None,
        reads: 0,
        bytes: 0,
        output_error: None,
    };
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
    if let Some(error) = recording.output_error {
        return Err(RecordError::Output(error));
    }
    Ok(RecordSummary {
        status,
        reads: recording.reads,
        bytes: recording.bytes,
        files: recording.observer.files.all().len(),
        unseen: recording.observer.unseen,
    })
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

struct Recording {
    observer: ReadObserver,
    began: Instant,
    /// The time of the first read, which is 0 in the trace.
    first: Option<u64>,
    reads: u64,
    bytes: u64,
    /// Why the trace cannot be written. The program is not ended for that.
    output_error: Option<io::Error>,
}

impl Recording {
    fn run<W: Write>(
        &mut self,
        listener: &CallListener,
        child: &mut Child,
        writer: &mut TraceWriter<W>,
    ) -> Result<(), RecordError> {
        let id = Pid::from_child(child);
        let pidfd = pidfd_open(id, PidfdFlags::empty()).ok();
        let mut is_reaped = false;
        loop {
            let (calls, end) = (listener.as_fd(), pidfd.as_ref().filter(|_| !is_reaped));
            let mut polled = vec![PollFd::from_borrowed_fd(calls, PollFlags::IN)];
            polled.extend(end.map(|end| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN)));
            match poll(&mut polled, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(RecordError::Unsupported(error.into())),
            }
            let (event, has_ended) =
                (polled[0].revents(), polled.get(1).is_some_and(|end| !end.revents().is_empty()));
            if has_ended {
                // Before Linux 6.11 a process uses the filter until its parent knows of its end.
                is_reaped = child.wait().is_ok();
            }
            if event.contains(PollFlags::IN) {
                let call = listener.receive().map_err(RecordError::Unsupported)?;
                if let Some(call) = call {
                    let read = self.observer.observe(&call);
                    let at = self.began.elapsed().as_nanos();
                    // The program goes on while the record is written.
                    listener.let_go(&call);
                    if let Some(read) = read {
                        let at = u64::try_from(at).unwrap_or(u64::MAX);
                        self.add(at, call.thread, read, writer);
                    }
                }
            } else if event.intersects(PollFlags::HUP | PollFlags::ERR) {
                return Ok(());
            }
        }
    }

    fn add<W: Write>(
        &mut self,
        at_ns: u64,
        thread: u32,
        read: ObservedRead,
        writer: &mut TraceWriter<W>,
    ) {
        if self.output_error.is_none() {
            self.output_error = self.write(at_ns, thread, read, writer).err();
        }
    }

    fn write<W: Write>(
        &mut self,
        at_ns: u64,
        thread: u32,
        read: ObservedRead,
        writer: &mut TraceWriter<W>,
    ) -> io::Result<()> {
        let first = *self.first.get_or_insert(at_ns);
        let ObservedRead { file, mut offset, mut length } = read;
        self.reads += 1;
        self.bytes = self.bytes.saturating_add(length);
        // A larger request is several records.
        while length > 0 {
            let part = length.min(MAX_LENGTH);
            let record = TraceRecord {
                at: Nanos(at_ns.saturating_sub(first)),
                thread,
                file,
                op: TraceOp::Read,
                offset,
                length: part,
                is_mapped: false,
            };
            writer.write(&record, &self.observer.files)?;
            offset = offset.saturating_add(part);
            length -= part;
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "a recording is of real time")]
fn now() -> Instant {
    Instant::now()
}
