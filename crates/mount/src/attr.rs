//! Attributes of an image's inodes for the kernel. Inode numbers are the image's own, including the
//! root's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use foreread_ext4::{FileKind, Inode, Timestamp};
use fuser::{FileAttr, FileType, INodeNo};

/// Returns the attributes of an inode.
pub(crate) fn of(inode: &Inode, block_size: u32) -> FileAttr {
    FileAttr {
        ino: INodeNo(inode.number.into()),
        size: inode.size,
        blocks: inode.sectors,
        atime: time(inode.accessed),
        mtime: time(inode.modified),
        ctime: time(inode.changed),
        crtime: inode.created.map_or(UNIX_EPOCH, time),
        kind: kind(inode.kind),
        perm: inode.mode & 0o7777,
        nlink: inode.links.into(),
        uid: inode.uid,
        gid: inode.gid,
        // The kernel's encoding: 12 bits of the major, 20 of the minor.
        rdev: inode.device.map_or(0, |device| {
            (device.minor & 0xFF) | (device.major << 8) | ((device.minor & !0xFF) << 12)
        }),
        blksize: block_size,
        flags: 0,
    }
}

/// Returns attributes for a name whose inode cannot be read, or for a missing name (number 0).
pub(crate) fn of_name(number: u32, kind: FileType) -> FileAttr {
    FileAttr {
        ino: INodeNo(number.into()),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

pub(crate) fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
    }
}

fn time(time: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(time.seconds.unsigned_abs());
    let second = if time.seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
    second + Duration::from_nanos(time.nanos.into())
}
