//! What is read and written: a regular file or a block device, around the page cache where it can
//! be.
//!
//! In:    a path.
//! Out:   descriptors, which file it is, its length now, and why it is buffered if it is.
//! Never: an open that waits (of a pipe) or has effects (of a tape). A write to a device that is
//!        mounted.

mod act;
mod claim;
mod create;
mod fua;
mod length;
mod loops;
mod of_source;
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
pub(crate) use fua::FuaMethod;
use length::MAX_DIRECT_BYTES;
pub(crate) use loops::files_behind;
use write_side::WriteSide;
pub(crate) use writers::{WriterClaim, next_engine};

#[derive(Debug)]
pub(crate) struct Backend {
    medium: Medium,
    pub(crate) identity: FileIdentity,
    /// How long it was when it was opened.
    pub(crate) len: ByteCount,
    pub(crate) geometry: Geometry,
    /// Why reads and writes go through the kernel's page cache; None if they do not.
    pub(crate) buffered: Option<&'static str>,
    write_side: OnceLock<Box<WriteSide>>,
    /// The disk's number, once it was asked for: the answer is read from sysfs, and a file stays on
    /// its disk as long as it is open.
    disk: OnceLock<u64>,
    pub(crate) fua_method: FuaMethod,
    /// What goes wrong on purpose.
    pub(crate) faults: Option<Arc<Faults>>,
    /// It does not know how to make zeros without writing them: asked once.
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

/// Where bytes are moved to and from.
pub(crate) enum IoTarget<'b> {
    /// Behind a descriptor.
    File,
    /// In a test's device.
    Memory(&'b VolatileDisk),
}

/// Which file it is, whatever path leads there: a device by its number, other files by their inode.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum FileIdentity {
    Device(u64),
    Inode {
        on: u64,
        number: u64,
    },
    /// A device of a test, by its address.
    Memory(usize),
    /// A source, by the address of its identity.
    Source(usize),
    /// An extent-mapped file of an open device, by the name that its owner gave it.
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
        // Looked at before it is opened: opening a pipe waits for its writer, and a device that is
        // no disk may do anything.
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
        let identity = if now.file_type().is_block_device() {
            FileIdentity::Device(now.rdev())
        } else {
            FileIdentity::Inode { on: now.dev(), number: now.ino() }
        };
        if options.write && claim.as_deref().map(Claim::device) != identity.device() {
            return Err(is_another(path));
        }
        if buffered.is_some() {
            // Two read-aheads would get in each other's way: ours asks for what it wants, no more.
            let _ = rustix::fs::fadvise(&file, 0, None, Advice::Random);
        }
        let len =
            size_of(&file, identity).map_err(|source| failed(path, "ask the size", source))?;
        let block = match buffered {
            None => needed_alignment(&file).unwrap_or(PAGE_SIZE),
            Some(_) => 1,
        };
        // A file may get any length; a device has the one that it has.
        let has_ends = !is_device || !len.0.is_multiple_of(block);
        let has_tail = options.write && block > 1 && has_ends;
        let tail = has_tail.then(|| open_again(path, &now)).transpose()?;
        let is_flushed = options.write && buffered.is_some();
        let flushes = is_flushed.then(|| open_again(path, &now)).transpose()?;
        let side = WriteSide { file: None, tail, flushes, _claim: claim };
        let fua_method = FuaMethod::of(&file, identity);
        let medium = Medium::File { file };
        let mut backend = Self::new(medium, identity, len, buffered, options.write.then_some(side));
        backend.faults.clone_from(&options.faults);
        if backend.faults.is_none() {
            // Tests that inject faults count commands, the same on every file system.
            backend.fua_method = fua_method;
        }
        backend.geometry.write_block = ByteCount(block);
        Ok(backend)
    }

    fn of_memory(device: &Arc<VolatileDisk>, options: &OpenOptions) -> Self {
        let identity = FileIdentity::Memory(Arc::as_ptr(device).addr());
        let len = ByteCount(device.len());
        let side = WriteSide { file: None, tail: None, flushes: None, _claim: None };
        let (medium, side) = (Medium::Memory(Arc::clone(device)), options.write.then_some(side));
        let mut backend = Self::new(medium, identity, len, None, side);
        backend.faults.clone_from(&options.faults);
        backend
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
            // A file's size says nothing of its disk.
            geometry: Geometry::new(if is_file { ByteCount::ZERO } else { len }),
            buffered,
            write_side: write_side.map_or_else(OnceLock::new, |side| Box::new(side).into()),
            disk: OnceLock::new(),
            fua_method: FuaMethod::Dsync,
            faults: None,
            knows_no_zero: AtomicBool::new(false),
            knows_no_hole: AtomicBool::new(false),
            knows_no_reserve: AtomicBool::new(false),
        }
    }

    /// The number of the whole disk that it is, or lies on, whichever partition that is. None of a
    /// test's own device, or of one that fails on purpose.
    pub(crate) fn disk(&self) -> Option<u64> {
        if self.faults.is_some() {
            return None;
        }
        match self.identity {
            FileIdentity::Device(number) | FileIdentity::Inode { on: number, .. } => {
                Some(*self.disk.get_or_init(|| disk_of(number)))
            }
            FileIdentity::Source(_) => self.source()?.disk,
            // On the device that it is a file of.
            FileIdentity::Extents { .. } | FileIdentity::Memory(_) => None,
        }
    }

    /// Whether the file ends before there now: another program has cut it, and a write up to there
    /// would make it longer again. A file that is cut between this look and the write is made
    /// longer all the same: the system has no write that never does so.
    ///
    /// Answered from what the kernel knows, without asking a file server: it may not wait.
    pub(crate) fn ends_before(&self, end: u64) -> bool {
        let (Medium::File { file }, FileIdentity::Inode { .. }) = (&self.medium, self.identity)
        else {
            return false;
        };
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let now = rustix::fs::statx(file, "", flags, StatxFlags::SIZE);
        now.is_ok_and(|now| now.stx_size < end)
    }

    /// How long the file is now.
    pub(crate) fn size(&self) -> io::Result<ByteCount> {
        match &self.medium {
            Medium::File { file } => size_of(file, self.identity),
            Medium::Memory(device) => Ok(ByteCount(device.len())),
            Medium::Source(_) => Ok(self.len),
        }
    }

    pub(crate) fn place(&self) -> IoTarget<'_> {
        match &self.medium {
            // Requests of a source do not come here: the driver passes them on.
            Medium::File { .. } | Medium::Source(_) => IoTarget::File,
            Medium::Memory(device) => IoTarget::Memory(device),
        }
    }

    /// What reads go through.
    pub(crate) fn fd(&self) -> RawFd {
        match &self.medium {
            Medium::File { file } => file.as_raw_fd(),
            // A descriptor that no system has: an error, not another file.
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

/// Returns the length. A device tells it by a seek; the offset that this moves is not used.
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
            Some(align) if align > PAGE_SIZE => "O_DIRECT wants larger blocks than a page here",
            Some(_) | None if file.metadata().is_ok_and(|now| now.len() > MAX_DIRECT_BYTES) => {
                "its last page ends behind the last offset of the system"
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
    // It was wanted for the open only; a ring of an older kernel would not wait for such a file.
    let set = rustix::fs::fcntl_setfl(&file, flags_after_open(flags));
    set.map_err(|errno| failed(path, "set the flags", errno.into()))?;
    Ok(file)
}

/// Another descriptor of a file that is open, without O_DIRECT.
fn open_again(path: &Path, known: &Metadata) -> Result<File, OpenError> {
    let file = open(path, OFlags::empty(), true)?;
    let now = file.metadata().map_err(|source| failed(path, "stat", source))?;
    let is_same = (now.dev(), now.ino(), now.rdev()) == (known.dev(), known.ino(), known.rdev());
    if is_same { Ok(file) } else { Err(is_another(path)) }
}

fn is_another(path: &Path) -> OpenError {
    let why = "another file took its name meanwhile; open it again";
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

/// What O_DIRECT wants of offsets and lengths, where the kernel says so (6.1 and later): 0 where
/// reads only pretend to be direct.
fn needed_alignment(file: &File) -> Option<u64> {
    let stat = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let told = stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0;
    told.then(|| u64::from(stat.stx_dio_offset_align.max(stat.stx_dio_mem_align)))
}

fn check_kind(path: &Path, kind: std::fs::FileType) -> Result<(), OpenError> {
    let path = || path.to_path_buf();
    let no_pages = |kind| Err(OpenErrorKind::NoPages { kind }.of(path()));
    if kind.is_file() || kind.is_block_device() {
        Ok(())
    } else if kind.is_dir() {
        Err(OpenErrorKind::Directory.of(path()))
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
        OpenErrorKind::NotFound.of(path)
    } else if source.kind() == io::ErrorKind::PermissionDenied {
        OpenErrorKind::Permission.of(path)
    } else {
        OpenErrorKind::Io { doing, source }.of(path)
    }
}

/// Where reading might be allowed.
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
