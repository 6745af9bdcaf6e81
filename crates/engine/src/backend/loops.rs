//! Finds the files behind loop devices, through several levels. If sysfs does not tell, there are
//! none.
//!
//! ```text
//!   /dev/loop1p2   sysfs: partition of loop1
//!   /dev/loop1     loop/backing_file: /dev/loop0    Device(7:0)
//!   /dev/loop0     loop/backing_file: /images/a     Inode(a)
//! ```
//!
//! The kernel reports the file's current path as seen by this process, so a deleted file or one in
//! another mount namespace is not found.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use super::FileIdentity;
use super::claim::{disk_of, sysfs};

/// Returns the files with the same bytes as this device, at most one per level.
pub(crate) fn files_behind(device: u64) -> Vec<FileIdentity> {
    let mut found = Vec::new();
    let mut device = device;
    while found.len() < DEPTH_MAX
        && let Some(behind) = file_behind(device)
    {
        found.push(behind);
        let FileIdentity::Device(next) = behind else { break };
        device = next;
    }
    found
}

fn file_behind(device: u64) -> Option<FileIdentity> {
    let path = sysfs(disk_of(device)).join("loop/backing_file");
    // A path is bytes.
    let path = fs::read(path).ok()?;
    let path = path.strip_suffix(b"\n").unwrap_or(&path);
    let file = fs::metadata(OsStr::from_bytes(path)).ok()?;
    Some(if file.file_type().is_block_device() {
        FileIdentity::Device(file.rdev())
    } else {
        FileIdentity::Inode { on: file.dev(), number: file.ino() }
    })
}

/// Guards against a chain of loop devices that changes during the walk; the kernel itself refuses
/// cycles.
const DEPTH_MAX: usize = 8;
