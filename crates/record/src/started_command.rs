//! Starts a command whose filter is installed between fork and exec. The command inherits no signal
//! mask, descriptor or ignored signal from the recorder.
//!
//! ```text
//!   recorder    fork    attach to it   "t" or "l"                    wait
//!   command     wait for a byte ------->  filter [, listener] , exec ..    or its error
//! ```

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::ptr::null;

use libc::{c_char, pid_t, sock_filter};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

use crate::error::RecordError;
use crate::filter::{self, StopsAt};
use crate::listener::{self, CallListener};

/// Command to be recorded.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RecordCommand {
    /// The program, looked up in PATH as by a shell.
    pub program: OsString,
    /// Arguments of the command.
    pub args: Vec<OsString>,
}

/// A command that waits for its filter, or is running.
#[derive(Debug)]
pub(crate) struct StartedCommand {
    pub(crate) process: u32,
    socket: OwnedFd,
}

/// Forks. The new process waits for [`StartedCommand::go`].
///
/// # Errors
///
/// If no process or socket can be created, or an argument contains a zero byte.
pub(crate) fn start(command: &RecordCommand) -> Result<StartedCommand, RecordError> {
    let words = std::iter::once(&command.program).chain(&command.args);
    let words: Result<Vec<CString>, io::Error> =
        words.map(|word: &OsString| CString::new(word.as_bytes()).map_err(Into::into)).collect();
    let words = words.map_err(|error| start_error(command, error))?;
    let mut arguments: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
    arguments.push(null());
    let programs = [filter::program(StopsAt::Tracer), filter::program(StopsAt::Listener)];
    let stream = SocketType::STREAM;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, stream, SocketFlags::CLOEXEC, None)
        .map_err(|error| start_error(command, error.into()))?;
    // SAFETY: the child makes only calls that are safe in signal handlers, with memory from before
    // the fork or on its stack, allocates nothing, takes no lock, and ends by exec or _exit.
    let process = unsafe { libc::fork() };
    if process == 0 {
        run(ours, &theirs, &arguments, &programs);
    }
    let process = u32::try_from(process).map_err(|_| io::Error::last_os_error());
    let process = process.map_err(|error| start_error(command, error))?;
    Ok(StartedCommand { process, socket: ours })
}

/// Runs the child's side of the fork.
fn run(ours: OwnedFd, socket: &OwnedFd, words: &[*const c_char], of: &[Vec<sock_filter>; 2]) -> ! {
    // Otherwise the end of the recorder would go unnoticed.
    drop(ours);
    let (step, error) = match filtered(socket, of) {
        Ok(()) => {
            // The Rust runtime ignores SIGPIPE.
            // SAFETY: no handler is installed.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
            // SAFETY: the words end with zeroes, and their list with a null pointer.
            unsafe { libc::execvp(words[0], words.as_ptr()) };
            (EXEC, io::Error::last_os_error())
        }
        Err(error) => (FILTER, error),
    };
    let [a, b, c, d] = error.raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
    let _ = send(socket, &[step, a, b, c, d], SendFlags::NOSIGNAL);
    // SAFETY: it ends the process without running the parent's exit handlers.
    unsafe { libc::_exit(127) }
}

/// Waits for the recorder and installs the filter that it chooses.
fn filtered(socket: &OwnedFd, programs: &[Vec<sock_filter>; 2]) -> io::Result<()> {
    let mut byte = [0];
    loop {
        match recv(socket, &mut byte, RecvFlags::empty()) {
            Ok((1, _)) => break,
            // The recorder has ended.
            Ok(_) => return Err(io::ErrorKind::BrokenPipe.into()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let [traced, listened] = programs;
    if byte[0] == TRACED {
        return listener::install(traced, StopsAt::Tracer).map(drop);
    }
    match listener::install(listened, StopsAt::Listener)? {
        Some(listener) => listener::send(socket, &listener),
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

impl StartedCommand {
    /// Lets the command begin with calls that stop there. Returns the listener, if there is one.
    ///
    /// # Errors
    ///
    /// If the filter cannot be installed.
    pub(crate) fn go(&self, stops_at: StopsAt) -> Result<Option<CallListener>, RecordError> {
        let byte = match stops_at {
            StopsAt::Tracer => TRACED,
            StopsAt::Listener => LISTENED,
        };
        let sent = send(&self.socket, &[byte], SendFlags::NOSIGNAL);
        sent.map_err(|error| RecordError::Unsupported(error.into()))?;
        if stops_at == StopsAt::Tracer {
            return Ok(None);
        }
        let mut failure = [0; 5];
        match listener::receive(&self.socket, &mut failure) {
            Ok(Some(listener)) => Ok(Some(listener)),
            Ok(None) => Err(RecordError::Unsupported(errno(failure))),
            Err(error) => Err(RecordError::Unsupported(error)),
        }
    }

    /// Checks that the command has called exec.
    ///
    /// # Errors
    ///
    /// The reason why it could not be started; it has ended.
    pub(crate) fn has_started(&self, command: &RecordCommand) -> Result<(), RecordError> {
        let mut failure = [0; 5];
        match recv(&self.socket, &mut failure, RecvFlags::DONTWAIT) {
            Ok((5, _)) if failure[0] == FILTER => Err(RecordError::Unsupported(errno(failure))),
            Ok((5, _)) => Err(start_error(command, errno(failure))),
            // Exec has closed it.
            _ => Ok(()),
        }
    }

    /// Waits for the end of the process, which must not have been reaped.
    ///
    /// # Errors
    ///
    /// If the kernel returns an error.
    pub(crate) fn wait(&self) -> io::Result<ExitStatus> {
        let mut status = 0;
        loop {
            // SAFETY: the kernel writes one integer.
            if unsafe { libc::waitpid(self.id(), &raw mut status, 0) } >= 0 {
                return Ok(ExitStatus::from_raw(status));
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Kills the process, which must not have been reaped.
    pub(crate) fn kill(&self) {
        // SAFETY: it takes numbers. The process is our child, and its number is not used again
        // before it was waited for.
        unsafe { libc::kill(self.id(), libc::SIGKILL) };
    }

    fn id(&self) -> pid_t {
        pid_t::try_from(self.process).expect("the kernel gave this number")
    }
}

fn errno([_, a, b, c, d]: [u8; 5]) -> io::Error {
    io::Error::from_raw_os_error(i32::from_ne_bytes([a, b, c, d]))
}

fn start_error(command: &RecordCommand, error: io::Error) -> RecordError {
    RecordError::Start { program: command.program.to_string_lossy().into_owned(), error }
}

/// Byte that the recorder sends once it traces the command.
const TRACED: u8 = b't';
const LISTENED: u8 = b'l';

/// The step that failed, before its error.
const FILTER: u8 = b'f';
const EXEC: u8 = b'x';
