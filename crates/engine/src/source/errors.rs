//! What a source said when a transfer failed.
//!
//! In:    errors of a source, with text.
//! Out:   error numbers, as the core has them; the text again, for the reader.
//! Never: more than one text for a source.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The error that a source reported last.
#[derive(Debug, Default)]
pub(crate) struct LastError(Mutex<Option<(i32, io::ErrorKind, String)>>);

impl LastError {
    /// Keeps the text of an error, and returns its number: the system's, or EIO.
    pub(crate) fn keep(&self, error: &io::Error) -> i32 {
        let errno = error.raw_os_error().filter(|errno| *errno > 0).unwrap_or(libc::EIO);
        *self.lock() = Some((errno, error.kind(), error.to_string()));
        errno
    }

    /// The same of an error that each part of the request would have as well.
    pub(crate) fn keep_of_all(&self, error: &io::Error) -> i32 {
        *self.lock() = Some((libc::ESTALE, error.kind(), error.to_string()));
        libc::ESTALE
    }

    /// Returns the error of this number: with the text of the last one, if that has the number.
    pub(crate) fn of(&self, errno: i32) -> io::Error {
        match &*self.lock() {
            Some((last, kind, text)) if *last == errno => io::Error::new(*kind, text.clone()),
            _ => io::Error::from_raw_os_error(errno),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<(i32, io::ErrorKind, String)>> {
        // Nothing panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
