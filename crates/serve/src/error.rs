//! Why a server cannot serve.
//!
//! In:    what the system said.
//! Out:   one line: what is wrong and what to do.
//! Never: the fault of one client, which is that client's alone.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
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
    /// At the end, what clients wrote did not reach the device: it refused some.
    Flush {
        /// What is served.
        target: String,
        /// How much was in memory only; None if that is not known.
        bytes: Option<u64>,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The same: the device did not take it in time.
    NotFlushed {
        /// What is served.
        target: String,
        /// How much was in memory only; None if that is not known.
        bytes: Option<u64>,
        /// How long the flush was waited for.
        after: Duration,
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
            Self::System { doing, source } => {
                let remedy = match source.kind() == io::ErrorKind::WouldBlock {
                    true => {
                        "; a limit of threads is reached: raise it (ulimit -u, TasksMax= of systemd, the \
                           pids limit of a container)"
                    }
                    false => "",
                };
                write!(f, "cannot {doing}: {source}{remedy}")
            }
            Self::Flush { target, bytes, source } => {
                let mut cause: &dyn Error = &**source;
                // The engine's own words say what to do while it runs, which it does not any more.
                while let Some(deeper) = cause.source() {
                    cause = deeper;
                }
                write!(f, "{}: {cause}", NotWritten { target, bytes: *bytes })
            }
            Self::NotFlushed { target, bytes, after } => write!(
                f,
                "{}: it has not taken them within {after:?}; check it (dmesg), or allow it more time \
                 with --exit-timeout",
                NotWritten { target, bytes: *bytes }
            ),
            Self::Lost => write!(f, "the cache's state is lost after a panic; start again"),
        }
    }
}

/// What is not on the device.
struct NotWritten<'t> {
    target: &'t str,
    bytes: Option<u64>,
}

impl fmt::Display for NotWritten<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, bytes } = self;
        match bytes {
            // The device took all, and failed to flush its own cache.
            Some(0) => write!(f, "{target}: what clients wrote may not be durable"),
            Some(bytes) => {
                write!(f, "{target}: {bytes} bytes that clients wrote did not reach the device")
            }
            None => write!(f, "{target}: what clients wrote did not all reach the device"),
        }
    }
}

impl Error for ServeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unix(error) => error.source(),
            Self::Tcp { source, .. } | Self::System { source, .. } => Some(source),
            Self::Flush { source, .. } => Some(&**source),
            Self::NotFlushed { .. } | Self::Lost => None,
        }
    }
}
