//! Kinds of files that the engine refuses, because they have no pages.

use std::fs::{File, FileType};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

use rustix::fs::fstatfs;

use crate::error::{OpenError, OpenErrorKind};

/// Refuses everything but regular files and block devices.
pub(super) fn check_kind(path: &Path, kind: FileType) -> Result<(), OpenError> {
    if kind.is_file() || kind.is_block_device() {
        Ok(())
    } else if kind.is_dir() {
        Err(OpenErrorKind::Directory.of(path.to_path_buf()))
    } else if kind.is_fifo() {
        no_pages(path, "pipe")
    } else if kind.is_socket() {
        no_pages(path, "socket")
    } else {
        no_pages(path, "character device")
    }
}

/// Refuses regular files whose content the kernel makes up as it is read.
///
/// Their length says nothing: a file of procfs would read as an empty one.
pub(super) fn check_content(path: &Path, file: &File) -> Result<(), OpenError> {
    let magic = fstatfs(file).ok().and_then(|stat| u64::try_from(stat.f_type).ok());
    match magic.and_then(made_up_by) {
        Some(kind) => no_pages(path, kind),
        None => Ok(()),
    }
}

fn no_pages(path: &Path, kind: &'static str) -> Result<(), OpenError> {
    Err(OpenErrorKind::NoPages { kind }.of(path.to_path_buf()))
}

/// Returns a name for the files of a file system that the kernel makes up, by the magic number of
/// `statfs(2)`.
fn made_up_by(magic: u64) -> Option<&'static str> {
    match magic {
        0x9fa0 => Some("file of procfs"),
        0x6265_6572 => Some("file of sysfs"),
        0x0027_e0eb | 0x6367_7270 => Some("file of a cgroup"),
        0x6462_6720 => Some("file of debugfs"),
        0x7472_6163 => Some("file of tracefs"),
        0x7363_6673 => Some("file of securityfs"),
        0x6265_6570 => Some("file of configfs"),
        _ => None,
    }
}
