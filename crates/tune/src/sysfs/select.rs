//! Resolves a name or path on the command line to block devices.
//!
//! A disk selects its partitions, too, and a partition selects its disk, which has the settings. A
//! path that is on no block device is an error.

use std::ffi::OsString;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Component, Path, PathBuf};

use super::SystemRoot;
use super::device::{BlockDevice, BlockDeviceKind};
use super::mount::MountEntry;

/// Returns the devices that `text` selects.
///
/// # Errors
///
/// One line: that there is none, and the accepted forms.
pub fn devices_named(sys: &SystemRoot, text: &str) -> Result<Vec<String>, String> {
    devices_named_among(sys, &sys.devices(), text)
}

/// Returns the devices that `text` selects, among devices that were read before.
///
/// # Errors
///
/// One line that names the text.
pub fn devices_named_among(
    sys: &SystemRoot,
    devices: &[BlockDevice],
    text: &str,
) -> Result<Vec<String>, String> {
    let found = by_name(devices, text).or_else(|| by_path(sys, devices, text));
    let Some(found) = found else {
        return Err(format!(
            "{text}: not a block device, nor a path on one; give a name (sda), a node (/dev/sda) \
             or a path"
        ));
    };
    let mut names = vec![found.name.clone()];
    match &found.kind {
        BlockDeviceKind::Partition { of, .. } => names.push(of.clone()),
        BlockDeviceKind::Disk
        | BlockDeviceKind::Loop { .. }
        | BlockDeviceKind::Mapped { .. }
        | BlockDeviceKind::Raid { .. } => {
            let is_part = |kind: &BlockDeviceKind| matches!(kind, BlockDeviceKind::Partition { of, .. } if *of == found.name);
            let parts = devices.iter().filter(|device| is_part(&device.kind));
            names.extend(parts.map(|part| part.name.clone()));
        }
    }
    Ok(names)
}

/// Returns the device of this kernel or map name, with or without `/dev/`.
pub(crate) fn by_name<'d>(devices: &'d [BlockDevice], text: &str) -> Option<&'d BlockDevice> {
    let name = text.strip_prefix("/dev/").unwrap_or(text);
    let is_it = |device: &&BlockDevice| match &device.kind {
        BlockDeviceKind::Mapped { name: map, .. } => {
            device.name == name || name.strip_prefix("mapper/") == Some(map)
        }
        BlockDeviceKind::Disk
        | BlockDeviceKind::Partition { .. }
        | BlockDeviceKind::Loop { .. }
        | BlockDeviceKind::Raid { .. } => device.name.replace('!', "/") == name,
    };
    devices.iter().find(is_it)
}

/// Resolves a path. On the running system the path is stat'ed for its device; on a copy, only the
/// mounts are known.
fn by_path<'d>(
    sys: &SystemRoot,
    devices: &'d [BlockDevice],
    text: &str,
) -> Option<&'d BlockDevice> {
    let numbered = |number| devices.iter().find(|device| device.number == number);
    let is_here = sys.path("/") == Path::new("/");
    if !is_here && text.starts_with("/dev/") {
        return None;
    }
    let path = if is_here { place_of(sys, text)? } else { text.into() };
    if is_here && answers_at_once(&sys.mounts(), &path) {
        let stat = path.metadata().ok()?;
        let is_node = stat.file_type().is_block_device();
        let number = if is_node { stat.rdev() } else { stat.dev() };
        let found = numbered((rustix::fs::major(number), rustix::fs::minor(number)));
        if found.is_some() || is_node {
            return found;
        }
    }
    let mounts = mounts_on(sys, devices);
    numbered(MountEntry::around(&mounts, path.to_str()?)?.number)
}

/// Resolves links in a path, but never touches a file system that may not answer: a hanging server
/// must not block its own diagnosis. From the first such mount on, the path stays as it is. None if
/// it leads nowhere.
#[must_use]
pub fn place_of(sys: &SystemRoot, text: &str) -> Option<PathBuf> {
    let mounts = sys.mounts();
    let whole = std::path::absolute(text).ok()?;
    let mut rest: Vec<OsString> = parts_of(&whole);
    let (mut place, mut links) = (PathBuf::from("/"), 0);
    while let Some(part) = rest.pop() {
        if part == ".." {
            place.pop();
            continue;
        }
        let next = place.join(&part);
        if answers_at_once(&mounts, &next) {
            if !next.symlink_metadata().ok()?.is_symlink() {
                place = next;
                continue;
            }
            let link = std::fs::read_link(&next).ok()?;
            links += 1;
            if links > LINKS_MAX {
                return None;
            }
            if link.is_absolute() {
                place = PathBuf::from("/");
            }
            rest.extend(parts_of(&link));
        } else {
            place = next;
        }
    }
    Some(place)
}

