//! A file that a user names and that keeps what a program puts into it, from run to run.
//!
//! In:    a path; what a new file begins with.
//! Out:   the file, open for reading and writing, locked; its name removed again, if it is new and
//!        its command is refused for another reason.
//! Never: a file under the path whose beginning is not whole; a link followed; two programs that
//!        have it at a time.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, openat};
use rustix::io::Errno;

use crate::FileError;
use crate::draft::Draft;
use crate::entry::{CommandInput, DirectoryName, FileIdentity};

/// A file that was made just now. Dropping it removes the file, unless it is kept.
#[derive(Debug)]
pub struct NewFile(Option<(DirectoryName, FileIdentity)>);

impl NewFile {
    /// Leaves the file where it is.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some((entry, inode)) = &self.0 {
            // What has the name by now may be another file, which stays.
            let _ = entry.remove(*inode);
        }
    }
}

/// Opens the file, or makes it: `fill` writes what a new one begins with, which is durable before
/// the file has its name. Of a new one there is a [`NewFile`], to be kept or dropped.
///
/// # Errors
///
/// If the path names an input of the command, a link, a file with several names, or anything but a
/// regular file; if another program has it open so; or if the system refuses.
pub fn open_or_make(
    path: &Path,
    inputs: &[CommandInput<'_>],
    fill: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(File, Option<NewFile>), FileError> {
    let entry = DirectoryName::new(path)?;
    if let Some(found) = entry.look()? {
        entry.only_regular(&found, inputs)?;
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
    // Locked before it has a name, it is never another program's.
    lock(&entry, draft.file())?;
    let stat = fstat(draft.file()).map_err(|errno| entry.failed("look at it", errno.into()))?;
    let file = draft.put(&entry, None)?;
    Ok((file, Some(NewFile(Some((entry, FileIdentity::of(&stat)))))))
}

fn lock(entry: &DirectoryName, file: &File) -> Result<(), FileError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(FileError::InUse {
            path: entry.path().to_owned(),
            what: "is in use by another program".to_owned(),
            advice: "end that one, or give another path",
        }),
        // A file system without locks: no program has one there.
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::symlink;

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
