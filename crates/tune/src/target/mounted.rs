//! Finds the owner of a file's window: its block device, or its mount. An ambiguous mount is an
//! error.
//!
//! ```text
//!   ext4, xfs, ..              the disk
//!   nfs, fuse, virtiofs, ..    the mount's backing device
//!   btrfs                      the same, where the kernel says which; else read with O_DIRECT
//!   overlay                    whatever the layer has in which the file lies
//!   zfs, tmpfs                 an error, with the setting that counts instead
//! ```

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use foreread_core::units::ByteCount;

use super::{backing, known, uses};
use crate::errno_text::errno_text;
use crate::mounts::{FileSystemKind, Governor, MountWindow, bdi_of, window_of};
use crate::setting::READ_AHEAD_KB;
use crate::sysfs::{BlockDevice, BlockDeviceKind, MountEntry, Queue, SystemRoot};

/// A mount under tuning.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TunedMount {
    /// Mount point.
    pub point: String,
    /// File system type: `nfs4`.
    pub fs: String,
    /// Mounted source.
    pub source: String,
    /// Current kernel name of its backing device: `0:52`.
    pub bdi: String,
    /// The kernel's default window, if known.
    pub kernel_kib: Option<u64>,
}

/// Owner of a window.
#[derive(Clone, Debug)]
pub(super) enum WindowOwner {
    /// A block device.
    Device {
        /// Partition or disk that holds the file.
        below: Box<BlockDevice>,
        /// Type of a file system whose own window cannot be identified.
        has_own_window: Option<String>,
        /// Notes for the interpretation of the figures.
        notes: Vec<String>,
    },
    /// A mount.
    Mount {
        /// Description of the mount.
        mount: TunedMount,
        /// Current window.
        read_ahead_kib: Option<u64>,
        /// File that has the window.
        attribute: String,
        /// Notes for the interpretation of the figures.
        notes: Vec<String>,
    },
}

/// Facts that a target takes from the owner of its window.
pub(super) struct OwnerFacts {
    pub(super) device: BlockDevice,
    pub(super) window_attribute: String,
    pub(super) mount: Option<TunedMount>,
    pub(super) has_own_window: Option<String>,
    pub(super) in_use: Vec<String>,
    pub(super) ext4: Vec<String>,
    pub(super) cached_below: Option<String>,
    pub(super) notes: Vec<String>,
}

impl WindowOwner {
    pub(super) fn facts(self, sys: &SystemRoot) -> Result<OwnerFacts, String> {
        match self {
            Self::Device { below, has_own_window, notes } => {
                let whole = sys.whole(&below);
                let whole = whole.ok_or("its disk is not in /sys/block; give another file")?;
                let family = uses::family(sys, &whole);
                Ok(OwnerFacts {
                    window_attribute: READ_AHEAD_KB.to_owned(),
                    mount: None,
                    has_own_window,
                    in_use: uses::of(sys, &family),
                    ext4: uses::ext4(sys, &[*below]),
                    cached_below: backing::cached(&whole, sys),
                    device: whole,
                    notes,
                })
            }
            Self::Mount { mount, read_ahead_kib, attribute, notes } => Ok(OwnerFacts {
                device: bdi_as_device(&mount, read_ahead_kib, &attribute),
                window_attribute: attribute,
                has_own_window: None,
                in_use: vec![format!(
                    "{} of {} is mounted at {}",
                    mount.fs, mount.source, mount.point
                )],
                ext4: Vec::new(),
                cached_below: None,
                mount: Some(mount),
                notes,
            }),
        }
    }
}

/// Represents a backing device, which has only a window, as a block device.
fn bdi_as_device(mount: &TunedMount, read_ahead_kib: Option<u64>, attribute: &str) -> BlockDevice {
    let folder = Path::new(attribute).parent().unwrap_or(Path::new("/")).to_owned();
    BlockDevice {
        name: mount.bdi.clone(),
        number: (0, 0),
        folder,
        size: ByteCount(0),
        kind: BlockDeviceKind::Disk,
        slaves: Vec::new(),
        holders: Vec::new(),
        is_removable: false,
        is_read_only: true,
        alignment_offset: None,
        queue: Queue { read_ahead_kib, ..Queue::default() },
    }
}

/// Returns the owner of the window for a path.
pub(super) fn owner(
    path: &Path,
    about: &Metadata,
    sys: &SystemRoot,
) -> Result<WindowOwner, String> {
    let path = path.canonicalize().map_err(|error| errno_text(&error))?;
    let mounts = sys.mounts();
    let around = MountEntry::around(&mounts, &path);
    // The type is more reliable than the number: a fuseblk has the number of its device.
    let own = around.filter(|mount| FileSystemKind::of(&mount.kind) != FileSystemKind::Block);
    let Some(mount) = own else {
        return of_device(about.dev(), around, sys, Vec::new());
    };
    of_mount(&path, mount, &mounts, about, sys)
}

