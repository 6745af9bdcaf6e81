//! Seccomp's user notifications: the filter in the program, the listener here.
//!
//! In:    a command that is not started yet.
//! Out:   its stopped system calls, one at a time; an answer lets each go on.
//! Never: a call that stays stopped while the listener is open; an answer other than "go on".

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use libc::{seccomp_notif, seccomp_notif_resp, sock_filter, sock_fprog};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use crate::filter;

/// The descriptor that system calls are reported by.
#[derive(Debug)]
pub(crate) struct CallListener(OwnedFd);

/// A system call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoppedCall {
    id: u64,
    /// The thread.
    pub(crate) thread: u32,
    pub(crate) number: i64,
    pub(crate) args: [u64; 6],
}

impl StoppedCall {
    /// A call that a tracer has stopped, and no listener.
    pub(crate) fn traced(thread: u32, number: i64, args: [u64; 6]) -> Self {
        Self { id: 0, thread, number, args }
    }
}

/// The socket that the listener arrives at.
#[derive(Debug)]
pub(crate) struct ListenerSocket(OwnedFd);

/// Puts the filter into a command: it is installed between fork and exec.
///
/// # Errors
///
/// If there is no socket pair.
pub(crate) fn prepare(command: &mut Command) -> io::Result<ListenerSocket> {
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    let program = filter::program();
    let install = move || {
        let listener = install(&program)?;
        send(&theirs, listener.as_fd())
    };
    // SAFETY: the closure runs in the child of a fork, where only calls are allowed that are safe
    // in signal handlers. It makes system calls (prctl, seccomp, sendmsg, close) with memory that
    // was allocated before the fork or is on its stack; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(install) };
    Ok(ListenerSocket(ours))
}

/// Installs the filter in the calling thread.
fn install(program: &[sock_filter]) -> io::Result<OwnedFd> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let fprog = sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: these options take numbers, and touch no memory.
    let is_set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0;
    if !is_set {
        return Err(io::Error::last_os_error());
    }
    // Without the recorder its reads would fail. SAFETY: as above.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    // A read that is looked at is not interrupted by signals, where the kernel can (5.19).
    let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let flags = [listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, listener];
    let mut error = io::Error::from(io::ErrorKind::Unsupported);
    for flags in flags {
        // SAFETY: `fprog` has the address and the length of `program`, which the kernel copies; it
        // writes nothing.
        let fd = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const fprog)
        };
        if let Ok(fd) = i32::try_from(fd)
            && fd >= 0
        {
            // SAFETY: the kernel has just opened it for us alone.
            return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        error = io::Error::last_os_error();
    }
    Err(error)
}

fn send(socket: &OwnedFd, listener: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

impl ListenerSocket {
    /// Receives the listener; the command has been started.
    pub(crate) fn receive(self) -> io::Result<CallListener> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut parts = [IoSliceMut::new(&mut byte)];
        recvmsg(&self.0, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
                && let Some(listener) = descriptors.next()
            {
                let listener = CallListener(listener);
                listener.wake_at_once();
                return Ok(listener);
            }
        }
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

impl CallListener {
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Hands the processor over with each answer, where the kernel can (6.6): it halves the cost.
    fn wake_at_once(&self) {
        const SYNC_WAKE_UP: u64 = 1;
        // SAFETY: the flags are the third argument itself, not an address.
        unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP)
        };
    }

    /// Returns a stopped call; None if its thread was killed meanwhile.
    ///
    /// # Errors
    ///
    /// Those of the kernel.
    pub(crate) fn receive(&self) -> io::Result<Option<StoppedCall>> {
        // SAFETY: it consists of integers, for which zero is a value; the kernel asks for zeroes.
        let mut call: seccomp_notif = unsafe { zeroed() };
        // SAFETY: the kernel writes one `seccomp_notif` to this address.
        let received = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut call)
        };
        if received != 0 {
            let error = io::Error::last_os_error();
            let is_gone = error.raw_os_error() == Some(libc::ENOENT);
            let is_signal = error.kind() == io::ErrorKind::Interrupted;
            return if is_gone || is_signal { Ok(None) } else { Err(error) };
        }
        let (id, thread, data) = (call.id, call.pid, call.data);
        Ok(Some(StoppedCall { id, thread, number: data.nr.into(), args: data.args }))
    }

    /// Lets a call go on.
    pub(crate) fn let_go(&self, call: &StoppedCall) {
        let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1);
        let answer = seccomp_notif_resp { id: call.id, val: 0, error: 0, flags };
        // An error means that the thread was killed meanwhile.
        // SAFETY: the kernel reads one `seccomp_notif_resp` from this address.
        unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer)
        };
    }
}
