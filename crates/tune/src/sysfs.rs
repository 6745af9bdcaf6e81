//! Reads block devices and mounts from sysfs and procfs.
//!
//! In:    a root folder with `sys`, `proc`, `etc`, `run` and `usr`: `/`, or a test's.
//! Out:   [`BlockDevice`]s, [`MountEntry`]s; the text of an attribute.
//! Never: a write ([`crate`]'s settings do that); a device that is opened; an error because one
//!        attribute is missing: an older kernel has fewer, and then it is None.

mod device;
mod mount;
mod select;

use std::fs;
use std::path::{Path, PathBuf};

use foreread_files::regular;

pub use device::{BlockDevice, BlockDeviceKind, Queue, SchedulerAttribute};
pub use mount::MountEntry;
pub(crate) use select::{by_name, mounts_on};
pub use select::{devices_named, devices_named_among, place_of};

/// The root of a system's files.
#[derive(Clone, Debug)]
pub struct SystemRoot {
    root: PathBuf,
}

impl SystemRoot {
    /// Creates the root of a system below `root`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Creates the root of the running system.
    #[must_use]
    pub fn here() -> Self {
        Self::at("/")
    }

    /// Returns whether this is the running system, not a copy of one.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Returns the location of an absolute path of that system.
    #[must_use]
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let absolute = absolute.as_ref();
        self.root.join(absolute.strip_prefix("/").unwrap_or(absolute))
    }

    /// Returns all block devices by name, partitions after their disk.
    #[must_use]
    pub fn devices(&self) -> Vec<BlockDevice> {
        let mut devices = Vec::new();
        for disk in names_in(&self.path("/sys/block")) {
            let folder = PathBuf::from("/sys/block").join(&disk);
            let Some(whole) = BlockDevice::read(self, &disk, &folder, None) else { continue };
            let parts = names_in(&self.path(&folder)).into_iter().filter_map(|name| {
                let folder = folder.join(&name);
                let is_part = self.path(&folder).join("partition").exists();
                is_part.then(|| BlockDevice::read(self, &name, &folder, Some(&whole)))?
            });
            let parts: Vec<_> = parts.collect();
            devices.push(whole);
            devices.extend(parts);
        }
        devices
    }

    /// Returns the device of this name (`sda1`).
    #[must_use]
    pub fn device(&self, name: &str) -> Option<BlockDevice> {
        self.devices().into_iter().find(|device| device.name == name)
    }

    /// Returns the device of this number.
    #[must_use]
    pub fn device_numbered(&self, major: u32, minor: u32) -> Option<BlockDevice> {
        self.devices().into_iter().find(|device| device.number == (major, minor))
    }

    /// Returns the device whose queue and settings apply to this one: a partition's disk, otherwise
    /// the device itself.
    #[must_use]
    pub fn whole(&self, device: &BlockDevice) -> Option<BlockDevice> {
        match &device.kind {
            BlockDeviceKind::Partition { of, .. } => self.device(of),
            BlockDeviceKind::Disk
            | BlockDeviceKind::Loop { .. }
            | BlockDeviceKind::Mapped { .. }
            | BlockDeviceKind::Raid { .. } => Some(device.clone()),
        }
    }

    /// Returns all mounted file systems.
    #[must_use]
    pub fn mounts(&self) -> Vec<MountEntry> {
        // A path is bytes: one that is not UTF-8 must not hide all other mounts.
        let bytes = self.bytes("/proc/self/mountinfo").unwrap_or_default();
        String::from_utf8_lossy(&bytes).lines().filter_map(MountEntry::parse).collect()
    }

    /// Returns the text of a file, without the final newline.
    #[must_use]
    pub fn text(&self, absolute: impl AsRef<Path>) -> Option<String> {
        let text = self.whole_text(absolute)?;
        // ASCII blanks only: a wide blank at the end belongs to the name, as it does for udev.
        let is_end = |c: char| c == '\0' || c.is_ascii_whitespace();
        Some(text.trim_end_matches(is_end).to_owned())
    }

    /// Returns the text of a file verbatim.
    #[must_use]
    pub fn whole_text(&self, absolute: impl AsRef<Path>) -> Option<String> {
        String::from_utf8(self.bytes(absolute)?).ok()
    }

    /// Returns the bytes of a regular file; None for anything else. A copy of a system may contain
    /// a pipe without a writer, a device that reacts to being opened, or an endless file.
    #[must_use]
    pub fn bytes(&self, absolute: impl AsRef<Path>) -> Option<Vec<u8>> {
        regular::read(&self.path(absolute), BYTES_MAX).ok()
    }

    /// Returns the number in a file.
    #[must_use]
    pub fn number(&self, absolute: impl AsRef<Path>) -> Option<u64> {
        self.text(absolute)?.trim().parse().ok()
    }
}

/// Exceeds the mount table of any machine; a record has some KiB.
const BYTES_MAX: u64 = 16 << 20;

/// Returns the names in a folder in natural order: sda2 before sda10.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let key = |name: &String| {
        let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let (stem, number) = name.split_at(name.len() - digits);
        (stem.to_owned(), number.parse::<u64>().unwrap_or(0), name.clone())
    };
    names.sort_by_key(key);
    names
}

