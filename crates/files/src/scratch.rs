//! Scratch files, with a name or without, and private directories.
//!
//! Names are unpredictable, access is for the owner only, and an existing file is never opened.
//! Nothing remains after the last descriptor is closed, except a directory whose process was
//! killed.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, fstat, openat, unlinkat};
use rustix::io::{Errno, Result as SysResult};
use rustix::process::geteuid;
use tempfile::TempDir;

use crate::FileError;
use crate::draft::random;
use crate::entry::{DirectoryName, FileIdentity};
use crate::trusted_path::{TrustedUse, replaceable};

/// A directory for this process only (mode 0700), removed with its contents.
#[derive(Debug)]
pub struct PrivateDirectory(TempDir);

impl PrivateDirectory {
    /// Creates a private directory in the directory for temporary files.
    ///
    /// # Errors
    ///
    /// If there is no such directory, or the system refuses.
    pub fn new() -> Result<Self, FileError> {
        let parent = temporary_directory("/tmp")?;
        // Set explicitly: the default is all that the umask allows.
        let mode = Permissions::from_mode(0o700);
        let made =
            tempfile::Builder::new().prefix("foreread-").permissions(mode).tempdir_in(&parent);
        made.map(Self).map_err(|source| FileError::System {
            path: parent,
            doing: "create a directory in it",
            source,
        })
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes files into it, creating parent directories.
    ///
    /// # Errors
    ///
    /// If a path leads outside this directory, or the system refuses.
    pub fn write_files(&self, files: &[(PathBuf, String)]) -> Result<(), FileError> {
        for (path, text) in files {
            let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
            if !is_below {
                return Err(FileError::NotOurs {
                    path: path.clone(),
                    what: "is outside the directory".to_owned(),
                    advice: "give a path below it",
                });
            }
            let path = self.path().join(path);
            let failed =
                |source| FileError::System { path: path.clone(), doing: "write it", source };
            let parent = path.parent().unwrap_or(self.path());
            fs::create_dir_all(parent).map_err(failed)?;
            fs::write(&path, text).map_err(failed)?;
        }
        Ok(())
    }

    /// Removes the directory now.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn close(self) -> std::io::Result<()> {
        self.0.close()
    }
}

/// Returns `TMPDIR`, or `default` if that is unset or empty, as an absolute path of a directory.
///
/// # Errors
///
/// If `TMPDIR` names no directory: the user's choice is not silently replaced by the default.
pub fn temporary_directory(default: &str) -> Result<PathBuf, FileError> {
    directory_of(std::env::var_os("TMPDIR"), default)
}

fn directory_of(asked: Option<OsString>, default: &str) -> Result<PathBuf, FileError> {
    let asked = asked.filter(|asked| !asked.is_empty()).map(PathBuf::from);
    let Some(asked) = asked else { return Ok(PathBuf::from(default)) };
    let failed = |source| FileError::System {
        path: Path::new("TMPDIR").join(&asked),
        doing: "use it",
        source,
    };
    if asked.is_dir() {
        let directory = std::path::absolute(&asked).map_err(failed)?;
        return only_root_can_replace(directory);
    }
    Err(FileError::NotOurs {
        what: "TMPDIR names no directory".to_owned(),
        path: asked,
        advice: "set it to a directory for temporary files, or unset it",
    })
}

/// As root, refuses a directory whose owner could replace ours.
fn only_root_can_replace(directory: PathBuf) -> Result<PathBuf, FileError> {
    if !geteuid().is_root() {
        return Ok(directory);
    }
    let found = replaceable(&directory, TrustedUse::State);
    let found = found.map_err(|source| FileError::System {
        path: directory.clone(),
        doing: "check who can write to it",
        source,
    })?;
    match found {
        None => Ok(directory),
        Some(by_others) => Err(FileError::NotOurs {
            what: format!("TMPDIR is not used by root: {by_others}"),
            path: directory,
            advice: "unset it, or set it to a directory of root",
        }),
    }
}

/// Creates a file without a name in `directory`, mode 0600, opened with `flags` in addition to read
/// and write.
///
/// # Errors
///
/// The system's error: `EINVAL` if the file system does not support one of the flags.
pub fn unnamed(directory: &Path, flags: OFlags) -> SysResult<File> {
    let flags = flags | OFlags::RDWR | OFlags::CLOEXEC;
    match openat(CWD, directory, flags | OFlags::TMPFILE, OURS) {
        // Some file systems have no unnamed files.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT) if directory.is_dir() => {
            named_and_then_not(directory, flags)
        }
        opened => opened.map(File::from),
    }
}

