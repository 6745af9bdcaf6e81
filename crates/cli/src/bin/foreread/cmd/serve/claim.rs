//! Servers of different processes that would write the same bytes: the second one is refused.
//!
//! The lock is held as long as the process lives. Read-only servers take none.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::plan::ServePlan;
use foreread_cli::output::{Failure, cannot};

/// A regular file that is written belongs to one server: two would have two caches of it. So does
/// the file below a loop device. (A block device is claimed by the engine that opens it.)
pub(super) fn claimed(plan: &ServePlan) -> Result<Option<File>, Failure> {
    if plan.read_only {
        return Ok(None);
    }
    let target = if plan.target.is_file() { Some(plan.target.clone()) } else { file_behind(plan) };
    let Some(target) = target else { return Ok(None) };
    let file = File::open(&target).map_err(cannot("open the target"))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(Errno::WOULDBLOCK) => Err(Failure::WrongUse(format!(
            "{}: another server writes it; end that one, or serve it with --read-only",
            target.display()
        ))),
        // A file system without locks: no server has one there.
        Err(_) => Ok(None),
    }
}

/// The file below a loop device, where sysfs and this process's mounts show it.
fn file_behind(plan: &ServePlan) -> Option<PathBuf> {
    let number = fs::metadata(&plan.target).ok()?.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let named = format!("/sys/dev/block/{major}:{minor}/loop/backing_file");
    let path = PathBuf::from(fs::read_to_string(named).ok()?.trim_end_matches('\n'));
    path.is_file().then_some(path)
}
