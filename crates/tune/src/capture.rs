//! Records a system as one text: everything that doctor reads, to be sent and kept.
//!
//! A recording never contains serial numbers, world-wide names or keys. Unpacking one never writes
//! outside its folder.
//!
//! ```text
//!   # foreread capture 1
//!   [sys/block/sda]
//!   size: 1000215216
//!   queue/read_ahead_kb: 128
//! ```
//!
//! A repeated path adds a line to its file. Test trees use the same format.

use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::machine::MachineFacts;
use crate::sysfs::{SystemRoot, names_in};
use crate::udev::FOLDERS;

/// First line of every recording.
pub const FIRST_LINE: &str = "# foreread capture 1";

/// Returns a system's recording.
#[must_use]
pub fn record(sys: &SystemRoot) -> String {
    let mut recording = Recording { sys, text: format!("{FIRST_LINE}\n"), folder: String::new() };
    recording.machine();
    for disk in names_in(&sys.path("/sys/block")) {
        recording.block(&disk);
    }
    recording.each("/sys/class/bdi", &["read_ahead_kb"]);
    recording.each("/sys/fs/ext4", &["inode_readahead_blks"]);
    recording.btrfs();
    recording.damon();
    recording.setters();
    recording.volumes();
    recording.text
}

/// Returns the files of a recording, with paths relative to the folder where they are unpacked.
///
/// # Errors
///
/// Names the first invalid line.
pub fn files_of(text: &str) -> Result<Vec<(PathBuf, String)>, String> {
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    let mut folder = PathBuf::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            folder = PathBuf::from(name);
            continue;
        }
        let (name, value) =
            line.split_once(':').ok_or_else(|| format!("line {number}: no colon in it"))?;
        let path = folder.join(name);
        let is_below = path.components().all(|part| matches!(part, Component::Normal(_)));
        if name.is_empty() || !is_below {
            return Err(format!("line {number}: {} is not a path below a folder", path.display()));
        }
        let value = value.strip_prefix(' ').unwrap_or(value);
        match files.last_mut().filter(|(last, _)| *last == path) {
            Some((_, text)) => {
                let _ = writeln!(text, "{value}");
            }
            None => files.push((path, format!("{value}\n"))),
        }
        if files.len() > FILES_MAX {
            return Err(format!("line {number}: more than {FILES_MAX} files"));
        }
    }
    Ok(files)
}

struct Recording<'s> {
    sys: &'s SystemRoot,
    text: String,
    folder: String,
}

