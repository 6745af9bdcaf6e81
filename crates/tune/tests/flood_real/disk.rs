//! A disk of a test's own: a file, a loop device over it, ext4 on that, mounted.
//!
//! In:    a size.
//! Out:   [`Disk`].
//! Never: anything left behind: all of it is undone on drop, also after a panic.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use foreread_core::units::Instant;

use super::common::{output, scratch};

/// A mounted file system on a loop device.
pub(crate) struct Disk {
    backing: PathBuf,
    node: String,
    point: tempfile::TempDir,
}

impl Disk {
    /// One of so many MiB.
    pub(crate) fn new(mib: u64) -> Self {
        let backing = tempfile::NamedTempFile::new_in(scratch()).expect("a file");
        backing.as_file().set_len(mib << 20).expect("it may be sparse");
        let backing = backing.into_temp_path().keep().expect("it stays until we remove it");
        let mut attach = Command::new("losetup");
        attach.args(["--find", "--show", "--direct-io=on"]).arg(&backing);
        let node = output(&mut attach).expect("a loop device").trim().to_owned();
        let point = tempfile::tempdir().expect("a folder");
        let disk = Self { backing, node, point };
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

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = output(Command::new("umount").arg(self.folder()));
        let _ = output(Command::new("losetup").args(["--detach", &self.node]));
        let _ = std::fs::remove_file(&self.backing);
    }
}

/// The test's clock.
#[expect(clippy::disallowed_methods, reason = "the load takes real time")]
pub(crate) fn clock() -> Instant {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    let start = *START.get_or_init(std::time::Instant::now);
    let ns = std::time::Instant::now().duration_since(start).as_nanos();
    Instant(u64::try_from(ns).expect("a test is short"))
}
