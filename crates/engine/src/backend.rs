//! What is read: a regular file or a block device, around the page cache where it can be.
//!
//! In:    a path.
//! Out:   a descriptor, which file it is, its length now, and why it is buffered if it is.
//! Never: an open that waits (of a pipe) or has effects (of a tape).

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foreread_core::geometry::Geometry;
use foreread_core::units::{Bytes, PAGE_SIZE};
use rustix::fs::{Advice, AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::error::OpenError;
use crate::faults::Faults;

#[derive(Debug)]
pub(crate) struct Backend {
    file: File,
    pub(crate) identity: Identity,
    pub(crate) geometry: Geometry,
    /// Why reads go through the kernel's page cache; None if they do not.
    pub(crate) buffered: Option<&'static str>,
    /// What goes wrong on purpose.
    pub(crate) faults: Option<Arc<Faults>>,
}

/// Which file it is, whatever path leads there: a device by its number, other files by their inode.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Identity {
    Device(u64),
    Inode { on: u64, number: u64 },
}

impl Backend {
    pub(crate) fn open(path: &Path, buffered: bool) -> Result<Self, OpenError> {
        // Looked at before it is opened: opening a pipe waits for its writer, and a device that is
        // no disk may do anything.
        let kind = std::fs::metadata(path).map_err(|source| failed(path, "open", source))?;
        check_kind(path, kind.file_type())?;

        let (file, buffered) = match open_direct(path, buffered)? {
            Direct::Yes(file) => (file, None),
            Direct::No(file, why) => (file, Some(why)),
        };
        let now = file.metadata().map_err(|source| failed(path, "stat", source))?;
        check_kind(path, now.file_type())?;
        let identity = if now.file_type().is_block_device() {
            Identity::Device(now.rdev())
        } else {
            Identity::Inode { on: now.dev(), number: now.ino() }
        };
        if buffered.is_some() {
            // Two read-aheads would get in each other's way: ours asks for what it wants, no more.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random);
        }
        let len =
            size_of(&file, identity).map_err(|source| failed(path, "ask the size", source))?;
        Ok(Self { file, identity, geometry: Geometry::new(len), buffered, faults: None })
    }

    /// How long the file is now.
    pub(crate) fn size(&self) -> io::Result<Bytes> {
        size_of(&self.file, self.identity)
    }

    pub(crate) fn raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

/// A device says it by a seek, which moves an offset that nobody uses.
fn size_of(mut file: &File, identity: Identity) -> io::Result<Bytes> {
    match identity {
        Identity::Device(_) => file.seek(SeekFrom::End(0)).map(Bytes),
        Identity::Inode { .. } => file.metadata().map(|now| Bytes(now.len())),
    }
}

enum Direct {
    Yes(File),
    No(File, &'static str),
}

/// ```text
///   asked for buffered            buffered
///   O_DIRECT refused, or granted  buffered: the file system has none
///   and said to be none
///   blocks larger than a page     buffered: a page could not be read alone
///   else                          direct
/// ```
fn open_direct(path: &Path, buffered: bool) -> Result<Direct, OpenError> {
    if buffered {
        return open(path, OFlags::empty()).map(|file| Direct::No(file, "as asked"));
    }
    let why = match open(path, OFlags::DIRECT) {
        Ok(file) => match needed_alignment(&file) {
            Some(0) => NO_DIRECT,
            Some(align) if align > PAGE_SIZE => "O_DIRECT wants larger blocks than a page here",
            Some(_) | None => return Ok(Direct::Yes(file)),
        },
        Err(OpenError::Io { source, .. }) if is_refusal(&source) => NO_DIRECT,
        Err(error) => return Err(error),
    };
    Ok(Direct::No(open(path, OFlags::empty())?, why))
}

fn open(path: &Path, flags: OFlags) -> Result<File, OpenError> {
    let flags = i32::try_from((flags | OFlags::NONBLOCK).bits()).expect("open flags are an int");
    let opened = File::options().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|source| failed(path, "open", source))?;
    // It was wanted for the open only; a ring of an older kernel would not wait for such a file.
    let set = rustix::fs::fcntl_setfl(&file, flags_after_open(flags));
    set.map_err(|errno| failed(path, "set the flags", errno.into()))?;
    Ok(file)
}

fn flags_after_open(flags: i32) -> OFlags {
    OFlags::from_bits_retain(flags.cast_unsigned()) - OFlags::NONBLOCK
}

fn is_refusal(error: &io::Error) -> bool {
    [Errno::INVAL, Errno::OPNOTSUPP]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// What O_DIRECT wants of offsets and lengths, where the kernel says so (6.1 and later): 0 where
/// reads only pretend to be direct.
fn needed_alignment(file: &File) -> Option<u64> {
    let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let told = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    told.then(|| u64::from(stat.stx_dio_offset_align.max(stat.stx_dio_mem_align)))
}

fn check_kind(path: &Path, kind: std::fs::FileType) -> Result<(), OpenError> {
    let path = || path.to_path_buf();
    let no_pages = |kind| Err(OpenError::NoPages { path: path(), kind });
    if kind.is_file() || kind.is_block_device() {
        Ok(())
    } else if kind.is_dir() {
        Err(OpenError::Directory { path: path() })
    } else if kind.is_fifo() {
        no_pages("pipe")
    } else if kind.is_socket() {
        no_pages("socket")
    } else {
        no_pages("character device")
    }
}

fn failed(path: &Path, doing: &'static str, source: io::Error) -> OpenError {
    let path = PathBuf::from(path);
    if source.kind() == io::ErrorKind::NotFound {
        OpenError::NotFound { path }
    } else if source.kind() == io::ErrorKind::PermissionDenied {
        OpenError::Permission { path }
    } else {
        OpenError::Io { path, doing, source }
    }
}

const NO_DIRECT: &str = "no O_DIRECT on this file system";
