//! Attributes of a tree's nodes for the kernel. They never change, as a node does not. Owner and
//! mode are made up, because stores have none.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{FileAttr, FileType, INodeNo};
use rustix::process::{getegid, geteuid};

use crate::tree::TreeFile;

/// Owner of all files.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeOwner {
    uid: u32,
    gid: u32,
}

impl NodeOwner {
    /// Returns the user that mounts.
    pub(super) fn of_process() -> Self {
        Self { uid: geteuid().as_raw(), gid: getegid().as_raw() }
    }

    /// Returns the attributes of a node; `file` is None for a directory.
    pub(super) fn attributes(self, number: u64, file: Option<&TreeFile>) -> FileAttr {
        let size = file.map_or(0, |file| file.size);
        let time = file.map_or(UNIX_EPOCH, |file| time(file.modified));
        FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: if file.is_some() { FileType::RegularFile } else { FileType::Directory },
            perm: if file.is_some() { 0o444 } else { 0o555 },
            // Programs then do not use the link count to decide that all subdirectories were found.
            nlink: 1,
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

fn time(seconds: i64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time =
        if seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
    time.unwrap_or(UNIX_EPOCH)
}
