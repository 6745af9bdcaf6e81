//! Lists the visible uses of a device. It never claims that a device is unused, because a program
//! may have it open invisibly.

use crate::sysfs::{BlockDevice, BlockDeviceKind, MountEntry, SystemRoot};

/// Returns a device, its partitions, and all devices stacked on them.
pub(super) fn family(sys: &SystemRoot, whole: &BlockDevice) -> Vec<BlockDevice> {
    let devices = sys.devices();
    let mut family = vec![whole.clone()];
    let mut at = 0;
    while let Some(member) = family.get(at) {
        let is_on = |device: &&BlockDevice| match &device.kind {
            BlockDeviceKind::Partition { of, .. } => *of == member.name,
            BlockDeviceKind::Disk
            | BlockDeviceKind::Loop { .. }
            | BlockDeviceKind::Mapped { .. }
            | BlockDeviceKind::Raid { .. } => {
                device.slaves.contains(&member.name) || member.holders.contains(&device.name)
            }
        };
        let above: Vec<_> = devices.iter().filter(is_on).cloned().collect();
        let is_new = |device: &BlockDevice| family.iter().all(|known| known.name != device.name);
        let above: Vec<_> = above.into_iter().filter(is_new).collect();
        family.extend(above);
        at += 1;
    }
    family
}

/// Returns one line for each use.
pub(super) fn of(sys: &SystemRoot, family: &[BlockDevice]) -> Vec<String> {
    let mut uses = Vec::new();
    let mounts = sys.mounts();
    let swaps = sys.text("/proc/swaps").unwrap_or_default();
    for device in family {
        let one = std::slice::from_ref(device);
        let name = &device.name;
        let points = mounts.iter().filter(|mount| is_on(mount, one));
        uses.extend(points.map(|mount| format!("{name} is mounted at {}", mount.point)));
        let is_swap = |line: &str| {
            line.split_whitespace().next().is_some_and(|source| device.is_named(source))
        };
        uses.extend(swaps.lines().any(is_swap).then(|| format!("{name} is swap space")));
        uses.extend(device.holders.iter().map(|holder| format!("{holder} lies on {name}")));
    }
    uses
}

/// Returns the mounted ext4 file systems on them that have settings.
pub(super) fn ext4(sys: &SystemRoot, family: &[BlockDevice]) -> Vec<String> {
    let mounts = sys.mounts();
    let is_mounted = |device: &&BlockDevice| {
        let one = std::slice::from_ref(*device);
        mounts.iter().any(|mount| mount.kind.starts_with("ext") && is_on(mount, one))
    };
    let names = family.iter().filter(is_mounted).map(|device| device.name.clone());
    names.filter(|name| sys.path(format!("/sys/fs/ext4/{name}")).is_dir()).collect()
}

/// Returns whether a file system uses one of these devices.
pub(super) fn is_on(mount: &MountEntry, family: &[BlockDevice]) -> bool {
    family.iter().any(|device| {
        let is_one_device = mount.number.0 != 0;
        (is_one_device && mount.number == device.number)
            || (!is_one_device && device.is_named(&mount.source))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn mounts_swap_and_what_is_stacked() {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        for (path, text) in [
            ("/sys/block/sda/dev", "8:0"),
            ("/sys/block/sda/sda1/dev", "8:1"),
            ("/sys/block/sda/sda1/partition", "1"),
            ("/sys/block/sda/sda2/dev", "8:2"),
            ("/sys/block/sda/sda2/partition", "2"),
            ("/sys/block/sda/sda2/holders/dm-0", ""),
            ("/sys/block/sda/sda3/dev", "8:3"),
            ("/sys/block/sda/sda3/partition", "3"),
            ("/sys/block/dm-0/dev", "253:0"),
            ("/sys/block/dm-0/dm/name", "vg-root"),
            ("/sys/block/dm-0/slaves/sda2", ""),
            ("/sys/block/sdb/dev", "8:16"),
            ("/sys/fs/ext4/dm-0/inode_readahead_blks", "32"),
            ("/proc/swaps", "Filename Type Size Used Priority\n/dev/sda3 partition 1 0 -2"),
            (
                "/proc/self/mountinfo",
                "1 0 253:0 / / rw - ext4 /dev/mapper/vg-root rw\n\
                 2 1 0:40 / /data rw - btrfs /dev/sda1 rw\n\
                 3 1 8:16 / /other rw - ext4 /dev/sdb rw\n",
            ),
        ] {
            let path = sys.path(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            fs::write(path, text).expect("it is written");
        }
        let family = family(&sys, &sys.device("sda").expect("it is there"));
        let names: Vec<_> = family.iter().map(|device| device.name.as_str()).collect();
        assert_eq!(names, ["sda", "sda1", "sda2", "sda3", "dm-0"]);
        assert_eq!(
            of(&sys, &family),
            [
                "sda1 is mounted at /data",
                "dm-0 lies on sda2",
                "sda3 is swap space",
                "dm-0 is mounted at /",
            ]
        );
        assert_eq!(ext4(&sys, &family), ["dm-0"]);
    }
}
