//! Resolves the target of a measurement: a device, or a file on one.
//!
//! In:    the user's path: a block device, a partition, a file, a folder.
//! Out:   [`TuneTarget`]: the data to read, and the device whose settings apply; or one line with
//! the
//!        problem and its remedy.
//! Never: a write; a special file opened (a pipe would block); holes treated as data.
//!
//! ```text
//!   sda, /dev/sda, /dev/sda2 ------> read it;    settings of sda
//!   a file ------------------------> read it;    settings of the disk that its file system is on,
//!                                                or the window of its mount (nfs, fuse, btrfs)
//!   a folder: may we open its disk?  read that;  the same
//!                        else -----> read the largest file in it
//! ```

mod backing;
mod file;
mod mounted;
mod uses;

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use foreread_core::units::{ByteCount, PAGE_SIZE};
use foreread_files::regular;

use crate::errno_text::errno_text;
use crate::setting::{DeviceSetting, READ_AHEAD_KB};
use crate::sysfs::{BlockDevice, BlockDeviceKind, SystemRoot, by_name};
use mounted::{WindowOwner, owner};

pub(crate) use backing::PAGE_CACHE;
pub use mounted::TunedMount;

/// Target of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneTarget {
    /// Path to read.
    pub path: PathBuf,
    /// True for a device, false for a file on one.
    pub is_device: bool,
    /// Number of readable bytes.
    pub len: ByteCount,
    /// Readable ranges: all of a device, the stored parts of a file.
    pub parts: Vec<Range<u64>>,
    /// Whole device whose settings apply; the backing device of a mount with its own window.
    pub device: BlockDevice,
    /// Attribute of the window, as in [`DeviceSetting::attribute`].
    pub window_attribute: String,
    /// The mount, if it has its own window.
    pub mount: Option<TunedMount>,
    /// Reason why `O_DIRECT` is impossible, if it is.
    pub not_direct: Option<String>,
    /// Type of the file system if it has its own window; the device's window then applies to the
    /// device itself only.
    pub has_own_window: Option<String>,
    /// Uses of the device: `sda2 is mounted at /home`. Empty if none is known.
    pub in_use: Vec<String>,
    /// Mounted ext4 file systems of the device, by their names under `/sys/fs/ext4`; for a file,
    /// the one that contains it.
    pub ext4: Vec<String>,
    /// Evidence that a cache below answers in place of the device, if there is any.
    pub cached_below: Option<String>,
    /// Notes for the interpretation of the figures.
    pub notes: Vec<String>,
}

impl TuneTarget {
    /// Returns the setting of the largest window.
    #[must_use]
    pub fn window(&self, kib: u64) -> DeviceSetting {
        DeviceSetting {
            device: self.device.name.clone(),
            attribute: self.window_attribute.clone(),
            value: kib.to_string(),
        }
    }

    /// Returns that setting with its current value.
    #[must_use]
    pub fn window_now(&self, sys: &SystemRoot) -> Option<DeviceSetting> {
        let setting = self.window(0);
        let value = setting.in_force(sys)?;
        Some(DeviceSetting { value, ..setting })
    }

    /// Resolves a path. The bare name of a device (`sda`) means that device; a file of such a name
    /// in this folder is `./sda`.
    ///
    /// # Errors
    ///
    /// One line with the path and the remedy.
    pub fn resolve(path: &Path, sys: &SystemRoot) -> Result<Self, String> {
        let node = node_of_name(path, sys);
        let path = node.as_deref().unwrap_or(path);
        let named = |line: String| format!("{}: {line}", path.display());
        let about = fs::metadata(path).map_err(|error| named(not_found(&error)))?;
        let kind = about.file_type();
        let found = if kind.is_block_device() {
            device(path, about.rdev(), sys)
        } else if kind.is_file() {
            found_in(path, &about, sys)
        } else if kind.is_dir() {
            folder(path, &about, sys)
        } else {
            let what = if kind.is_char_device() {
                "a character device"
            } else if kind.is_fifo() {
                "a pipe"
            } else {
                "neither a device nor a file"
            };
            Err(format!("is {what}; give a block device, a file or a folder"))
        };
        found.map_err(named)
    }
}

/// Returns the current setting of the window that applies to this device number: a disk's, a
/// partition's, or that of a file system without a disk (NFS, FUSE).
#[must_use]
pub fn window_in_force(sys: &SystemRoot, (major, minor): (u32, u32)) -> Option<DeviceSetting> {
    let number = format!("{major}:{minor}");
    let of_disk = |device: &BlockDevice| Some((sys.whole(device)?.name, READ_AHEAD_KB.to_owned()));
    let of_none = || {
        let attribute = format!("/sys/class/bdi/{number}/read_ahead_kb");
        Some((number.clone(), attribute))
    };
    let known = sys.device_numbered(major, minor);
    let (device, attribute) = known.as_ref().map_or_else(of_none, of_disk)?;
    let setting = DeviceSetting { device, attribute, value: String::new() };
    let value = setting.in_force(sys)?;
    Some(DeviceSetting { value, ..setting })
}

