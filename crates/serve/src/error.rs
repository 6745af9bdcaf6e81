//! Why a server cannot serve.
//!
//! In:    what the system said.
//! Out:   one line: what is wrong and what to do.
//! Never: the fault of one client, which is that client's alone.

use std::error::Error;
use std::net::SocketAddr;
use std::{fmt, io};

use foreread_files::FileError;

/// Why a server cannot serve.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// The socket cannot be made: a server listens there, or the path names something else.
    Unix(FileError),
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
            Self::Unix(error) => error.fmt(f),
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
            Self::Unix(error) => error.source(),
            Self::Tcp { source, .. } | Self::System { source, .. } => Some(source),
            Self::Flush { source } => Some(&**source),
            Self::Lost => None,
        }
    }
}
