//! Exclusive lock on an open file, held until its last descriptor is closed.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};
use rustix::io::{Errno, Result as SysResult, retry_on_intr};

/// State of a lock after an attempt to take it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileLock {
    /// This process holds it.
    Held,
    /// Another process holds it.
    Taken,
    /// The file system has no locks, so no program holds one.
    Unsupported,
}

/// Tries to lock a file, without waiting.
///
/// # Errors
///
/// If the file system has locks and grants none (`ENOLCK`, as NFS without its lock service):
/// another machine may use the file.
pub fn exclusively(file: &File) -> SysResult<FileLock> {
    state(retry_on_intr(|| flock(file, FlockOperation::NonBlockingLockExclusive)))
}

fn state(locked: SysResult<()>) -> SysResult<FileLock> {
    match locked {
        Ok(()) => Ok(FileLock::Held),
        Err(Errno::WOULDBLOCK) => Ok(FileLock::Taken),
        Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL) => Ok(FileLock::Unsupported),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_descriptor_holds_it_until_it_is_closed() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("file");
        let first = File::create(&path).expect("it is made");
        let second = File::open(&path).expect("it is there");
        assert_eq!(exclusively(&first), Ok(FileLock::Held));
        assert_eq!(exclusively(&second), Ok(FileLock::Taken));
        drop(first);
        assert_eq!(exclusively(&second), Ok(FileLock::Held));
    }

    /// A lock service that does not answer was taken for a file that no program uses.
    #[test]
    fn a_refused_lock_is_no_missing_one() {
        assert_eq!(state(Err(Errno::OPNOTSUPP)), Ok(FileLock::Unsupported));
        assert_eq!(state(Err(Errno::NOSYS)), Ok(FileLock::Unsupported));
        assert_eq!(state(Err(Errno::NOLCK)), Err(Errno::NOLCK));
        assert_eq!(state(Err(Errno::IO)), Err(Errno::IO));
    }
}
