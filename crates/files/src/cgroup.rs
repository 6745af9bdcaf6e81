//! Creates and removes cgroups: directories below /sys/fs/cgroup. It never touches any other
//! directory, nor removes one with something in it.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Component, Path};

/// Creates a cgroup that only its owner can change, whatever the umask.
///
/// # Errors
///
/// If the path is elsewhere or exists, or the kernel refuses it.
pub fn create(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o755).create(below_root(path)?)
}

/// Removes a cgroup.
///
/// # Errors
///
/// If the path is elsewhere, or processes or other cgroups are in it.
pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_dir(below_root(path)?)
}

fn below_root(path: &Path) -> io::Result<&Path> {
    let is_plain = path.components().all(|part| part != Component::ParentDir);
    if is_plain && path.starts_with(ROOT) && path != Path::new(ROOT) {
        return Ok(path);
    }
    Err(io::Error::other("is not below /sys/fs/cgroup"))
}

/// Mount point of the hierarchies of both versions.
const ROOT: &str = "/sys/fs/cgroup";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_directory_is_made_or_removed() {
        let root = tempfile::tempdir().expect("a directory");
        for path in [root.path(), Path::new("/sys/fs/cgroup"), Path::new("/sys/fs/cgroup/../x")] {
            create(path).expect_err("not below the root");
            remove(path).expect_err("not below the root");
        }
        assert!(root.path().exists());
    }
}
