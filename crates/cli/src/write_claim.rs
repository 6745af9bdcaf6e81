//! Exclusive claim on the regular files that a command writes: a file, or those below a block
//! device.
//!
//! Two processes that cache and write the same bytes would lose writes. The lock is advisory, so it
//! keeps out other foreread processes only. Block devices themselves are claimed by the engine.
//!
//! ```text
//!   disk.img <-- /dev/loop0 <-- /dev/loop0p1        a claim on any of these locks disk.img
//!                           <-- /dev/dm-0
//! ```

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use foreread_files::file_lock::{FileLock, exclusively};
use foreread_tune::sysfs::{BlockDevice, BlockDeviceKind, SystemRoot};

use crate::output::{Failure, cannot};

/// Locked files, until this value is dropped.
#[derive(Debug)]
pub struct WriteClaim {
    _locked: Vec<File>,
}

impl WriteClaim {
    /// Locks the file at `target`, or the backing files of all loop devices below a block device.
    ///
    /// # Errors
    ///
    /// If another process has locked one of them; `advice` ends the message.
    pub fn new(target: &Path, advice: &str) -> Result<Self, Failure> {
        let files =
            written_files(&SystemRoot::here(), target).map_err(cannot("open the target"))?;
        let mut locked: Vec<File> = Vec::new();
        for path in files {
            let file = File::open(&path).map_err(cannot("open the target"))?;
            // Two loop devices may share a file, and a second lock of it would fail.
            if locked.iter().any(|other| is_same_file(other, &file)) {
                continue;
            }
            match exclusively(&file) {
                Ok(FileLock::Held) => locked.push(file),
                Ok(FileLock::Taken) => {
                    let path = path.display();
                    let line = format!("{path}: another server writes it; end that one, {advice}");
                    return Err(Failure::WrongUse(line));
                }
                Ok(FileLock::Unsupported) => {}
                Err(errno) => {
                    let (path, error) = (path.display(), io::Error::from(errno));
                    let line = format!("{path}: cannot lock it against other servers: {error}");
                    return Err(Failure::WrongUse(line));
                }
            }
        }
        Ok(Self { _locked: locked })
    }
}

/// Returns the regular files whose bytes a write to `target` changes.
fn written_files(sys: &SystemRoot, target: &Path) -> io::Result<Vec<PathBuf>> {
    let about = fs::metadata(target)?;
    if about.is_file() {
        return Ok(vec![target.to_owned()]);
    }
    if !about.file_type().is_block_device() {
        return Ok(Vec::new());
    }
    let number = about.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let devices = sys.devices();
    let device = devices.iter().find(|device| device.number == (major, minor));
    let mut files = device.map_or(Vec::new(), |device| backing_files(sys, &devices, device));
    // A path of another mount namespace names nothing here, or something else.
    files.retain(|path| path.is_file());
    Ok(files)
}

/// Returns the backing files of the loop devices at or below a device.
fn backing_files(sys: &SystemRoot, devices: &[BlockDevice], top: &BlockDevice) -> Vec<PathBuf> {
    let mut names = vec![top.name.as_str()];
    let mut files = Vec::new();
    let mut next = 0;
    while let Some(name) = names.get(next) {
        next += 1;
        let Some(device) = devices.iter().find(|device| device.name == *name) else { continue };
        let mut below: Vec<&str> = device.slaves.iter().map(String::as_str).collect();
        match &device.kind {
            BlockDeviceKind::Partition { of, .. } => below.push(of),
            BlockDeviceKind::Loop { .. } => files.extend(backing_file(sys, device)),
            BlockDeviceKind::Disk
            | BlockDeviceKind::Mapped { .. }
            | BlockDeviceKind::Raid { .. } => {}
        }
        below.retain(|name| !names.contains(name));
        names.extend(below);
    }
    files
}

/// Returns the path of a loop device's file: any bytes, also blanks at the end.
fn backing_file(sys: &SystemRoot, device: &BlockDevice) -> Option<PathBuf> {
    let path = sys.bytes(device.folder.join("loop/backing_file"))?;
    let path = path.strip_suffix(b"\n").unwrap_or(&path);
    Some(PathBuf::from(OsStr::from_bytes(path)))
}

fn is_same_file(one: &File, other: &File) -> bool {
    let identity = |file: &File| file.metadata().map(|about| (about.dev(), about.ino())).ok();
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the attributes of a system's devices: a path below /sys/block, and its text.
    fn system(attributes: &[(&str, &[u8])]) -> (tempfile::TempDir, SystemRoot) {
        let root = tempfile::tempdir().expect("a directory");
        for (path, text) in attributes {
            let path = root.path().join("sys/block").join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("it is made");
            fs::write(path, text).expect("it is written");
        }
        let sys = SystemRoot::at(root.path());
        (root, sys)
    }

    #[test]
    fn files_below_partitions_and_maps_of_loop_devices_are_found() {
        let (_root, sys) = system(&[
            ("loop0/dev", b"7:0\n"),
            ("loop0/size", b"2048\n"),
            ("loop0/loop/backing_file", b"/srv/a.img\n"),
            ("loop0/loop0p1/dev", b"259:0\n"),
            ("loop0/loop0p1/size", b"1024\n"),
            ("loop0/loop0p1/partition", b"1\n"),
            ("loop0/loop0p1/start", b"8\n"),
            ("loop1/dev", b"7:1\n"),
            ("loop1/size", b"2048\n"),
            ("loop1/loop/backing_file", b"/srv/b\xff \n"),
            ("dm-0/dev", b"253:0\n"),
            ("dm-0/size", b"3072\n"),
            ("dm-0/dm/name", b"both\n"),
            ("dm-0/slaves/loop0p1/dev", b"259:0\n"),
            ("dm-0/slaves/loop1/dev", b"7:1\n"),
            ("sda/dev", b"8:0\n"),
            ("sda/size", b"2048\n"),
        ]);
        let devices = sys.devices();
        let files = |name: &str| {
            let device = devices.iter().find(|device| device.name == name).expect(name);
            let mut files = backing_files(&sys, &devices, device);
            files.sort();
            files
        };
        let (a, b) = (Path::new("/srv/a.img"), Path::new(OsStr::from_bytes(b"/srv/b\xff ")));
        assert_eq!(files("loop0"), [a]);
        assert_eq!(files("loop0p1"), [a]);
        assert_eq!(files("dm-0"), [a, b]);
        assert!(files("sda").is_empty());
    }

    #[test]
    fn a_file_belongs_to_one_writer() {
        let root = tempfile::tempdir().expect("a directory");
        let (file, link) = (root.path().join("disk"), root.path().join("link"));
        fs::write(&file, "bytes").expect("it is written");
        fs::hard_link(&file, &link).expect("it is linked");
        let claim = WriteClaim::new(&file, "or wait").expect("the first one");
        for path in [&file, &link] {
            let refused = WriteClaim::new(path, "or wait").expect_err("it is claimed");
            let Failure::WrongUse(line) = refused else { panic!("{refused:?}") };
            assert!(line.ends_with("another server writes it; end that one, or wait"), "{line}");
        }
        drop(claim);
        WriteClaim::new(&link, "or wait").expect("the first one has ended");
    }
}
