//! The block device below a file, and the kernel's largest window for it.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use foreread_core::units::ByteCount;
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::target::window_in_force;

/// Returns the block device that is, or holds, a file; true if the file is the device itself.
pub(crate) fn device_of(file: &File) -> io::Result<(u64, bool)> {
    Ok(device_in(&file.metadata()?))
}

/// Returns the same for a path without opening it: opening a pipe blocks until a writer appears,
/// and opening other devices may have side effects.
pub(crate) fn device_at(path: &Path) -> io::Result<(u64, bool)> {
    Ok(device_in(&fs::metadata(path)?))
}

fn device_in(stat: &Metadata) -> (u64, bool) {
    let is_block_device = stat.file_type().is_block_device();
    (if is_block_device { stat.rdev() } else { stat.dev() }, is_block_device)
}

/// Returns the kernel's largest window for the device of a path in bytes, if known.
pub fn kernel_window(path: &Path) -> Option<ByteCount> {
    let (device, _) = device_at(path).ok()?;
    let number = (rustix::fs::major(device), rustix::fs::minor(device));
    let kib: u64 = window_in_force(&SystemRoot::here(), number)?.value.parse().ok()?;
    kib.checked_mul(1024).map(ByteCount)
}
