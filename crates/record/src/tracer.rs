//! ptrace: stops threads at all system calls, or at the calls that a filter selects.
//!
//! When this process ends, even by SIGKILL, no thread stays stopped: one that it attached to
//! continues untraced, and one with a filter is killed, because its reads would fail.
//!
//! One thread must make all calls, because the kernel regards that thread as the tracer.

use std::ffi::c_void;
use std::io;
use std::mem::zeroed;
use std::ptr::{null_mut, without_provenance_mut};
use std::time::Duration;

use libc::{c_int, c_uint, c_ulong, pid_t, sigset_t};

use crate::filter::OF_THIS_FILTER;
use crate::listener::StoppedCall;

/// Reason of a stop.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ThreadStop {
    /// Not stopped: the thread has ended, with this status of `waitpid`.
    Ended(c_int),
    /// At the entry or exit of a system call, or at one that the filter selects.
    Call,
    /// Before delivery of this signal.
    Signal(c_int),
    /// Attached, interrupted, continued, or newly created.
    Attached,
    /// Stopped with its process, as by Ctrl-Z.
    Group,
    /// Has started a thread or a process, returned by [`event_thread`].
    Begun,
    /// The process has called exec. [`event_thread`] returns the old number of the calling thread,
    /// which now has the number of the process.
    Exec,
}

/// Event that ended a wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum WakeUp {
    /// A thread may have stopped, or the time is over.
    Look,
    /// The user ends the recording.
    Stop,
}

/// System calls that stop a thread.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TracedCalls {
    /// Every call, at its entry and exit.
    All,
    /// The calls that the filter sends to the tracer.
    Filtered,
}

/// Attaches to a running thread without stopping it; its new threads and processes are attached,
/// too.
pub(crate) fn seize(thread: u32, calls: TracedCalls) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACESYSGOOD
        | libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC
        | match calls {
            TracedCalls::All => 0,
            TracedCalls::Filtered => libc::PTRACE_O_TRACESECCOMP | libc::PTRACE_O_EXITKILL,
        };
    let options = usize::try_from(options).expect("options are bits");
    request(libc::PTRACE_SEIZE, thread, without_provenance_mut(options))
}

/// Stops a running thread.
pub(crate) fn interrupt(thread: u32) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT, thread, null_mut())
}

/// Resumes a thread until its next such call, with a signal if it is not 0.
pub(crate) fn go_on(thread: u32, signal: c_int, calls: TracedCalls) -> io::Result<()> {
    let to = match calls {
        TracedCalls::All => libc::PTRACE_SYSCALL,
        TracedCalls::Filtered => libc::PTRACE_CONT,
    };
    request(to, thread, signal_argument(signal))
}

/// Leaves a thread stopped, as its process is.
pub(crate) fn listen(thread: u32) -> io::Result<()> {
    request(libc::PTRACE_LISTEN, thread, null_mut())
}

/// Detaches from a stopped thread, with a signal if it is not 0.
pub(crate) fn detach(thread: u32, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_DETACH, thread, signal_argument(signal))
}

fn signal_argument(signal: c_int) -> *mut c_void {
    without_provenance_mut(usize::try_from(signal).unwrap_or(0))
}

