//! How a write to a file is made durable: by a flag of the write, or by a flush after it.
//!
//! In:    an open file.
//! Out:   the method that is known to work there, by io_uring and by system calls alike.
//! Never: trust in a flag that a file system may ignore: docs/guide/durability.md has the table.
//!
//! ```text
//!   Dsync            pwritev2(RWF_DSYNC)        block devices, ext4, XFS, btrfs
//!   WriteThenFlush   pwritev2, then fdatasync   all others
//! ```
//!
//! Why a list: Linux takes the flag on every file system, and each decides on its own path for
//! direct and asynchronous writes whether it has a meaning. FUSE drops it there.

use std::fs::File;

use rustix::fs::fstatfs;

use super::FileIdentity;

/// How a write to a file is made durable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FuaMethod {
    /// `RWF_DSYNC`, which the file system is known to honour.
    Dsync,
    /// A write, then `fdatasync(2)`.
    WriteThenFlush,
}

impl FuaMethod {
    /// The method that is known to work for an open file.
    pub(super) fn of(file: &File, identity: FileIdentity) -> Self {
        if matches!(identity, FileIdentity::Device(_)) {
            return Self::Dsync;
        }
        match fstatfs(file) {
            Ok(stat) => u64::try_from(stat.f_type).map_or(Self::WriteThenFlush, Self::of_type),
            Err(_) => Self::WriteThenFlush,
        }
    }

    fn of_type(magic: u64) -> Self {
        if DSYNC_HONOURED.contains(&magic) { Self::Dsync } else { Self::WriteThenFlush }
    }
}

/// The numbers by which `statfs(2)` names ext4 (also ext2 and ext3), XFS and btrfs. Their direct
/// writes flush, or set FUA, at the completion of an asynchronous write as well.
const DSYNC_HONOURED: [u64; 3] = [0xef53, 0x5846_5342, 0x9123_683e];

#[cfg(test)]
mod tests {
    use super::FuaMethod;

    /// FUA writes to a file of a FUSE file system were acknowledged and not durable: Linux ignores
    /// `RWF_DSYNC` of direct writes that io_uring submits there.
    #[test]
    fn the_flag_is_trusted_on_file_systems_that_are_known_to_honour_it_only() {
        for (name, magic) in [("ext4", 0xef53), ("XFS", 0x5846_5342), ("btrfs", 0x9123_683e)] {
            assert_eq!(FuaMethod::of_type(magic), FuaMethod::Dsync, "{name}");
        }
        let others = [
            ("FUSE", 0x6573_5546),
            ("NFS", 0x6969),
            ("9p", 0x0102_1997),
            ("SMB", 0xff53_4d42),
            ("Ceph", 0x00c3_6400),
            ("overlayfs", 0x794c_7630),
            ("tmpfs", 0x0102_1994),
            ("none that is known", 1),
        ];
        for (name, magic) in others {
            assert_eq!(FuaMethod::of_type(magic), FuaMethod::WriteThenFlush, "{name}");
        }
    }
}
