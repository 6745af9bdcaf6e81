//! Checks whether the file behind a loop device is in the page cache, without reading it.
//!
//! ```text
//!   a read --> loop0 --> page cache of /srv/disk.img --> the disk     (without direct I/O)
//!                        '- there already: memory's speed
//! ```

use std::fs::File;

use crate::pages::resident;
use crate::sysfs::{BlockDevice, BlockDeviceKind, SystemRoot};

/// Returns the reason why a sweep of this device would measure the cache of its file.
pub(super) fn cached(device: &BlockDevice, sys: &SystemRoot) -> Option<String> {
    let BlockDeviceKind::Loop { backing: Some(backing) } = &device.kind else { return None };
    if sys.number(device.folder.join("loop/dio")) != Some(0) {
        return None;
    }
    let file = File::open(sys.path(backing)).ok()?;
    let len = file.metadata().ok()?.len();
    let cached: u64 = resident(&file, &(0..len))?.iter().map(|part| part.end - part.start).sum();
    let percent = cached.saturating_mul(100) / len.max(1);
    let line = format!("{percent} % of {backing} are in {PAGE_CACHE}");
    (percent >= CACHED_PERCENT).then_some(line)
}

/// Name of the cache that direct I/O of the loop device bypasses; the refusal searches for it.
pub(crate) const PAGE_CACHE: &str = "the page cache";

/// Cached share in percent from which readings are rejected; with less, a stream hits the cache
/// rarely, and these readings are trimmed like stalls.
const CACHED_PERCENT: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_in_the_page_cache_is_said_to_be() {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        let folder = sys.path("/sys/block/loop7/loop");
        fs::create_dir_all(&folder).expect("it is made");
        fs::create_dir_all(sys.path("/srv")).expect("it is made");
        // What was just written is in the cache.
        fs::write(sys.path("/srv/disk.img"), vec![7; 1 << 20]).expect("it is written");
        fs::write(folder.join("backing_file"), "/srv/disk.img\n").expect("it is written");
        fs::write(sys.path("/sys/block/loop7/dev"), "7:7\n").expect("it is written");
        fs::write(sys.path("/sys/block/loop7/size"), "2048\n").expect("it is written");
        let found = |dio: &str| {
            fs::write(folder.join("dio"), dio).expect("it is written");
            cached(&sys.device("loop7").expect("it is there"), &sys)
        };
        let line = found("0\n").expect("it is cached");
        assert!(line.contains("% of /srv/disk.img are in the page cache"), "{line}");
        assert_eq!(found("1\n"), None, "it reads around that cache");
        fs::remove_file(sys.path("/srv/disk.img")).expect("it is removed");
        assert_eq!(found("0\n"), None, "not known");
    }
}
