//! The kernel's default window for a mount, with the rule in words and its source. Kernels with
//! unknown rules get none.
//!
//! ```text
//!   nfs        before 5.4: 15 x rsize; since: 128 KiB
//!   smb        rasize if given (5.13); else 2 x rsize since 6.4, rsize before
//!   ceph       rasize, 8 MiB if not given
//!   9p         0 without a cache; else msize since 5.16, 128 KiB before
//!   fuse       128 KiB, less if the program says so (max_readahead)
//!   btrfs      the larger of 4 MiB and 128 KiB for each device
//! ```

use super::{FileSystemKind, MountDefault, backing};
use crate::confidence::Confidence;
use crate::kernel_default::{CONSTANT_KIB, version};
use crate::sysfs::{MountEntry, SystemRoot};

/// Returns the kernel's default for a mount; None if the rule or one of its inputs is unknown.
#[must_use]
pub fn mount_default(sys: &SystemRoot, entry: &MountEntry) -> Option<MountDefault> {
    let release = sys.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = version(&release);
    match FileSystemKind::of(&entry.kind) {
        FileSystemKind::Nfs => nfs(entry, release?),
        FileSystemKind::Smb => smb(entry, release?),
        FileSystemKind::Ceph => Some(ceph(entry)),
        FileSystemKind::NineP => nine_p(entry, release?),
        FileSystemKind::Fuse | FileSystemKind::FuseFar | FileSystemKind::Virtiofs => {
            Some(MountDefault {
                window_kib: CONSTANT_KIB,
                why: "a constant 128 KiB; the FUSE server can request less".to_owned(),
                cited: FUSE,
                confidence: Confidence::Computed,
            })
        }
        FileSystemKind::Btrfs => btrfs(sys, entry),
        FileSystemKind::Kernel
        | FileSystemKind::Memory
        | FileSystemKind::Block
        | FileSystemKind::Overlay
        | FileSystemKind::Own(_)
        | FileSystemKind::Unknown => None,
    }
}

fn nfs(entry: &MountEntry, release: (u32, u32)) -> Option<MountDefault> {
    let (window_kib, why) = if release < (5, 4) {
        let rsize = entry.number_of("rsize")?;
        (
            15 * rsize / 1024,
            format!("before Linux 5.4 15 times rsize, which is {} KiB", rsize >> 10),
        )
    } else {
        let why = "a constant 128 KiB since Linux 5.4, regardless of rsize";
        (CONSTANT_KIB, why.to_owned())
    };
    Some(MountDefault { window_kib, why, cited: NFS, confidence: Confidence::Computed })
}

fn smb(entry: &MountEntry, release: (u32, u32)) -> Option<MountDefault> {
    if let Some(rasize) = entry.number_of("rasize").filter(|size| *size > 0 && release >= (5, 13)) {
        return Some(MountDefault {
            window_kib: pages_kib(rasize),
            why: "the mount option rasize".to_owned(),
            cited: SMB_RASIZE,
            confidence: Confidence::Computed,
        });
    }
    let rsize = entry.number_of("rsize")?;
    let (times, why) = if release >= (6, 4) {
        (2, "twice rsize since Linux 6.4")
    } else {
        (1, "rsize before Linux 6.4")
    };
    Some(MountDefault {
        window_kib: times * pages_kib(rsize),
        why: format!("{why}; rsize is {} KiB", rsize >> 10),
        cited: SMB,
        confidence: Confidence::Computed,
    })
}

fn ceph(entry: &MountEntry) -> MountDefault {
    let (window_kib, why) = match entry.number_of("rasize") {
        Some(rasize) => (pages_kib(rasize), "the mount option rasize"),
        None => (8192, "the default of the mount option rasize"),
    };
    let confidence = Confidence::Computed;
    MountDefault { window_kib, why: why.to_owned(), cited: CEPH, confidence }
}

fn nine_p(entry: &MountEntry, release: (u32, u32)) -> Option<MountDefault> {
    let cache = entry.option("cache").unwrap_or("none");
    let (window_kib, why) = if matches!(cache, "none" | "0" | "0x0") {
        (0, "without a cache (cache=none) there is no read-ahead".to_owned())
    } else if release >= (5, 16) {
        let msize = entry.number_of("msize")?;
        (pages_kib(msize.saturating_sub(NINE_P_HEADER)), format!("msize, which is {msize} bytes"))
    } else {
        (CONSTANT_KIB, "a constant 128 KiB before Linux 5.16".to_owned())
    };
    Some(MountDefault { window_kib, why, cited: NINE_P, confidence: Confidence::Computed })
}

fn btrfs(sys: &SystemRoot, entry: &MountEntry) -> Option<MountDefault> {
    let devices = backing::btrfs_devices(sys, entry)?;
    Some(MountDefault {
        window_kib: (devices * CONSTANT_KIB).max(4096),
        why: format!(
            "btrfs' own, the larger of 4 MiB and 128 KiB for each device (it has {devices})"
        ),
        cited: BTRFS,
        confidence: Confidence::Computed,
    })
}

/// Rounds down to pages, in which the kernel counts.
fn pages_kib(bytes: u64) -> u64 {
    bytes / 4096 * 4
}

/// Header bytes of a 9p message.
const NINE_P_HEADER: u64 = 24;

const NFS: &str = "Linux 5.4, NFS: Optimise the default readahead size (c128e575514c)";
const SMB_RASIZE: &str = "Linux 5.13, smb3: add rasize mount parameter";
const SMB: &str = "Linux 6.4, smb3: improve parallel reads of large files (ba8c2b75b02a)";
const CEPH: &str = "mount.ceph(8): rasize, default 8388608";
const NINE_P: &str = "Linux 5.16, 9p: set readahead and io size (b1843d23854a)";
const FUSE: &str = "fuse(4), max_readahead of FUSE_INIT; seen on Linux 6.18";
const BTRFS: &str = "4 MiB on all systems looked at: gcp-compute-persistent-disk-csi-driver 2155";
