//! Why a path was not created, replaced or removed.
//!
//! In:    a path, what was found there, what the system said.
//! Out:   one line: what is wrong with which path, and what to do.
//! Never: an error after which the path is not as it was before.

use std::path::PathBuf;
use std::{fmt, io};

/// Why a path was not created, replaced or removed. What was there is unchanged.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// The path names something that foreread did not create, or that it must not replace.
    NotOurs {
        /// The path.
        path: PathBuf,
        /// What it is, such as "is a directory".
        what: String,
        /// What to do.
        advice: &'static str,
    },
    /// A running process uses the path.
    InUse {
        /// The path.
        path: PathBuf,
        /// Which process, such as "another server listens there".
        what: String,
        /// What to do.
        advice: &'static str,
    },
    /// The system refused.
    System {
        /// The path.
        path: PathBuf,
        /// What was attempted: a verb, such as "open its directory".
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl FileError {
    /// The line without the path, for callers that print the path themselves.
    #[must_use]
    pub fn why(&self) -> String {
        match self {
            Self::NotOurs { what, advice, .. } | Self::InUse { what, advice, .. } => {
                format!("{what}; {advice}")
            }
            Self::System { doing, source, .. } => format!("cannot {doing}: {source}"),
        }
    }

    /// The path.
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

/// Without the path; the kind of the system's error is kept.
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
