//! A device that hangs when it is told to.
//!
//! In:    nbdkit behind nbdfuse, under a loop device.
//! Out:   a node whose server can be stopped and continued.
//! Never: a server or a mount that stays behind.

use std::fs;
use std::process::Child;

use super::machine::{Loop, done, looks_until};
use crate::common::Command;

/// A device whose server can be stopped, so that it hangs.
pub(crate) struct Hanging {
    pub(crate) device: Option<Loop>,
    folder: tempfile::TempDir,
    fuse: Child,
    server: String,
}

impl Hanging {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let name = |name: &str| folder.path().join(name);
        fs::write(name("disk"), "").expect("a place to mount on");
        done(
            Command::new("nbdkit")
                .arg("-U")
                .arg(name("socket"))
                .arg("-P")
                .arg(name("pid"))
                .args(["memory", "64M"]),
        );
        let uri = format!("nbd+unix:///?socket={}", name("socket").display());
        let mut fuse = Command::new("nbdfuse");
        let fuse = fuse.arg(name("disk")).arg(uri).spawn().expect("it starts");
        let is_there = || fs::metadata(name("disk")).is_ok_and(|disk| disk.len() > 0);
        assert!(looks_until(is_there), "nbdfuse does not mount");
        let server = fs::read_to_string(name("pid")).expect("a pid file").trim().to_owned();
        Self { device: Some(Loop::over(&name("disk"))), fuse, server, folder }
    }

    pub(crate) fn signal(&self, signal: &str) {
        done(Command::new("kill").args([signal, &self.server]));
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.signal("-CONT");
        drop(self.device.take());
        let disk = self.folder.path().join("disk");
        let unmounted =
            || Command::new("umount").arg(&disk).output().is_ok_and(|o| o.status.success());
        if !(0..1000).any(|_| unmounted()) {
            let _ = Command::new("umount").arg("-l").arg(&disk).status();
        }
        self.signal("-TERM");
        let _ = self.fuse.wait();
    }
}