/// Returns the node of the device with a bare name, as accepted by `doctor`.
fn node_of_name(path: &Path, sys: &SystemRoot) -> Option<PathBuf> {
    let name = path.to_str().filter(|name| !name.contains('/'))?;
    by_name(&sys.devices(), name).map(BlockDevice::node)
}

fn not_found(error: &std::io::Error) -> String {
    let what = if error.kind() == ErrorKind::PermissionDenied {
        return "no permission to search it; run as root, or give a readable file".into();
    } else if error.kind() == ErrorKind::NotFound {
        "no such file".to_owned()
    } else {
        errno_text(error)
    };
    format!("{what}; give a block device, a file or a folder")
}

fn device(path: &Path, number: u64, sys: &SystemRoot) -> Result<TuneTarget, String> {
    let device = known(number, sys).ok_or("is not a device in /sys/block; give another")?;
    enough(&device)?;
    match File::open(path) {
        Ok(opened) => of_device(path, &opened, &device, sys),
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            // EPERM, not EACCES: the system forbids opening disks, regardless of the file's mode.
            let why = format!("{} cannot be opened here ({})", path.display(), errno_text(&error));
            let family = uses::family(sys, &device);
            let mounts = sys.mounts();
            let points = mounts.iter().filter(|mount| uses::is_on(mount, &family));
            let found = points.filter_map(|mount| file::largest_in(Path::new(&mount.point))).next();
            let found =
                found.ok_or(format!("{}; give a file or a folder on it", errno_text(&error)))?;
            let about = fs::metadata(&found).map_err(|error| errno_text(&error))?;
            instead(found_in(&found, &about, sys)?, &why)
        }
        Err(error) => Err(unopened(&error)),
    }
}

fn unopened(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES) => {
            "no permission to read it; run as root, or give a file or a folder on it".to_owned()
        }
        Some(libc::ENOMEDIUM | libc::ENXIO) => {
            "the drive is empty; insert a medium, or give another device".to_owned()
        }
        _ => format!("cannot be opened: {}; give a file or a folder on it", errno_text(error)),
    }
}

/// Checks that there is enough to measure.
fn enough(device: &BlockDevice) -> Result<(), String> {
    let size = device.size;
    if size == ByteCount(0) {
        return Err(match &device.kind {
            BlockDeviceKind::Loop { .. } => {
                "no file is bound to it; give a device with something on it"
            }
            BlockDeviceKind::Disk
            | BlockDeviceKind::Partition { .. }
            | BlockDeviceKind::Mapped { .. }
            | BlockDeviceKind::Raid { .. } => "is empty; insert a medium, or give another device",
        }
        .to_owned());
    }
    if size < LEAST {
        return Err(format!(
            "{} KiB are too few to measure; give a device of at least 1 MiB",
            size.0 / 1024
        ));
    }
    Ok(())
}

fn of_device(
    path: &Path,
    opened: &File,
    device: &BlockDevice,
    sys: &SystemRoot,
) -> Result<TuneTarget, String> {
    let whole = sys.whole(device).ok_or("its disk is not in /sys/block; give the disk itself")?;
    let family = uses::family(sys, &whole);
    let len = device.size.0 / PAGE_SIZE * PAGE_SIZE;
    let mut notes = Vec::new();
    if let BlockDeviceKind::Loop { backing: Some(backing) } = &whole.kind
        && sys.number(whole.folder.join("loop/dio")) == Some(0)
    {
        notes.push(format!(
            "{} reads {backing} through the page cache, which may make some reads fast",
            whole.name
        ));
    }
    Ok(TuneTarget {
        path: path.to_owned(),
        is_device: true,
        len: ByteCount(len),
        parts: std::iter::once(0..len).collect(),
        not_direct: file::not_direct(path, opened, 0),
        has_own_window: None,
        in_use: uses::of(sys, &family),
        ext4: uses::ext4(sys, &family),
        cached_below: backing::cached(&whole, sys),
        device: whole,
        window_attribute: READ_AHEAD_KB.to_owned(),
        mount: None,
        notes,
    })
}

/// Resolves a file to its stored parts.
fn found_in(path: &Path, about: &Metadata, sys: &SystemRoot) -> Result<TuneTarget, String> {
    let owner = owner(path, about, sys)?;
    let kib = about.size() / 1024;
    if about.size() < LEAST.0 {
        let line =
            format!("a file of {kib} KiB is too small to measure; give one of at least 1 MiB");
        return Err(line);
    }
    let opened = regular::open(path).map_err(|error| {
        if error.kind() == ErrorKind::PermissionDenied {
            return "no permission to read it; run as root, or give a file that you may read"
                .into();
        }
        format!("cannot be opened: {}; give another file", errno_text(&error))
    })?;
    let parts = file::stored(&opened, about.size());
    let len = ByteCount(parts.iter().map(|part| part.end - part.start).sum());
    if len < LEAST {
        let line = "it consists almost entirely of holes; give a file with data";
        return Err(line.to_owned());
    }
    let not_direct = file::not_direct(path, &opened, parts[0].start);
    let facts = owner.facts(sys)?;
    Ok(TuneTarget {
        path: path.to_owned(),
        is_device: false,
        len,
        not_direct,
        parts,
        has_own_window: facts.has_own_window,
        in_use: facts.in_use,
        ext4: facts.ext4,
        cached_below: facts.cached_below,
        device: facts.device,
        window_attribute: facts.window_attribute,
        mount: facts.mount,
        notes: facts.notes,
    })
}

