//! File system types, classified by the source of their read-ahead window. An unknown type is never
//! treated as one on a block device.

/// Source of a file system's read-ahead.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileSystemKind {
    /// A pseudo file system of the kernel, without data.
    Kernel,
    /// Files in memory.
    Memory,
    /// On one block device, with that device's window.
    Block,
    /// NFS.
    Nfs,
    /// SMB, CIFS.
    Smb,
    /// The kernel's Ceph client.
    Ceph,
    /// 9p.
    NineP,
    /// FUSE backed by another machine or a store: each request crosses a network.
    FuseFar,
    /// Any other FUSE.
    Fuse,
    /// virtiofs.
    Virtiofs,
    /// overlayfs.
    Overlay,
    /// btrfs: on block devices, but with its own window.
    Btrfs,
    /// Its own prefetcher: see [`OWN_PREFETCHERS`].
    Own(&'static str),
    /// Unknown.
    Unknown,
}

impl FileSystemKind {
    /// Classifies a type as named in mountinfo: `nfs4`, `fuse.sshfs`.
    #[must_use]
    pub fn of(name: &str) -> Self {
        if let Some((_, setting)) = OWN_PREFETCHERS.iter().find(|(kind, _)| *kind == name) {
            return Self::Own(setting);
        }
        match name {
            "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" => Self::Memory,
            "nfs" | "nfs4" => Self::Nfs,
            "cifs" | "smb3" => Self::Smb,
            "ceph" => Self::Ceph,
            "9p" => Self::NineP,
            "virtiofs" => Self::Virtiofs,
            "overlay" => Self::Overlay,
            "btrfs" => Self::Btrfs,
            "fuse" | "fuseblk" => Self::Fuse,
            _ if KERNELS_OWN.contains(&name) => Self::Kernel,
            _ if ON_A_DEVICE.contains(&name) => Self::Block,
            _ => match name.strip_prefix("fuse.") {
                Some(program) if IN_MEMORY.contains(&program) => Self::Memory,
                Some(program) if FAR.iter().any(|far| program.starts_with(far)) => Self::FuseFar,
                Some(_) => Self::Fuse,
                None => Self::Unknown,
            },
        }
    }

    /// Returns whether each request crosses a network or leaves a virtual machine.
    #[must_use]
    pub fn is_far(self) -> bool {
        matches!(
            self,
            Self::Nfs | Self::Smb | Self::Ceph | Self::NineP | Self::FuseFar | Self::Virtiofs
        )
    }
}

/// File systems with their own prefetcher, and its setting.
pub const OWN_PREFETCHERS: [(&str, &str); 3] = [
    ("zfs", "/sys/module/zfs/parameters/zfetch_max_distance"),
    ("lustre", "lctl set_param llite.*.max_read_ahead_mb"),
    ("gpfs", "mmchconfig prefetchPct"),
];

/// Types that hold no data, in alphabetical order.
const KERNELS_OWN: [&str; 24] = [
    "autofs",
    "binder",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "cpuset",
    "debugfs",
    "devpts",
    "efivarfs",
    "fusectl",
    "mqueue",
    "nfsd",
    "nsfs",
    "pipefs",
    "proc",
    "pstore",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "sysfs",
    "tracefs",
];

/// Types that use the window of their block device.
const ON_A_DEVICE: [&str; 20] = [
    "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "gfs2", "hfs", "hfsplus", "iso9660", "isofs",
    "jfs", "msdos", "nilfs2", "ntfs3", "ocfs2", "squashfs", "udf", "vfat", "xfs",
];

/// FUSE programs that synthesise file contents.
const IN_MEMORY: [&str; 3] = ["lxcfs", "portal", "gvfsd-fuse"];

/// Names of FUSE programs that read through a network.
const FAR: [&str; 15] = [
    "sshfs",
    "s3fs",
    "goofys",
    "gcsfuse",
    "rclone",
    "juicefs",
    "JuiceFS",
    "mount-s3",
    "mountpoint-s3",
    "blobfuse",
    "glusterfs",
    "ceph-fuse",
    "seaweedfs",
    "alluxio",
    "cvmfs",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_their_names() {
        use FileSystemKind as Kind;
        for (name, kind) in [
            ("nfs4", Kind::Nfs),
            ("cifs", Kind::Smb),
            ("fuse.sshfs", Kind::FuseFar),
            ("fuse.blobfuse2", Kind::FuseFar),
            ("fuse.mergerfs", Kind::Fuse),
            ("fuse.lxcfs", Kind::Memory),
            ("fuseblk", Kind::Fuse),
            ("cgroup2", Kind::Kernel),
            ("tmpfs", Kind::Memory),
            ("xfs", Kind::Block),
            ("zfs", Kind::Own("/sys/module/zfs/parameters/zfetch_max_distance")),
            ("beegfs", Kind::Unknown),
        ] {
            assert_eq!(Kind::of(name), kind, "{name}");
        }
        assert!(Kind::of("nfs").is_far() && !Kind::of("ext4").is_far());
    }

    #[test]
    fn the_lists_are_in_order() {
        assert!(KERNELS_OWN.is_sorted() && ON_A_DEVICE.is_sorted());
    }
}
