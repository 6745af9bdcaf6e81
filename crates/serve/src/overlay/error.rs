//! Errors of opening or reading an overlay.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use foreread_files::FileError;

/// Error of opening or reading an overlay.
#[derive(Debug)]
#[non_exhaustive]
pub enum OverlayError {
    /// The path is unsuitable for an overlay, or the system refuses it.
    File(FileError),
    /// The file is no overlay, is damaged, or belongs to another base or version.
    NotOurs {
        /// The file.
        path: PathBuf,
        /// The mismatch found, and a remedy.
        what: String,
    },
    /// The engine cannot open the file.
    Open(foreread::OpenError),
    /// The file cannot be read.
    Io {
        /// The file.
        path: PathBuf,
        /// Error from the system.
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
