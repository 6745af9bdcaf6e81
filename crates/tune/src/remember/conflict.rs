//! Finds other files that set the same attributes as a rule of foreread.
//!
//! In:    the files of this machine that can set an attribute of a block device.
//! Out:   [`Conflict`]s: file, line, effect, and which value prevails.
//! Never: runs a program; reports a conflict that it has not read in a file.
//!
//! ```text
//!   udev rules          the later name wins; their RUN commands follow all rules
//!   tuned               its active profile, once it starts and for each new device
//!   tmpfiles, sysfs     at boot, in no order with the rules
//!   rc.local, cron      later than any rule
//!   systemd units       when they are enabled: later
//!   sysctl              cannot set it at all, yet some files try
//! ```

mod rules;
mod scripts;
mod tuned;

use std::fmt;
use std::path::PathBuf;

use crate::setting::READ_AHEAD_KB;
use crate::sysfs::SystemRoot;

/// A file that sets an attribute of a device, or may.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Conflict {
    /// File, as an absolute path of its system.
    pub file: PathBuf,
    /// Line number, from 1.
    pub line: usize,
    /// Attribute of the device: `queue/read_ahead_kb`.
    pub attribute: String,
    /// Value in the attribute's unit, if it can be parsed.
    pub value: Option<String>,
    /// Description of the line and its peculiarities.
    pub what: String,
    /// Whether its value prevails.
    pub wins: Wins,
}

/// Which value prevails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wins {
    /// The other rule runs after ours.
    Yes,
    /// Our rule runs after it.
    No,
    /// Unknown order, or unknown whether the line affects this device.
    Unknown,
}

/// Returns the files that set these attributes of a whole device, remembered or not.
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

/// Returns the names of an attribute in other programs' texts.
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
