//! What all ways of reading need of a run.
//!
//! In:    a path; the flag that Ctrl-C sets.
//! Out:   open files, and errors that say what was read where.
//! Never: a file opened for writing.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::fs::OFlags;

use super::Stopped;
use crate::errno_text::errno_text;
use crate::pages::HugePageBuffer;

/// A run of measurements on one target.
#[derive(Clone, Debug)]
pub(super) struct ProbeRun {
    pub(super) path: PathBuf,
    /// What instants count from.
    pub(super) zero: Instant,
    pub(super) interrupted: Arc<AtomicBool>,
}

impl ProbeRun {
    /// An error if the run was interrupted.
    pub(super) fn go_on(&self) -> Result<(), Stopped> {
        if self.interrupted.load(Ordering::Relaxed) { Err(Stopped::Interrupted) } else { Ok(()) }
    }

    /// A new descriptor: the kernel copies the window into it when it is opened.
    pub(super) fn open(&self) -> Result<File, Stopped> {
        File::open(&self.path).map_err(|error| self.unopened(&error))
    }

    pub(super) fn open_direct(&self) -> Result<File, Stopped> {
        let flags = i32::try_from(OFlags::DIRECT.bits()).expect("open's flags are a C int");
        let opened = File::options().read(true).custom_flags(flags).open(&self.path);
        opened.map_err(|error| self.unopened(&error))
    }

    /// Memory that O_DIRECT takes.
    pub(super) fn memory(&self, bytes: u64) -> Result<HugePageBuffer, Stopped> {
        HugePageBuffer::new(bytes).map_err(|error| {
            Stopped::Failed(format!("no memory for {} KiB: {}", bytes >> 10, errno_text(&error)))
        })
    }

    fn unopened(&self, error: &io::Error) -> Stopped {
        Stopped::Failed(format!("opening {}: {}", self.path.display(), errno_text(error)))
    }

    pub(super) fn failed(&self, at: u64, error: &io::Error) -> Stopped {
        Stopped::Failed(format!("reading {} at {at}: {}", self.path.display(), errno_text(error)))
    }

    pub(super) fn shrunk(&self, at: u64) -> Stopped {
        let path = self.path.display();
        Stopped::Failed(format!("reading {path} at {at}: it ends there and was longer before"))
    }
}
