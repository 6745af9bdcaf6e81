//! Maps errors of the library to the exceptions that users of `io` expect: `OSError`, or its
//! subclass for the errno, with the file name. An exception raised by a fetcher becomes the cause.

use std::collections::VecDeque;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foreread::{EngineError, OpenError, OpenErrorKind, ReadError, ReadErrorKind, SettingError};
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    foreread,
    EngineForkedError,
    PyOSError,
    "The engine was created before this process was forked: create another one here."
);
create_exception!(
    foreread,
    PinLimitError,
    PyOSError,
    "The pin would exceed a quarter of the engine's memory."
);
create_exception!(
    foreread,
    ObjectChangedError,
    PyOSError,
    "The object in the store was replaced after it was opened: open it again."
);

/// Kind of file, for error reporting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FileOrigin {
    /// A path.
    Path,
    /// A callable; its exceptions become causes.
    Fetcher,
    /// An object of a store, which may be replaced.
    #[cfg_attr(not(feature = "objects"), expect(dead_code, reason = "without stores"))]
    Object,
}

/// Context for converting read errors of a file into exceptions.
#[derive(Clone)]
pub(crate) struct ReadFailures {
    pub(crate) name: OsString,
    pub(crate) origin: FileOrigin,
    pub(crate) of_fetchers: Arc<FetchFailures>,
}

impl ReadFailures {
    /// Returns the exception for a read that failed.
    pub(crate) fn exception(&self, py: Python<'_>, error: ReadError) -> PyErr {
        let name = &*self.name;
        if let ReadErrorKind::Io { source, .. } = &error.kind {
            match self.origin {
                FileOrigin::Fetcher => {
                    if let Some(cause) = self.of_fetchers.take(name) {
                        return of_fetch(py, name, &error, cause);
                    }
                }
                FileOrigin::Object => {
                    if source.kind() == io::ErrorKind::InvalidData {
                        let text = without_name(name, &error.to_string());
                        return ObjectChangedError::new_err((libc::ESTALE, text, name.to_owned()));
                    }
                }
                FileOrigin::Path => {}
            }
        }
        of_read(name, error)
    }
}

/// Returns the exception for a file that could not be opened.
pub(crate) fn of_open(name: &OsStr, error: OpenError) -> PyErr {
    let text = without_name(name, &error.to_string());
    if matches!(error, OpenError { kind: OpenErrorKind::Forked, .. }) {
        return EngineForkedError::new_err((libc::EOPNOTSUPP, text, name.to_owned()));
    }
    let errno = inner_errno(&error).unwrap_or_else(|| errno_of_kind(io::Error::from(error).kind()));
    PyOSError::new_err((errno, text, name.to_owned()))
}

/// Returns the exception for an object that could not be opened.
#[cfg(feature = "objects")]
pub(crate) fn of_object(url: &str, error: foreread_object::ObjectError) -> PyErr {
    let text = without_name(url.as_ref(), &error.to_string());
    let errno = errno_of_kind(io::Error::from(error).kind());
    PyOSError::new_err((errno, text, url.to_owned()))
}

/// Returns the exception for a read that failed.
fn of_read(name: &OsStr, error: ReadError) -> PyErr {
    let text = without_name(name, &error.to_string());
    if matches!(error.kind, ReadErrorKind::Forked) {
        return EngineForkedError::new_err((libc::EOPNOTSUPP, text, name.to_owned()));
    }
    if matches!(error.kind, ReadErrorKind::PinLimit { .. }) {
        return PinLimitError::new_err((libc::ENOMEM, text, name.to_owned()));
    }
    let errno = inner_errno(&error).unwrap_or_else(|| errno_of_kind(io::Error::from(error).kind()));
    PyOSError::new_err((errno, text, name.to_owned()))
}

/// Returns the exception for a failed system call on a file.
pub(crate) fn of_io(name: &OsStr, error: &io::Error) -> PyErr {
    let errno = error.raw_os_error().unwrap_or_else(|| errno_of_kind(error.kind()));
    PyOSError::new_err((errno, error.to_string(), name.to_owned()))
}

/// Returns the exception for an engine that could not be created, or is used in a forked child.
pub(crate) fn of_engine(error: &EngineError) -> PyErr {
    if matches!(error, EngineError::Forked) {
        return EngineForkedError::new_err((libc::EOPNOTSUPP, error.to_string()));
    }
    if matches!(error, EngineError::Memory { .. }) {
        return PyValueError::new_err(error.to_string());
    }
    let errno = inner_errno(error).unwrap_or(libc::EIO);
    PyOSError::new_err((errno, error.to_string()))
}

