//! I/O target of an open file: a regular file or block device, opened with `O_DIRECT` where
//! possible.
//!
//! Never: an open that blocks (a pipe) or has side effects (a tape). A write to a mounted device.

mod act;
mod claim;
mod create;
mod file_kind;
mod fua;
mod length;
mod loops;
mod of_memory;
mod of_source;
mod submission;
mod tail;
mod write_side;
mod writers;

use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt as _, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use foreread_core::geometry::Geometry;
use foreread_core::path::DeviceId;
use foreread_core::units::{ByteCount, PAGE_SIZE};
use rustix::fs::{Advice, AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::OpenOptions;
use crate::error::{OpenError, OpenErrorKind};
use crate::faults::Faults;
use crate::source::OpenSource;
use crate::volatile::VolatileDisk;

pub(crate) use act::EXTENTS_MAX;
use claim::Claim;
pub(crate) use claim::Claims;
pub(crate) use claim::disk_of;
pub(crate) use create::Created;
use file_kind::{check_content, check_kind};
pub(crate) use fua::FuaMethod;
use length::MAX_DIRECT_BYTES;
pub(crate) use loops::files_behind;
use write_side::WriteSide;
pub(crate) use writers::{WriterClaim, next_engine};

#[derive(Debug)]
pub(crate) struct Backend {
    medium: Medium,
    pub(crate) identity: FileIdentity,
    /// Length when it was opened.
    pub(crate) len: ByteCount,
    pub(crate) geometry: Geometry,
    /// Why I/O goes through the kernel's page cache; `None` with `O_DIRECT`.
    pub(crate) buffered: Option<&'static str>,
    write_side: OnceLock<Box<WriteSide>>,
    /// Number of the disk, cached: looking it up reads sysfs, and an open file never changes its
    /// disk.
    disk: OnceLock<u64>,
    pub(crate) fua_method: FuaMethod,
    /// True if io_uring must pass requests to a worker at once.
    pub(crate) blocks_submitter: bool,
    /// Faults to inject.
    pub(crate) faults: Option<Arc<Faults>>,
    /// Set once the file system has turned out not to support zeroing a range.
    knows_no_zero: AtomicBool,
    knows_no_hole: AtomicBool,
    knows_no_reserve: AtomicBool,
}

#[derive(Debug)]
enum Medium {
    File { file: File },
    Memory(Arc<VolatileDisk>),
    Source(OpenSource),
}

/// Source or destination of a transfer.
pub(crate) enum IoTarget<'b> {
    /// A file descriptor.
    File,
    /// A test's in-memory device.
    Memory(&'b VolatileDisk),
}

/// Identity of a file, independent of its path: device number for block devices, inode for regular
/// files.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum FileIdentity {
    Device(u64),
    Inode {
        on: u64,
        number: u64,
    },
    /// Test device, by its address.
    Memory(usize),
    /// Source, by the address of its identity.
    Source(usize),
    /// Extent-mapped file of an open device, by the name its owner gave it.
    Extents {
        of: DeviceId,
        name: u64,
    },
}

impl Backend {
    pub(crate) fn open(
        path: &Path,
        options: &OpenOptions,
        claims: &Claims,
    ) -> Result<Self, OpenError> {
        if let Some(device) = &options.volatile {
            return Ok(Self::of_memory(device, options));
        }
        // Check the type before opening: opening a pipe blocks until it has a writer, and opening a
        // device other than a disk may have any effect.
        let kind = std::fs::metadata(path).map_err(|source| failed(path, "open", source))?;
        check_kind(path, kind.file_type())?;
        let is_device = kind.file_type().is_block_device();
        let claim = (options.write && is_device).then(|| claims.claim(path)).transpose()?;

        let (file, buffered) = match open_direct(path, options)? {
            DirectOpen::Yes(file) => (file, None),
            DirectOpen::No(file, why) => (file, Some(why)),
        };
        let now = file.metadata().map_err(|source| failed(path, "stat", source))?;
        check_kind(path, now.file_type())?;
        check_content(path, &file)?;
        let identity = if now.file_type().is_block_device() {
            FileIdentity::Device(now.rdev())
        } else {
            FileIdentity::Inode { on: now.dev(), number: now.ino() }
        };
        if options.write && claim.as_deref().map(Claim::device) != identity.device() {
            return Err(is_another(path));
        }
        if buffered.is_some() {
            // Disable the kernel's read-ahead, which would compete with the engine's.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random);
        }
        let len =
            size_of(&file, identity).map_err(|source| failed(path, "ask the size", source))?;
        let block = match buffered {
            None => needed_alignment(&file).unwrap_or(PAGE_SIZE),
            Some(_) => 1,
        };
        // A file may be set to any length; the length of a device is fixed.
        let has_ends = !is_device || !len.0.is_multiple_of(block);
        let has_tail = options.write && block > 1 && has_ends;
        let tail = has_tail.then(|| open_again(path, &now)).transpose()?;
        let is_flushed = options.write && buffered.is_some();
        let flushes = is_flushed.then(|| open_again(path, &now)).transpose()?;
        let side = WriteSide { file: None, tail, flushes, _claim: claim };
        let fua_method = FuaMethod::of(&file, identity);
        let blocks_submitter = submission::blocks_submitter(&file);
        let medium = Medium::File { file };
        let mut backend = Self::new(medium, identity, len, buffered, options.write.then_some(side));
        backend.blocks_submitter = blocks_submitter;
        backend.faults.clone_from(&options.faults);
        if backend.faults.is_none() {
            // Tests with injected faults count commands, so these must not depend on the file
            // system.
            backend.fua_method = fua_method;
        }
        backend.geometry.write_block = ByteCount(block);
        Ok(backend)
    }

