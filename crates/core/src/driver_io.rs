//! Types that an `IoPath` and its driver exchange: settings, device I/O, ready reads, steps of
//! writes.

use crate::ids::{DeviceId, DirectId, FileId, ReadId, Tag, WriteId};
use crate::prefetch::{Policy, Rules};
use crate::sched::Op;
use crate::table::Frame;
use crate::units::{ByteCount, PageIndex, Pages};

/// Settings of a new path.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Limit for all pages, cached and in flight, and for the tables that index them.
    pub memory: ByteCount,
    /// The read-ahead policy.
    pub policy: Policy,
    /// Largest window, or [`Self::AUTO_WINDOW`]. A small memory limit reduces it.
    pub max_window: Pages,
    /// Rules in addition to the policy's own.
    pub rules: Rules,
}

impl Config {
    /// Learns the largest window from each device's completions; until then it depends on the
    /// device's size.
    pub const AUTO_WINDOW: Pages = Pages(u64::MAX);
}

/// Device I/O to start: `len` bytes at `offset`, to or from the frames of `IoPath::io_frames(tag)`,
/// in order. With extent-mapped files (`IoPath::open_extents`) a read fills `IoPath::io_parts`
/// instead. If there are no frames, the I/O belongs to a direct request (`IoPath::direct`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeviceIo {
    /// Handle to pass to `IoPath::complete`.
    pub tag: Tag,
    /// Target device.
    pub device: DeviceId,
    /// Direction.
    pub op: Op,
    /// For a write: complete it only when it is durable (FUA).
    pub fua: bool,
    /// Offset from the start of the device.
    pub offset: ByteCount,
    /// Length. A read covers whole pages, or sectors for extent-mapped files, and may return fewer
    /// bytes at the end of a file or device. A write ends at the end of its file, even in the
    /// middle of a page or sector.
    pub len: ByteCount,
}

/// A read that is ready.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadReady {
    /// Handle for `IoPath::frames` and `IoPath::release`.
    pub id: ReadId,
    /// Length covered, possibly less than requested: issue another read for the rest. 0 if the file
    /// ends before it, or was closed before the read had its frames.
    pub len: ByteCount,
    /// Error, if any: the frames then hold no data.
    pub fault: Option<Fault>,
}

/// Reason why a page could not be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The device returned this error number.
    Io(i32),
    /// The device ended before the file did: it is smaller than it claimed, or it was removed.
    Short,
    /// A flush of the device failed with this error number, and acknowledged writes that it may
    /// have dropped are no longer in memory. Every flush fails with it until `IoPath::accept_lost`.
    Lost(i32),
}

impl Fault {
    /// The error number (`ESTALE`) of a request each part of which would fail, too: the object is
    /// gone or was replaced. Its pages are not retried.
    pub const OF_ALL: Self = Self::Io(116);
}

/// Bytes of a file that a write replaces.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct WriteRange {
    /// File to write to.
    pub file: FileId,
    /// Position of the first byte.
    pub pos: ByteCount,
    /// Number of bytes.
    pub len: ByteCount,
}

/// Point at which a write is complete.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum WriteMode {
    /// Acknowledged once in the cache; written to the device later.
    #[default]
    WriteBack,
    /// Acknowledged once the device has it, perhaps in a volatile write cache.
    WriteThrough,
    /// Acknowledged once it is durable on the device.
    Fua,
}

/// Next step of a write, for the driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WriteStep {
    /// Copy `len` bytes, starting at the write's position, into `IoPath::fills`, then call
    /// `IoPath::filled`. If `len` is less than requested, issue another write for the rest.
    Fill {
        /// Bytes to copy.
        len: ByteCount,
    },
    /// No conflicting I/O is left: run the blocking operation, then call `IoPath::acted`. For a
    /// flush, that is the device's flush; for a zero request, the zeroing or discard.
    Act,
    /// No conflicting I/O is left: set the file's length, then call `IoPath::acted`.
    SetLen {
        /// New length. Bytes past the old end read as zeros.
        len: ByteCount,
    },
    /// The request is complete and its id is no longer valid.
    Done {
        /// Bytes written, of those requested. 0 for a flush, and for a request that was not carried
        /// out. For a change of length, the length before it.
        len: ByteCount,
        /// Error, if any. [`Fault::Short`]: the file was closed first.
        fault: Option<Fault>,
    },
}

/// A step of a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WriteReady {
    /// The write that this step belongs to.
    pub id: WriteId,
    /// Step for the driver to perform.
    pub step: WriteStep,
}

/// Change of a file's length, for `IoPath::change_len`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LenChange {
    /// To this length.
    Exact(ByteCount),
    /// To this length, if the file is shorter.
    AtLeast(ByteCount),
    /// By this many bytes; the caller's bytes begin at the old end.
    Append(ByteCount),
}

/// One page of a write, to be filled by the driver.
///
/// ```text
///   old   |oooooooooo??|     only where part of the page stays: copy the first `old_len` bytes,
///   new   |oooowwwwwo00|     overwrite them with the write's, and zero the rest
/// ```
///
/// The driver must zero the bytes past the end of the file: a device may be given whole sectors,
/// and these bytes become part of the file when it [grows](LenChange).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WriteFill {
    /// Page of the file.
    pub page: PageIndex,
    /// Destination frame.
    pub new: Frame,
    /// Frame with the old contents.
    pub old: Option<Frame>,
    /// Number of old bytes that belong to the file. 0 if none of the page stays.
    pub old_len: u32,
}

/// A completed direct request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DirectDone {
    /// Handle that `direct` returned.
    pub id: DirectId,
    /// Error, if any.
    pub fault: Option<Fault>,
}
