//! Target that a flood overwrites.
//!
//! Devices that are mounted or in exclusive use are refused, and files that a server writes.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use foreread_tune::sysfs::SystemRoot;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::super::pattern::PAGE;
use crate::output::Failure;
use crate::write_claim::WriteClaim;

/// A file or a device that may be overwritten.
pub struct FloodTarget {
    pub path: PathBuf,
    pub name: String,
    pub len: u64,
    /// Whole device that is, or holds, the target, as named below `/sys/block`.
    pub disk: Option<String>,
    is_block_device: bool,
    _claim: WriteClaim,
}

impl FloodTarget {
    /// Opens the target to check access; nothing is written yet.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        let named = |line: String| Failure::WrongUse(format!("{}: {line}", path.display()));
        let failed = |error: io::Error| match Errno::from_io_error(&error) {
            Some(Errno::BUSY) => named(
                "is mounted, or another program has it open exclusively; unmount it, or give an \
                 unused device"
                    .to_owned(),
            ),
            _ => named(format!("cannot be written: {error}; give a file or device of yours")),
        };
        let about = std::fs::metadata(path).map_err(failed)?;
        let kind = about.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(named("is neither a file nor a block device".to_owned()));
        }
        let is_block_device = kind.is_block_device();
        let file = open(path, is_block_device, OFlags::empty()).map_err(failed)?;
        let len = length(&file).map_err(failed)?;
        if len < LEAST {
            return Err(named(format!(
                "{} MiB are too few for a flood; give at least {}",
                len >> 20,
                LEAST >> 20
            )));
        }
        let claim = WriteClaim::new(path, "or give another file")?;
        let number = if is_block_device { about.rdev() } else { about.dev() };
        let sys = SystemRoot::here();
        let device = sys.device_numbered(rustix::fs::major(number), rustix::fs::minor(number));
        let disk = device.and_then(|device| sys.whole(&device)).map(|device| device.name);
        let name = format!("{} ({} MiB)", path.display(), len >> 20);
        Ok(Self { path: path.to_path_buf(), name, len, disk, is_block_device, _claim: claim })
    }

    /// Opens it around the page cache.
    pub(super) fn open_direct(&self) -> io::Result<File> {
        open(&self.path, self.is_block_device, OFlags::DIRECT)
    }
}

/// Opens exclusively: the kernel refuses a device that is mounted, in part or whole, or held by
/// another program.
fn open(path: &Path, is_block_device: bool, flags: OFlags) -> io::Result<File> {
    let exclusive = if is_block_device { OFlags::EXCL } else { OFlags::empty() };
    let flags = i32::try_from((flags | exclusive).bits()).expect("open flags fit a C int");
    File::options().read(true).write(true).custom_flags(flags).open(path)
}

/// Returns the length of a file or device in whole pages.
fn length(mut file: &File) -> io::Result<u64> {
    Ok(file.seek(SeekFrom::End(0))? / PAGE * PAGE)
}

/// The chain's quarter has 4096 places of a page then, and reads none of them twice.
const LEAST: u64 = 64 << 20;
