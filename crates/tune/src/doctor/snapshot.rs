//! A snapshot of the system, read once for all checks: devices, their users, stacking, defaults.

use foreread_core::geometry::{LimitRule, readahead_limit};
use foreread_core::sizes::Exact;
use foreread_core::units::ByteCount;

use super::ExaminationInput;
use crate::kernel_default::{KernelDefault, kernel_default};
use crate::mounts::{self, BdiRules, MountWindow};
use crate::setting::{DeviceSetting, READ_AHEAD_KB};
use crate::sysfs::{BlockDevice, BlockDeviceKind, MountEntry, SystemRoot, mounts_on};

/// System state that the checks read.
pub(super) struct SystemSnapshot<'a> {
    pub(super) sys: &'a SystemRoot,
    pub(super) facts: &'a ExaminationInput<'a>,
    pub(super) devices: Vec<BlockDevice>,
    mounts: Vec<MountEntry>,
    /// Names of swap devices.
    swaps: Vec<String>,
    release: String,
    /// Rules that set the windows of mounts.
    pub(super) rules: BdiRules<'a>,
}

/// Current use of a device.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum DeviceUse {
    /// A file system, mounted here.
    Mounted(String),
    /// Devices stacked on it.
    Held(Vec<String>),
    /// Swap space.
    Swap,
    /// The device has partitions.
    Partitioned,
    /// No use visible in sysfs, mountinfo or swaps; programs may still have the device open.
    NoneKnown,
}

impl<'a> SystemSnapshot<'a> {
    pub(super) fn new(sys: &'a SystemRoot, facts: &'a ExaminationInput<'a>) -> Self {
        let swaps = sys.text("/proc/swaps").unwrap_or_default();
        let swap = |line: &str| Some(line.split_whitespace().next()?.strip_prefix("/dev/")?.into());
        let devices = sys.devices();
        Self {
            sys,
            facts,
            mounts: mounts_on(sys, &devices),
            devices,
            swaps: swaps.lines().filter_map(swap).collect(),
            release: sys.text("/proc/sys/kernel/osrelease").unwrap_or_default(),
            rules: BdiRules::of(sys),
        }
    }

    pub(super) fn device(&self, name: &str) -> Option<&BlockDevice> {
        self.devices.iter().find(|device| device.name == name)
    }

    /// Returns the device whose settings apply: a partition's disk, otherwise the device itself.
    pub(super) fn whole<'d>(&'d self, device: &'d BlockDevice) -> &'d BlockDevice {
        match &device.kind {
            BlockDeviceKind::Partition { of, .. } => self.device(of).unwrap_or(device),
            BlockDeviceKind::Disk
            | BlockDeviceKind::Loop { .. }
            | BlockDeviceKind::Mapped { .. }
            | BlockDeviceKind::Raid { .. } => device,
        }
    }

    pub(super) fn partitions<'d>(&'d self, disk: &'d str) -> impl Iterator<Item = &'d BlockDevice> {
        self.devices
            .iter()
            .filter(move |device| matches!(&device.kind, BlockDeviceKind::Partition { of, .. } if of == disk))
    }

    /// Returns the whole devices directly below this one.
    pub(super) fn below<'d>(&'d self, device: &'d BlockDevice) -> Vec<&'d BlockDevice> {
        let mut below: Vec<&BlockDevice> = match &device.kind {
            BlockDeviceKind::Loop { backing: Some(file) } => MountEntry::around(&self.mounts, file)
                .and_then(|mount| self.mounted(mount))
                .into_iter()
                .collect(),
            // A disk can also lie on others: bcache, NVMe multipath.
            BlockDeviceKind::Mapped { .. }
            | BlockDeviceKind::Raid { .. }
            | BlockDeviceKind::Disk => {
                device.slaves.iter().filter_map(|name| self.device(name)).collect()
            }
            BlockDeviceKind::Partition { .. } | BlockDeviceKind::Loop { backing: None } => {
                Vec::new()
            }
        };
        for device in &mut below {
            *device = self.whole(device);
        }
        below.dedup_by_key(|device| device.name.clone());
        below
    }

