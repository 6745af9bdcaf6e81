//! A listening Unix socket, and its file.
//!
//! Only its owner can connect, from the first moment. Only the file of a socket without a listener
//! is replaced, and only our own file is removed.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use rustix::event::{Timespec, poll};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, fchmod, flock, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, listen, socket_with};

use crate::FileError;
use crate::entry::{DirectoryName, ExistingFile, FileIdentity, words};

/// The file of a listening socket. Dropping this does not remove the file, because a signal handler
/// may hold it, too.
#[derive(Clone, Debug)]
pub struct SocketFile {
    entry: Arc<DirectoryName>,
    inode: FileIdentity,
}

impl SocketFile {
    /// Removes the file, unless the path names another one by now. Call it before closing the
    /// socket: until then the inode number is not reused.
    pub fn remove(&self) {
        let _ = self.entry.remove(self.inode);
    }
}

/// Listens at `path`, non-blocking, mode 0600. Replaces the file of a socket without a listener.
///
/// # Errors
///
/// If a process listens there, if the path names anything but a socket, or if the system refuses.
pub fn bind(path: &Path, backlog: i32) -> Result<(OwnedFd, SocketFile), FileError> {
    let entry = DirectoryName::new(path)?;
    let _lock = clear(&entry)?;
    let address = SocketAddrUnix::new(path).map_err(|errno| match errno {
        Errno::NAMETOOLONG => FileError::NotOurs {
            path: path.to_owned(),
            what: format!("is too long for a socket, at most {SOCKET_PATH_MAX} bytes"),
            advice: "give a shorter path, such as one relative to the working directory",
        },
        errno => entry.failed("listen", errno.into()),
    })?;
    let listening = || -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // The file gets the socket's own mode, so no other user can ever connect.
        fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&fd, &address)?;
        Ok(fd)
    };
    let fd = match listening() {
        Err(Errno::ADDRINUSE) => return Err(in_use(&entry)),
        done => done.map_err(|errno| entry.failed("listen", errno.into()))?,
    };
    // Only bind() creates this name, and it replaces nothing: the file there is ours.
    let inode = entry.look()?.ok_or_else(|| entry.changed())?.inode();
    let file = SocketFile { entry: Arc::new(entry), inode };
    if let Err(errno) = listen(&fd, backlog) {
        file.remove();
        return Err(file.entry.failed("listen", errno.into()));
    }
    Ok((fd, file))
}

/// Removes the file of a socket without a listener; refuses anything else. Returns the lock under
/// which the new socket is created.
///
/// ```text
///   look: a listener, or no socket: refuse
///   lock the directory | look again: stale: remove | bind, listen | unlock
/// ```
///
/// The lock prevents two races: of two servers that find the same stale socket, the second would
/// remove the new one of the first; and a socket between bind and listen looks stale. If nothing
/// has to be removed, a directory that cannot be locked is accepted.
fn clear(entry: &DirectoryName) -> Result<Option<OwnedFd>, FileError> {
    stale(entry)?;
    let lock = lock(entry);
    let Some(stale) = stale(entry)? else { return Ok(lock.ok()) };
    let lock = lock?;
    let removed = entry.remove(stale.inode());
    removed.map_err(|error| entry.failed("remove the stale socket", error))?;
    Ok(Some(lock))
}

/// Returns the socket without a listener at this path; None if there is no file.
fn stale(entry: &DirectoryName) -> Result<Option<ExistingFile>, FileError> {
    let Some(found) = entry.look()? else { return Ok(None) };
    if found.kind() != FileType::Socket {
        let what = format!("is {}, not a socket", words(found.kind()));
        return Err(entry.not_ours(what));
    }
    match UnixStream::connect(entry.path()) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(entry.failed("connect to it", error))
        }
        // Any other error, such as a full queue, comes from a listener.
        Ok(_) | Err(_) => Err(in_use(entry)),
    }
}

