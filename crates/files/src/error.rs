//! Reasons why a path was not created, replaced or removed, each as one line with the remedy. After
//! an error the path is unchanged.

use std::path::PathBuf;
use std::{fmt, io};

/// Reason why a path was not created, replaced or removed. The existing file is unchanged.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// The path names a file that foreread did not create, or must not replace.
    NotOurs {
        /// The path.
        path: PathBuf,
        /// State of the path, such as "is a directory".
        what: String,
        /// Remedy.
        advice: &'static str,
    },
    /// A running process uses the path.
    InUse {
        /// The path.
        path: PathBuf,
        /// The process, such as "another server listens there".
        what: String,
        /// Remedy.
        advice: &'static str,
    },
    /// A system call failed.
    System {
        /// The path.
        path: PathBuf,
        /// Attempted operation, as a verb: "open its directory".
        doing: &'static str,
        /// Error of the system call.
        source: io::Error,
    },
}

impl FileError {
    /// Returns the line without the path, for callers that print the path themselves.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            Self::NotOurs { what, advice, .. } | Self::InUse { what, advice, .. } => {
                format!("{what}; {advice}")
            }
            Self::System { doing, source, .. } => format!("cannot {doing}: {source}"),
        }
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &std::path::Path {
        match self {
            Self::NotOurs { path, .. } | Self::InUse { path, .. } | Self::System { path, .. } => {
                path
            }
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path().display(), self.why())
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            Self::NotOurs { .. } | Self::InUse { .. } => None,
        }
    }
}

/// Omits the path, and keeps the kind of the system's error.
impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        let why = error.why();
        match error {
            FileError::NotOurs { .. } => Self::other(why),
            FileError::InUse { .. } => Self::new(io::ErrorKind::ResourceBusy, why),
            FileError::System { source, .. } => Self::new(source.kind(), why),
        }
    }
}
