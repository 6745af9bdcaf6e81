//! Why a program was not recorded.
//!
//! In:    errors of the system.
//! Out:   one line: what failed, on what, why.
//! Never: an error of the recorded program: its exit code says that.

use std::fmt;
use std::io;

/// Why a program was not recorded.
#[derive(Debug)]
pub enum RecordError {
    /// The program could not be started.
    Start {
        /// Its name.
        program: String,
        /// Why.
        error: io::Error,
    },
    /// The kernel does not let its reads be seen.
    Unsupported(io::Error),
    /// A process that runs cannot be attached to.
    Attach {
        /// Its number.
        process: u32,
        /// Why.
        error: io::Error,
    },
    /// There is nothing in a process that could be attached to.
    NoProgram {
        /// Its number.
        process: u32,
        /// What it is.
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
                "cannot watch the reads of a program here: {error}; recording needs seccomp's \
                 filters, and ptrace or their user notifications (Linux 5.5)"
            ),
            Self::Attach { process, error } if error.kind() == io::ErrorKind::NotFound => {
                write!(f, "there is no process {process}")
            }
            Self::Attach { process, error } => write!(
                f,
                "cannot attach to process {process}: {error}; run as its user or as root \
                 (kernel.yama.ptrace_scope), and while no debugger is attached to it"
            ),
            Self::NoProgram { process, what } => {
                write!(f, "process {process} {what}: there is nothing to record")
            }
            Self::Output(error) => write!(f, "cannot write the trace: {error}"),
        }
    }
}

impl std::error::Error for RecordError {}
