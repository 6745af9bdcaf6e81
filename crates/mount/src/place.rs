//! The directory that a mount is put on.
//!
//! In:    a path.
//! Out:   the same, whole; or why nothing can be mounted there.
//! Never: a mount on top of another, which would be out of reach.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::error::MountError;

/// The directory, if one can mount there.
pub(crate) fn checked(path: &Path) -> Result<PathBuf, MountError> {
    let wrong = |what| MountError::NoDirectory { path: path.to_owned(), what };
    let refused = |source| MountError::Mount { path: path.to_owned(), source };
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(wrong("is no directory")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(wrong("there is no such directory"));
        }
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NOTCONN) => {
            return Err(MountError::Dead { path: path.to_owned() });
        }
        Err(error) => return Err(refused(error)),
    }
    let whole = path.canonicalize().map_err(refused)?;
    let found = statx(CWD, &whole, AtFlags::empty(), StatxFlags::BASIC_STATS);
    let found = found.map_err(|errno| refused(errno.into()))?;
    if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Err(MountError::Busy { path: path.to_owned() });
    }
    Ok(whole)
}

/// Lets the kernel read ahead of files in requests as large as this, where we may (as root): its
/// own bound for FUSE is 128 KiB, and what a device does in one would go through FUSE in eight.
///
/// Of the mount only its number is asked, which the kernel knows: for more it would ask us, who do
/// not answer yet.
pub(crate) fn widen_read_ahead(directory: &Path, bytes: u64) {
    let found = statx(CWD, directory, AtFlags::STATX_DONT_SYNC, StatxFlags::empty());
    let Ok(found) = found else { return };
    if found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        let (major, minor) = (found.stx_dev_major, found.stx_dev_minor);
        let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        let _ = fs::write(setting, (bytes >> 10).max(KERNEL_KIB).to_string());
    }
}

/// What the kernel has for FUSE.
const KERNEL_KIB: u64 = 128;

/// Takes a mount out of sight; it lives on as long as somebody has something in it open.
pub fn detach(directory: &Path) {
    if unmount(directory, UnmountFlags::DETACH).is_ok() {
        return;
    }
    // Who is not root has mounted by one of these, and unmounts by it.
    for helper in ["fusermount3", "fusermount"] {
        let mut command = Command::new(helper);
        let done = command.arg("-uz").arg(directory).stderr(Stdio::null()).status();
        if done.is_ok_and(|status| status.success()) {
            return;
        }
    }
}
