//! A file, named by the user, in which a program keeps data from run to run.
//!
//! It is open for reading and writing, and locked, so that no two programs use it at a time. A new
//! file appears with its initial contents complete, and is removed again if its command is refused
//! for another reason. Links are not followed.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags, Stat, fstat, openat};
use rustix::process::geteuid;

use crate::FileError;
use crate::draft::Draft;
use crate::entry::{CommandInput, DirectoryName, ExistingFile, FileIdentity};
use crate::file_lock::{FileLock, exclusively};

/// A newly created file. Dropping it removes the file, unless it is kept.
#[derive(Debug)]
pub struct NewFile(Option<(DirectoryName, FileIdentity)>);

impl NewFile {
    /// Keeps the file.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some((entry, inode)) = &self.0 {
            // The name may refer to another file by now; then `remove` leaves it.
            let _ = entry.remove(*inode);
        }
    }
}

/// Opens or creates the file. `fill` writes the initial contents of a new one, which are durable
/// before the file gets its name. For a new file a [`NewFile`] is returned, to be kept or dropped.
///
/// # Errors
///
/// If the path names an input of the command, a link, a file with several names, anything but a
/// regular file, or one that another user has put into a directory such as /tmp; if another program
/// has locked it; or if the system refuses.
pub fn open_or_make(
    path: &Path,
    inputs: &[CommandInput<'_>],
    fill: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(File, Option<NewFile>), FileError> {
    let entry = DirectoryName::new(path)?;
    if let Some(found) = entry.look()? {
        entry.only_regular(&found, inputs)?;
        refuse_planted(&entry, &found)?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = openat(entry.directory(), entry.name(), flags, Mode::empty());
        let file = File::from(opened.map_err(|errno| entry.failed("open it", errno.into()))?);
        let stat = fstat(&file).map_err(|errno| entry.failed("look at it", errno.into()))?;
        if FileIdentity::of(&stat) != found.inode() {
            return Err(entry.changed());
        }
        lock(&entry, &file)?;
        return Ok((file, None));
    }
    let draft = Draft::new(&entry, Mode::from_raw_mode(0o600))?;
    fill(draft.file()).map_err(|error| entry.failed("write it", error))?;
    // Locking it before it has a name keeps other programs from using it first.
    lock(&entry, draft.file())?;
    let stat = fstat(draft.file()).map_err(|errno| entry.failed("look at it", errno.into()))?;
    let file = draft.put(&entry, None)?;
    Ok((file, Some(NewFile(Some((entry, FileIdentity::of(&stat)))))))
}

/// Refuses a file that another user has put into a directory such as /tmp, under the name that this
/// one would be created with: its owner could read and change everything that is kept in it. The
/// kernel refuses the same to programs that open with `O_CREAT` (`fs.protected_regular`).
fn refuse_planted(entry: &DirectoryName, found: &ExistingFile) -> Result<(), FileError> {
    let directory = fstat(entry.directory());
    let directory =
        directory.map_err(|errno| entry.failed("look at its directory", errno.into()))?;
    if !is_planted(found.owner(), &directory, geteuid().as_raw()) {
        return Ok(());
    }
    Err(entry.not_ours(format!(
        "belongs to user {}, in a directory where all users may create files",
        found.owner()
    )))
}

fn is_planted(owner: u32, directory: &Stat, user: u32) -> bool {
    let mode = Mode::from_raw_mode(directory.st_mode);
    let is_shared = mode.contains(Mode::SVTX) && mode.intersects(Mode::WGRP | Mode::WOTH);
    is_shared && owner != user && owner != directory.st_uid
}

fn lock(entry: &DirectoryName, file: &File) -> Result<(), FileError> {
    match exclusively(file) {
        Ok(FileLock::Held | FileLock::Unsupported) => Ok(()),
        Ok(FileLock::Taken) => Err(FileError::InUse {
            path: entry.path().to_owned(),
            what: "is in use by another program".to_owned(),
            advice: "end that program, or give another path",
        }),
        Err(errno) => Err(entry.failed("lock it", errno.into())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_new_file_is_whole_and_an_old_one_is_kept() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("kept");
        open_or_make(&path, &[], |_| Err(io::Error::other("no"))).expect_err("it cannot be filled");
        assert!(!path.exists(), "half a file has no name");
        let (file, new) = open_or_make(&path, &[], |mut file| file.write_all(b"one")).unwrap();
        new.expect("it was made").keep();
        let in_use = open_or_make(&path, &[], |_| Ok(())).expect_err("it is locked");
        assert!(in_use.to_string().contains("in use"), "{in_use}");
        drop(file);
        let (mut file, new) = open_or_make(&path, &[], |_| panic!("it is there")).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), new.is_none()), ("one", true));
    }

    #[test]
    fn a_new_file_that_is_not_kept_is_removed_and_another_in_its_place_is_not() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("kept");
        let (_file, new) = open_or_make(&path, &[], |_| Ok(())).unwrap();
        drop(new);
        assert!(!path.exists());
        let (_file, new) = open_or_make(&path, &[], |_| Ok(())).unwrap();
        fs::rename(&path, root.path().join("moved")).unwrap();
        fs::write(&path, "another program's").unwrap();
        drop(new);
        assert_eq!(fs::read_to_string(&path).unwrap(), "another program's");
    }

    /// A user could create the overlay of root's next server in /tmp, and read what it wrote.
    #[test]
    fn a_file_of_another_user_in_a_shared_directory_is_planted() {
        let root = tempfile::tempdir().expect("a directory");
        let planted = |owner, mode, user| {
            fs::set_permissions(root.path(), fs::Permissions::from_mode(mode)).unwrap();
            let mut directory = rustix::fs::stat(root.path()).unwrap();
            directory.st_uid = 0;
            is_planted(owner, &directory, user)
        };
        assert!(planted(1000, 0o1777, 0) && planted(1000, 0o1775, 1001));
        assert!(!planted(1000, 0o1777, 1000), "the user's own");
        assert!(!planted(0, 0o1777, 1000), "of the directory's owner");
        assert!(!planted(1000, 0o755, 0) && !planted(1000, 0o777, 0), "not sticky");
        let path = root.path().join("kept");
        fs::write(&path, "").unwrap();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        open_or_make(&path, &[], |_| panic!("it is there")).expect("it is ours");
        if geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65534), None).unwrap();
            std::os::unix::fs::chown(root.path(), Some(0), None).unwrap();
            let line = open_or_make(&path, &[], |_| Ok(())).unwrap_err().to_string();
            assert!(line.contains("belongs to user 65534, in a directory where all"), "{line}");
        }
    }

    #[test]
    fn what_is_no_file_of_its_own_is_refused() {
        let root = tempfile::tempdir().expect("a directory");
        let (path, link) = (root.path().join("kept"), root.path().join("link"));
        fs::write(&path, "input").unwrap();
        symlink(&path, &link).unwrap();
        let input = [CommandInput { name: "TARGET", path: &path }];
        let fill = |_: &File| panic!("nothing is filled");
        for (path, inputs) in [(&path, &input[..]), (&link, &[]), (&root.path().to_owned(), &[])] {
            open_or_make(path, inputs, fill).expect_err("it is refused");
        }
        fs::hard_link(&path, root.path().join("second")).unwrap();
        open_or_make(&path, &[], fill).expect_err("two names");
        assert_eq!(fs::read_to_string(&path).unwrap(), "input");
    }
}
