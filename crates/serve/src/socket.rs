//! A connection's socket, of either kind.
//!
//! In:    bytes to send, room for bytes.
//! Out:   how many went, and how many came.
//! Never: a signal for a peer that is gone; an interrupted call as an error.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, recv, send, sendmsg, shutdown, sockopt,
};

#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    pub(crate) peer: Peer,
}

/// The peer of a socket, for the log.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    /// A process of this machine, and its user.
    Unix {
        pid: i32,
        user: u32,
    },
    Tcp(SocketAddr),
    /// The system did not say.
    Unknown,
}

impl Socket {
    pub(crate) fn unix(fd: OwnedFd) -> Self {
        let peer = sockopt::socket_peercred(&fd).map_or(Peer::Unknown, |peer| Peer::Unix {
            pid: peer.pid.as_raw_nonzero().get(),
            user: peer.uid.as_raw(),
        });
        // Twice the usual default holds a reply of 64 KiB. A smaller buffer splits the reply.
        let _ = sockopt::set_socket_send_buffer_size(&fd, SEND_BUFFER);
        Self { fd, peer }
    }

    pub(crate) fn tcp(fd: OwnedFd, addr: SocketAddr) -> Self {
        // Each reply is sent whole, so Nagle's algorithm would only delay it. Keep-alives detect a
        // peer whose machine has gone; by default the system sends the first one after two hours.
        let _ = sockopt::set_tcp_nodelay(&fd, true);
        let _ = sockopt::set_socket_keepalive(&fd, true);
        let _ = sockopt::set_tcp_keepidle(&fd, KEEPALIVE_IDLE);
        let _ = sockopt::set_tcp_keepintvl(&fd, KEEPALIVE_INTERVAL);
        let _ = sockopt::set_tcp_keepcnt(&fd, KEEPALIVE_PROBES);
        Self { fd, peer: Peer::Tcp(addr) }
    }

    /// Waits for bytes; 0 is the end. `WouldBlock` after the time of [`Self::set_idle`].
    pub(crate) fn recv(&self, to: &mut [u8]) -> io::Result<usize> {
        let (_, bytes) = retry_on_intr(|| recv(&self.fd, &mut *to, RecvFlags::empty()))?;
        Ok(bytes)
    }

    /// Receives the bytes that have arrived, without blocking; None if there are none.
    pub(crate) fn try_recv(&self, to: &mut [u8]) -> io::Result<Option<usize>> {
        match retry_on_intr(|| recv(&self.fd, &mut *to, RecvFlags::DONTWAIT)) {
            Ok((_, bytes)) => Ok(Some(bytes)),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends as much as there is room for.
    pub(crate) fn try_send(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let sent = retry_on_intr(|| match parts {
            [part] => send(&self.fd, part, flags),
            parts => sendmsg(&self.fd, parts, &mut SendAncillaryBuffer::default(), flags),
        });
        match sent {
            Err(Errno::AGAIN) => Ok(0),
            sent => Ok(sent?),
        }
    }

    /// Sets the time limit of [`Self::recv`].
    pub(crate) fn set_idle(&self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|timeout| timeout.max(Duration::from_millis(1)));
        Ok(sockopt::set_socket_timeout(&self.fd, sockopt::Timeout::Recv, timeout)?)
    }

    /// Shuts down the receiving side: a thread blocked in a receive sees the end of the stream.
    pub(crate) fn stop_receiving(&self) {
        let _ = shutdown(&self.fd, Shutdown::Read);
    }

    /// Shuts the socket down in both directions.
    pub(crate) fn shut(&self) {
        let _ = shutdown(&self.fd, Shutdown::Both);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix { pid, user } => write!(f, "client {pid} of user {user}"),
            Self::Tcp(addr) => write!(f, "client {addr}"),
            Self::Unknown => write!(f, "a client"),
        }
    }
}

/// Polls descriptors until one has a requested event, and returns the events of each; none after a
/// time-out.
pub(crate) fn wait<const N: usize>(
    wanted: [(BorrowedFd<'_>, PollFlags); N],
    at_most: Option<Duration>,
) -> io::Result<[PollFlags; N]> {
    let mut fds = wanted.map(|(fd, flags)| PollFd::from_borrowed_fd(fd, flags));
    let at_most = at_most.map(|time| Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    });
    match poll(&mut fds, at_most.as_ref()) {
        Ok(_) => Ok(fds.map(|fd| fd.revents())),
        Err(Errno::INTR) => Ok([PollFlags::empty(); N]),
        Err(error) => Err(error.into()),
    }
}

/// The most that every system gives.
const SEND_BUFFER: usize = 208 << 10;

/// A peer that does not answer for three minutes is gone: its connection, and what it holds, are
/// released.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(120);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
const KEEPALIVE_PROBES: u32 = 4;

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_tcp_peer_that_is_gone_is_noticed_within_three_minutes() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let _client = TcpStream::connect(address).expect("it listens");
        let (accepted, peer) = listener.accept().expect("it has connected");
        let socket = Socket::tcp(accepted.into(), peer);
        assert!(sockopt::socket_keepalive(&socket).expect("a socket"));
        let idle = sockopt::tcp_keepidle(&socket).expect("a TCP socket");
        let interval = sockopt::tcp_keepintvl(&socket).expect("a TCP socket");
        let probes = sockopt::tcp_keepcnt(&socket).expect("a TCP socket");
        assert_eq!(idle + interval * probes, Duration::from_secs(180));
    }
}