impl Recording<'_> {
    /// Adds one file below the folder, if it exists.
    fn file(&mut self, folder: &str, name: &str) {
        let Some(text) = self.sys.whole_text(Path::new(folder).join(name)) else { return };
        self.lines(folder, name, &text);
    }

    fn lines(&mut self, folder: &str, name: &str, text: &str) {
        if self.folder != folder {
            self.folder = folder.to_owned();
            let _ = writeln!(self.text, "[{}]", folder.trim_start_matches('/'));
        }
        let text = text.trim_end_matches(['\n', '\0']);
        for line in text.split('\n') {
            let plain = line.replace(|c: char| c.is_control() && c != '\t', "?");
            let _ = writeln!(self.text, "{name}: {plain}");
        }
    }

    fn files(&mut self, folder: &str, names: &[&str]) {
        for name in names {
            self.file(folder, name);
        }
    }

    /// Adds these files of each folder below `folder`.
    fn each(&mut self, folder: &str, names: &[&str]) {
        for name in names_in(&self.sys.path(folder)) {
            self.files(&format!("{folder}/{name}"), names);
        }
    }

    fn machine(&mut self) {
        self.files("/proc", &["sys/kernel/osrelease", "sys/kernel/hostname", "swaps"]);
        self.file("/proc", "self/mountinfo");
        let cpu = self.sys.whole_text("/proc/cpuinfo").unwrap_or_default();
        if cpu.split_whitespace().any(|word| word == "hypervisor") {
            self.lines("/proc", "cpuinfo", "flags\t\t: hypervisor");
        }
        self.files("/sys/class/dmi/id", &["sys_vendor", "product_name"]);
        self.files("/sys/hypervisor", &["type"]);
        if let Some(container) = MachineFacts::of(self.sys).container {
            self.lines("/run", "systemd/container", &container);
        }
        self.files("/sys/module/zfs/parameters", &["zfetch_max_distance", "zfs_prefetch_disable"]);
    }

    fn block(&mut self, disk: &str) {
        let folder = format!("/sys/block/{disk}");
        self.files(&folder, &OF_DEVICE);
        self.files(&folder, &OF_DISK);
        for name in names_in(&self.sys.path(format!("{folder}/queue/iosched"))) {
            self.file(&folder, &format!("queue/iosched/{name}"));
        }
        self.relations(&folder);
        for part in names_in(&self.sys.path(&folder)) {
            let below = format!("{folder}/{part}");
            if self.sys.path(&below).join("partition").is_file() {
                self.files(&below, &OF_DEVICE);
                self.relations(&below);
            }
        }
    }

    /// Adds the devices above and below a device. Each link is represented by its device number.
    fn relations(&mut self, folder: &str) {
        for side in ["slaves", "holders"] {
            for name in names_in(&self.sys.path(format!("{folder}/{side}"))) {
                self.file(folder, &format!("{side}/{name}/dev"));
            }
        }
    }

    fn btrfs(&mut self) {
        for name in names_in(&self.sys.path("/sys/fs/btrfs")) {
            let folder = format!("/sys/fs/btrfs/{name}");
            for device in names_in(&self.sys.path(format!("{folder}/devices"))) {
                self.file(&folder, &format!("devices/{device}/dev"));
            }
            let link = fs::read_link(self.sys.path(format!("{folder}/bdi"))).ok();
            if let Some(bdi) = link.as_ref().and_then(|to| to.file_name()?.to_str()) {
                self.lines(&folder, "bdi", bdi);
            }
        }
    }

    fn damon(&mut self) {
        self.files("/sys/module/damon_reclaim/parameters", &["enabled", "wmarks_high"]);
        let folder = "/sys/kernel/mm/damon/admin/kdamonds";
        for daemon in names_in(&self.sys.path(folder)) {
            self.file(&format!("{folder}/{daemon}"), "state");
            let contexts = format!("{folder}/{daemon}/contexts");
            for context in names_in(&self.sys.path(&contexts)) {
                let schemes = format!("{contexts}/{context}/schemes");
                self.each(&schemes, &["action", "watermarks/metric"]);
                for scheme in names_in(&self.sys.path(&schemes)) {
                    for kind in ["filters", "core_filters", "ops_filters"] {
                        let filters = format!("{schemes}/{scheme}/{kind}");
                        self.each(&filters, &["type", "matching", "allow"]);
                    }
                }
            }
        }
    }

    /// Adds the files that set windows and schedulers: whole rules files, and a section of
    /// nfs.conf.
    fn setters(&mut self) {
        for folder in FOLDERS {
            for name in names_in(&self.sys.path(folder)) {
                let text = self.sys.whole_text(Path::new(folder).join(&name)).unwrap_or_default();
                if SETTINGS.iter().any(|setting| text.contains(setting)) {
                    self.lines(folder, &name, &text);
                }
            }
        }
        let text = self.sys.whole_text("/etc/nfs.conf").unwrap_or_default();
        let of_section = |section: &&str| section.trim_start().starts_with("nfsrahead]");
        if let Some(section) = text.split('[').find(of_section) {
            self.lines("/etc", "nfs.conf", &format!("[{}", section.trim_end()));
        }
    }

    /// Adds the CSI driver of each pod volume, and nothing else from that file.
    fn volumes(&mut self) {
        for mount in self.sys.mounts() {
            let Some(folder) = mount.point.strip_suffix("/mount") else { continue };
            let text = self.sys.whole_text(Path::new(folder).join("vol_data.json"));
            let data: Option<serde_json::Value> =
                text.and_then(|text| serde_json::from_str(&text).ok());
            if let Some(driver) = data.as_ref().and_then(|data| data.get("driverName")?.as_str()) {
                let said = serde_json::json!({ "driverName": driver });
                self.lines(folder, "vol_data.json", &said.to_string());
            }
        }
    }
}

