//! Descriptors and memory of a stopped thread, read from `/proc`. Descriptors are never duplicated
//! here, so a file that the thread closes is closed.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

use foreread_core::units::SECTOR_SIZE;
use rustix::fs::{FileType, Stat, getxattr, stat};
use rustix::io::Errno;

use crate::proc_status;

/// Identity of a recordable file.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) struct RecordedInode {
    device: u64,
    inode: u64,
    /// Device number of a block device; 0 for a regular file.
    block_device: u64,
}

/// Error for a process that hides its descriptors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HiddenProcess;

/// A file behind a descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenedFile {
    pub(crate) identity: RecordedInode,
    /// None if unknown.
    pub(crate) size: Option<u64>,
}

/// Returns the regular file or block device behind a descriptor; None if there is none.
///
/// # Errors
///
/// If the kernel hides the descriptors of the process: it is not dumpable, and we are not root.
pub(crate) fn opened(thread: u32, fd: i32) -> Result<Option<OpenedFile>, HiddenProcess> {
    match stat(format!("/proc/{thread}/fd/{fd}")) {
        Ok(found) => Ok(recordable(&found)),
        Err(Errno::ACCESS | Errno::PERM) => Err(HiddenProcess),
        // The call is going to fail.
        Err(_) => Ok(None),
    }
}

fn recordable(found: &Stat) -> Option<OpenedFile> {
    let (device, inode, special) = (found.st_dev, found.st_ino, found.st_rdev);
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => {
            let identity = RecordedInode { device, inode, block_device: 0 };
            Some(OpenedFile { identity, size: u64::try_from(found.st_size).ok() })
        }
        FileType::BlockDevice => {
            let identity = RecordedInode { device, inode, block_device: special };
            Some(OpenedFile { identity, size: block_device_size(special) })
        }
        FileType::Directory
        | FileType::Symlink
        | FileType::CharacterDevice
        | FileType::Fifo
        | FileType::Socket
        | FileType::Unknown => None,
    }
}

fn block_device_size(special: u64) -> Option<u64> {
    let (major, minor) = (rustix::fs::major(special), rustix::fs::minor(special));
    let text = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size")).ok()?;
    text.trim().parse::<u64>().ok()?.checked_mul(SECTOR_SIZE)
}

/// Returns the name of the file behind a descriptor. Invalid UTF-8 becomes U+FFFD.
pub(crate) fn name(thread: u32, fd: i32) -> Option<String> {
    let name = fs::read_link(format!("/proc/{thread}/fd/{fd}")).ok()?;
    Some(name.to_string_lossy().into_owned())
}

/// Returns the position of a descriptor.
pub(crate) fn position(thread: u32, fd: i32) -> Option<u64> {
    let mut info = File::open(format!("/proc/{thread}/fdinfo/{fd}")).ok()?;
    // One call in place of six: the position is in the first line.
    let mut bytes = [0; 64];
    let count = info.read(&mut bytes).ok()?;
    position_in(&bytes[..count])
}

/// Returns the position in the first line of a `fdinfo`.
fn position_in(info: &[u8]) -> Option<u64> {
    let line = info.split(|byte| *byte == b'\n').next()?;
    std::str::from_utf8(line).ok()?.strip_prefix("pos:")?.trim().parse().ok()
}

/// Returns the sum of the lengths in a vector of `struct iovec`.
pub(crate) fn vector_length(thread: u32, address: u64, count: u64) -> io::Result<u64> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    if count > VECTORS_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = vec![0; count * 16];
    memory(thread)?.read_exact_at(&mut bytes, address)?;
    let lengths = bytes.chunks_exact(16).map(|vector| word(&vector[8..]));
    Ok(lengths.fold(0, u64::saturating_add))
}

/// Returns the 64-bit integer at an address.
pub(crate) fn integer(thread: u32, address: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    memory(thread)?.read_exact_at(&mut bytes, address)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Returns the program that a thread has just started, if the kernel has withheld privileges of its
/// file: its owner's (setuid), its group's (setgid), or capabilities.
pub(crate) fn unprivileged(thread: u32) -> Option<String> {
    let path = format!("/proc/{thread}/exe");
    let program = stat(&path).ok()?;
    let status = proc_status::status(&thread.to_string())?;
    // Real, effective, saved and file system id.
    let effective = |name: &str| -> Option<u32> {
        proc_status::field(&status, name)?.split_whitespace().nth(1)?.parse().ok()
    };
    let (is_setuid, is_setgid) =
        (program.st_mode & libc::S_ISUID != 0, program.st_mode & SETGID == SETGID);
    let has_capabilities = || getxattr(&path, "security.capability", &mut [0_u8; 64]).is_ok();
    let has_none = proc_status::field(&status, "CapEff:")?.bytes().all(|digit| digit == b'0');
    let is_withheld = (is_setuid && effective("Uid:")? != program.st_uid)
        || (is_setgid && effective("Gid:")? != program.st_gid)
        || (has_none && has_capabilities());
    let name = || Some(fs::read_link(&path).ok()?.to_string_lossy().into_owned());
    is_withheld.then(name)?
}

/// Mode bits of a set-group-ID program; without group execution, the bit means mandatory locking.
const SETGID: u32 = libc::S_ISGID | libc::S_IXGRP;

fn memory(thread: u32) -> io::Result<File> {
    File::open(format!("/proc/{thread}/mem"))
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
}

/// Linux's `UIO_MAXIOV`: with more the call fails.
const VECTORS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom};
    use std::os::fd::AsRawFd as _;

    use super::*;

    #[test]
    fn a_position_is_found_whatever_follows_it() {
        let mut file = tempfile::tempfile().expect("a file");
        for at in [0, 4096, (1 << 40) + 7] {
            file.seek(SeekFrom::Start(at)).expect("any place of a file");
            assert_eq!(position(std::process::id(), file.as_raw_fd()), Some(at));
        }
        assert_eq!(position(std::process::id(), -1), None);
        assert_eq!(position_in(b"pos:\t18446744073709551615\nfla"), Some(u64::MAX));
        assert_eq!(position_in(b"flags:\t0100000\npos:\t7\n"), None, "no kernel says so");
    }
}
