//! Selects the system to examine, and its devices and mounts.
//!
//! Names that match neither are refused.

use std::cell::OnceCell;
use std::io::ErrorKind;
use std::path::Path;

use foreread_files::{PrivateDirectory, regular};
use foreread_tune::capture;
use foreread_tune::mounts::{FileSystemKind, Governor, MountWindow, mount_windows};
use foreread_tune::sysfs::{BlockDevice, MountEntry, SystemRoot, devices_named_among, place_of};

use foreread_cli::output::Failure;

/// A system: this one, a folder, or a recording that is unpacked as long as this lives.
pub(super) struct SystemCopy {
    pub(super) sys: SystemRoot,
    _unpacked: Option<PrivateDirectory>,
}

impl SystemCopy {
    pub(super) fn open(root: &Path) -> Result<Self, Failure> {
        let wrong = |why: String| Failure::WrongUse(format!("--root {}: {why}", root.display()));
        if root.is_file() {
            let bytes = regular::read(root, RECORDING_MAX).map_err(|error| {
                if error.kind() == ErrorKind::FileTooLarge {
                    return wrong("is larger than any recording of doctor --capture".to_owned());
                }
                wrong(error.to_string())
            })?;
            let text = String::from_utf8(bytes).unwrap_or_default();
            if !text.starts_with(capture::FIRST_LINE) {
                return Err(wrong(
                    "is not a file of doctor --capture; give one, or a folder".to_owned(),
                ));
            }
            let files = capture::files_of(&text).map_err(wrong)?;
            let folder = PrivateDirectory::new().map_err(|error| wrong(error.to_string()))?;
            folder.write_files(&files).map_err(|error| wrong(error.to_string()))?;
            return Ok(Self { sys: SystemRoot::at(folder.path()), _unpacked: Some(folder) });
        }
        let sys = SystemRoot::at(root);
        if !sys.path("/sys/block").is_dir() && !sys.path("/sys/class/bdi").is_dir() {
            let root = root.display();
            return Err(Failure::WrongUse(format!("{root}: no sys/block below it; see --root")));
        }
        Ok(Self { sys, _unpacked: None })
    }
}

/// Devices and mounts to examine; all if both are empty.
#[derive(Debug, Default)]
pub(super) struct Selection {
    /// The kernel's names of devices.
    pub(super) devices: Vec<String>,
    /// Mount points of the selected file systems.
    pub(super) mounts: Vec<String>,
}

impl Selection {
    pub(super) fn of(sys: &SystemRoot, named: &[String]) -> Result<Self, Failure> {
        let mut selection = Self::default();
        if named.is_empty() {
            return Ok(selection);
        }
        // Read once, however many are named.
        let (devices, windows) = (sys.devices(), OnceCell::new());
        for text in named {
            match mount_of(sys, &devices, &windows, text) {
                Some((mount, is_on_device)) => {
                    selection.mounts.push(mount);
                    // btrfs and loop files have a device as well, which is worth a look.
                    if is_on_device && let Ok(names) = devices_named_among(sys, &devices, text) {
                        selection.devices.extend(names);
                    }
                }
                None => {
                    let names =
                        devices_named_among(sys, &devices, text).map_err(Failure::WrongUse)?;
                    selection.devices.extend(names);
                }
            }
        }
        Ok(selection)
    }
}

/// Returns the mount of a path, and true if it has a block device; None for a device and for file
/// systems without data.
fn mount_of(
    sys: &SystemRoot,
    devices: &[BlockDevice],
    windows: &OnceCell<Vec<MountWindow>>,
    text: &str,
) -> Option<(String, bool)> {
    let is_here = sys.path("/") == Path::new("/");
    let path = if is_here { place_of(sys, text)? } else { text.into() };
    if !path.is_absolute() || path.starts_with("/dev") {
        return None;
    }
    let mounts = sys.mounts();
    let around = MountEntry::around(&mounts, &path)?;
    let kind = FileSystemKind::of(&around.kind);
    if matches!(kind, FileSystemKind::Kernel | FileSystemKind::Memory) {
        return None;
    }
    let windows = windows.get_or_init(|| mount_windows(sys, devices));
    // Of a file system that is mounted in several places the first is the one in the report.
    let is_it = |number: (u32, u32), fs: &str| number == around.number && fs == around.kind;
    let window = windows.iter().find(|it| is_it(it.entry.number, &it.fs))?;
    let is_on_device =
        matches!(window.governed_by, Governor::Device { .. }) || window.fs == "btrfs";
    Some((window.mount.clone(), is_on_device))
}

/// Some hundred bytes for each of many thousand devices.
const RECORDING_MAX: u64 = 64 << 20;
