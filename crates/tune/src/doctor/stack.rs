//! Lists the layers from a mounted file system down to its disks.
//!
//! Layers are in the order of a drawn tree, each with its limits and its role. No layer repeats on
//! one path, and depth and width are bounded.
//!
//! ```text
//!   /srv  xfs
//!   '- dm-3  LVM          128    counts: the first layer that has a window
//!      '- md0  raid6      8192   ignored
//!         |- sda          2560   ignored
//!         '- sdb          2560   ignored
//! ```
//! A loop device is the exception: unless it uses `O_DIRECT`, its file is read through the page
//! cache a second time, with the window of the file system that holds it.

use super::snapshot::SystemSnapshot;
use super::{LayerRole, StackLayer};
use crate::mounts::{Governor, MountWindow};
use crate::sysfs::{BlockDevice, BlockDeviceKind, MountEntry};

/// Returns the layers of each stack, in the order of the drawn tree.
pub(super) fn stacks(
    snapshot: &SystemSnapshot<'_>,
    mounts: &[MountWindow],
) -> Vec<Vec<StackLayer>> {
    let all = snapshot.all_mounts();
    let mut stacks = Vec::new();
    for mount in mounts {
        let mut walk = StackWalk { snapshot, all: &all, layers: Vec::new() };
        walk.mount(&mount.entry, Some(mount), 0, WindowsAbove::None);
        stacks.push(walk.layers);
    }
    stacks
}

/// Windows above a layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum WindowsAbove {
    /// None: the next window counts.
    None,
    /// One that counts.
    Some,
    /// One, but on a loop device that reads its file through the page cache: the next counts again.
    BufferedLoop,
}

struct StackWalk<'s, 'a> {
    snapshot: &'s SystemSnapshot<'a>,
    all: &'s [MountEntry],
    layers: Vec<StackLayer>,
}

impl StackWalk<'_, '_> {
    fn is_full(&self, depth: usize) -> bool {
        depth > DEEPEST || self.layers.len() >= MOST_LAYERS
    }

    fn mount(
        &mut self,
        entry: &MountEntry,
        window: Option<&MountWindow>,
        depth: usize,
        above: WindowsAbove,
    ) {
        if self.is_full(depth) {
            return;
        }
        let own = window.filter(|it| matches!(it.governed_by, Governor::Bdi { .. }));
        let own_kib = own.and_then(|window| window.read_ahead_kb);
        let (role, below) = role_of(own_kib.is_some(), above);
        self.layers.push(StackLayer {
            depth,
            name: entry.point.clone(),
            what: format!("{} of {}", entry.kind, entry.source),
            read_ahead_kb: own_kib,
            max_sectors_kb: None,
            scheduler: None,
            alignment_offset: None,
            role,
        });
        if let Some(Governor::Layers { mounts }) = window.map(|it| &it.governed_by) {
            for point in mounts {
                let layer = self.all.iter().rev().find(|mount| mount.point == *point).cloned();
                if let Some(layer) = layer {
                    let of_layer = self.snapshot.window_of(self.all, &layer);
                    self.mount(&layer, Some(&of_layer), depth + 1, below);
                }
            }
            return;
        }
        let devices: Vec<_> =
            self.snapshot.devices_of_mount(&entry.point).into_iter().cloned().collect();
        for device in devices {
            self.device(&device, depth + 1, below);
        }
    }

    fn device(&mut self, device: &BlockDevice, depth: usize, above: WindowsAbove) {
        if self.is_full(depth) {
            return;
        }
        let is_part = matches!(device.kind, BlockDeviceKind::Partition { .. });
        // A partition uses the window of its disk, which follows.
        let own_kib = device.queue.read_ahead_kib.filter(|_| !is_part);
        let (role, mut below) = role_of(own_kib.is_some(), above);
        self.layers.push(StackLayer {
            depth,
            name: device.name.clone(),
            what: what(self.snapshot, device),
            read_ahead_kb: own_kib,
            max_sectors_kb: device.queue.max_sectors_kib.filter(|_| !is_part),
            scheduler: device
                .queue
                .scheduler
                .as_ref()
                .filter(|_| !is_part)
                .map(|scheduler| scheduler.chosen.clone()),
            alignment_offset: device.alignment_offset,
            role,
        });
        match &device.kind {
            BlockDeviceKind::Loop { backing: Some(file) } => {
                let is_direct = self.snapshot.sys.number(device.folder.join("loop/dio")) == Some(1);
                if !is_direct && role != LayerRole::Ignored {
                    below = WindowsAbove::BufferedLoop;
                }
                if let Some(mount) = MountEntry::around(self.all, file).cloned() {
                    let of_it = self.snapshot.window_of(self.all, &mount);
                    self.mount(&mount, Some(&of_it), depth + 1, below);
                }
            }
            BlockDeviceKind::Partition { of, .. } => {
                if let Some(disk) = self.snapshot.device(of).cloned() {
                    self.device(&disk, depth + 1, below);
                }
            }
            BlockDeviceKind::Disk
            | BlockDeviceKind::Mapped { .. }
            | BlockDeviceKind::Raid { .. }
            | BlockDeviceKind::Loop { backing: None } => {
                let legs = device.slaves.iter().filter_map(|name| self.snapshot.device(name));
                for leg in legs.cloned().collect::<Vec<_>>() {
                    self.device(&leg, depth + 1, below);
                }
            }
        }
    }
}

