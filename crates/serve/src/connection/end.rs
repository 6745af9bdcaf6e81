//! Reasons for the end of a connection, as lines of the log. A client that just disconnects gets
//! none.

use std::io;

use crate::nbd::ProtocolError;

/// Reason for ending a connection before the client disconnects.
#[derive(Debug)]
pub(crate) enum ConnectionEnd {
    /// The client broke the protocol.
    Protocol(ProtocolError),
    /// The client left in the middle of a request.
    Cut,
    /// The handshake exceeded its time limit.
    TooSlow,
    /// The limit of served connections is reached.
    Full,
    /// The idle time limit was exceeded.
    Idle,
    /// The device failed in the middle of a simple reply, which has no other way to report it.
    Broken,
    /// The client is gone, or a system call failed.
    Io(io::Error),
}

impl ConnectionEnd {
    /// Returns true if the log gets a line: the client misbehaved, or a system call failed.
    pub(crate) fn is_worth_a_line(&self) -> bool {
        match self {
            Self::Protocol(_)
            | Self::Cut
            | Self::TooSlow
            | Self::Full
            | Self::Idle
            | Self::Broken => true,
            Self::Io(error) => {
                !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
            }
        }
    }
}

impl std::fmt::Display for ConnectionEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Protocol(bad) => bad.fmt(f),
            Self::Cut => write!(f, "it disconnected in the middle of a request"),
            Self::TooSlow => write!(f, "its handshake took too long"),
            Self::Full => write!(f, "too many connections are open"),
            Self::Idle => write!(f, "it sent nothing for too long"),
            Self::Broken => write!(f, "the device failed in the middle of a long reply"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl From<ProtocolError> for ConnectionEnd {
    fn from(bad: ProtocolError) -> Self {
        Self::Protocol(bad)
    }
}

impl From<io::Error> for ConnectionEnd {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
