//! Why a server cannot serve.
//!
//! In:    what the system said.
//! Out:   one line: what is wrong and what to do.
//! Never: the fault of one client, which is that client's alone.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fmt, io};

/// Why a server cannot serve.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// Another server listens on this socket.
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something that is no socket has this name.
    NoSocket {
        /// The name.
        path: PathBuf,
    },
    /// The socket cannot be made.
    Unix {
        /// The socket.
        path: PathBuf,
        /// What we were doing: a verb, such as "bind".
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The address cannot be listened on.
    Tcp {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The server cannot go on.
    System {
        /// What we were doing: a verb, such as "accept".
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// At the end, what clients wrote did not reach the device.
    Flush {
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The engine's own state was lost: its pages cannot be served any more.
    Lost,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { path } => write!(
                f,
                "{}: another server listens there; stop it, or give another path",
                path.display()
            ),
            Self::NoSocket { path } => write!(
                f,
                "{}: is there, and is no socket; remove it, or give another path",
                path.display()
            ),
            Self::Unix { path, doing, source } => {
                write!(f, "{}: cannot {doing}: {source}", path.display())
            }
            Self::Tcp { addr, source } => {
                write!(f, "{addr}: cannot listen: {source}; give another port")
            }
            Self::System { doing, source } => write!(f, "cannot {doing}: {source}"),
            Self::Flush { source } => write!(
                f,
                "what clients wrote is not all on the device: {source}; check the device (dmesg)"
            ),
            Self::Lost => write!(f, "the cache's state is lost after a panic; start again"),
        }
    }
}

impl Error for ServeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unix { source, .. } | Self::Tcp { source, .. } | Self::System { source, .. } => {
                Some(source)
            }
            Self::Flush { source } => Some(&**source),
            Self::InUse { .. } | Self::NoSocket { .. } | Self::Lost => None,
        }
    }
}
