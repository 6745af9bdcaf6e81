//! A file that is written under a temporary name or none, and moved into place whole.
//!
//! The final name is new or replaced in one step. Only the file that was checked is replaced, and
//! no temporary file stays after an error. A kill may leave one: while a file is replaced, or on a
//! file system without unnamed files.
//!
//! ```text
//!   nothing there:  unnamed file --> link(name)            fails if the name is taken meanwhile
//!   file replaced:  unnamed file --> link(.foreread-XXXXXX) --> exchange both names
//!                                    is it the judged inode? yes: remove it; no: exchange back
//! ```

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, fchmod, fstat, fsync, linkat, openat, renameat,
    renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, Result as SysResult};

use crate::FileError;
use crate::entry::{DirectoryName, FileIdentity};

/// A file being written, in the directory of its final name.
#[derive(Debug)]
pub(crate) struct Draft {
    directory: OwnedFd,
    file: File,
    /// Temporary name, if it has one.
    name: Option<OsString>,
}

impl Draft {
    /// Creates an empty file in the directory of the entry, with `mode` reduced by the umask.
    pub(crate) fn new(entry: &DirectoryName, mode: Mode) -> Result<Self, FileError> {
        let directory = entry.directory().try_clone_to_owned();
        let directory = directory.map_err(|error| entry.failed("open its directory", error))?;
        match unnamed(&directory, mode) {
            Some(file) => Ok(Self { directory, file, name: None }),
            None => Self::named(entry, directory, mode),
        }
    }

    /// Creates it with a temporary name, on a file system without unnamed files.
    fn named(entry: &DirectoryName, directory: OwnedFd, mode: Mode) -> Result<Self, FileError> {
        let (file, name) = random(|name| {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            openat(&directory, name, flags | OFlags::CLOEXEC, mode)
        })
        .map_err(|errno| entry.failed("create a file in its directory", errno.into()))?;
        Ok(Self { directory, file: file.into(), name: Some(name) })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Sets the mode, ignoring the umask.
    pub(crate) fn set_mode(&self, mode: Mode) -> SysResult<()> {
        fchmod(&self.file, mode)
    }

    /// Moves it to its final name, in place of the checked file `before`, or of nothing. Returns
    /// the file, still open.
    pub(crate) fn put(
        mut self,
        entry: &DirectoryName,
        before: Option<FileIdentity>,
    ) -> Result<File, FileError> {
        // Some file systems report a full disk only now.
        self.file.sync_all().map_err(|error| entry.failed("write it", error))?;
        match before {
            None => self.put_new(entry)?,
            Some(before) => self.put_over(entry, before)?,
        }
        self.name = None;
        // The file is durable; a crash may still lose its name.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let _ = openat(&self.directory, ".", flags, Mode::empty()).and_then(fsync);
        self.file.try_clone().map_err(|error| entry.failed("keep it open", error))
    }

    fn put_new(&mut self, entry: &DirectoryName) -> Result<(), FileError> {
        let done = match &self.name {
            None => self.link(entry.name()),
            Some(name) => {
                let (from, to) = (name, entry.name());
                let directory = &self.directory;
                match renameat_with(directory, from, directory, to, RenameFlags::NOREPLACE) {
                    // The file system does not support the flag: check, then rename.
                    Err(Errno::INVAL | Errno::NOSYS) => match entry.look()? {
                        None => renameat(directory, from, directory, to),
                        Some(_) => Err(Errno::EXIST),
                    },
                    done => done,
                }
            }
        };
        match done {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(entry.changed()),
            Err(errno) => Err(entry.failed("create it", errno.into())),
        }
    }

    fn put_over(&mut self, entry: &DirectoryName, before: FileIdentity) -> Result<(), FileError> {
        let failed = |errno: Errno| entry.failed("replace it", errno.into());
        if self.name.is_none() {
            let (_, name) = random(|name| self.link(name)).map_err(failed)?;
            self.name = Some(name);
        }
        let name = self.name.as_deref().expect("the name was set above");
        let (directory, to) = (&self.directory, entry.name());
        match renameat_with(directory, name, directory, to, RenameFlags::EXCHANGE) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Err(entry.changed()),
            // The file system does not support the flag: check, then rename.
            Err(Errno::INVAL | Errno::NOSYS) if entry.is(before) => {
                return renameat(directory, name, directory, to).map_err(failed);
            }
            Err(Errno::INVAL | Errno::NOSYS) => return Err(entry.changed()),
            Err(errno) => return Err(failed(errno)),
        }
        let displaced = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
        if FileIdentity::of(&displaced) == before {
            return unlinkat(directory, name, AtFlags::empty()).map_err(failed);
        }
        renameat_with(directory, name, directory, to, RenameFlags::EXCHANGE).map_err(failed)?;
        Err(entry.changed())
    }