    /// Returns all whole devices below this one, the nearest first.
    pub(super) fn all_below<'d>(&'d self, device: &'d BlockDevice) -> Vec<&'d BlockDevice> {
        let mut all: Vec<&BlockDevice> = self.below(device);
        let mut at = 0;
        // Bounded, because a broken copy of a system may contain a cycle.
        while at < all.len() && all.len() <= WIDEST {
            let more = self.below(all[at]);
            let is_new = |new: &&BlockDevice| all.iter().all(|known| known.name != new.name);
            let more: Vec<_> = more.into_iter().filter(is_new).collect();
            all.extend(more);
            at += 1;
        }
        all
    }

    pub(super) fn mounts_of(&self, device: &BlockDevice) -> impl Iterator<Item = &MountEntry> {
        self.mounts.iter().filter(|mount| mount.number == device.number)
    }

    /// Returns the devices of the topmost mount at this point; all devices of a btrfs.
    pub(super) fn devices_of_mount(&self, point: &str) -> Vec<&BlockDevice> {
        let of_it = || self.mounts.iter().filter(|mount| mount.point == point);
        let Some(last) = of_it().next_back() else { return Vec::new() };
        let of_last = of_it().filter(|mount| mount.source == last.source);
        of_last.filter_map(|mount| self.mounted(mount)).collect()
    }

    /// Returns the whole devices of a mount, which have the windows.
    pub(super) fn disks_of_mount(&self, point: &str) -> Vec<&BlockDevice> {
        let devices = self.devices_of_mount(point);
        devices.into_iter().map(|device| self.whole(device)).collect()
    }

    /// Returns the entries of mountinfo.
    pub(super) fn all_mounts(&self) -> Vec<MountEntry> {
        self.sys.mounts()
    }

    /// Returns the source of a mount's read-ahead window.
    pub(super) fn window_of(&self, all: &[MountEntry], mount: &MountEntry) -> MountWindow {
        mounts::window_by(&self.rules, self.sys, &self.devices, all, mount)
    }

    fn mounted(&self, mount: &MountEntry) -> Option<&BlockDevice> {
        self.devices.iter().find(|device| device.number == mount.number)
    }

    pub(super) fn user(&self, device: &BlockDevice) -> DeviceUse {
        if let Some(mount) = self.mounts_of(device).next() {
            return DeviceUse::Mounted(mount.point.clone());
        }
        if !device.holders.is_empty() {
            return DeviceUse::Held(device.holders.clone());
        }
        if self.swaps.contains(&device.name) {
            return DeviceUse::Swap;
        }
        if self.partitions(&device.name).next().is_some() {
            return DeviceUse::Partitioned;
        }
        DeviceUse::NoneKnown
    }

    /// Returns the devices through which all reads of this one pass, if none bypass them. Its own
    /// window then has no effect.
    pub(super) fn read_through(&self, device: &BlockDevice) -> Option<Vec<String>> {
        let mut users = vec![self.user(device)];
        if users == [DeviceUse::Partitioned] {
            users = self.partitions(&device.name).map(|part| self.user(part)).collect();
        }
        let mut through = Vec::new();
        for user in users {
            match user {
                // btrfs reads with its own window.
                DeviceUse::Mounted(point) if self.is_btrfs(&point) => {
                    through.push(format!("btrfs at {point}"));
                }
                DeviceUse::Mounted(_) => return None,
                DeviceUse::Held(names) => through.extend(names),
                DeviceUse::Swap | DeviceUse::Partitioned | DeviceUse::NoneKnown => {}
            }
        }
        through.sort();
        through.dedup();
        (!through.is_empty()).then_some(through)
    }

    fn is_btrfs(&self, point: &str) -> bool {
        let last = self.mounts.iter().rfind(|mount| mount.point == point);
        last.is_some_and(|mount| mount.kind == "btrfs")
    }

    pub(super) fn kernel(&self, device: &BlockDevice) -> KernelDefault {
        kernel_default(self.whole(device), &self.release)
    }

