//! State shared by all methods of reading: open files, and errors that name the path and offset.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
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
    /// Origin of instants.
    pub(super) zero: Instant,
    /// Device behind the path when the run began.
    pub(super) lies_on: OpenedDevice,
    pub(super) interrupted: Arc<AtomicBool>,
}

/// Device number of a file's file system and, for a node, of its device. The inode is not included:
/// FUSE programs may change it at each open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct OpenedDevice(u64, u64);

impl OpenedDevice {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let about = file.metadata()?;
        Ok(Self(about.dev(), about.rdev()))
    }
}

impl ProbeRun {
    /// Returns an error if the run was interrupted.
    pub(super) fn go_on(&self) -> Result<(), Stopped> {
        if self.interrupted.load(Ordering::Relaxed) { Err(Stopped::Interrupted) } else { Ok(()) }
    }

    /// Opens a new descriptor, because the kernel copies the window into it at open.
    pub(super) fn open(&self) -> Result<File, Stopped> {
        let opened = File::open(&self.path).map_err(|error| self.unopened(&error))?;
        self.is_still_there(opened)
    }

    pub(super) fn open_direct(&self) -> Result<File, Stopped> {
        let flags = i32::try_from(OFlags::DIRECT.bits()).expect("open's flags are a C int");
        let opened = File::options().read(true).custom_flags(flags).open(&self.path);
        self.is_still_there(opened.map_err(|error| self.unopened(&error))?)
    }

    /// Returns an error if another file system or device has replaced the original: its window is
    /// not the one that was set.
    fn is_still_there(&self, opened: File) -> Result<File, Stopped> {
        let lies_on = OpenedDevice::of(&opened).map_err(|error| self.unopened(&error))?;
        if lies_on == self.lies_on {
            return Ok(opened);
        }
        let path = self.path.display();
        Err(Stopped::Failed(format!("{path}: now refers to another file system or device")))
    }

    /// Maps a buffer for `O_DIRECT`.
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
        Stopped::Failed(format!("reading {path} at {at}: it has become shorter and ends there"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now;

    /// What was mounted over the target was measured with the window of what lies below.
    #[test]
    fn what_took_the_place_of_the_target_is_not_read() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let of = |path: &str| OpenedDevice::of(&File::open(path).expect("it opens"));
        let run = |lies_on| ProbeRun {
            path: file.path().to_owned(),
            zero: now(),
            lies_on,
            interrupted: Arc::default(),
        };
        let own = OpenedDevice::of(file.as_file()).expect("it has one");
        assert!(run(own).open().is_ok());
        let other = of("/dev/null").expect("it has one");
        let error = run(other).open().expect_err("it is another device");
        assert!(matches!(error, Stopped::Failed(line) if line.contains("now refers to")));
    }
}
