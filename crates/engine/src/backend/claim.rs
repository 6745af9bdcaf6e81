//! Exclusive claims on block devices that an engine writes.
//!
//! The kernel neither mounts a claimed device nor grants a claim on one that is mounted, part of an
//! array, or claimed by another program. A disk and its partitions hold the same bytes, so they
//! exclude each other.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{OFlags, major, makedev, minor};

use super::{failed, failed_to_write, is_another};
use crate::error::{OpenError, OpenErrorKind};

/// Claims held by one engine.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    held: Mutex<Vec<Weak<Claim>>>,
}

/// A claimed block device, held open with `O_EXCL`.
#[derive(Debug)]
pub(crate) struct Claim {
    device: u64,
    /// The whole disk; the device itself if it is not a partition.
    whole: u64,
    _file: File,
}

impl Claim {
    pub(crate) fn device(&self) -> u64 {
        self.device
    }
}

impl Claims {
    /// Claims a block device for writing, or returns this engine's existing claim.
    ///
    /// ```text
    ///   claimed by this engine        the same claim
    ///   its disk, or a partition      Overlap
    ///   of it, claimed by it
    ///   any of these in use by        InUse, reported by the kernel
    ///   another program or mounted
    /// ```
    ///
    /// The claim has a descriptor of its own because the kernel grants no second `O_EXCL`, not even
    /// to the same process, and a file may be opened twice.
    pub(crate) fn claim(&self, path: &Path) -> Result<Arc<Claim>, OpenError> {
        // No code panics while holding this lock.
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

/// Returns true for a read-only device, which the kernel opens for writing although every write
/// fails. If sysfs does not tell, the first write does.
fn is_read_only(device: u64) -> bool {
    fs::read_to_string(sysfs(device).join("ro")).is_ok_and(|text| text.trim() == "1")
}

pub(super) fn sysfs(device: u64) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)))
}

/// Returns the disk of a partition. If sysfs does not tell, the kernel still refuses conflicting
/// claims.
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