fn of_mount(
    path: &Path,
    mount: &MountEntry,
    mounts: &[MountEntry],
    about: &Metadata,
    sys: &SystemRoot,
) -> Result<WindowOwner, String> {
    let window = window_of(sys, &sys.devices(), mounts, mount);
    match &window.governed_by {
        Governor::Bdi { .. } => of_bdi(&window, mounts, sys),
        Governor::Device { .. } => of_device(about.dev(), Some(mount), sys, Vec::new()),
        Governor::Layers { .. } => of_layer(path, mount, mounts, sys),
        Governor::Own { setting } => Err(format!(
            "lies on {}, which does its own read-ahead: its setting is {setting}, not \
             read_ahead_kb",
            mount.kind
        )),
        Governor::Memory => Err(without_window(&mount.kind)),
        Governor::Unknown { why } => {
            of_device(about.dev(), Some(mount), sys, Vec::new()).map_err(|line| {
                if FileSystemKind::of(&mount.kind) == FileSystemKind::Unknown {
                    return line;
                }
                format!("is on {}, whose backing device is unknown: {why}", mount.kind)
            })
        }
    }
}

fn of_bdi(
    window: &MountWindow,
    mounts: &[MountEntry],
    sys: &SystemRoot,
) -> Result<WindowOwner, String> {
    let bdi = bdi_of(sys, mounts, &window.entry)?;
    let mut notes = vec![format!(
        "the window of the mount {} ({}): {}",
        window.mount, window.fs, window.origin
    )];
    notes.extend(window.notes.iter().cloned());
    Ok(WindowOwner::Mount {
        attribute: bdi.attribute(),
        mount: TunedMount {
            point: window.mount.clone(),
            fs: window.fs.clone(),
            source: window.source.clone(),
            bdi: bdi.name,
            kernel_kib: window.kernel_kb,
        },
        read_ahead_kib: window.read_ahead_kb,
        notes,
    })
}

fn of_device(
    number: u64,
    mount: Option<&MountEntry>,
    sys: &SystemRoot,
    notes: Vec<String>,
) -> Result<WindowOwner, String> {
    if let Some(below) = known(number, sys) {
        return Ok(WindowOwner::Device { below: Box::new(below), has_own_window: None, notes });
    }
    let kind = mount.map_or("a file system", |mount| mount.kind.as_str());
    let of_source = |source: &str| {
        let about =
            fs::metadata(source).ok().filter(|about| about.file_type().is_block_device())?;
        known(about.rdev(), sys)
    };
    match mount.and_then(|mount| of_source(&mount.source)) {
        Some(below) => {
            let has_own_window = Some(kind.to_owned());
            Ok(WindowOwner::Device { below: Box::new(below), has_own_window, notes })
        }
        None => Err(without_window(kind)),
    }
}

fn without_window(kind: &str) -> String {
    format!("is on {kind}, which has no block device; give a file or a folder on a disk")
}

/// Resolves an overlay: it opens the file in its layer, and reads with the layer's window.
fn of_layer(
    path: &Path,
    mount: &MountEntry,
    mounts: &[MountEntry],
    sys: &SystemRoot,
) -> Result<WindowOwner, String> {
    let relative = path.strip_prefix(&mount.point).unwrap_or(Path::new(""));
    let upper = mount.option("upperdir").into_iter();
    let lower = mount.option("lowerdir").unwrap_or_default().split(':');
    let added = mount.options.split(',').filter_map(|option| option.strip_prefix("lowerdir+="));
    let found = upper.chain(lower).chain(added).find_map(|folder| {
        let layer = Path::new(folder).join(relative);
        let about = layer.metadata().ok().filter(|_| folder.starts_with('/'))?;
        Some((layer, about))
    });
    let (layer, about) = found
        .ok_or("is on an overlay whose layers are not visible here; give the file in its layer")?;
    let around = MountEntry::around(mounts, &layer).filter(|around| around.kind != "overlay");
    let around = around.ok_or("is on an overlay of overlays; give the file in its layer")?;
    let mut owner = of_mount(&layer, around, mounts, &about, sys)?;
    let note = format!("an overlay: reads use the window of its layer on {}", around.point);
    match &mut owner {
        WindowOwner::Device { notes, .. } | WindowOwner::Mount { notes, .. } => {
            notes.insert(0, note);
        }
    }
    Ok(owner)
}