    fn new(
        medium: Medium,
        identity: FileIdentity,
        len: ByteCount,
        buffered: Option<&'static str>,
        write_side: Option<WriteSide>,
    ) -> Self {
        let is_file = matches!(identity, FileIdentity::Inode { .. });
        Self {
            medium,
            identity,
            len,
            // The size of a file has no bearing on its disk.
            geometry: Geometry::new(if is_file { ByteCount::ZERO } else { len }),
            buffered,
            write_side: write_side.map_or_else(OnceLock::new, |side| Box::new(side).into()),
            disk: OnceLock::new(),
            fua_method: FuaMethod::Dsync,
            blocks_submitter: false,
            faults: None,
            knows_no_zero: AtomicBool::new(false),
            knows_no_hole: AtomicBool::new(false),
            knows_no_reserve: AtomicBool::new(false),
        }
    }

    /// Returns the number of the whole disk that holds the file or is the device, also for a
    /// partition. Returns `None` for test devices and for backends with injected faults.
    pub(crate) fn disk(&self) -> Option<u64> {
        if self.faults.is_some() {
            return None;
        }
        match self.identity {
            FileIdentity::Device(number) | FileIdentity::Inode { on: number, .. } => {
                Some(*self.disk.get_or_init(|| disk_of(number)))
            }
            FileIdentity::Source(_) => self.source()?.disk,
            // An extent-mapped file counts as part of its device.
            FileIdentity::Extents { .. } | FileIdentity::Memory(_) => None,
        }
    }

    /// Returns true if the file now ends before `end`: another program has truncated it, and a
    /// write up to `end` would extend it again. A file truncated between this check and the write
    /// is still extended, since the system has no write that never extends a file.
    ///
    /// Answers from the kernel's cached attributes without contacting a file server, as it must not
    /// block.
    pub(crate) fn ends_before(&self, end: u64) -> bool {
        let (Medium::File { file }, FileIdentity::Inode { .. }) = (&self.medium, self.identity)
        else {
            return false;
        };
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let now = rustix::fs::statx(file, "", flags, StatxFlags::SIZE);
        now.is_ok_and(|now| now.stx_size < end)
    }

    /// Returns the current length of the file.
    pub(crate) fn size(&self) -> io::Result<ByteCount> {
        match &self.medium {
            Medium::File { file } => size_of(file, self.identity),
            Medium::Memory(device) => Ok(ByteCount(device.len())),
            Medium::Source(_) => Ok(self.len),
        }
    }

    pub(crate) fn place(&self) -> IoTarget<'_> {
        match &self.medium {
            // Source requests never get here: the driver dispatches them.
            Medium::File { .. } | Medium::Source(_) => IoTarget::File,
            Medium::Memory(device) => IoTarget::Memory(device),
        }
    }

    /// Returns the descriptor for reads.
    pub(crate) fn fd(&self) -> RawFd {
        match &self.medium {
            Medium::File { file } => file.as_raw_fd(),
            // An invalid descriptor: I/O on it fails instead of reaching another file.
            Medium::Memory(_) | Medium::Source(_) => -1,
        }
    }
}

impl FileIdentity {
    fn device(self) -> Option<u64> {
        match self {
            Self::Device(number) => Some(number),
            Self::Inode { .. } | Self::Memory(_) | Self::Source(_) | Self::Extents { .. } => None,
        }
    }
}

/// Returns the length. For a device this seeks to the end; nothing uses the descriptor's offset.
fn size_of(mut file: &File, identity: FileIdentity) -> io::Result<ByteCount> {
    match identity {
        FileIdentity::Device(_) => file.seek(SeekFrom::End(0)).map(ByteCount),
        FileIdentity::Inode { .. }
        | FileIdentity::Memory(_)
        | FileIdentity::Source(_)
        | FileIdentity::Extents { .. } => file.metadata().map(|now| ByteCount(now.len())),
    }
}

