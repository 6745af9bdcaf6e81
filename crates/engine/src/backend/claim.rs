//! Claims: an engine that writes to a block device has it for itself.
//!
//! In:    the path of a block device.
//! Out:   a claim, which the kernel respects as long as it lives: a claimed device is not mounted.
//! Never: a claim beside another engine's, a mount's, or an array's; nor on a partition beside its
//!        whole disk, whose bytes are the same ones.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{OFlags, major, makedev, minor};

use super::{failed, failed_to_write, is_another};
use crate::error::{OpenError, OpenErrorKind};

/// The claims of one engine.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    held: Mutex<Vec<Weak<Claim>>>,
}

/// A block device that is claimed: by a descriptor that was opened with O_EXCL.
#[derive(Debug)]
pub(crate) struct Claim {
    device: u64,
    /// The disk that it lies on; itself, if it is no partition.
    whole: u64,
    _file: File,
}

impl Claim {
    pub(crate) fn device(&self) -> u64 {
        self.device
    }
}

impl Claims {
    /// ```text
    ///   this engine has it            the same claim
    ///   has its disk, or a part of    Overlap
    ///   it that is a partition
    ///   another program has any of    InUse: the kernel says so
    ///   these, or mounted it
    /// ```
    ///
    /// Why a descriptor beside the one that writes: the kernel grants no second O_EXCL, not even to
    /// the same process, and a file may be opened twice.
    pub(crate) fn claim(&self, path: &Path) -> Result<Arc<Claim>, OpenError> {
        // Nothing panics while it holds this lock.
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.retain(|claim| claim.strong_count() > 0);
        let device = fs::metadata(path).map_err(|source| failed(path, "open", source))?.rdev();
        if is_read_only(device) {
            return Err(OpenErrorKind::NotWritable.of(PathBuf::from(path)));
        }
        let whole = disk_of(device);
        for claim in held.iter().filter_map(Weak::upgrade) {
            if claim.device == device {
                return Ok(claim);
            }
            let is_part_of = claim.whole == device || whole == claim.device;
            if is_part_of && claim.whole == whole {
                return Err(OpenErrorKind::Overlap.of(PathBuf::from(path)));
            }
        }
        let flags = OFlags::EXCL | OFlags::NONBLOCK;
        let flags = i32::try_from(flags.bits()).expect("flags of open(2) are an int");
        let file = File::options()
            .read(true)
            .custom_flags(flags)
            .open(path)
            .map_err(|source| failed_to_write(path, source))?;
        let is_same = file.metadata().is_ok_and(|now| now.rdev() == device);
        if !is_same {
            return Err(is_another(path));
        }
        let claim = Arc::new(Claim { device, whole, _file: file });
        held.push(Arc::downgrade(&claim));
        Ok(claim)
    }
}

/// The kernel opens such a device for writing, and refuses each write. Where sysfs does not tell,
/// the first write does.
fn is_read_only(device: u64) -> bool {
    fs::read_to_string(sysfs(device).join("ro")).is_ok_and(|text| text.trim() == "1")
}

pub(super) fn sysfs(device: u64) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)))
}

/// The disk that a partition lies on. Where sysfs does not tell, the kernel refuses on its own.
pub(crate) fn disk_of(device: u64) -> u64 {
    let folder = sysfs(device);
    if !folder.join("partition").exists() {
        return device;
    }
    let number = || {
        let disk = fs::canonicalize(&folder).ok()?.parent()?.join("dev");
        let text = fs::read_to_string(disk).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        Some(makedev(major.parse().ok()?, minor.parse().ok()?))
    };
    number().unwrap_or(device)
}
