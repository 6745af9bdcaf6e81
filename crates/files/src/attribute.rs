//! Writes kernel attributes: existing files of sysfs.
//!
//! A value is written in one call. No file is created, no link followed at the last component, and
//! no device written to.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

/// Writes a value into an attribute.
///
/// # Errors
///
/// If there is no such attribute, or the kernel refuses the value.
pub fn set(path: &Path, value: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(openat(CWD, path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is not an attribute (not a regular file)"));
    }
    // Copies of a system in tests are plain files, which keep old contents unless truncated.
    file.set_len(0)?;
    file.write_all(value.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_attribute_is_set_and_never_created() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("read_ahead_kb");
        set(&path, "64").expect_err("there is none");
        assert!(!path.exists());
        fs::write(&path, "1024\n").unwrap();
        set(&path, "64").expect("it is there");
        assert_eq!(fs::read_to_string(&path).unwrap(), "64");
        set(Path::new("/dev/null"), "64").expect_err("a device");
    }
}
