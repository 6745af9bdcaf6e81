//! A loop device over a file of a test.
//!
//! In:    a file.
//! Out:   the device's path, and what its queue is set to.
//! Never: a device that stays behind.

use std::fs;
use std::path::Path;

use crate::common::Command;

/// Gone when it is dropped.
pub(crate) struct Loop(pub(crate) String);

impl Loop {
    pub(crate) fn new(file: &Path) -> Self {
        let losetup = Command::new("losetup").args(["-f", "--show"]).arg(file).output().unwrap();
        assert!(losetup.status.success(), "{losetup:?}");
        Self(String::from_utf8(losetup.stdout).unwrap().trim().to_owned())
    }

    #[allow(dead_code, reason = "each test uses the part it needs")]
    /// A setting of its queue, as the kernel says it.
    pub(crate) fn setting(&self, name: &str) -> String {
        let device = self.0.strip_prefix("/dev/").unwrap();
        fs::read_to_string(format!("/sys/block/{device}/queue/{name}")).unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}
