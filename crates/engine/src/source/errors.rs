//! The error text of a failed transfer. The core stores error numbers only; this keeps the last
//! text of each source for the reader.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The last error that the source reported.
#[derive(Debug, Default)]
pub(crate) struct LastError(Mutex<Option<(i32, io::ErrorKind, String)>>);

impl LastError {
    /// Keeps the text of an error, and returns its number: the system's, or EIO.
    pub(crate) fn keep(&self, error: &io::Error) -> i32 {
        let errno = error.raw_os_error().filter(|errno| *errno > 0).unwrap_or(libc::EIO);
        *self.lock() = Some((errno, error.kind(), error.to_string()));
        errno
    }

    /// As [`Self::keep`], for an error that affects every part of the request.
    pub(crate) fn keep_of_all(&self, error: &io::Error) -> i32 {
        *self.lock() = Some((libc::ESTALE, error.kind(), error.to_string()));
        libc::ESTALE
    }

    /// Returns the error of this number, with the text of the last error if its number matches.
    pub(crate) fn of(&self, errno: i32) -> io::Error {
        match &*self.lock() {
            Some((last, kind, text)) if *last == errno => io::Error::new(*kind, text.clone()),
            _ => io::Error::from_raw_os_error(errno),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(i32, io::ErrorKind, String)>> {
        // No code panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
