//! foreread's files in system directories: udev rules and records below /etc and /var/lib.
//!
//! Files are written atomically and durably with mode 0644, their directories with mode 0755. Only
//! files written by foreread are replaced, and only regular files are removed.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::Path;

use rustix::fs::Mode;
use rustix::io::Errno;

use crate::draft::Draft;
use crate::entry::{DirectoryName, ExistingFile};
use crate::{FileError, output, regular, trusted_path};

/// Writes a whole file, creating its directories. `is_ours` receives the first 4 KiB of an existing
/// file; an empty file is replaced, too.
///
/// # Errors
///
/// If the path names anything but a regular file that is ours, or if the system refuses.
pub fn write_whole(path: &Path, text: &str, is_ours: fn(&[u8]) -> bool) -> Result<(), FileError> {
    check_directory(path)?;
    make_directories(path)?;
    let entry = DirectoryName::new(path)?;
    let found = entry.look()?;
    if let Some(found) = &found {
        entry.only_regular(found, &[])?;
        only_ours(&entry, found, is_ours)?;
    }
    let readable = Mode::from_raw_mode(0o644);
    let draft = Draft::new(&entry, readable)?;
    let written = draft.set_mode(readable).map_err(io::Error::from);
    let written = written.and_then(|()| draft.file().write_all_at(text.as_bytes(), 0));
    written.map_err(|error| entry.failed("write it", error))?;
    draft.put(&entry, found.as_ref().map(ExistingFile::inode)).map(drop)
}

/// Reads a system file that only root can have written; None if it is missing.
///
/// # Errors
///
/// If another user could have written it and this process is root, or if the system refuses.
pub fn read_trusted(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let Some(mut file) = open_trusted(path)? else { return Ok(None) };
    let mut bytes = Vec::new();
    match file.read_to_end(&mut bytes) {
        Ok(_) => Ok(Some(bytes)),
        Err(source) => Err(FileError::System { path: path.to_owned(), doing: "read it", source }),
    }
}

/// Opens a regular system file that only root can have written; None if it is missing.
///
/// # Errors
///
/// If another user could have written it and this process is root, if the path names something
/// else, or if the system refuses.
pub fn open_trusted(path: &Path) -> Result<Option<File>, FileError> {
    let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    if fs::symlink_metadata(path).is_err_and(|error| is_missing(&error)) {
        return Ok(None);
    }
    trusted_path::check_state(path)?;
    let opened = regular::open(path).map(Some);
    opened.map_err(|source| FileError::System { path: path.to_owned(), doing: "open it", source })
}

/// Removes a regular file. Returns whether it existed.
///
/// # Errors
///
/// If the path names something else, or if the system refuses.
pub fn remove(path: &Path) -> Result<bool, FileError> {
    removed(path, None)
}

/// Removes a file that is ours: `is_ours` receives its first 4 KiB. An empty one is ours.
///
/// # Errors
///
/// If the path names something else, or if the system refuses.
pub fn remove_ours(path: &Path, is_ours: fn(&[u8]) -> bool) -> Result<bool, FileError> {
    removed(path, Some(is_ours))
}

fn removed(path: &Path, is_ours: Option<fn(&[u8]) -> bool>) -> Result<bool, FileError> {
    // Without its directory there is no file either.
    if let Err(error) = fs::symlink_metadata(path)
        && matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NOTDIR))
    {
        return Ok(false);
    }
    let entry = DirectoryName::new(path)?;
    let Some(found) = entry.look()? else { return Ok(false) };
    entry.only_regular(&found, &[])?;
    if let Some(is_ours) = is_ours {
        only_ours(&entry, &found, is_ours)?;
    }
    entry.remove(found.inode()).map_err(|error| entry.failed("remove it", error))?;
    Ok(true)
}

fn only_ours(
    entry: &DirectoryName,
    found: &ExistingFile,
    is_ours: fn(&[u8]) -> bool,
) -> Result<(), FileError> {
    let head = entry.head(found, HEAD)?;
    if head.is_empty() || is_ours(&head) {
        return Ok(());
    }
    Err(FileError::NotOurs {
        path: entry.path().to_owned(),
        what: "exists and was not written by foreread".to_owned(),
        advice: output::REMOVE,
    })
}

/// As root, refuses a path below a system directory in which another user could create or replace
/// files. Only existing parent directories are checked.
pub(crate) fn check_directory(path: &Path) -> Result<(), FileError> {
    let mut above = path.ancestors().skip(1);
    let found = above.find(|directory| fs::symlink_metadata(directory).is_ok());
    found.map_or(Ok(()), trusted_path::check_state)
}

/// Creates the directories above a path, mode 0755 at most.
pub(crate) fn make_directories(path: &Path) -> Result<(), FileError> {
    let Some(parent) = path.parent() else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(0o755).create(parent).map_err(|source| {
        FileError::System { path: path.to_owned(), doing: "create its directory", source }
    })
}

/// Bytes inspected at the start of a file.
const HEAD: u64 = 4096;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn is_rule(head: &[u8]) -> bool {
        head.starts_with(b"# Written by foreread")
    }

    #[test]
    fn it_is_written_whole_and_a_foreign_file_is_left() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("etc/rules.d/99-x.rules");
        assert!(!remove(&path).expect("nothing is there"));
        for text in ["# Written by foreread 1\n", "# Written by foreread 2\n"] {
            write_whole(&path, text, is_rule).expect("it is ours");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);
        let parent = fs::metadata(path.parent().unwrap()).unwrap();
        assert_eq!(parent.permissions().mode() & 0o022, 0);
        assert!(remove(&path).expect("it is ours"));

        fs::write(&path, "KERNEL==\"sda\"\n").unwrap();
        let line = write_whole(&path, "x", is_rule).expect_err("it is theirs").to_string();
        assert!(line.contains("not written by foreread"), "{line}");
        let line = remove_ours(&path, is_rule).expect_err("it is theirs").to_string();
        assert!(line.contains("not written by foreread") && path.exists(), "{line}");
        fs::remove_file(&path).unwrap();
        // A rule that an administrator has masked.
        symlink("/dev/null", &path).unwrap();
        write_whole(&path, "x", is_rule).expect_err("it is masked");
        remove(&path).expect_err("it is masked");
        assert!(path.is_symlink());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
