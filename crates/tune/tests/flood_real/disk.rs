//! A disk of a test's own: a file, a loop device over it, ext4 on that, mounted.
//!
//! In:    a size.
//! Out:   [`Disk`].
//! Never: anything left behind: all of it is undone on drop, also after a panic.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use foreread_core::units::Nanos;

use super::common::{output, scratch, unmount};
use crate::common::Command;

/// A mounted file system on a loop device.
pub(crate) struct Disk {
    backing: PathBuf,
    node: String,
    point: tempfile::TempDir,
    /// Where the backing file lies, if not on the disk of the build.
    _below: Option<Tmpfs>,
}

impl Disk {
    /// One of so many MiB.
    pub(crate) fn new(mib: u64) -> Self {
        Self::in_folder(mib, scratch(), None)
    }

    /// One of so many MiB, of which only some can be written: what it lies on is full then.
    pub(crate) fn on_little_room(mib: u64, room_mib: u64) -> Self {
        let below = Tmpfs::new(&format!("size={room_mib}m"));
        let folder = below.folder().to_owned();
        Self::in_folder(mib, &folder, Some(below))
    }

    fn in_folder(mib: u64, folder: &Path, below: Option<Tmpfs>) -> Self {
        let backing = tempfile::NamedTempFile::new_in(folder).expect("a file");
        backing.as_file().set_len(mib << 20).expect("it may be sparse");
        let backing = backing.into_temp_path().keep().expect("it stays until we remove it");
        let mut attach = Command::new("losetup");
        attach.args(["--find", "--show"]).arg(&backing);
        let node = output(&mut attach).expect("a loop device").trim().to_owned();
        let point = tempfile::tempdir().expect("a folder");
        let disk = Self { backing, node, point, _below: below };
        output(Command::new("mkfs.ext4").args(["-q", "-m", "0", &disk.node])).expect("it is made");
        output(Command::new("mount").arg(&disk.node).arg(disk.folder())).expect("it is mounted");
        disk
    }

    /// Where it is mounted.
    pub(crate) fn folder(&self) -> &Path {
        self.point.path()
    }

    /// As the kernel calls it.
    pub(crate) fn name(&self) -> &str {
        self.node.strip_prefix("/dev/").expect("a node")
    }

    /// Free blocks and inodes, once all that was deleted is gone.
    pub(crate) fn free(&self) -> (u64, u64) {
        let stat = rustix::fs::statvfs(self.folder()).expect("it is mounted");
        (stat.f_bfree, stat.f_ffree)
    }
}

impl Disk {
    /// Until what was deleted is free again.
    pub(crate) fn sync(&self) {
        let folder = std::fs::File::open(self.folder()).expect("it is mounted");
        rustix::fs::syncfs(folder).expect("it is synced");
    }

    /// What lies in it.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder()).expect("it is mounted");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
        entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect()
    }

    /// Takes all the room but so many MiB, until the file is dropped.
    pub(crate) fn hold_all_but(&self, mib: u64) -> std::fs::File {
        let stat = rustix::fs::statvfs(self.folder()).expect("it is mounted");
        let file = tempfile::tempfile_in(self.folder()).expect("a file");
        let size = stat.f_bavail * stat.f_frsize - (mib << 20);
        let flags = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&file, flags, 0, size).expect("it has the room");
        file
    }
}

/// A file system in memory.
pub(crate) struct Tmpfs {
    point: tempfile::TempDir,
}

impl Tmpfs {
    /// Mounts one with these options, such as `size=200m`.
    pub(crate) fn new(options: &str) -> Self {
        let tmpfs = Self { point: tempfile::tempdir().expect("a folder") };
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(tmpfs.folder());
        output(&mut mount).expect("it is mounted");
        tmpfs
    }

    pub(crate) fn folder(&self) -> &Path {
        self.point.path()
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = unmount(self.folder());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(self.folder());
        let _ = output(Command::new("losetup").args(["--detach", &self.node]));
        let _ = std::fs::remove_file(&self.backing);
    }
}

/// The test's clock.
#[expect(clippy::disallowed_methods, reason = "the load takes real time")]
pub(crate) fn clock() -> Nanos {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    let start = *START.get_or_init(std::time::Instant::now);
    let ns = std::time::Instant::now().duration_since(start).as_nanos();
    Nanos(u64::try_from(ns).expect("a test is short"))
}