    /// Returns the kernel release, as context for its defaults.
    pub(super) fn release(&self) -> &str {
        if self.release.is_empty() { "an unknown kernel" } else { &self.release }
    }

    /// Returns the limit of the rounding rule, which never penalises a device sold in decimal
    /// megabytes.
    pub(super) fn size_rule_kib(&self, device: &BlockDevice) -> Option<u64> {
        let size = self.whole(device).size;
        readahead_limit(size, LimitRule::Rounding).map(|limit| limit.0 / 1024)
    }

    /// Returns whether the window differs from the kernel's default.
    pub(super) fn is_window_set(&self, device: &BlockDevice) -> bool {
        let window = device.queue.read_ahead_kib;
        window.is_some_and(|window| window != self.kernel(device).window_kib)
    }

    /// Returns the vendor and model that the device reports: `ATA SAMSUNG`, `MSFT NVMe Accelerator
    /// v1.0`.
    pub(super) fn maker(&self, device: &BlockDevice) -> Option<String> {
        let folder = self.whole(device).folder.join("device");
        let words = ["vendor", "model"].map(|name| self.sys.text(folder.join(name)));
        // virtio's vendor is a meaningless number.
        let is_name = |text: &String| !text.trim().is_empty() && !text.starts_with("0x");
        let words: Vec<_> = words.into_iter().flatten().filter(is_name).collect();
        let name = words.iter().map(|word| word.trim()).collect::<Vec<_>>().join(" ");
        (!name.is_empty()).then_some(name)
    }

    /// Returns the evidence that the device, or one below it, is virtual.
    pub(super) fn virtual_because(&self, device: &BlockDevice) -> Option<String> {
        let mut disks = vec![self.whole(device)];
        // Bounded, because a broken copy of a system may contain a cycle.
        for _ in 0..DEEPEST_STACK {
            if let Some(because) = disks.iter().find_map(|disk| self.named_virtual(disk)) {
                return Some(because);
            }
            disks = disks.into_iter().flat_map(|disk| self.below(disk)).take(WIDEST).collect();
        }
        None
    }

    fn named_virtual(&self, disk: &BlockDevice) -> Option<String> {
        if ["vd", "xvd"].iter().any(|stem| disk.name.starts_with(stem)) {
            return Some(format!("{} is a virtual disk", disk.name));
        }
        let maker = self.maker(disk)?;
        let is_virtual = VIRTUAL_MAKERS.iter().any(|word| maker.contains(word));
        is_virtual.then(|| format!("{} is a virtual disk ({maker})", disk.name))
    }
}

/// Formats a window: `8192 KiB (8M)`.
pub(super) fn kib(window_kib: u64) -> String {
    let exact = Exact(ByteCount(window_kib.saturating_mul(1024))).to_string();
    if window_kib < 1024 || !exact.ends_with(['M', 'G', 'T']) {
        return format!("{window_kib} KiB");
    }
    format!("{window_kib} KiB ({exact})")
}

/// Formats an attribute and its value as evidence: `/sys/block/sda/queue/rotational: 1`.
pub(super) fn attribute(snapshot: &SystemSnapshot<'_>, device: &BlockDevice, name: &str) -> String {
    let file = device.folder.join(name);
    let value = snapshot.sys.text(&file).unwrap_or_else(|| "missing".to_owned());
    format!("{}: {value}", file.display())
}

/// Formats the file of a device's window and its value as evidence.
pub(super) fn window_attribute(snapshot: &SystemSnapshot<'_>, device: &BlockDevice) -> String {
    attribute(snapshot, device, READ_AHEAD_KB)
}

/// Returns a device's node, quoted for a shell: names come from the kernel or from a copy of sysfs.
pub(super) fn node_of(device: &BlockDevice) -> String {
    quoted(&device.node().display().to_string())
}

