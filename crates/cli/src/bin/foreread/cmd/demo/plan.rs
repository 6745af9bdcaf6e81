//! A run of `foreread demo` with every option resolved. `args` makes it; the other modules see no
//! options of the command line.

use std::path::{Path, PathBuf};

use foreread::lab::Delay;
use foreread_core::units::ByteCount;

/// One run of `foreread demo`.
#[derive(Debug)]
pub(super) struct DemoPlan {
    pub(super) target: DemoTarget,
    /// Replaces the slow devices.
    pub(super) delay: Option<Delay>,
    /// Runs of each pattern by each method.
    pub(super) runs: u32,
    /// HTML report.
    pub(super) html: Option<PathBuf>,
    pub(super) is_json: bool,
}

/// File to read.
#[derive(Debug)]
pub(super) enum DemoTarget {
    /// An existing file or block device.
    Existing(PathBuf),
    /// A scratch file.
    Scratch { directory: PathBuf, size: ByteCount },
}

impl DemoTarget {
    /// Returns the path of an existing file.
    pub(super) fn existing(&self) -> Option<&Path> {
        match self {
            Self::Existing(path) => Some(path),
            Self::Scratch { .. } => None,
        }
    }
}

/// Memory limit of foreread's cache: its default.
pub(super) const MEMORY: u64 = 256 << 20;
