//! File systems that a test makes for itself, in a file or in memory.
//!
//! In:    a command that makes one; how large it is.
//! Out:   where it is mounted.
//! Never: a mount or a loop device that stays behind, also when the test fails.
//!
//! Include it beside `mod common;`. It needs the right to mount.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test crates")]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::common::{Command, output, scratch, unmount};

/// A file system that is mounted.
pub struct FileSystem {
    pub at: PathBuf,
    /// The file that it is in.
    pub image: PathBuf,
    _dir: TempDir,
}

impl FileSystem {
    pub fn new(make: &[&str], bytes: u64) -> Self {
        let made = Self::folder();
        fs::File::create(&made.image).unwrap().set_len(bytes).unwrap();
        run(make[0], &[&make[1..], &[text(&made.image)]].concat());
        run("mount", &["-o", "loop", text(&made.image), text(&made.at)]);
        made
    }

    pub fn tmpfs(bytes: u64) -> Self {
        let made = Self::folder();
        run("mount", &["-t", "tmpfs", "-o", &format!("size={bytes}"), "none", text(&made.at)]);
        made
    }

    /// A file system without direct I/O.
    pub fn ramfs() -> Self {
        let made = Self::folder();
        run("mount", &["-t", "ramfs", "none", text(&made.at)]);
        made
    }

    fn folder() -> Self {
        let dir = TempDir::new_in(scratch()).unwrap();
        let (image, at) = (dir.path().join("image"), dir.path().join("at"));
        fs::create_dir(&at).unwrap();
        Self { at, image, _dir: dir }
    }

    /// Takes all space but so much, and so much again, which the file that it gives has: to be
    /// removed when there is to be room again.
    pub fn fill_but(&self, bytes: u64) -> PathBuf {
        let free = rustix::fs::statvfs(&self.at).unwrap();
        let free = free.f_bavail * free.f_frsize;
        let spare = self.at.join("spare");
        allocate(&spare, bytes);
        allocate(&self.at.join("filler"), free.saturating_sub(2 * bytes));
        spare
    }
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        drop(Mounted(&self.at));
    }
}

/// Unmounts it at the end.
pub struct Mounted<'p>(pub &'p Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // A process that another thread is starting has all open files until it runs its program.
        // With `-l` alone, the image would be in use for so long.
        if unmount(self.0).is_ok() {
            return;
        }
        let unmounted = output(Command::new("umount").arg("-l").arg(self.0));
        assert!(unmounted.is_ok() || std::thread::panicking(), "{unmounted:?}");
    }
}

fn allocate(path: &Path, bytes: u64) {
    let file = fs::File::create(path).unwrap();
    if bytes > 0 {
        let flags = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&file, flags, 0, bytes).unwrap();
    }
}

pub fn run(command: &str, arguments: &[&str]) {
    if let Err(error) = output(Command::new(command).args(arguments)) {
        panic!("{arguments:?}: {error}");
    }
}

pub fn text(path: &Path) -> &str {
    path.to_str().expect("the paths of tests are text")
}