/// Returns the names in a path in reverse order, without meaningless ones.
fn parts_of(path: &Path) -> Vec<OsString> {
    let said = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut parts: Vec<OsString> = said.collect();
    parts.reverse();
    parts
}

/// Returns whether this machine alone answers a stat of a path: a block device or the kernel.
fn answers_at_once(mounts: &[MountEntry], path: &Path) -> bool {
    let Some(around) = MountEntry::around(mounts, path) else { return true };
    let is_on_device = around.number.0 != 0 && around.kind != "fuseblk";
    is_on_device || ANSWERED_HERE.contains(&around.kind.as_str())
}

/// Types without a block device's number that wait for no program and no server.
const ANSWERED_HERE: [&str; 12] = [
    "btrfs",
    "bcachefs",
    "cgroup2",
    "devpts",
    "devtmpfs",
    "hugetlbfs",
    "overlay",
    "proc",
    "ramfs",
    "sysfs",
    "tmpfs",
    "zfs",
];

/// The kernel's limit.
const LINKS_MAX: u32 = 40;

/// Returns the mounts, with the devices that they use. btrfs has its own number instead of its
/// device's, names one of its devices as the source, and lists all of them in sysfs.
pub(crate) fn mounts_on(sys: &SystemRoot, devices: &[BlockDevice]) -> Vec<MountEntry> {
    let mut mounts = sys.mounts();
    let folders = std::fs::read_dir(sys.path("/sys/fs/btrfs")).into_iter().flatten().flatten();
    let groups: Vec<Vec<&BlockDevice>> = folders
        .map(|folder| {
            let members = std::fs::read_dir(folder.path().join("devices"));
            let names = members.into_iter().flatten().flatten().map(|member| member.file_name());
            names.filter_map(|name| devices.iter().find(|it| *it.name == *name)).collect()
        })
        .collect();
    let nameless = mounts.extract_if(.., |mount| mount.number.0 == 0).collect::<Vec<_>>();
    for mount in nameless {
        let source = devices.iter().find(|device| device.is_named(&mount.source));
        let Some(source) = source else {
            mounts.push(mount);
            continue;
        };
        let group = groups.iter().find(|group| group.iter().any(|it| it.name == source.name));
        let others = group.into_iter().flatten().filter(|other| other.name != source.name);
        let on = |device: &BlockDevice| MountEntry { number: device.number, ..mount.clone() };
        mounts.extend(others.copied().chain([source]).map(on));
    }
    mounts
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Each of the devices that doctor was given had all devices read anew: 40 ms each of 200.
    #[test]
    fn devices_that_were_read_before_are_not_read_again() {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        fs::create_dir_all(sys.path("/sys/block/sda")).expect("it is made");
        fs::write(sys.path("/sys/block/sda/dev"), "8:0\n").expect("it is written");
        let devices = sys.devices();
        fs::remove_dir_all(sys.path("/sys")).expect("it is removed");
        assert_eq!(devices_named_among(&sys, &devices, "sda"), Ok(vec!["sda".to_owned()]));
    }

    /// A path below a mount whose server hangs made doctor hang: each look at it asks the server.
    #[test]
    fn a_path_below_a_server_is_taken_as_it_stands() {
        let root = tempfile::tempdir().expect("a folder");
        let here = root.path().canonicalize().expect("it is there");
        let sys = SystemRoot::at(&here);
        let far = here.join("far");
        fs::create_dir_all(here.join("proc/self")).expect("it is made");
        let table = format!(
            "1 0 8:0 / / rw - ext4 /dev/sda rw\n2 1 0:52 / {} rw - fuse x rw\n",
            far.display()
        );
        fs::write(here.join("proc/self/mountinfo"), table).expect("it is written");
        symlink("far/a", here.join("near")).expect("a link");
        let place = |text: PathBuf| place_of(&sys, text.to_str().expect("it is text"));
        // Neither is there: nothing below the mount was asked.
        assert_eq!(place(far.join("a/../b")), Some(far.join("b")));
        assert_eq!(place(here.join("near/c")), Some(far.join("a/c")));
        assert_eq!(place(here.join("nowhere")), None);
        symlink("circle", here.join("circle")).expect("a link");
        assert_eq!(place(here.join("circle")), None);
    }
}