fn request(request: c_uint, thread: u32, data: *mut c_void) -> io::Result<()> {
    let thread = pid_t::try_from(thread).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: these requests take numbers in place of addresses: nothing of this process is read
    // or written.
    let result = unsafe { libc::ptrace(request, thread, null_mut::<c_void>(), data) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A system call that a thread is about to make.
#[derive(Debug)]
pub(crate) struct EnteredCall {
    pub(crate) call: StoppedCall,
    /// True if a filter of the program sends the call to a tracer. Untraced, the call would fail.
    pub(crate) is_refused: bool,
}

/// Returns the system call that a thread is about to make; None if it is at the exit of one.
pub(crate) fn entered_call(thread: u32) -> Option<EnteredCall> {
    let mut info = CallInfo::default();
    let size = size_of::<CallInfo>();
    let id = pid_t::try_from(thread).ok()?;
    // SAFETY: the kernel writes at most `size` bytes, which `info` has.
    let written = unsafe {
        libc::ptrace(
            GET_SYSCALL_INFO,
            id,
            without_provenance_mut::<c_void>(size),
            (&raw mut info).cast::<c_void>(),
        )
    };
    let is_entry = written > 0 && matches!(info.op, SYSCALL_ENTRY | SYSCALL_FILTERED);
    let number = info.number.cast_signed();
    let is_refused = info.op == SYSCALL_FILTERED && info.filter_data != OF_THIS_FILTER;
    let call = || StoppedCall::traced(thread, info.arch, number, info.args);
    is_entry.then(|| EnteredCall { call: call(), is_refused })
}

/// Returns the other thread of a stop, for [`ThreadStop::Begun`] and [`ThreadStop::Exec`]; None if
/// the stopped thread has been killed.
pub(crate) fn event_thread(thread: u32) -> Option<u32> {
    let id = pid_t::try_from(thread).ok()?;
    let mut message: c_ulong = 0;
    // SAFETY: the kernel writes one `unsigned long`, which `message` is.
    let result = unsafe {
        libc::ptrace(
            libc::PTRACE_GETEVENTMSG,
            id,
            null_mut::<c_void>(),
            (&raw mut message).cast::<c_void>(),
        )
    };
    (result == 0).then(|| u32::try_from(message).ok())?
}

/// Returns the next thread that has stopped or ended, without waiting.
///
/// # Errors
///
/// If no thread is left to wait for (`ECHILD`).
pub(crate) fn next_stop() -> io::Result<Option<(u32, ThreadStop)>> {
    wait(libc::WNOHANG)
}

/// Waits for the next thread that has stopped or ended; None if a signal arrived.
///
/// # Errors
///
/// If no thread is left to wait for (`ECHILD`).
pub(crate) fn wait_for_stop() -> io::Result<Option<(u32, ThreadStop)>> {
    wait(0)
}

fn wait(flags: c_int) -> io::Result<Option<(u32, ThreadStop)>> {
    let mut status = 0;
    // SAFETY: the kernel writes one integer.
    let id = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | flags) };
    match u32::try_from(id) {
        Ok(0) => Ok(None),
        Ok(thread) => Ok(Some((thread, stop_of(status)))),
        Err(_) => {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted { Ok(None) } else { Err(error) }
        }
    }
}

fn stop_of(status: c_int) -> ThreadStop {
    if !libc::WIFSTOPPED(status) {
        return ThreadStop::Ended(status);
    }
    let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
    if event == EVENT_STOP {
        let is_group =
            matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU);
        return if is_group { ThreadStop::Group } else { ThreadStop::Attached };
    }
    match signal {
        _ if event == libc::PTRACE_EVENT_EXEC => ThreadStop::Exec,
        _ if event == libc::PTRACE_EVENT_SECCOMP => ThreadStop::Call,
        // From clone, fork and vfork; no other events are requested.
        _ if event != 0 => ThreadStop::Begun,
        signal if signal == libc::SIGTRAP | CALL_BIT => ThreadStop::Call,
        signal => ThreadStop::Signal(signal),
    }
}

/// Blocks SIGCHLD and the user's signals while it lives, so that they can be waited for.
#[derive(Debug)]
pub(crate) struct BlockedSignals {
    blocked: sigset_t,
    before: sigset_t,
}