/// Returns the command that sets a window. A window below the one in force carries its cost as a
/// shell comment.
pub(super) fn set_window(device: &BlockDevice, window_kib: u64) -> String {
    let command = set(&DeviceSetting::read_ahead_kb(&device.name, window_kib));
    match device.queue.read_ahead_kib {
        Some(now_kib) if window_kib < now_kib => {
            format!("{command} # {}", price_for_streams(window_kib, now_kib))
        }
        _ => command,
    }
}

/// Returns a stream's throughput on a device that serves one request at a time in 4 ms, with a
/// window and with a larger one: `streams at 4 ms: 30, not 221 MB/s`.
fn price_for_streams(window_kib: u64, now_kib: u64) -> String {
    let of = |kib: u64| FIGURE_1.iter().rfind(|(window, _)| *window <= kib).map_or(1, |it| it.1);
    match (of(window_kib), of(now_kib)) {
        (then, now) if then == now => format!("streams at 4 ms: {then} MB/s as before"),
        (then, now) => format!("streams at 4 ms: {then}, not {now} MB/s"),
    }
}

/// Figure 1 of docs/guide/doctor.md: KiB and MB/s.
const FIGURE_1: [(u64, u64); 4] = [(4, 1), (16, 4), (128, 30), (1024, 221)];

/// Returns the command that makes a setting until the next boot.
pub(super) fn set(setting: &DeviceSetting) -> String {
    format!("echo {} > {}", setting.value, quoted(&setting.file().display().to_string()))
}

/// Quotes a word for a shell.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// LVM on LUKS on RAID on partitions has four layers.
const DEEPEST_STACK: usize = 8;

/// Largest number of disks shown, more than one array has.
const WIDEST: usize = 256;

/// Words in the vendor or model of virtual disks.
const VIRTUAL_MAKERS: [&str; 9] =
    ["Msft", "MSFT", "QEMU", "VMware", "VBOX", "Google", "nvme_card", "Amazon Elastic", "Xen"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_one_word_for_the_shell() {
        assert_eq!(quoted("/srv/disk.img"), "/srv/disk.img");
        assert_eq!(quoted("/srv/a disk"), "'/srv/a disk'");
        assert_eq!(quoted("it's; rm -r x"), r"'it'\''s; rm -r x'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_smaller_window_has_its_price() {
        assert_eq!(price_for_streams(128, 65_536), "streams at 4 ms: 30, not 221 MB/s");
        assert_eq!(price_for_streams(4, 128), "streams at 4 ms: 1, not 30 MB/s");
        assert_eq!(price_for_streams(1024, 16_384), "streams at 4 ms: 221 MB/s as before");
        assert_eq!(price_for_streams(0, 128), "streams at 4 ms: 1, not 30 MB/s");
    }

    /// The rules of udev were read anew for each loop device and each layer of an overlay.
    #[test]
    fn rules_are_read_once_for_all_layers() {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        let write = |path: &str, text: &str| {
            let path = sys.path(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            std::fs::write(path, text).expect("it is written");
        };
        let facts = ExaminationInput::default();
        write("/proc/self/mountinfo", "50 1 0:50 / /far rw - nfs4 srv:/x rw,rsize=1048576\n");
        write("/sys/class/bdi/0:50/read_ahead_kb", "64\n");
        let snapshot = SystemSnapshot::new(&sys, &facts);
        let all = snapshot.all_mounts();
        let origin = || snapshot.window_of(&all, &all[0]).origin;
        let rule = "/etc/udev/rules.d/61-x.rules";
        write(rule, "SUBSYSTEM==\"bdi\", ATTR{read_ahead_kb}=\"64\"\n");
        assert_eq!(origin(), format!("the udev rule {rule}:1"), "not read before it is needed");
        std::fs::remove_file(sys.path(rule)).expect("it is removed");
        assert_eq!(origin(), format!("the udev rule {rule}:1"), "read again");
    }

    #[test]
    fn a_window_reads_well() {
        assert_eq!(kib(128), "128 KiB");
        assert_eq!(kib(2560), "2560 KiB");
        assert_eq!(kib(8192), "8192 KiB (8M)");
        assert!(kib(u64::MAX).starts_with("18446744073709551615"));
    }
}