/// Returns the exception for a rejected setting.
pub(crate) fn of_setting(error: &SettingError) -> PyErr {
    if matches!(error, SettingError::Forked) {
        return EngineForkedError::new_err((libc::EOPNOTSUPP, error.to_string()));
    }
    PyValueError::new_err(error.to_string())
}

/// Returns the exception for a failed read of a fetcher, with the fetcher's exception as the cause.
fn of_fetch(py: Python<'_>, name: &OsStr, error: &ReadError, cause: PyErr) -> PyErr {
    let text = without_name(name, &error.to_string());
    let exception = PyOSError::new_err((errno_of_exception(py, &cause), text, name.to_owned()));
    exception.set_cause(py, Some(cause));
    exception
}

/// Returns the errno of an exception: its `errno`, or that of its type.
pub(crate) fn errno_of_exception(py: Python<'_>, error: &PyErr) -> i32 {
    let errno = error.value(py).getattr("errno").and_then(|errno| errno.extract::<i32>());
    match errno {
        Ok(errno) if errno > 0 => errno,
        _ => errno_of_kind(io::Error::from(error.clone_ref(py)).kind()),
    }
}

/// Latest exceptions of an engine's fetchers, by file name.
#[derive(Debug, Default)]
pub(crate) struct FetchFailures(Mutex<VecDeque<(String, PyErr)>>);

impl FetchFailures {
    /// Keeps an exception until its reader takes it. Returns the oldest if there are too many.
    /// Dropping that may run Python code, which may fetch and fail, so the caller must hold no
    /// lock.
    #[must_use]
    pub(crate) fn keep(&self, name: &str, error: PyErr) -> Option<PyErr> {
        let mut kept = self.lock();
        let oldest = if kept.len() == FAILURES_MAX { kept.pop_front() } else { None };
        kept.push_back((name.to_owned(), error));
        oldest.map(|(_, error)| error)
    }

    /// Takes the latest exception for the file with this name.
    pub(crate) fn take(&self, name: &OsStr) -> Option<PyErr> {
        let mut kept = self.lock();
        let all = std::mem::take(&mut *kept).into_iter();
        let (mut taken, others): (VecDeque<_>, _) = all.partition(|(of, _)| OsStr::new(of) == name);
        *kept = others;
        drop(kept);
        // The others are dropped outside the lock, too.
        taken.pop_back().map(|(_, error)| error)
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(String, PyErr)>> {
        // Nothing panics while it holds this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Exceptions keep their stack frames alive, so few are kept.
const FAILURES_MAX: usize = 16;

/// Strips the file name from the front of an error text, because the exception has it separately.
fn without_name(name: &OsStr, text: &str) -> String {
    let front = format!("{}: ", name.display());
    text.strip_prefix(&front).unwrap_or(text).to_owned()
}

/// Returns the errno of the system error that caused this one.
fn inner_errno(error: &dyn Error) -> Option<i32> {
    let inner = error.source()?.downcast_ref::<io::Error>()?;
    Some(inner.raw_os_error().unwrap_or_else(|| errno_of_kind(inner.kind())))
}

fn errno_of_kind(kind: io::ErrorKind) -> i32 {
    let known = ERRNOS.iter().find(|(known, _)| *known == kind);
    known.map_or(libc::EIO, |(_, errno)| *errno)
}

/// Errnos from which Python selects the subclass of `OSError`.
const ERRNOS: [(io::ErrorKind, i32); 14] = [
    (io::ErrorKind::NotFound, libc::ENOENT),
    (io::ErrorKind::AlreadyExists, libc::EEXIST),
    (io::ErrorKind::PermissionDenied, libc::EACCES),
    (io::ErrorKind::IsADirectory, libc::EISDIR),
    (io::ErrorKind::NotADirectory, libc::ENOTDIR),
    (io::ErrorKind::ReadOnlyFilesystem, libc::EROFS),
    (io::ErrorKind::ResourceBusy, libc::EBUSY),
    (io::ErrorKind::QuotaExceeded, libc::EMFILE),
    (io::ErrorKind::InvalidInput, libc::EINVAL),
    (io::ErrorKind::Unsupported, libc::EOPNOTSUPP),
    (io::ErrorKind::TimedOut, libc::ETIMEDOUT),
    (io::ErrorKind::OutOfMemory, libc::ENOMEM),
    (io::ErrorKind::ConnectionRefused, libc::ECONNREFUSED),
    (io::ErrorKind::ConnectionReset, libc::ECONNRESET),
];
