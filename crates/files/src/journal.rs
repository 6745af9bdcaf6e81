//! An append-only file below /run that survives its writer until it is removed.
//!
//! It is open for reading and appending, with mode 0644. A file of another user is never accepted,
//! and only the open file is removed.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::process::geteuid;

use crate::FileError;
use crate::entry::{DirectoryName, FileIdentity, words};
use crate::system::{check_directory, make_directories};

/// Opens the file. If `is_new`, creates it and its directories where they are missing.
///
/// # Errors
///
/// If the path names anything but a regular file of this user, or if the system refuses.
pub fn open(path: &Path, is_new: bool) -> Result<File, FileError> {
    check_directory(path)?;
    if is_new {
        make_directories(path)?;
    }
    let entry = DirectoryName::new(path)?;
    let mut flags = OFlags::RDWR | OFlags::APPEND | OFlags::CLOEXEC;
    flags |= OFlags::NOFOLLOW | OFlags::NONBLOCK;
    if is_new {
        flags |= OFlags::CREATE;
    }
    let opened = openat(entry.directory(), entry.name(), flags, Mode::from_raw_mode(0o644));
    let file = opened.map_err(|errno| entry.failed("open it", errno.into()))?;
    let stat = fstat(&file).map_err(|errno| entry.failed("look at it", errno.into()))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind != FileType::RegularFile {
        return Err(entry.not_ours(format!("is {}, not a regular file", words(kind))));
    }
    let is_others = Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH);
    if stat.st_nlink > 1 || stat.st_uid != geteuid().as_raw() || is_others {
        return Err(FileError::NotOurs {
            path: path.to_owned(),
            what: "belongs to another user, can be written to by others, or has several names"
                .to_owned(),
            advice: "remove it",
        });
    }
    Ok(file.into())
}

/// Returns whether the path still names this file.
#[must_use]
pub fn is_at(file: &File, path: &Path) -> bool {
    let inode = fstat(file).map(|stat| FileIdentity::of(&stat));
    inode.is_ok_and(|inode| DirectoryName::new(path).is_ok_and(|entry| entry.is(inode)))
}

/// Removes the path if it still names this file.
///
/// # Errors
///
/// If the system refuses.
pub fn remove(file: &File, path: &Path) -> io::Result<()> {
    let inode = FileIdentity::of(&fstat(file)?);
    DirectoryName::new(path)?.remove(inode)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn lines_are_added_and_a_planted_file_is_left() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("run/foreread/held-sda.notes");
        open(&path, false).expect_err("there is none");
        for line in ["one\n", "two\n"] {
            open(&path, true).unwrap().write_all(line.as_bytes()).unwrap();
        }
        let mut file = open(&path, false).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
        // Another run has removed it and made its own.
        let other = path.with_extension("other");
        fs::write(&other, "three\n").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(!is_at(&file, &path));
        remove(&file, &path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "three\n");

        fs::rename(&path, &other).unwrap();
        symlink(&other, &path).unwrap();
        open(&path, true).expect_err("a link");
        fs::remove_file(&path).unwrap();
        fs::hard_link(&other, &path).unwrap();
        open(&path, true).expect_err("two names");
    }
}
