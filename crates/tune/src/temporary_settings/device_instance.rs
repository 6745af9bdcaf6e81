//! Which device had a name: names of disks and backing devices are reused.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::setting::DeviceSetting;
use crate::sysfs::SystemRoot;

/// The device that a setting belonged to when this value was made.
#[derive(Clone, Debug)]
pub struct DeviceInstance {
    setting: DeviceSetting,
    number: Option<u64>,
}

impl DeviceInstance {
    /// Returns the device that has this setting now.
    #[must_use]
    pub fn of(sys: &SystemRoot, setting: &DeviceSetting) -> Self {
        Self { setting: setting.clone(), number: instance_number(sys, setting) }
    }

    /// Returns whether the same device still has its name. Before Linux 5.15, disks have no number
    /// that distinguishes them, and any disk of that name counts.
    #[must_use]
    pub fn is_here(&self, sys: &SystemRoot) -> bool {
        let is_present = self.setting.in_force(sys).is_some();
        is_present && self.number == instance_number(sys, &self.setting)
    }
}

/// Returns a number that no other disk or backing device gets until the next boot; disks of kernels
/// before 5.15 have none.
///
/// The name of a backing device (`0:52`) is reused by the next mount. The inode of its folder in
/// sysfs is not.
pub(super) fn instance_number(sys: &SystemRoot, setting: &DeviceSetting) -> Option<u64> {
    if setting.attribute.starts_with(BACKING_DEVICES) {
        let about = fs::metadata(sys.path(setting.file()).parent()?).ok()?;
        return Some(about.ino());
    }
    sys.number(Path::new("/sys/block").join(&setting.device).join("diskseq"))
}

/// Folder with the windows of mounts without a disk.
const BACKING_DEVICES: &str = "/sys/class/bdi/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_was_replaced_is_another_one() {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        let setting = DeviceSetting::read_ahead_kb("loop0", 128);
        let file = sys.path(setting.file());
        let diskseq = sys.path("/sys/block/loop0/diskseq");
        fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
        fs::write(&file, "128\n").expect("it is written");
        fs::write(&diskseq, "7\n").expect("it is written");
        let instance = DeviceInstance::of(&sys, &setting);
        assert!(instance.is_here(&sys));
        fs::write(&file, "1024\n").expect("it is written");
        assert!(instance.is_here(&sys), "another value is no other device");
        fs::write(&diskseq, "9\n").expect("it is written");
        assert!(!instance.is_here(&sys), "another device has the name");
        fs::write(&diskseq, "7\n").expect("it is written");
        fs::remove_file(&file).expect("it is there");
        assert!(!instance.is_here(&sys), "it was removed");
    }
}
