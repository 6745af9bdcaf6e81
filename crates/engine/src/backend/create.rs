//! Creates files that do not exist yet.
//!
//! Never truncates a file: its pages in memory must be dropped first. Never removes a file that
//! another open may have found since.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{FileIdentity, failed, failed_to_write, is_another};
use crate::OpenOptions;
use crate::error::{OpenError, OpenErrorKind};

impl OpenOptions {
    /// Resolves options that imply others: appending implies writing.
    ///
    /// # Errors
    ///
    /// If the options contradict one another.
    pub(crate) fn resolve(&self, path: &Path) -> Result<Self, OpenError> {
        let mut options = self.clone();
        options.write |= options.append;
        let wrong = |why| Err(OpenErrorKind::Options { why }.of(path.to_path_buf()));
        if (options.create || options.create_new || options.truncate) && !options.write {
            return wrong("create and truncate require write access; add write(true)");
        }
        if options.truncate && options.append && !options.create_new {
            return wrong("append and truncate exclude each other; leave one out");
        }
        Ok(options)
    }
}

/// Outcome of an attempt to create a file.
#[derive(Debug)]
pub(crate) struct Created<'p> {
    path: &'p Path,
    identity: Option<FileIdentity>,
}

impl<'p> Created<'p> {
    /// Creates the file if the options ask for it and it does not exist.
    pub(crate) fn make(path: &'p Path, options: &OpenOptions) -> Result<Self, OpenError> {
        let nothing = Self { path, identity: None };
        let is_asked = options.create || options.create_new;
        if !is_asked || options.volatile.is_some() {
            return Ok(nothing);
        }
        match File::options().write(true).create_new(true).open(path) {
            Ok(file) => {
                let now = file.metadata().map_err(|source| failed(path, "stat", source))?;
                let identity = FileIdentity::Inode { on: now.dev(), number: now.ino() };
                Ok(Self { path, identity: Some(identity) })
            }
            Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {
                if options.create_new {
                    return Err(OpenErrorKind::Exists.of(path.to_path_buf()));
                }
                if std::fs::metadata(path).is_err_and(|it| it.kind() == io::ErrorKind::NotFound) {
                    // A dangling symbolic link: create its target.
                    let made = File::options().write(true).create(true).truncate(false).open(path);
                    made.map_err(|source| failed_to_create(path, source))?;
                }
                Ok(nothing)
            }
            Err(source) => Err(failed_to_create(path, source)),
        }
    }

    /// Returns the path to open.
    pub(crate) fn path(&self) -> &'p Path {
        self.path
    }

    /// Checks that the opened file is the one created.
    pub(crate) fn check(&self, opened: FileIdentity) -> Result<(), OpenError> {
        if self.identity.is_none_or(|made| made == opened) {
            Ok(())
        } else {
            Err(is_another(self.path))
        }
    }

    /// Removes the created file after its open failed, if the path still names it and it is empty.
    ///
    /// Keeps it if others may have it open: they may have found it as soon as it was created, and
    /// their acknowledged, durable writes would be lost.
    pub(crate) fn undo(self, options: &OpenOptions, why: &OpenError) {
        let is_shared = matches!(
            why.kind,
            OpenErrorKind::Overlap | OpenErrorKind::InUse | OpenErrorKind::AnotherEngine
        );
        if !options.create_new || is_shared {
            return;
        }
        let Some(FileIdentity::Inode { on, number }) = self.identity else { return };
        let now = std::fs::symlink_metadata(self.path);
        if now.is_ok_and(|now| (now.dev(), now.ino(), now.len()) == (on, number, 0)) {
            // A failed removal leaves an empty file, and must not hide the error.
            let _ = std::fs::remove_file(self.path);
        }
    }
}

/// Maps an error of creating a file: the directory may be missing or read-only.
fn failed_to_create(path: &Path, source: io::Error) -> OpenError {
    if source.kind() == io::ErrorKind::NotFound {
        let source = io::Error::new(source.kind(), "no such directory; create it first");
        return OpenErrorKind::Io { doing: "create", source }.of(path.to_path_buf());
    }
    failed_to_write(path, source)
}
