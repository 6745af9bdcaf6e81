//! What a path and its driver exchange: settings, I/O to start, reads that are ready, steps of
//! writes.
//!
//! In:    nothing: these are values.
//! Out:   the types of [`crate::path`]'s arguments and results.
//! Never: a rule.

use crate::ids::{DeviceId, DirectId, ReadId, Tag, WriteId};
use crate::prefetch::{Policy, Rules};
use crate::sched::Op;
use crate::table::Frame;
use crate::units::{ByteCount, PageIndex, Pages};

/// What a path is made with.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The bound for all pages, cached and on their way, and for all that is needed to find them.
    pub memory: ByteCount,
    /// The read-ahead policy.
    pub policy: Policy,
    /// The largest window, or [`Self::AUTO_WINDOW`]. A small bound makes it smaller.
    pub max_window: Pages,
    /// Rules beside the policy's own.
    pub rules: Rules,
}

impl Config {
    /// The largest window follows from what each device was seen to do, and until then from its
    /// size.
    pub const AUTO_WINDOW: Pages = Pages(u64::MAX);
}

/// Device I/O to start: `len` bytes at `offset`, into or from `IoPath::io_frames` of `tag`, in
/// their order; where extent-mapped files (`IoPath::open_extents`) are open, a read is into
/// `IoPath::io_parts`. If that has no frames, it serves direct requests (`IoPath::direct`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeviceIo {
    /// To be given back to `IoPath::complete`.
    pub tag: Tag,
    /// Which device.
    pub device: DeviceId,
    /// Which way.
    pub op: Op,
    /// Of a write, whether it is done only when it is durable (FUA).
    pub fua: bool,
    /// Where on the device, from its start.
    pub offset: ByteCount,
    /// How much. Of a read whole pages, or sectors if its file is extent-mapped: at the end of a
    /// file or device fewer bytes may come. A write ends with its file, in the middle of a page,
    /// and of a sector, if need be.
    pub len: ByteCount,
}

/// A read that waits for nothing more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadReady {
    /// Which; to be given to `IoPath::frames` and `IoPath::release`.
    pub id: ReadId,
    /// What it covers, which may be less than was asked: the rest is another read. Nothing, if the
    /// file ends before, or was closed before the read had its frames.
    pub len: ByteCount,
    /// What went wrong, if anything: then the frames hold nothing.
    pub fault: Option<Fault>,
}

/// Why a page could not be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The device failed, with this error number.
    Io(i32),
    /// The device ended before the file did: it is shorter than it said, or it was removed.
    Short,
    /// A flush of the device failed, with this error number, and acknowledged writes that it may
    /// have dropped are in memory no more. Each flush says so until
    /// `IoPath::accept_lost`.
    Lost(i32),
}

impl Fault {
    /// A request that fails with this error number (`ESTALE`) says that each part of it would fail,
    /// too: what is read is gone, or another one by now. Its pages are not asked for once more.
    pub const OF_ALL: Self = Self::Io(116);
}

/// When a write is done.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum WriteMode {
    /// When it is in the cache: the device gets it later.
    #[default]
    WriteBack,
    /// When the device has it, perhaps in a cache of its own that a power cut empties.
    WriteThrough,
    /// When it is durable on the device.
    Fua,
}

/// What is to be done for a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WriteStep {
    /// Copy `len` bytes, from the write's position on, into `IoPath::fills`; then call
    /// `IoPath::filled`. It may be less than was asked: the rest is another write.
    Fill {
        /// How much.
        len: ByteCount,
    },
    /// Nothing is in the way: do what blocks, then call `IoPath::acted`. For a flush that is the
    /// device's own flush; for a zero, the zero or the discard.
    Act,
    /// Nothing is in the way: give the file this length, then call `IoPath::acted`.
    SetLen {
        /// The new length. What the file gets at its end reads as zeros.
        len: ByteCount,
    },
    /// It is over, and its id is gone.
    Done {
        /// How much was written, of what was asked. 0 for a flush, and for what did not take place.
        /// Of a change of length, the length that the file had before it.
        len: ByteCount,
        /// What went wrong, if anything. [`Fault::Short`]: the file was closed meanwhile.
        fault: Option<Fault>,
    },
}

/// A step of a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WriteReady {
    /// Whose.
    pub id: WriteId,
    /// What.
    pub step: WriteStep,
}

/// How `IoPath::change_len` changes the length of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LenChange {
    /// To this length.
    Exact(ByteCount),
    /// To this length, if the file is shorter.
    AtLeast(ByteCount),
    /// By this much: where the file ended is where the caller's bytes begin.
    Append(ByteCount),
}

/// One page of a write, to be filled by the driver.
///
/// ```text
///   old   |oooooooooo??|     only where part of the page stays: copy the first `old_len` bytes,
///   new   |oooowwwwwo00|     the write's over them, and zeros behind
/// ```
///
/// What lies past the end of a file is to be zeros: a device may be given whole sectors of it, and
/// they are the file's bytes if it [grows](LenChange).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct WriteFill {
    /// Which page of the file.
    pub page: PageIndex,
    /// Where its new bytes go.
    pub new: Frame,
    /// Where its old bytes are.
    pub old: Option<Frame>,
    /// How many of its old bytes are the file's. 0 if nothing of the page stays.
    pub old_len: u32,
}

/// A direct request has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DirectDone {
    /// Which.
    pub id: DirectId,
    /// What went wrong, if anything.
    pub fault: Option<Fault>,
}