/// Locks the directory. Any process that may read the directory can lock it as well, so this waits
/// only for a bounded time.
fn lock(entry: &DirectoryName) -> Result<OwnedFd, FileError> {
    let failed = |errno: Errno| entry.failed("lock its directory", errno.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(entry.directory(), ".", flags, Mode::empty()).map_err(failed)?;
    for _ in 0..LOCK_TRIES {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                let _ = poll(&mut [], Some(&LOCK_PAUSE));
            }
            locked => return locked.map(|()| directory).map_err(failed),
        }
    }
    Err(FileError::InUse {
        path: entry.path().to_owned(),
        what: "is a stale socket in a directory that another process has locked".to_owned(),
        advice: "remove the socket, or give another path",
    })
}

fn in_use(entry: &DirectoryName) -> FileError {
    FileError::InUse {
        path: entry.path().to_owned(),
        what: "another server listens there".to_owned(),
        advice: "stop it, or give another path",
    }
}

/// Maximum length of a socket's path, in bytes.
pub const SOCKET_PATH_MAX: usize = 107;

/// Two seconds: a server holds the lock for a few system calls.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;

    #[test]
    fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("sock");
        drop(UnixListener::bind(&path).unwrap());
        let (fd, file) = bind(&path, 8).expect("the old one is stale");
        let metadata = fs::metadata(&path).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
        UnixStream::connect(&path).expect("it listens");
        let line = bind(&path, 8).expect_err("it is live").to_string();
        assert!(line.contains("another server listens there"), "{line}");
        file.remove();
        drop(fd);
        assert!(!path.exists());
        // The socket of a logger has another type.
        let _datagram = UnixDatagram::bind(&path).unwrap();
        bind(&path, 8).expect_err("it is live, too");
        assert!(path.exists());
    }

    #[test]
    fn of_servers_that_start_together_one_listens() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("sock");
        for _ in 0..20 {
            drop(UnixListener::bind(&path).unwrap());
            let bound = std::thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|_| scope.spawn(|| bind(&path, 8).ok())).collect();
                all.into_iter().filter_map(|one| one.join().unwrap()).collect::<Vec<_>>()
            });
            assert_eq!(bound.len(), 1);
            UnixStream::connect(&path).expect("the one that listens has the name");
            bound[0].1.remove();
        }
    }

    /// Any user may lock a directory that all may read.
    #[test]
    fn a_directory_that_is_locked_hinders_only_removing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("sock");
        let lock = fs::File::open(directory.path()).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let (fd, file) = bind(&path, 8).expect("nothing is there");
        drop(fd);
        let line = bind(&path, 8).expect_err("it cannot be removed").to_string();
        assert!(line.contains("another process has locked"), "{line}");
        assert!(path.exists());
        file.remove();
    }

    #[test]
    fn whatever_is_no_socket_is_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name| directory.path().join(name);
        fs::write(at("file"), "theirs").unwrap();
        fs::create_dir(at("directory")).unwrap();
        drop(UnixListener::bind(at("stale")).unwrap());
        symlink(at("stale"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        for name in ["file", "directory", "link", "dangling"] {
            let line = bind(&at(name), 8).expect_err(name).to_string();
            assert!(line.contains("not a socket"), "{line}");
            assert!(at(name).symlink_metadata().is_ok(), "{name} was removed");
        }
        assert!(at("stale").exists() && !at("nothing").exists());
        let line = bind(&at(&"x".repeat(120)), 8).expect_err("too long").to_string();
        assert!(line.contains("at most 107 bytes"), "{line}");
    }

    #[test]
    fn what_came_into_its_place_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("sock");
        let (_fd, file) = bind(&path, 8).expect("there is nothing");
        fs::remove_file(&path).unwrap();
        let _theirs = UnixListener::bind(&path).unwrap();
        file.remove();
        UnixStream::connect(&path).expect("theirs still listens");
    }
}
