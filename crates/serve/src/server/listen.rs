//! Where clients come in.
//!
//! In:    a path, an address.
//! Out:   sockets.
//! Never: a moment in which others may connect to a Unix socket; a file removed that is not ours.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};

use crate::ServeError;
use crate::socket::Socket;

#[derive(Debug)]
pub(super) enum Listener {
    Unix(Named),
    Tcp(TcpListener),
}

impl Listener {
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(named) => named.fd.as_fd(),
            Self::Tcp(listener) => listener.as_fd(),
        }
    }

    /// A client that has come; None if it is gone already.
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

    /// Whether its clients are processes of the same user, or root's.
    pub(super) fn is_local(&self) -> bool {
        matches!(self, Self::Unix(..))
    }
}

/// A Unix socket. Its file is removed with it, unless that is another one by then.
#[derive(Debug)]
pub(super) struct Named {
    fd: OwnedFd,
    path: PathBuf,
    /// Device and inode.
    is: (u64, u64),
}

impl Named {
    /// Listens there.
    ///
    /// ```text
    ///   lock the folder | whose is the name? | bind, owner only | unlock
    ///                      nobody's, stale: remove     live: refuse
    /// ```
    ///
    /// Why the lock: of two servers that find the same stale socket, the second would remove what
    /// the first has just made.
    pub(super) fn bind(path: &Path) -> Result<Self, ServeError> {
        let failed = |doing| {
            let path = path.to_path_buf();
            move |source| ServeError::Unix { path, doing, source }
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = fs::File::open(parent.unwrap_or(Path::new(".")));
        let folder = folder.map_err(failed("open its folder"))?;
        flock(&folder, FlockOperation::LockExclusive)
            .map_err(|error| failed("lock its folder")(error.into()))?;
        clear(path)?;
        let listening = || -> rustix::io::Result<OwnedFd> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
            // A socket's name is made with the socket's own mode: nobody else can connect, ever.
            fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
            bind(&fd, &SocketAddrUnix::new(path)?)?;
            listen(&fd, BACKLOG)?;
            Ok(fd)
        };
        let fd = listening().map_err(|error| failed("listen")(error.into()))?;
        let is = fs::symlink_metadata(path).map_err(failed("look at it"))?;
        Ok(Self { fd, path: path.to_path_buf(), is: (is.dev(), is.ino()) })
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|is| (is.dev(), is.ino()) == self.is) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes room for a socket of that name.
fn clear(path: &Path) -> Result<(), ServeError> {
    let its = |doing| {
        let path = path.to_path_buf();
        move |source| ServeError::Unix { path, doing, source }
    };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(its("look at it")(error)),
        Ok(is) if !is.file_type().is_socket() => {
            return Err(ServeError::NoSocket { path: path.to_path_buf() });
        }
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(its("remove what a dead server left"))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(its("connect to it")(error))
        }
        // Its queue may be full: somebody is there all the same.
        Ok(_) | Err(_) => Err(ServeError::InUse { path: path.to_path_buf() }),
    }
}

/// As many as may come at once.
const BACKLOG: i32 = 1024;