/// Creates a named file and unlinks it at once. A kill between the two calls leaves an empty file.
fn named_and_then_not(directory: &Path, flags: OFlags) -> SysResult<File> {
    let path = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = openat(CWD, directory, path, Mode::empty())?;
    let (file, _) = random(|name| {
        let created = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = openat(directory.as_fd(), name, created, OURS);
        // If O_DIRECT is refused, some file systems have created the file anyway.
        if !matches!(file, Err(Errno::EXIST)) {
            let _ = unlinkat(directory.as_fd(), name, rustix::fs::AtFlags::empty());
        }
        file
    })?;
    Ok(file.into())
}

/// A named scratch file, for programs that need a path. Dropping it removes the name.
#[derive(Debug)]
pub struct NamedScratch {
    entry: DirectoryName,
    file: File,
    inode: FileIdentity,
}

impl NamedScratch {
    /// Creates an empty file with a random name in `directory`, mode 0600.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn new(directory: &Path) -> Result<Self, FileError> {
        let failed = |errno: Errno| FileError::System {
            path: directory.to_owned(),
            doing: "create a scratch file in it",
            source: errno.into(),
        };
        let ((entry, file), _) = random(|name| {
            let entry = DirectoryName::new(&directory.join(name)).map_err(errno_of)?;
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let file = openat(entry.directory(), name, flags | OFlags::CLOEXEC, OURS)?;
            Ok((entry, file))
        })
        .map_err(failed)?;
        let inode = FileIdentity::of(&fstat(&file).map_err(failed)?);
        Ok(Self { entry, file: file.into(), inode })
    }

    /// Returns the open file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.entry.path()
    }
}

impl Drop for NamedScratch {
    fn drop(&mut self) {
        let _ = self.entry.remove(self.inode);
    }
}

fn errno_of(error: FileError) -> Errno {
    match error {
        FileError::System { source, .. } => Errno::from_io_error(&source).unwrap_or(Errno::NOTDIR),
        FileError::NotOurs { .. } | FileError::InUse { .. } => Errno::NOTDIR,
    }
}

/// Mode without access for other users.
const OURS: Mode = Mode::RUSR.union(Mode::WUSR);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    fn names(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn files_are_written_below_a_private_directory_only() {
        let directory = PrivateDirectory::new().expect("a directory");
        let mode = fs::metadata(directory.path()).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o700, "no other user may enter");
        let files = [(PathBuf::from("sys/block/sda/size"), "8\n".to_owned())];
        directory.write_files(&files).expect("they are written");
        let text = fs::read_to_string(directory.path().join("sys/block/sda/size"));
        assert_eq!(text.expect("it is there"), "8\n");
        for path in ["/etc/x", "../x", "sys/../../x"] {
            let files = [(PathBuf::from(path), String::new())];
            let line = directory.write_files(&files).expect_err(path).to_string();
            assert!(line.contains("is outside the directory"), "{line}");
        }
    }

    #[test]
    fn no_name_stays() {
        let directory = tempfile::tempdir().expect("a directory");
        for made in [
            unnamed(directory.path(), OFlags::empty()),
            named_and_then_not(directory.path(), OFlags::RDWR),
        ] {
            made.expect("it is made").write_all_at(b"it works", 0).expect("it is written");
            assert_eq!(names(directory.path()), 0);
        }
        let scratch = NamedScratch::new(directory.path()).expect("it is made");
        assert!(scratch.path().exists());
        drop(scratch);
        assert_eq!(names(directory.path()), 0);
        let nowhere = directory.path().join("nowhere");
        let line = NamedScratch::new(&nowhere).expect_err("there is no directory").to_string();
        assert!(line.contains("No such file or directory"), "{line}");
    }

    #[test]
    fn a_strange_tmpdir_is_named_or_unused() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        for unset in [None, Some(OsString::new())] {
            assert_eq!(directory_of(unset, "/var/tmp").unwrap(), Path::new("/var/tmp"));
        }
        for wrong in [file, directory.path().join("nowhere")] {
            let line = directory_of(Some(wrong.into()), "/tmp").unwrap_err().to_string();
            assert!(line.contains("TMPDIR names no directory"), "{line}");
        }
        let relative = directory_of(Some(".".into()), "/tmp").unwrap();
        assert!(relative.is_absolute(), "{relative:?}");
    }
}