fn folder(path: &Path, about: &Metadata, sys: &SystemRoot) -> Result<TuneTarget, String> {
    let owner = owner(path, about, sys)?;
    let WindowOwner::Device { below, .. } = owner else {
        let found = file::largest_in(path)
            .ok_or("it has no readable file of at least 1 MiB; give a file, or create one there")?;
        let about = fs::metadata(&found).map_err(|error| errno_text(&error))?;
        return instead(found_in(&found, &about, sys)?, "the largest file found in it");
    };
    let node = below.node();
    let why = match File::open(&node) {
        Ok(opened) => {
            enough(&below)?;
            let target = of_device(&node, &opened, &below, sys)?;
            return instead(target, &format!("{} lies on it", path.display()));
        }
        Err(error) => format!("{} cannot be opened ({})", node.display(), errno_text(&error)),
    };
    let found = file::largest_in(path).ok_or(format!(
        "{why}, and the folder has no readable file of at least 1 MiB; give a file"
    ))?;
    let about = fs::metadata(&found).map_err(|error| errno_text(&error))?;
    instead(found_in(&found, &about, sys)?, &why)
}

fn instead(mut target: TuneTarget, why: &str) -> Result<TuneTarget, String> {
    target.notes.insert(0, format!("reads {}: {why}", target.path.display()));
    Ok(target)
}

fn known(number: u64, sys: &SystemRoot) -> Option<BlockDevice> {
    sys.device_numbered(rustix::fs::major(number), rustix::fs::minor(number))
}

/// Smallest target: a smaller one cannot be read for long enough.
const LEAST: ByteCount = ByteCount(1 << 20);

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path, sys: &SystemRoot) -> String {
        let line = TuneTarget::resolve(path, sys).expect_err("it is refused");
        assert!(line.starts_with(&format!("{}: ", path.display())), "{line}");
        assert_eq!(line.lines().count(), 1, "{line}");
        line
    }

    #[test]
    fn what_is_no_target_is_refused_in_one_line() {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::here();
        let name = |name: &str| root.path().join(name);
        let pipe = name("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        assert!(refused(&name("none"), &sys).contains("no such file; give"));
        assert!(refused(&pipe, &sys).contains("is a pipe; give"));
        assert!(refused(Path::new("/dev/null"), &sys).contains("is a character device; give"));
        assert!(refused(Path::new("/proc/self/status"), &sys).contains("is on proc, which"));
    }

    #[test]
    fn a_bare_name_is_the_device_of_that_name() {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        let dev = sys.path("/sys/block/sdx/dev");
        fs::create_dir_all(dev.parent().expect("a folder")).expect("it is made");
        fs::write(dev, "8:368\n").expect("it is written");
        let node = |name: &str| node_of_name(Path::new(name), &sys);
        assert_eq!(node("sdx"), Some(PathBuf::from("/dev/sdx")));
        assert_eq!(node("./sdx"), None, "a file of that name");
        assert_eq!(node("sdy"), None);
        let line = TuneTarget::resolve(Path::new("sdx"), &sys).expect_err("it has no node here");
        assert!(line.starts_with("/dev/sdx: no such file"), "{line}");
    }

    #[test]
    fn devices_with_nothing_or_little_on_them_are_refused() {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        let folder = sys.path("/sys/block/sdx");
        fs::create_dir_all(&folder).expect("it is made");
        let line = |size: &str| {
            fs::write(folder.join("dev"), "8:368\n").expect("it is written");
            fs::write(folder.join("size"), size).expect("it is written");
            enough(&sys.device("sdx").expect("it is there"))
        };
        assert!(line("0").expect_err("none").contains("insert a medium"));
        assert!(line("986").expect_err("few").contains("493 KiB are too few"));
        assert_eq!(line("2048"), Ok(()));
    }

    #[test]
    fn the_window_of_what_has_no_disk() {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        let file = sys.path("/sys/class/bdi/0:45/read_ahead_kb");
        fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
        fs::write(file, "128\n").expect("it is written");
        let setting = window_in_force(&sys, (0, 45)).expect("it has one");
        assert_eq!((setting.device.as_str(), setting.value.as_str()), ("0:45", "128"));
        assert_eq!(window_in_force(&sys, (0, 46)), None);
    }
}
