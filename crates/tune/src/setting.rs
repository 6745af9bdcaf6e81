//! One setting of a device.
//!
//! In:    a device, an attribute of it, a value.
//! Out:   the value in force; or it is set.
//! Never: a value that was not taken: what was written is read again.

use std::io;
use std::path::{Path, PathBuf};

use foreread_files::attribute;
use serde::{Deserialize, Serialize};

use crate::sysfs::SystemRoot;

/// A setting and its value.
#[derive(Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Serialize, Deserialize)]
pub struct DeviceSetting {
    /// The whole device that has it, as the kernel calls it.
    pub device: String,
    /// Which, below the device's folder: `queue/read_ahead_kb`, `queue/iosched/fifo_batch`. What
    /// is not there has an absolute path: `/sys/fs/ext4/sda1/inode_readahead_blks`.
    pub attribute: String,
    /// Its value, in the attribute's own unit.
    pub value: String,
}

/// The largest window, in KiB.
pub const READ_AHEAD_KB: &str = "queue/read_ahead_kb";

impl DeviceSetting {
    /// The largest window of a device.
    #[must_use]
    pub fn read_ahead_kb(device: &str, kib: u64) -> Self {
        Self {
            device: device.to_owned(),
            attribute: READ_AHEAD_KB.to_owned(),
            value: kib.to_string(),
        }
    }

    /// Its file, an absolute path of its system.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        Path::new("/sys/block").join(&self.device).join(&self.attribute)
    }

    /// What is in force now. Of a list of choices, the one in brackets.
    #[must_use]
    pub fn in_force(&self, sys: &SystemRoot) -> Option<String> {
        let text = sys.text(self.file())?;
        let chosen = text.split_whitespace().find_map(|word| {
            word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).map(str::to_owned)
        });
        Some(chosen.unwrap_or(text))
    }

    /// Sets it.
    ///
    /// # Errors
    ///
    /// If the system refuses it, or has taken another value.
    pub fn set(&self, sys: &SystemRoot) -> io::Result<()> {
        attribute::set(&sys.path(self.file()), &self.value)?;
        match self.in_force(sys) {
            Some(value) if value == self.value => Ok(()),
            now => {
                let now = now.unwrap_or_default();
                Err(io::Error::other(format!("{} was asked for, {now} is in force", self.value)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_in_force() {
        let root = tempfile::tempdir().expect("a folder");
        let sys = SystemRoot::at(root.path());
        let setting = DeviceSetting::read_ahead_kb("sda", 256);
        let file = sys.path(setting.file());
        assert!(setting.set(&sys).is_err(), "there is no such device");
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("it is made");
        std::fs::write(&file, "128\n").expect("it is written");
        assert_eq!(setting.in_force(&sys).as_deref(), Some("128"));
        setting.set(&sys).expect("it takes it");
        assert_eq!(setting.in_force(&sys).as_deref(), Some("256"));
        std::fs::write(&file, "none [bfq] kyber\n").expect("it is written");
        assert_eq!(setting.in_force(&sys).as_deref(), Some("bfq"));
    }
}
