//! One setting of a device. A write is verified by reading the value back.

use std::io;
use std::path::{Path, PathBuf};

use foreread_files::attribute;
use serde::{Deserialize, Serialize};

use crate::sysfs::SystemRoot;

/// A setting and its value.
#[derive(Clone, Debug, Eq, PartialEq, Ord, PartialOrd, Serialize, Deserialize)]
pub struct DeviceSetting {
    /// Kernel name of the whole device.
    pub device: String,
    /// Attribute below the device's folder: `queue/read_ahead_kb`, `queue/iosched/fifo_batch`; an
    /// absolute path if it is elsewhere: `/sys/fs/ext4/sda1/inode_readahead_blks`.
    pub attribute: String,
    /// Value, in the attribute's unit.
    pub value: String,
}

/// Attribute of the largest window, in KiB.
pub const READ_AHEAD_KB: &str = "queue/read_ahead_kb";

impl DeviceSetting {
    /// Creates the setting of a device's largest window.
    #[must_use]
    pub fn read_ahead_kb(device: &str, kib: u64) -> Self {
        Self {
            device: device.to_owned(),
            attribute: READ_AHEAD_KB.to_owned(),
            value: kib.to_string(),
        }
    }

    /// Returns its file, as an absolute path of its system.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        Path::new("/sys/block").join(&self.device).join(&self.attribute)
    }

    /// Returns the value in force; for a list of choices, the one in brackets.
    #[must_use]
    pub fn in_force(&self, sys: &SystemRoot) -> Option<String> {
        let text = sys.text(self.file())?;
        let chosen = text.split_whitespace().find_map(|word| {
            word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).map(str::to_owned)
        });
        Some(chosen.unwrap_or(text))
    }

    /// Applies the setting.
    ///
    /// # Errors
    ///
    /// If the system rejects it, or has stored another value.
    pub fn set(&self, sys: &SystemRoot) -> io::Result<()> {
        attribute::set(&sys.path(self.file()), &self.value)?;
        match self.in_force(sys) {
            Some(value) if value == self.value => Ok(()),
            now => {
                let now = now.unwrap_or_default();
                Err(io::Error::other(format!(
                    "{} was requested, but {now} is in force",
                    self.value
                )))
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
