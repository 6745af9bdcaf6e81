//! A name in an open directory, and the file that it names.
//!
//! Files are opened without following a link and without side effects. The last component of a path
//! is never resolved a second time without comparing inodes.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, statat, unlinkat};
use rustix::io::Errno;

use crate::FileError;

/// An input of the command, which none of its outputs may replace.
#[derive(Clone, Copy, Debug)]
pub struct CommandInput<'a> {
    /// The user's term for it: "TARGET", "the scenario".
    pub name: &'a str,
    /// Path. Links are followed, because the file behind them must not be replaced.
    pub path: &'a Path,
}

/// An inode: device and number. While a descriptor of it is open, the number is not reused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FileIdentity(u64, u64);

impl FileIdentity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self(stat.st_dev, stat.st_ino)
    }
}

/// A name in an open directory.
#[derive(Debug)]
pub(crate) struct DirectoryName {
    directory: OwnedFd,
    name: OsString,
    path: PathBuf,
}

impl DirectoryName {
    /// Opens the directory of a path. The path itself need not exist.
    pub(crate) fn new(path: &Path) -> Result<Self, FileError> {
        let bytes = path.as_os_str().as_bytes();
        let is_directory = bytes.ends_with(b"/") || bytes.ends_with(b"/.");
        let Some(name) = path.file_name().filter(|_| !is_directory) else {
            return Err(FileError::NotOurs {
                path: path.to_owned(),
                what: "names a directory".to_owned(),
                advice: "give the path of a file",
            });
        };
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = openat(CWD, parent.unwrap_or(Path::new(".")), flags, Mode::empty());
        let directory = opened.map_err(|errno| FileError::System {
            path: path.to_owned(),
            doing: "open its directory",
            source: errno.into(),
        })?;
        Ok(Self { directory, name: name.to_owned(), path: path.to_owned() })
    }

    pub(crate) fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    pub(crate) fn name(&self) -> &OsStr {
        &self.name
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the inode of the directory, which does not depend on the path.
    pub(crate) fn directory_inode(&self) -> Result<FileIdentity, FileError> {
        let stat = fstat(&self.directory);
        let stat = stat.map_err(|errno| self.failed("look at its directory", errno.into()))?;
        Ok(FileIdentity::of(&stat))
    }

    /// Returns the file with this name; None if there is none.
    ///
    /// It is opened with `O_PATH`: opening a FIFO would block, and opening a tape would rewind it.
    pub(crate) fn look(&self) -> Result<Option<ExistingFile>, FileError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = match openat(&self.directory, &self.name, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(None),
            opened => opened.map_err(|errno| self.failed("look at it", errno.into()))?,
        };
        let stat = fstat(&fd).map_err(|errno| self.failed("look at it", errno.into()))?;
        Ok(Some(ExistingFile { _fd: fd, stat }))
    }

    /// Returns whether the name currently refers to this inode.
    pub(crate) fn is(&self, inode: FileIdentity) -> bool {
        let stat = statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileIdentity::of(&stat) == inode)
    }

    /// Removes the name if it refers to this inode.
    pub(crate) fn remove(&self, inode: FileIdentity) -> io::Result<()> {
        if self.is(inode) {
            unlinkat(&self.directory, &self.name, AtFlags::empty())?;
        }
        Ok(())
    }

    /// Returns up to `most` leading bytes of the regular file.
    pub(crate) fn head(&self, found: &ExistingFile, most: u64) -> Result<Vec<u8>, FileError> {
        let failed =
            |errno: Errno| self.failed("read it to see whether it is foreread's", errno.into());
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = openat(&self.directory, &self.name, flags, Mode::empty()).map_err(failed)?;
        if FileIdentity::of(&fstat(&fd).map_err(failed)?) != found.inode() {
            return Err(self.changed());
        }
        let mut bytes = Vec::new();
        File::from(fd)
            .take(most)
            .read_to_end(&mut bytes)
            .map_err(|error| self.failed("read it to see whether it is foreread's", error))?;
        Ok(bytes)
    }

    /// Refuses anything but a regular file with a single name that is not an input of the command.
    /// Also refuses a file to which stdout or stderr is redirected: that output would be lost with
    /// the file.
    pub(crate) fn only_regular(
        &self,
        found: &ExistingFile,
        inputs: &[CommandInput<'_>],
    ) -> Result<(), FileError> {
        for input in inputs {
            let stat = statat(CWD, input.path, AtFlags::empty());
            if stat.is_ok_and(|stat| FileIdentity::of(&stat) == found.inode()) {
                return Err(self.not_ours(format!("would replace {}", input.name)));
            }
        }
        for (name, stat) in [("stdout", fstat(io::stdout())), ("stderr", fstat(io::stderr()))] {
            if stat.is_ok_and(|stat| FileIdentity::of(&stat) == found.inode()) {
                return Err(self.not_ours(format!("is the destination of {name}")));
            }
        }
        let (kind, names) = (found.kind(), found.stat.st_nlink);
        if kind != FileType::RegularFile {
            return Err(self.not_ours(format!("is {}, not a regular file", words(kind))));
        }
        if names > 1 {
            return Err(self.not_ours(format!("has {names} names (hard links)")));
        }
        Ok(())
    }

    pub(crate) fn not_ours(&self, what: String) -> FileError {
        FileError::NotOurs { path: self.path.clone(), what, advice: "give another path" }
    }

    pub(crate) fn changed(&self) -> FileError {
        FileError::InUse {
            path: self.path.clone(),
            what: "has just been replaced by another process".to_owned(),
            advice: "run this again, or give another path",
        }
    }

    pub(crate) fn failed(&self, doing: &'static str, source: io::Error) -> FileError {
        FileError::System { path: self.path.clone(), doing, source }
    }
}

/// An existing file. It stays open, so that its inode number is not reused.
#[derive(Debug)]
pub(crate) struct ExistingFile {
    _fd: OwnedFd,
    stat: Stat,
}

impl ExistingFile {
    pub(crate) fn inode(&self) -> FileIdentity {
        FileIdentity::of(&self.stat)
    }

    /// Returns the user id of its owner.
    pub(crate) fn owner(&self) -> u32 {
        self.stat.st_uid
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    pub(crate) fn stat(&self) -> &Stat {
        &self.stat
    }
}

/// Returns the kind of a file, for messages.
pub(crate) fn words(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "of an unknown kind",
    }
}
