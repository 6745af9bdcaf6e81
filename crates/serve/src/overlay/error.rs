//! Why an overlay cannot be used, in words.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use foreread_files::FileError;

/// Why an overlay cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum OverlayError {
    /// The path is not one for it, or the system refuses.
    File(FileError),
    /// The file is no overlay, is damaged, or belongs to another base or version.
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What it is instead, and what to do.
        what: String,
    },
    /// The engine cannot open it.
    Open(foreread::OpenError),
    /// It cannot be read.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

pub(super) fn not_ours(path: &Path, what: String) -> OverlayError {
    OverlayError::NotOurs { path: path.to_owned(), what }
}

impl fmt::Display for OverlayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => error.fmt(f),
            Self::Open(error) => error.fmt(f),
            Self::NotOurs { path, what } => write!(f, "{}: {what}", path.display()),
            Self::Io { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for OverlayError {}
