//! What the tests of real settings and devices share: loop devices, and a holder.
//!
//! In:    nothing; or how large.
//! Out:   a device with data, gone when it is dropped; a command that starts a holder.
//! Never: a sleep: what comes in its own time is looked for until it is there.

#![allow(dead_code, reason = "each test file uses the part it needs")]
#![allow(unused_imports, reason = "each test file uses the part it needs")]
#![allow(unreachable_pub, reason = "a module shared by several test crates")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

pub use super::common::{Need, looks_until, needs, scratch, skip};
use foreread_tune::sysfs::SystemRoot;
use foreread_tune::temporary_settings;

use crate::common::Command;

/// A loop device over a file of its own, read around the page cache of that file.
pub struct Loop {
    pub name: String,
    pub backing: PathBuf,
    folder: Option<tempfile::TempDir>,
}

impl Loop {
    pub fn new(mib: usize) -> Self {
        let folder = tempfile::TempDir::new_in(scratch()).expect("a folder");
        let backing = folder.path().join("disk");
        fs::write(&backing, vec![7; mib << 20]).expect("it is written");
        fs::File::open(&backing).expect("a file").sync_all().expect("it is on its disk");
        let mut device = Self::over(&backing);
        device.folder = Some(folder);
        device
    }

    pub fn over(backing: &Path) -> Self {
        let said =
            done(Command::new("losetup").args(["-f", "--show", "--direct-io=on"]).arg(backing));
        let name = said.trim().strip_prefix("/dev/").expect("a device").to_owned();
        Self { name, backing: backing.to_owned(), folder: None }
    }

    /// The same, but read through the page cache, in which its file is.
    pub fn cached(mib: usize) -> Self {
        let device = Self::new(mib);
        done(Command::new("losetup").arg("--direct-io=off").arg(device.node()));
        let bytes = fs::read(&device.backing).expect("it is read, and cached");
        assert_eq!(bytes.len(), mib << 20);
        device
    }

    pub fn node(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }

    pub fn window_kib(&self) -> u64 {
        let device = SystemRoot::here().device(&self.name).expect("it is there");
        device.queue.read_ahead_kib.expect("it has one")
    }

    /// Reads and writes that it has done.
    pub fn requests(&self) -> (u64, u64) {
        let text =
            SystemRoot::here().text(format!("/sys/block/{}/stat", self.name)).expect("it counts");
        let number = |at| text.split_whitespace().nth(at).expect("a count").parse().expect("one");
        (number(0), number(4))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &format!("/dev/{}", self.name)]).status();
    }
}

/// Runs this test program again, as a process that executes one of its ignored tests.
pub fn myself(test: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", test, "--ignored", "--nocapture"]).env(ROOT, root);
    command
}

/// The system that the process of an ignored test is about; None if a user runs it by hand.
pub fn root() -> Option<SystemRoot> {
    std::env::var_os(ROOT).map(|root| SystemRoot::at(PathBuf::from(root)))
}

/// The body of the ignored test that is a holder.
pub fn hold_until_the_end() {
    if let Some(sys) = root() {
        temporary_settings::serve(&sys).expect("a socket");
    }
}

/// What a command said, which has to have worked.
pub fn done(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("a program");
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("text")
}

const ROOT: &str = "FOREREAD_TEST_ROOT";
