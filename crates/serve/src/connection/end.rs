//! Why a connection ended, and whether that is worth a line in the log.
//!
//! In:    what the client or the device did.
//! Out:   one line for people.
//! Never: a line for a client that only left.

use std::io;

use crate::nbd::ProtocolError;

/// Why a connection ended before its client said so.
#[derive(Debug)]
pub(crate) enum ConnectionEnd {
    /// The client broke the protocol.
    Protocol(ProtocolError),
    /// It left in the middle of something.
    Cut,
    /// It did not say in time what it wants.
    TooSlow,
    /// As many clients as may be are served.
    Full,
    /// It was silent for too long.
    Idle,
    /// A long reply had begun when its device failed: there is no other way to say so.
    Broken,
    /// It is gone, or the system failed.
    Io(io::Error),
}

impl ConnectionEnd {
    /// Whether the client is to blame, which is worth a line.
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
            Self::Cut => write!(f, "it left in the middle of a request"),
            Self::TooSlow => write!(f, "its handshake took too long"),
            Self::Full => write!(f, "too many connections are open"),
            Self::Idle => write!(f, "it was silent for too long"),
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
