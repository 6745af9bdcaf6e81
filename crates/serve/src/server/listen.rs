//! Listening sockets of a server.
//!
//! In:    a path, an address.
//! Out:   sockets.
//! Never: a Unix socket that other users could connect to, even briefly; the removal of a file that
//!        is not ours.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use foreread_files::SocketFile;
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use crate::ServeError;
use crate::open_connections::ClientKind;
use crate::socket::Socket;

#[derive(Debug)]
pub(super) enum Listener {
    Unix(NamedSocket),
    Tcp(TcpListener),
}

impl Listener {
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(named) => named.fd.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }

    /// Accepts a client; None if it has already disconnected.
    pub(super) fn accept(&self) -> io::Result<Option<Socket>> {
        let accepted = match self {
            Self::Unix(named) => accept_with(&named.fd, SocketFlags::CLOEXEC).map(Socket::unix),
            Self::Tcp(listener) => match listener.accept() {
                Ok((stream, addr)) => {
                    stream.set_nonblocking(false)?;
                    Ok(Socket::tcp(stream.into(), addr))
                }
                Err(error) => Err(Errno::from_io_error(&error).ok_or(error)?),
            },
        };
        match accepted {
            Ok(socket) => Ok(Some(socket)),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the kind of its clients.
    pub(super) fn client_kind(&self) -> ClientKind {
        match self {
            Self::Unix(_) => ClientKind::Local,
            Self::Tcp(_) => ClientKind::Network,
        }
    }
}

/// A Unix socket. Its file is removed with it, unless that is another one by then.
#[derive(Debug)]
pub(super) struct NamedSocket {
    fd: OwnedFd,
    file: SocketFile,
}

impl NamedSocket {
    /// Listens there, for its owner only; the file of a socket without a listener is replaced.
    pub(super) fn bind(path: &Path) -> Result<Self, ServeError> {
        let (fd, file) = foreread_files::bind(path, BACKLOG).map_err(ServeError::Unix)?;
        Ok(Self { fd, file })
    }

    pub(super) fn file(&self) -> SocketFile {
        self.file.clone()
    }
}

impl Drop for NamedSocket {
    fn drop(&mut self) {
        self.file.remove();
    }
}

/// Connections that may queue before they are accepted.
const BACKLOG: i32 = 1024;