    /// Links the unnamed file to a name.
    fn link(&self, name: &OsStr) -> SysResult<()> {
        let file = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        linkat(CWD, file, &self.directory, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let Some(name) = &self.name else { return };
        let is_ours = |ours: FileIdentity| {
            let stat = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
            stat.is_ok_and(|stat| FileIdentity::of(&stat) == ours)
        };
        if fstat(&self.file).is_ok_and(|stat| is_ours(FileIdentity::of(&stat))) {
            let _ = unlinkat(&self.directory, name, AtFlags::empty());
        }
    }
}

/// Creates a file without a name, if the file system supports it and /proc can link it later.
fn unnamed(directory: &OwnedFd, mode: Mode) -> Option<File> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = File::from(openat(directory.as_fd(), ".", flags, mode).ok()?);
    let named = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
    named.exists().then_some(file)
}

/// Calls `make` with random names until one is free; returns the result and the name.
pub(crate) fn random<T>(mut make: impl FnMut(&OsStr) -> SysResult<T>) -> SysResult<(T, OsString)> {
    // tempfile supplies only the names and the retries; the path is never used. It is absolute
    // because a relative one would fail if the working directory was removed.
    let made = tempfile::Builder::new().prefix(PREFIX).disable_cleanup(true).make_in("/", |path| {
        let name = path.file_name().expect("the path ends with the name that was joined to it");
        Ok((make(name)?, name.to_owned()))
    });
    let made = made.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::EXIST))?;
    Ok(made.into_parts().0)
}

/// Prefix of temporary files' names.
const PREFIX: &str = ".foreread-";

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt as _;

    use super::*;
    use crate::entry::ExistingFile;

    fn named(entry: &DirectoryName) -> Draft {
        let directory = entry.directory().try_clone_to_owned().unwrap();
        Draft::named(entry, directory, Mode::from_raw_mode(0o644)).expect("it is made")
    }

    /// The way of file systems without unnamed files.
    #[test]
    fn a_temporary_name_does_not_stay() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let names = || fs::read_dir(directory.path()).unwrap().count();
        let entry = DirectoryName::new(&path).unwrap();
        drop(named(&entry));
        assert_eq!(names(), 0);
        for text in ["one", "two"] {
            let before = entry.look().unwrap();
            let draft = named(&entry);
            draft.file().write_all_at(text.as_bytes(), 0).unwrap();
            draft.put(&entry, before.as_ref().map(ExistingFile::inode)).expect("it is put");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
            assert_eq!(names(), 1);
        }
        named(&entry).put(&entry, None).expect_err("there is a file");
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(names(), 1);
    }

    #[test]
    fn what_cannot_be_created_is_named() {
        let entry = DirectoryName::new(Path::new("/proc/file")).expect("a directory");
        let line = Draft::new(&entry, Mode::from_raw_mode(0o644)).unwrap_err().to_string();
        assert!(line.starts_with("/proc/file: cannot create a file in its directory: "), "{line}");
    }
}
