//! A cgroup of the kernel: a directory below /sys/fs/cgroup.
//!
//! In:    a path there.
//! Out:   a new cgroup; its removal once no process is in it.
//! Never: a directory made or removed anywhere else, or one with something in it.

use std::fs;
use std::io;
use std::path::{Component, Path};

/// Makes a cgroup.
///
/// # Errors
///
/// If the path is elsewhere or there already, or the kernel refuses it.
pub fn create(path: &Path) -> io::Result<()> {
    fs::create_dir(below_root(path)?)
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

/// Where systems mount the hierarchies of both versions.
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
