//! Errors that prevent a recording, each printed as one line: the action, its object and the cause.
//!
//! A failure of the recorded program is no error here; its exit code reports it.

use std::fmt;
use std::io;

/// Error that prevented a recording.
#[derive(Debug)]
pub enum RecordError {
    /// The program could not be started.
    Start {
        /// Name of the program.
        program: String,
        /// Cause.
        error: io::Error,
    },
    /// The kernel does not let the tracer see the program's reads.
    Unsupported(io::Error),
    /// `/proc`, which names the files behind descriptors, is not there.
    NoProc,
    /// The tracer cannot attach to a running process.
    Attach {
        /// Process ID.
        process: u32,
        /// Cause.
        error: io::Error,
    },
    /// The process has no program to attach to.
    NoProgram {
        /// Process ID.
        process: u32,
        /// Kind of process.
        what: &'static str,
    },
    /// The trace could not be written.
    Output(io::Error),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { program, error } => write!(f, "cannot start {program}: {error}"),
            Self::Unsupported(error) => write!(
                f,
                "cannot observe the reads of a program: {error}; recording needs seccomp filters, \
                 and ptrace or seccomp user notifications (Linux 5.5)"
            ),
            Self::NoProc => f.write_str(
                "cannot identify the files of a program: /proc is not mounted; mount it: mount -t \
                 proc proc /proc",
            ),
            Self::Attach { process, error } if error.kind() == io::ErrorKind::NotFound => {
                write!(f, "no process {process}")
            }
            Self::Attach { process, error } => write!(
                f,
                "cannot attach to process {process}: {error}; run as its user or as root \
                 (kernel.yama.ptrace_scope), and detach other debuggers"
            ),
            Self::NoProgram { process, what } => {
                write!(f, "process {process} {what}: nothing to record")
            }
            Self::Output(error) => write!(f, "cannot write the trace: {error}"),
        }
    }
}

impl std::error::Error for RecordError {}