impl BlockedSignals {
    /// Blocks SIGCHLD and these signals in this thread and in threads that it starts.
    pub(crate) fn new(of_user: &[c_int]) -> io::Result<Self> {
        let blocked = set_of(&[&[libc::SIGCHLD], of_user].concat());
        // The kernel sends no SIGCHLD for a stop if the signal is ignored, as by `trap '' CHLD`.
        // SAFETY: no handler is installed.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let mut before = set_of(&[]);
        // SAFETY: the kernel reads one set and writes the other.
        let result =
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before) };
        if result != 0 {
            return Err(io::Error::from_raw_os_error(result));
        }
        Ok(Self { blocked, before })
    }

    /// Waits for one of the signals.
    pub(crate) fn wait(&self, at_most: Duration) -> WakeUp {
        let seconds = libc::time_t::try_from(at_most.as_secs()).unwrap_or(libc::time_t::MAX);
        let time = libc::timespec { tv_sec: seconds, tv_nsec: at_most.subsec_nanos().into() };
        // SAFETY: the kernel reads a set and a time; it has no place to write to.
        let signal =
            unsafe { libc::sigtimedwait(&raw const self.blocked, null_mut(), &raw const time) };
        if signal > 0 && signal != libc::SIGCHLD { WakeUp::Stop } else { WakeUp::Look }
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        // SAFETY: the kernel reads one set.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, null_mut()) };
    }
}

fn set_of(signals: &[c_int]) -> sigset_t {
    // SAFETY: it consists of integers, for which zero is a value.
    let mut set: sigset_t = unsafe { zeroed() };
    // SAFETY: it writes the set, and cannot fail.
    unsafe { libc::sigemptyset(&raw mut set) };
    for signal in signals {
        // SAFETY: the set was initialised above, and the signals are valid.
        unsafe { libc::sigaddset(&raw mut set, *signal) };
    }
    set
}

/// The beginning of `struct ptrace_syscall_info`, as it is at the entry of a call.
#[repr(C)]
#[derive(Debug, Default)]
struct CallInfo {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    instruction_pointer: u64,
    stack_pointer: u64,
    number: u64,
    args: [u64; 6],
    filter_data: u32,
    pad_behind: u32,
}

/// Linux 5.3.
const GET_SYSCALL_INFO: c_uint = 0x420e;
const SYSCALL_ENTRY: u8 = 1;
const SYSCALL_FILTERED: u8 = 3;

/// `PTRACE_EVENT_STOP`, which has no name in all libraries.
const EVENT_STOP: c_int = 128;

/// `PTRACE_O_TRACESYSGOOD`: distinguishes stops at calls from SIGTRAP.
const CALL_BIT: c_int = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    /// Statuses as the kernel makes them: the event, the signal, 0x7f for a stop.
    #[test]
    fn stops_are_told_by_their_status() {
        let stopped = |event: c_int, signal: c_int| stop_of(event << 16 | signal << 8 | 0x7f);
        assert_eq!(stop_of(0), ThreadStop::Ended(0));
        assert_eq!(stop_of(libc::SIGKILL), ThreadStop::Ended(libc::SIGKILL));
        assert_eq!(stopped(0, libc::SIGTRAP | 0x80), ThreadStop::Call);
        assert_eq!(stopped(0, libc::SIGTRAP), ThreadStop::Signal(libc::SIGTRAP));
        assert_eq!(stopped(0, libc::SIGUSR1), ThreadStop::Signal(libc::SIGUSR1));
        assert_eq!(stopped(128, libc::SIGTRAP), ThreadStop::Attached);
        assert_eq!(stopped(128, libc::SIGTSTP), ThreadStop::Group);
        for event in [libc::PTRACE_EVENT_CLONE, libc::PTRACE_EVENT_FORK, libc::PTRACE_EVENT_VFORK] {
            assert_eq!(stopped(event, libc::SIGTRAP), ThreadStop::Begun);
        }
        assert_eq!(stopped(libc::PTRACE_EVENT_EXEC, libc::SIGTRAP), ThreadStop::Exec);
        assert_eq!(stopped(libc::PTRACE_EVENT_SECCOMP, libc::SIGTRAP), ThreadStop::Call);
    }
}