#[cfg(test)]
pub(crate) mod fixture {
    use super::*;

    /// Creates a system with these files, which exist until the folder is dropped.
    pub(crate) fn system<P: AsRef<str>>(files: &[(P, &str)]) -> (tempfile::TempDir, SystemRoot) {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        for (path, text) in files {
            let path = sys.path(path.as_ref());
            fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            fs::write(path, text).expect("it is written");
        }
        (root, sys)
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::system;
    use super::*;

    #[test]
    fn a_disk_and_its_partitions() {
        let (_root, sys) = system(&[
            ("/sys/block/sda/dev", "8:0\n"),
            ("/sys/block/sda/size", "1870001\n"),
            ("/sys/block/sda/queue/read_ahead_kb", "128\n"),
            ("/sys/block/sda/queue/rotational", "1\n"),
            ("/sys/block/sda/queue/logical_block_size", "512\n"),
            ("/sys/block/sda/queue/scheduler", "none [mq-deadline] bfq\n"),
            ("/sys/block/sda/queue/iosched/fifo_batch", "16\n"),
            ("/sys/block/sda/sda10/dev", "8:10\n"),
            ("/sys/block/sda/sda10/partition", "10\n"),
            ("/sys/block/sda/sda2/dev", "8:2\n"),
            ("/sys/block/sda/sda2/partition", "2\n"),
            ("/sys/block/sda/sda2/start", "63\n"),
            ("/sys/block/sda/sda2/size", "1000\n"),
        ]);
        let names: Vec<_> = sys.devices().into_iter().map(|device| device.name).collect();
        assert_eq!(names, ["sda", "sda2", "sda10"]);
        let disk = sys.device("sda").expect("it is there");
        assert_eq!(disk.size.0, 1_870_001 * 512);
        assert_eq!(disk.queue.read_ahead_kib, Some(128));
        assert_eq!(disk.queue.is_rotational, Some(true));
        let scheduler = disk.queue.scheduler.expect("it has one");
        assert_eq!(scheduler.chosen, "mq-deadline");
        assert_eq!(scheduler.choices, ["none", "mq-deadline", "bfq"]);
        assert_eq!(scheduler.tunables["fifo_batch"], "16");
        let part = sys.device_numbered(8, 2).expect("it is there");
        assert_eq!(part.kind, BlockDeviceKind::Partition { of: "sda".into(), start_sector: 63 });
        assert_eq!(part.queue.read_ahead_kib, Some(128), "a partition has its disk's");
        assert_eq!(sys.whole(&part).expect("it is there").name, "sda");
    }

    #[test]
    fn loops_maps_and_arrays() {
        let (_root, sys) = system(&[
            ("/sys/block/loop0/dev", "7:0\n"),
            ("/sys/block/loop0/loop/backing_file", "/srv/a disk.img (deleted)\n"),
            ("/sys/block/dm-0/dev", "253:0\n"),
            ("/sys/block/dm-0/dm/name", "vg-root\n"),
            ("/sys/block/dm-0/dm/uuid", "LVM-x\n"),
            ("/sys/block/dm-0/slaves/sda2/dev", "8:2\n"),
            ("/sys/block/md0/dev", "9:0\n"),
            ("/sys/block/md0/md/level", "raid5\n"),
        ]);
        let kind = |name| sys.device(name).expect("it is there").kind;
        assert_eq!(
            kind("loop0"),
            BlockDeviceKind::Loop { backing: Some("/srv/a disk.img (deleted)".into()) }
        );
        assert_eq!(
            kind("dm-0"),
            BlockDeviceKind::Mapped { name: "vg-root".into(), uuid: "LVM-x".into() }
        );
        assert_eq!(kind("md0"), BlockDeviceKind::Raid { level: "raid5".into() });
        assert_eq!(sys.device("dm-0").expect("it is there").slaves, ["sda2"]);
    }

    #[test]
    fn a_pipe_in_place_of_an_attribute_is_none() {
        let (_root, sys) = system(&[("/sys/block/sda/dev", "8:0\n")]);
        let pipe = sys.path("/sys/block/sda/size");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        assert_eq!(sys.text("/sys/block/sda/size"), None);
        assert_eq!(sys.device("sda").expect("it is there").size.0, 0);
    }

    /// One path that is no UTF-8 hid all mounts: a disk in use passed for one that is not.
    #[test]
    fn a_mount_point_that_is_no_text_hides_no_other() {
        let (_root, sys) = system(&[("/proc/self/mountinfo", "")]);
        let table = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:52 / /a\xff rw - fuse x rw\n";
        fs::write(sys.path("/proc/self/mountinfo"), table).expect("it is written");
        let points: Vec<_> = sys.mounts().into_iter().map(|mount| mount.point).collect();
        assert_eq!(points, ["/", "/a\u{fffd}"]);
    }

    #[test]
    fn no_system_no_devices() {
        let sys = SystemRoot::at("/nonexistent");
        assert!(sys.devices().is_empty() && sys.mounts().is_empty());
    }
}