/// Returns the role of a layer, and the windows above the layers below it.
fn role_of(has_window: bool, above: WindowsAbove) -> (LayerRole, WindowsAbove) {
    match (has_window, above) {
        (false, above) => (LayerRole::None, above),
        (true, WindowsAbove::None) => (LayerRole::Counts, WindowsAbove::Some),
        (true, WindowsAbove::Some) => (LayerRole::Ignored, WindowsAbove::Some),
        (true, WindowsAbove::BufferedLoop) => (LayerRole::Again, WindowsAbove::Some),
    }
}

/// Returns the kind of a device, for display.
fn what(snapshot: &SystemSnapshot<'_>, device: &BlockDevice) -> String {
    match &device.kind {
        BlockDeviceKind::Partition { .. } => "partition".to_owned(),
        BlockDeviceKind::Loop { backing: Some(file) } => {
            let dio = snapshot.sys.number(device.folder.join("loop/dio"));
            let how = if dio == Some(1) { "O_DIRECT" } else { "page cache" };
            format!("loop over {file} ({how})")
        }
        BlockDeviceKind::Loop { backing: None } => "loop".to_owned(),
        BlockDeviceKind::Mapped { name, uuid } => format!("{} {name}", dm_kind(uuid)),
        BlockDeviceKind::Raid { level } => level.clone(),
        BlockDeviceKind::Disk => {
            let named =
                |stem: &str, what: &str| device.name.starts_with(stem).then(|| what.to_owned());
            let known = named("bcache", "bcache").or_else(|| named("nbd", "network disk (nbd)"));
            let known = known.or_else(|| named("rbd", "Ceph disk (rbd)"));
            let maker = || snapshot.maker(device).map(|maker| format!("disk {maker}"));
            known.or_else(maker).unwrap_or_else(|| "disk".to_owned())
        }
    }
}

/// Returns the tool that created a device-mapper device, from the prefix or suffix of its UUID.
/// Only `dmsetup table` reveals the target itself (linear, thin).
fn dm_kind(uuid: &str) -> &'static str {
    let of_lvm =
        |ends: &[&str]| uuid.starts_with("LVM-") && ends.iter().any(|it| uuid.ends_with(it));
    if uuid.starts_with("CRYPT-VERITY") {
        "verity"
    } else if uuid.starts_with("CRYPT-") {
        "crypt"
    } else if uuid.starts_with("mpath-") {
        "multipath"
    } else if uuid.contains("-mpath-") {
        "partition of multipath"
    } else if of_lvm(&["-tpool", "-tdata", "-tmeta", "-pool"]) {
        "LVM thin pool"
    } else if of_lvm(&["-cpool", "-cdata", "-cmeta", "-cvol", "-corig"]) {
        "LVM cache"
    } else if uuid.starts_with("LVM-") {
        "LVM"
    } else {
        "dm"
    }
}

/// Deeper than LVM on LUKS on RAID on partitions in an image.
const DEEPEST: usize = 16;

/// Largest number of layers, more than the disks of one array.
const MOST_LAYERS: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_window_counts_and_a_buffered_loop_reads_ahead_again() {
        use WindowsAbove as Above;
        assert_eq!(role_of(true, Above::None), (LayerRole::Counts, Above::Some));
        assert_eq!(role_of(true, Above::Some).0, LayerRole::Ignored);
        assert_eq!(role_of(false, Above::None), (LayerRole::None, Above::None));
        assert_eq!(role_of(true, Above::BufferedLoop).0, LayerRole::Again);
        assert_eq!(role_of(false, Above::BufferedLoop).1, Above::BufferedLoop);
    }

    #[test]
    fn a_uuid_tells_what_made_a_map() {
        for (uuid, kind) in [
            ("CRYPT-LUKS2-0123-root", "crypt"),
            ("CRYPT-VERITY-77-x", "verity"),
            ("mpath-3600a0b80", "multipath"),
            ("part1-mpath-3600a0b80", "partition of multipath"),
            ("LVM-abc-tpool", "LVM thin pool"),
            ("LVM-abc-corig", "LVM cache"),
            ("LVM-abc", "LVM"),
            ("", "dm"),
        ] {
            assert_eq!(dm_kind(uuid), kind, "{uuid}");
        }
    }
}
