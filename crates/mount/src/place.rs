//! The directory that a mount is put on.
//!
//! In:    a path.
//! Out:   the same, whole; or why nothing can be mounted there.
//! Never: a mount on top of another, which would be out of reach.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use foreread_files::attribute;
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

/// Where our mount is, and which of those that may be there is ours.
///
/// ```text
///   ours                    another                     nothing
///   /mnt, device 0:45       /mnt, device 0:46           /mnt, a directory
///   is unmounted            ours was taken out of sight, or is over: nothing is touched
/// ```
#[derive(Debug)]
pub(crate) struct Place {
    directory: PathBuf,
    /// The device number that the kernel has given to the mount; unique while the mount exists.
    device: Option<(u32, u32)>,
}

impl Place {
    /// Of a mount that was just made.
    pub(crate) fn of(directory: PathBuf) -> Self {
        let device = mounted_device(&directory, AtFlags::STATX_DONT_SYNC).ok().flatten();
        Self { directory, device }
    }

    /// Lets the kernel read ahead of files in requests as large as this, where we may (as root):
    /// its own bound for FUSE is 128 KiB, and what a device does in one would go through FUSE in
    /// eight.
    pub(crate) fn widen_read_ahead(&self, bytes: u64) {
        if let Some((major, minor)) = self.device {
            let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
            let kib = (bytes >> 10).max(KERNEL_KIB).to_string();
            let _ = attribute::set(Path::new(&setting), &kib);
        }
    }

    /// Unmounts, and returns true; a mount in use is only detached.
    pub(crate) fn unmount(&self) -> bool {
        if !self.is_ours() {
            return false;
        }
        let done = match unmount(&self.directory, UnmountFlags::empty()) {
            Err(Errno::PERM) => helped("-u", &self.directory),
            done => done.is_ok(),
        };
        if !done {
            detach(&self.directory);
        }
        done
    }

    /// Detaches the mount if its FUSE connection was cut, as by `umount -f` of one that is in use.
    pub(crate) fn clear(&self) {
        let asked = || mounted_device(&self.directory, AtFlags::STATX_FORCE_SYNC);
        if self.is_ours() && asked().is_err_and(|errno| errno == Errno::NOTCONN) {
            detach(&self.directory);
        }
    }

    /// Detaches the mount, whether its connection was cut or not.
    pub(crate) fn take_away(&self) {
        if self.is_ours() {
            detach(&self.directory);
        }
    }

    fn is_ours(&self) -> bool {
        let found = mounted_device(&self.directory, AtFlags::STATX_DONT_SYNC);
        self.device.is_some() && found.is_ok_and(|found| found == self.device)
    }
}

/// The device that is mounted on a directory, if one is. Not synced, it is the kernel's to answer:
/// to ask the mount itself would be to wait for ourselves.
fn mounted_device(directory: &Path, sync: AtFlags) -> rustix::io::Result<Option<(u32, u32)>> {
    let found = statx(CWD, directory, sync, StatxFlags::BASIC_STATS)?;
    let is_mounted = found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    Ok(is_mounted.then_some((found.stx_dev_major, found.stx_dev_minor)))
}

/// What the kernel has for FUSE.
const KERNEL_KIB: u64 = 128;

/// Detaches a mount (`MNT_DETACH`): it lives on as long as it is in use.
pub fn detach(directory: &Path) {
    if unmount(directory, UnmountFlags::DETACH).is_ok() {
        return;
    }
    helped("-uz", directory);
}

/// Unmounts by fusermount, by which an unprivileged user has mounted.
fn helped(how: &str, directory: &Path) -> bool {
    ["fusermount3", "fusermount"].iter().any(|helper| {
        let mut command = Command::new(helper);
        let done = command.arg(how).arg("--").arg(directory).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    })
}