enum DirectOpen {
    Yes(File),
    No(File, &'static str),
}

/// Opens a file with `O_DIRECT` if its file system supports that for single pages.
///
/// ```text
///   asked for buffered            buffered
///   O_DIRECT refused, or granted  buffered: the file system has none
///   and said to be none
///   blocks larger than a page     buffered: a page could not be read alone
///   within a page of 2^63 bytes   buffered: O_DIRECT cannot read the last page
///   else                          direct
/// ```
fn open_direct(path: &Path, options: &OpenOptions) -> Result<DirectOpen, OpenError> {
    let open = |flags| open(path, flags, options.write);
    if options.buffered {
        return open(OFlags::empty()).map(|file| DirectOpen::No(file, "as asked"));
    }
    let why = match open(OFlags::DIRECT) {
        Ok(file) => match needed_alignment(&file) {
            Some(0) => NO_DIRECT,
            Some(align) if align > PAGE_SIZE => "O_DIRECT requires blocks larger than a page here",
            Some(_) | None if file.metadata().is_ok_and(|now| now.len() > MAX_DIRECT_BYTES) => {
                "its last page ends past the largest offset of the system"
            }
            Some(_) | None => return Ok(DirectOpen::Yes(file)),
        },
        Err(OpenError { kind: OpenErrorKind::Io { source, .. }, .. }) if is_refusal(&source) => {
            NO_DIRECT
        }
        Err(error) => return Err(error),
    };
    Ok(DirectOpen::No(open(OFlags::empty())?, why))
}

fn open(path: &Path, flags: OFlags, write: bool) -> Result<File, OpenError> {
    let flags =
        i32::try_from((flags | OFlags::NONBLOCK).bits()).expect("flags of open(2) are an int");
    let opened = File::options().read(true).write(write).custom_flags(flags).open(path);
    let file = opened.map_err(|source| {
        if write { failed_to_write(path, source) } else { failed(path, "open", source) }
    })?;
    // Only the open needs `O_NONBLOCK`: with it, io_uring of older kernels does not wait for the
    // file.
    let set = rustix::fs::fcntl_setfl(&file, flags_after_open(flags));
    set.map_err(|errno| failed(path, "set the flags", errno.into()))?;
    Ok(file)
}

/// Opens another descriptor of an open file, without `O_DIRECT`. Fails if the path names another
/// file by now.
fn open_again(path: &Path, known: &Metadata) -> Result<File, OpenError> {
    let file = open(path, OFlags::empty(), true)?;
    let now = file.metadata().map_err(|source| failed(path, "stat", source))?;
    let is_same = (now.dev(), now.ino(), now.rdev()) == (known.dev(), known.ino(), known.rdev());
    if is_same { Ok(file) } else { Err(is_another(path)) }
}

fn is_another(path: &Path) -> OpenError {
    let why = "another file has taken its name; open it again";
    failed(path, "open", io::Error::other(why))
}

fn flags_after_open(flags: i32) -> OFlags {
    OFlags::from_bits_retain(flags.cast_unsigned()) - OFlags::NONBLOCK
}

fn is_refusal(error: &io::Error) -> bool {
    [Errno::INVAL, Errno::OPNOTSUPP]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Returns the alignment that `O_DIRECT` requires, if the kernel reports it (6.1 and later). 0
/// means that the file system only pretends to support direct I/O.
fn needed_alignment(file: &File) -> Option<u64> {
    let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let told = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    told.then(|| u64::from(stat.stx_dio_offset_align.max(stat.stx_dio_mem_align)))
}

fn failed(path: &Path, doing: &'static str, source: io::Error) -> OpenError {
    let path = PathBuf::from(path);
    if source.kind() == io::ErrorKind::NotFound {
        OpenErrorKind::NotFound.of(path)
    } else if source.kind() == io::ErrorKind::PermissionDenied {
        OpenErrorKind::Permission.of(path)
    } else {
        OpenErrorKind::Io { doing, source }.of(path)
    }
}

/// Maps an error of opening for writing, where reading might still be allowed.
fn failed_to_write(path: &Path, source: io::Error) -> OpenError {
    let owned = || PathBuf::from(path);
    match source.raw_os_error() {
        Some(libc::EROFS) => OpenErrorKind::ReadOnlyFileSystem.of(owned()),
        Some(libc::EACCES | libc::EPERM) => OpenErrorKind::NotWritable.of(owned()),
        Some(libc::EBUSY | libc::ETXTBSY) => OpenErrorKind::InUse.of(owned()),
        Some(_) | None => failed(path, "open", source),
    }
}

const NO_DIRECT: &str = "no O_DIRECT on this file system";
