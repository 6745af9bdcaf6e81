//! What a flood overwrites.
//!
//! In:    a path that the user has given up.
//! Out:   [`Victim`], claimed: while it is, nobody can mount it.
//! Never: a device that is mounted, or that another program has for itself.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use foreread_tune::sysfs::Sys;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::super::pattern::PAGE;
use crate::output::Failure;

/// A file or a device whose bytes are nobody's.
pub(crate) struct Victim {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) len: u64,
    /// The whole device that it is, or lies on, by its name below `/sys/block`.
    pub(crate) disk: Option<String>,
    /// Keeps the claim.
    _claim: File,
}

impl Victim {
    /// Claims it; nothing is written yet.
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let named = |line: String| Failure::WrongUse(format!("{}: {line}", path.display()));
        let failed = |error: io::Error| match Errno::from_io_error(&error) {
            Some(Errno::BUSY) => named(
                "is mounted, or another program has it for itself; unmount it, or give a device \
                 that nobody uses"
                    .to_owned(),
            ),
            _ => named(format!("cannot be written: {error}; give a file or device of yours")),
        };
        let about = std::fs::metadata(path).map_err(failed)?;
        let kind = about.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(named("is neither a file nor a block device".to_owned()));
        }
        // The kernel knows best what is in use: it gives this flag to one program only, and to
        // none while the device, or a part of it, is mounted.
        let exclusive = if kind.is_block_device() { OFlags::EXCL } else { OFlags::empty() };
        let flags = i32::try_from(exclusive.bits()).expect("open flags are an int");
        let claim = File::options().read(true).write(true).custom_flags(flags).open(path);
        let claim = claim.map_err(failed)?;
        let len = length(&claim).map_err(failed)?;
        if len < LEAST {
            return Err(named(format!(
                "{} MiB are too few for a flood; give at least {}",
                len >> 20,
                LEAST >> 20
            )));
        }
        let number = if kind.is_block_device() { about.rdev() } else { about.dev() };
        let sys = Sys::here();
        let device = sys.device_numbered(rustix::fs::major(number), rustix::fs::minor(number));
        let disk = device.and_then(|device| sys.whole(&device)).map(|device| device.name);
        let name = format!("{} ({} MiB)", path.display(), len >> 20);
        Ok(Self { path: path.to_path_buf(), name, len, disk, _claim: claim })
    }
}

/// Whole pages of a file or a device.
fn length(mut file: &File) -> io::Result<u64> {
    Ok(file.seek(SeekFrom::End(0))? / PAGE * PAGE)
}

/// The chain's quarter has 4096 places of a page then, and reads none of them twice.
const LEAST: u64 = 64 << 20;
