//! Other files that set the attributes that our rule sets.
//!
//! In:    the files of this machine that can set an attribute of a block device.
//! Out:   [`Conflict`]s: file, line, what it does, and whether it or we have the last word.
//! Never: runs a program; reports a conflict that it has not read in a file.
//!
//! ```text
//!   udev rules          the later name wins; what they RUN comes after all rules
//!   tuned               its active profile, once it starts and for each new device
//!   tmpfiles, sysfs     at boot, in no order with the rules
//!   rc.local, cron      later than any rule
//!   systemd units       when they are enabled: later
//!   sysctl              cannot set it at all, and is asked to all the same
//! ```

mod rules;
mod scripts;
mod tuned;

use std::fmt;
use std::path::PathBuf;

use crate::setting::READ_AHEAD_KB;
use crate::sysfs::SystemRoot;

/// Something else that sets an attribute of a device, or may.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Conflict {
    /// Its file, an absolute path of its system.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: usize,
    /// Which attribute of the device: `queue/read_ahead_kb`.
    pub attribute: String,
    /// To what, in the attribute's unit, if that can be read.
    pub value: Option<String>,
    /// What it says, and what is peculiar about it.
    pub what: String,
    /// Whether its value is the one that stays.
    pub wins: Wins,
}

/// Which value stays.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wins {
    /// It comes after our rule.
    Yes,
    /// Our rule comes after it.
    No,
    /// The order is not known, or whether it means this device.
    Unknown,
}

/// The files that set these attributes of a whole device, whether it is remembered or not.
#[must_use]
pub fn conflicts(sys: &SystemRoot, device: &str, attributes: &[&str]) -> Vec<Conflict> {
    let Some(device) = sys.device(device).and_then(|device| sys.whole(&device)) else {
        return Vec::new();
    };
    let mut conflicts = rules::conflicts(sys, &device, attributes);
    conflicts.extend(tuned::conflicts(sys, &device, attributes));
    conflicts.extend(scripts::conflicts(sys, &device, attributes));
    conflicts
}

/// How texts that set an attribute call it.
fn names(attribute: &str) -> Vec<&str> {
    match attribute {
        READ_AHEAD_KB => vec!["read_ahead_kb", "--setra", "--setfra"],
        other => vec![other],
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, what, wins, .. } = self;
        let wins = match wins {
            Wins::Yes => "it wins",
            Wins::No => "the remembered value wins",
            Wins::Unknown => "which value wins is unknown",
        };
        write!(f, "{}:{line} ({what}; {wins})", file.display())
    }
}
