//! Seccomp's user notifications: the filter is in the program, the listener in the recorder. Its
//! only answer is to continue the call.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use libc::{seccomp_notif, seccomp_notif_resp, sock_filter, sock_fprog};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::filter::StopsAt;

/// Descriptor that reports system calls.
#[derive(Debug)]
pub(crate) struct CallListener(OwnedFd);

/// A system call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoppedCall {
    id: u64,
    /// Calling thread.
    pub(crate) thread: u32,
    /// `AUDIT_ARCH_*`.
    pub(crate) arch: u32,
    pub(crate) number: i64,
    pub(crate) args: [u64; 6],
}

impl StoppedCall {
    /// Returns a call that stopped at a tracer, not at a listener.
    pub(crate) fn traced(thread: u32, arch: u32, number: i64, args: [u64; 6]) -> Self {
        Self { id: 0, thread, arch, number, args }
    }
}

/// Installs a filter in the calling thread; returns the listener if calls stop at one. Runs between
/// fork and exec: it makes system calls and allocates nothing.
///
/// # Errors
///
/// If the kernel refuses the filter.
pub(crate) fn install(program: &[sock_filter], stops_at: StopsAt) -> io::Result<Option<OwnedFd>> {
    match stops_at {
        StopsAt::Tracer => set_filter(program, 0).map(|_| None),
        StopsAt::Listener => {
            // Without the recorder its reads would fail.
            // SAFETY: this option takes numbers, and touches no memory.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
            // A signal does not interrupt a received read if the kernel supports that (5.19).
            let listener = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
            let patient = listener | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
            let fd = set_filter(program, patient).or_else(|_| set_filter(program, listener))?;
            // SAFETY: the kernel has just opened it for us alone.
            Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) }))
        }
    }
}

/// Installs the filter. A process without privileges must first set `no_new_privs`, which disables
/// setuid programs.
fn set_filter(program: &[sock_filter], flags: libc::c_ulong) -> io::Result<i32> {
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let fprog = sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let set = || {
        // SAFETY: `fprog` has the address and the length of `program`, which the kernel copies; it
        // writes nothing.
        let result = unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const fprog)
        };
        let result = i32::try_from(result).ok().filter(|result| *result >= 0);
        result.ok_or_else(io::Error::last_os_error)
    };
    match set() {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            // SAFETY: this option takes numbers, and touches no memory.
            let is_set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0;
            if is_set { set() } else { Err(io::Error::last_os_error()) }
        }
        result => result,
    }
}

/// Sends a listener to the recorder. Runs between fork and exec: it allocates nothing.
pub(crate) fn send(socket: &OwnedFd, listener: &OwnedFd) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [listener.as_fd()];
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(socket, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a listener, or the bytes that a command sends instead if it cannot be started.
///
/// # Errors
///
/// If neither arrives.
pub(crate) fn receive(socket: &OwnedFd, bytes: &mut [u8]) -> io::Result<Option<CallListener>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(socket, &mut parts, &mut ancillary, flags)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message
            && let Some(listener) = descriptors.next()
        {
            let listener = CallListener(listener);
            listener.wake_at_once();
            return Ok(Some(listener));
        }
    }
    if received.bytes == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(None) }
}

impl CallListener {
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Hands over the processor with each answer, where the kernel supports that (6.6): it halves
    /// the cost.
    fn wake_at_once(&self) {
        const SYNC_WAKE_UP: u64 = 1;
        // SAFETY: the flags are the third argument itself, not an address.
        unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP)
        };
    }

    /// Returns a stopped call; None if its thread has been killed.
    ///
    /// # Errors
    ///
    /// If the kernel returns an error.
    pub(crate) fn receive(&self) -> io::Result<Option<StoppedCall>> {
        // SAFETY: the structure consists of integers, for which zero is valid; the kernel requires
        // zeroes.
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
        let (arch, number) = (data.arch, data.nr.into());
        Ok(Some(StoppedCall { id, thread, arch, number, args: data.args }))
    }

    /// Resumes a call.
    pub(crate) fn let_go(&self, call: &StoppedCall) {
        let flags = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap_or(1);
        let answer = seccomp_notif_resp { id: call.id, val: 0, error: 0, flags };
        // An error means that the thread has been killed.
        // SAFETY: the kernel reads one `seccomp_notif_resp` from this address.
        unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer)
        };
    }
}
