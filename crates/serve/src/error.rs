//! Errors that stop a server, each printed as one line: the cause and a remedy.
//!
//! A fault of one client ends only the connection of that client.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;
use std::{fmt, io};

use foreread_files::FileError;

/// Error that stops a server.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// The socket cannot be created: a server listens on it, or the path names something else.
    Unix(FileError),
    /// The server cannot listen on the address.
    Tcp {
        /// Address to listen on.
        addr: SocketAddr,
        /// Error from the system.
        source: io::Error,
    },
    /// A system call failed, and the server cannot continue.
    System {
        /// The failed action as a verb, such as "accept".
        doing: &'static str,
        /// Error from the system.
        source: io::Error,
    },
    /// The final flush failed: the device refused some of the data that clients wrote.
    Flush {
        /// The served target.
        target: String,
        /// Bytes that were only in memory; None if unknown.
        bytes: Option<u64>,
        /// Cause of the failure.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The final flush timed out.
    NotFlushed {
        /// The served target.
        target: String,
        /// Bytes that were only in memory; None if unknown.
        bytes: Option<u64>,
        /// Time spent waiting for the flush.
        after: Duration,
    },
    /// The engine's internal state was lost, so it can no longer serve its pages.
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
                        "; the limit of threads is reached: raise it (ulimit -u, TasksMax= of \
                         systemd, the pids limit of a container)"
                    }
                    false => "",
                };
                write!(f, "cannot {doing}: {source}{remedy}")
            }
            Self::Flush { target, bytes, source } => {
                let mut cause: &dyn Error = &**source;
                // The engine's own message advises on a running engine; this one has stopped.
                while let Some(deeper) = cause.source() {
                    cause = deeper;
                }
                write!(f, "{}: {cause}", NotWritten { target, bytes: *bytes })
            }
            Self::NotFlushed { target, bytes, after } => write!(
                f,
                "{}: the device did not complete them within {after:?}; check it (dmesg), or \
                 allow more time with --exit-timeout",
                NotWritten { target, bytes: *bytes }
            ),
            Self::Lost => write!(f, "the cache's state is lost after a panic; start again"),
        }
    }
}

/// Message about data that did not reach the device.
struct NotWritten<'t> {
    target: &'t str,
    bytes: Option<u64>,
}

impl fmt::Display for NotWritten<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { target, bytes } = self;
        match bytes {
            // The device accepted all writes, but failed to flush its own cache.
            Some(0) => write!(f, "{target}: clients' writes may not be durable"),
            Some(bytes) => {
                write!(f, "{target}: {bytes} bytes written by clients did not reach the device")
            }
            None => write!(f, "{target}: not all clients' writes reached the device"),
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
