//! Chooses a method of durable writes that is known to work for a file, with io_uring and with
//! system calls alike. docs/guide/durability.md has the table.
//!
//! ```text
//!   Dsync            pwritev2(RWF_DSYNC)        block devices, ext4, XFS, btrfs
//!   WriteThenFlush   pwritev2, then fdatasync   all others
//! ```
//!
//! The file systems are listed because Linux accepts the flag on all of them, and each decides for
//! its direct and asynchronous writes whether to honour it. FUSE drops it there.

use std::fs::File;

use rustix::fs::fstatfs;

use super::FileIdentity;

/// Method of making a write durable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FuaMethod {
    /// `RWF_DSYNC`, which the file system is known to honour.
    Dsync,
    /// A write, then `fdatasync(2)`.
    WriteThenFlush,
}

impl FuaMethod {
    /// Returns the method known to work for an open file.
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

/// Magic numbers of `statfs(2)` for ext4 (also ext2 and ext3), XFS and btrfs. Their direct writes
/// flush, or set FUA, also when an asynchronous write completes.
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
