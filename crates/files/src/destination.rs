//! Destination of a command's result: a name in a directory, or an open descriptor.
//!
//! Stdout and other streams are recognised by their descriptor. No file is opened that is not open
//! already.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::{FileType, major, minor};

use crate::FileError;
use crate::entry::{DirectoryName, ExistingFile, FileIdentity};

/// Destination of a result. Two outputs of one command with equal destinations would replace each
/// other, or be mixed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OutputDestination(Destination);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Destination {
    /// Name of the descriptor: `1` for all names of stdout.
    Stream(OsString),
    File {
        directory: FileIdentity,
        name: OsString,
    },
}

impl OutputDestination {
    /// Returns the destination behind this path; None for /dev/null, which accepts any number of
    /// results.
    ///
    /// # Errors
    ///
    /// If the path names a directory, or its own directory cannot be opened.
    pub fn of(path: &Path) -> Result<Option<Self>, FileError> {
        if let Some(descriptor) = descriptor(path) {
            return Ok(Some(Self(Destination::Stream(descriptor))));
        }
        let entry = DirectoryName::new(path)?;
        if entry.look()?.as_ref().is_some_and(is_null) {
            return Ok(None);
        }
        let (directory, name) = (entry.directory_inode()?, entry.name().to_owned());
        Ok(Some(Self(Destination::File { directory, name })))
    }
}

/// Returns whether this path means stdout.
#[must_use]
pub fn is_stdout(path: &Path) -> bool {
    ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|it| path == Path::new(it))
}

/// Returns the stream that the path names; None if it names a file.
pub(crate) fn stream(path: &Path) -> Option<io::Result<File>> {
    let duplicate = |fd: io::Result<std::os::fd::OwnedFd>| fd.map(File::from);
    match descriptor(path)?.to_str()? {
        "1" => Some(duplicate(io::stdout().as_fd().try_clone_to_owned())),
        "2" => Some(duplicate(io::stderr().as_fd().try_clone_to_owned())),
        _ => {
            // A pipe only, because another open descriptor could be an input.
            let is_pipe = fs::metadata(path).is_ok_and(|it| it.file_type().is_fifo());
            is_pipe.then(|| File::options().write(true).open(path))
        }
    }
}

/// Returns the number of the open descriptor that a path names, if it names one.
fn descriptor(path: &Path) -> Option<OsString> {
    if is_stdout(path) {
        return Some("1".into());
    }
    if path == Path::new("/dev/stderr") {
        return Some("2".into());
    }
    let directories = ["/dev/fd", "/proc/self/fd"];
    let is_one = directories.iter().any(|directory| path.parent() == Some(Path::new(directory)));
    path.file_name().filter(|_| is_one).map(OsString::from)
}

/// Returns whether this is /dev/null, the one device that is safe to write to, and that users name
/// to discard a result.
pub(crate) fn is_null(found: &ExistingFile) -> bool {
    let device = found.stat().st_rdev;
    found.kind() == FileType::CharacterDevice && (major(device), minor(device)) == NULL
}

/// Device number of /dev/null on every Linux.
const NULL: (u32, u32) = (1, 3);

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn is_same(one: &Path, other: &Path) -> bool {
        let of = |path| OutputDestination::of(path).unwrap().unwrap();
        of(one) == of(other)
    }

    #[test]
    fn one_destination_has_many_paths() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name| directory.path().join(name);
        fs::create_dir(at("below")).unwrap();
        symlink(at("below"), at("link")).unwrap();
        for (one, other) in [("x", "below/../x"), ("below/x", "link/x"), ("x", "./x")] {
            assert!(is_same(&at(one), &at(other)), "{one} {other}");
        }
        for (one, other) in [("x", "y"), ("x", "below/x"), ("x", "X")] {
            assert!(!is_same(&at(one), &at(other)), "{one} {other}");
        }
        for stdout in ["-", "/dev/fd/1", "/proc/self/fd/1"] {
            assert!(is_same(Path::new(stdout), Path::new("/dev/stdout")), "{stdout}");
            assert!(!is_same(Path::new(stdout), Path::new("/dev/stderr")), "{stdout}");
        }
        assert!(is_same(Path::new("/dev/fd/2"), Path::new("/dev/stderr")));
        assert_eq!(OutputDestination::of(Path::new("/dev/null")).unwrap(), None);
        let line = OutputDestination::of(&at("missing/x")).unwrap_err().to_string();
        assert!(line.contains("cannot open its directory"), "{line}");
    }
}