/// Attributes of each device and partition.
const OF_DEVICE: [&str; 7] =
    ["dev", "size", "partition", "start", "ro", "removable", "alignment_offset"];

/// Attributes of each disk.
const OF_DISK: [&str; 30] = [
    "hidden",
    "stat",
    "dm/name",
    "dm/uuid",
    "md/level",
    "loop/backing_file",
    "loop/offset",
    "loop/sizelimit",
    "loop/dio",
    "device/vendor",
    "device/model",
    "device/queue_depth",
    "device/type",
    "bdi/read_ahead_kb",
    "queue/read_ahead_kb",
    "queue/rotational",
    "queue/logical_block_size",
    "queue/physical_block_size",
    "queue/minimum_io_size",
    "queue/optimal_io_size",
    "queue/max_sectors_kb",
    "queue/max_hw_sectors_kb",
    "queue/max_segments",
    "queue/nr_requests",
    "queue/async_depth",
    "queue/scheduler",
    "queue/zoned",
    "queue/write_cache",
    "queue/discard_granularity",
    "queue/dax",
];

/// Words in udev rules that doctor looks for.
const SETTINGS: [&str; 5] =
    ["read_ahead_kb", "queue/scheduler", "nr_requests", "fifo_batch", "async_depth"];

/// Largest number of files in a recording, more than a machine with a thousand disks has.
const FILES_MAX: usize = 200_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_back() {
        let text = "# foreread capture 1\n[proc]\nswaps: a\nswaps:  b: c\n[sys/block/sda]\n\
                    queue/read_ahead_kb: 128\n";
        let files = files_of(text).expect("it is right");
        assert_eq!(files[0], (PathBuf::from("proc/swaps"), "a\n b: c\n".to_owned()));
        assert_eq!(files[1].0, PathBuf::from("sys/block/sda/queue/read_ahead_kb"));
    }

    #[test]
    fn a_path_that_leaves_the_folder_is_refused() {
        for (text, part) in [
            ("[..]\nx: 1\n", "line 2"),
            ("[/etc]\nx: 1\n", "is not a path below a folder"),
            ("[proc]\n../x: 1\n", "is not a path"),
            ("[proc]\n: 1\n", "is not a path"),
            ("no value\n", "line 1: no colon"),
        ] {
            let line = files_of(text).expect_err(text);
            assert!(line.contains(part), "{text}: {line}");
        }
    }

    #[test]
    fn a_system_and_its_recording_have_the_same_files() {
        let root = tempfile::tempdir().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("it is made");
            fs::write(path, text).expect("it is written");
        };
        put("proc/self/mountinfo", "40 1 0:52 / /mnt rw - nfs4 srv:/a rw,rsize=65536\n");
        put("sys/block/sda/size", "100\n");
        put("sys/block/sda/device/wwid", "naa.5000c500a1b2c3d4\n");
        put("sys/block/sda/sda1/partition", "1\n");
        put("sys/class/bdi/0:52/read_ahead_kb", "128\n");
        put("etc/nfs.conf", "[general]\npipefs=x\n[nfsrahead]\nnfs4=1024\n[mountd]\nthreads=1\n");
        put("etc/udev/rules.d/60-a.rules", "# one\nATTR{queue/read_ahead_kb}=\"64\"\n");
        put("etc/udev/rules.d/61-b.rules", "ENV{SECRET}=\"x\"\n");
        let text = record(&SystemRoot::at(root.path()));
        assert!(!text.contains("naa.") && !text.contains("SECRET") && !text.contains("pipefs"));
        let files = files_of(&text).expect("it is right");
        for (path, text) in &files {
            let was = fs::read_to_string(root.path().join(path)).expect("it is there");
            assert!(was == *text || path.ends_with("nfs.conf"), "{}: {text}", path.display());
        }
        assert_eq!(files.len(), 6, "{files:?}");
        assert!(text.starts_with(FIRST_LINE));
    }
}
