//! The steps of a log: calls of a path, what it saw of its readers, and what it said.
//!
//! In:    nothing: these are values.
//! Out:   a [`LogStep`] for each call and each answer.
//! Never: a call. See [`crate::replay`].

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::cache::{CacheStats, FlagSeen};
use crate::driver_io::{
    DeviceIo, DirectDone, LenChange, ReadReady, WriteFill, WriteMode, WriteReady,
};
use crate::extent_map::ExtentMap;
use crate::geometry::Geometry;
use crate::ids::{DeviceId, DirectId, FileId, ReadId, StreamId, Tag, WriteId};
use crate::prefetch::{Advice, LearntDevice};
use crate::sched::{Origin, SchedulerKind, Submitter};
use crate::stats::Stats;
use crate::table::{FileSlot, Frame};
use crate::units::{ByteCount, Nanos, PageIndex, Pages, Sector, Sectors};

/// One step of a log.
#[derive(Clone, Debug, PartialEq)]
pub enum LogStep {
    /// The path was called.
    Did(PathCall),
    /// The path looked at a flag that readers change, and it was set; so many looks before it,
    /// since the last step, found theirs clear. Those are not in the log, but for their number: a
    /// flag that is clear at the first look may be set at the next.
    Saw(FlagSeen, Frame, u32),
    /// The path said something.
    Gave(PathOutput),
    /// The log was full; what follows is not in it.
    Full,
}

/// A call of [`IoPath`](crate::path::IoPath), by the name of its method.
#[expect(missing_docs, reason = "they are the arguments of the methods")]
#[derive(Clone, Debug, PartialEq)]
pub enum PathCall {
    AddDevice {
        disk: Option<u64>,
        geometry: Geometry,
        scheduler: SchedulerKind,
    },
    SetScheduler {
        device: DeviceId,
        name: String,
        value: String,
    },
    RestoreDevice {
        device: DeviceId,
        learnt: LearntDevice,
    },
    RemoveDevice {
        now: Nanos,
        device: DeviceId,
    },
    Open {
        device: DeviceId,
        start: Sector,
        len: ByteCount,
    },
    OpenExtents {
        device: DeviceId,
        len: ByteCount,
        map: Arc<ExtentMap>,
    },
    Close {
        now: Nanos,
        file: FileId,
    },
    SetLen {
        now: Nanos,
        file: FileId,
        len: ByteCount,
    },
    ChangeLen {
        now: Nanos,
        file: FileId,
        change: LenChange,
    },
    BeginAppend {
        now: Nanos,
        file: FileId,
        change: LenChange,
    },
    WriteAppended {
        now: Nanos,
        append: WriteId,
        what: (FileId, ByteCount, ByteCount),
        mode: WriteMode,
        submitter: Submitter,
    },
    EndAppend {
        now: Nanos,
        file: FileId,
        append: WriteId,
    },
    Invalidate {
        now: Nanos,
        file: FileId,
        pages: Range<PageIndex>,
    },
    Stream {
        file: FileId,
    },
    CloseStream {
        stream: StreamId,
    },
    Read {
        now: Nanos,
        stream: StreamId,
        pos: ByteCount,
        len: ByteCount,
        prev_pos: Option<ByteCount>,
    },
    ReadPlanned {
        now: Nanos,
        file: FileId,
        pages: Range<PageIndex>,
    },
    CancelRead {
        now: Nanos,
        id: ReadId,
    },
    Marker {
        now: Nanos,
        stream: StreamId,
        page: PageIndex,
        count: Pages,
        prev_pos: Option<ByteCount>,
    },
    Arrived {
        now: Nanos,
        tag: Tag,
        bytes: ByteCount,
    },
    Complete {
        now: Nanos,
        tag: Tag,
        result: Result<ByteCount, i32>,
    },
    Release {
        now: Nanos,
        id: ReadId,
    },
    Unpinned {
        now: Nanos,
        frame: Frame,
    },
    Advise {
        stream: StreamId,
        advice: Advice,
    },
    SetNoReuse {
        stream: StreamId,
        no_reuse: bool,
    },
    SetSubmitter {
        stream: StreamId,
        submitter: Submitter,
    },
    SetWeight {
        submitter: Submitter,
        weight: u32,
    },
    Seeked {
        stream: StreamId,
    },
    WillNeed {
        now: Nanos,
        file: FileId,
        start: PageIndex,
        pages: Pages,
    },
    PollDispatch {
        now: Nanos,
    },
    FillHoles {
        now: Nanos,
    },
    Direct {
        now: Nanos,
        device: DeviceId,
        start: Sector,
        sectors: Sectors,
        origin: Origin,
    },
    Timeout {
        now: Nanos,
    },
    Write {
        now: Nanos,
        file: FileId,
        pos: ByteCount,
        len: ByteCount,
        mode: WriteMode,
        submitter: Submitter,
    },
    Filled {
        now: Nanos,
        id: WriteId,
    },
    WriteZeroes {
        now: Nanos,
        file: FileId,
        pages: Range<PageIndex>,
    },
    Discard {
        now: Nanos,
        file: FileId,
        pages: Range<PageIndex>,
    },
    Flush {
        now: Nanos,
        file: FileId,
    },
    AcceptLost {
        file: FileId,
    },
    WriteBack {
        now: Nanos,
        file: FileId,
    },
    Acted {
        now: Nanos,
        id: WriteId,
        result: Result<(), i32>,
    },
    NotActed {
        now: Nanos,
        id: WriteId,
        errno: i32,
    },
    CancelWrite {
        now: Nanos,
        id: WriteId,
    },
    Set {
        name: String,
        value: String,
    },
    PollReady,
    PollDone,
    PollWrite,
    TakeLog,
}

/// What a path says.
#[derive(Clone, Debug, PartialEq)]
pub enum PathOutput {
    /// Of `add_device`.
    Device(DeviceId),
    /// Of `open` and `open_extents`.
    File(Option<FileId>),
    /// Of `stream`.
    Stream(StreamId),
    /// Of `read` and `read_planned`.
    Read(ReadId),
    /// Of `will_need`.
    Asked(Pages),
    /// Of `poll_dispatch`, with the frames of its pages.
    Dispatched(Option<(DeviceIo, Vec<Frame>)>),
    /// Of `fill_holes`, for each.
    Hole {
        /// In which frame.
        frame: Frame,
        /// Which bytes of it.
        bytes: Range<usize>,
    },
    /// Of `poll_ready`, with the frames of the read.
    Ready(Option<(ReadReady, Vec<Frame>)>),
    /// Of `direct`.
    Direct(DirectId),
    /// Of `poll_done`.
    Done(Option<DirectDone>),
    /// Of `write`, `write_zeroes`, `discard`, `flush` and `write_back`.
    Write(WriteId),
    /// Of `poll_write`, with what is to be filled.
    Step(Option<(WriteReady, Vec<WriteFill>)>),
    /// A page left because another needed its frame.
    Evicted {
        /// Of which file.
        file: FileSlot,
        /// Which.
        page: PageIndex,
        /// From where.
        frame: Frame,
    },
    /// Of `take_log`: the totals, so that even a missing step without any other output is found.
    State {
        /// The path's counters.
        stats: Stats,
        /// The cache's.
        cache: CacheStats,
        /// How many frames were idle.
        idle: Pages,
    },
}

/// Where a replay went otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// Which step of the log, from 0.
    pub at: usize,
    /// What the log has there; None at its end.
    pub wanted: Option<LogStep>,
    /// What the path did; None if it did nothing more, or if it cannot do what the log has.
    pub got: Option<LogStep>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, wanted, got } = self;
        write!(f, "step {at} of the log: ")?;
        match wanted {
            Some(wanted) => write!(f, "wanted {wanted:?}, ")?,
            None => write!(f, "wanted nothing more, ")?,
        }
        match got {
            Some(got) => write!(f, "got {got:?}"),
            None => write!(f, "and that did not come"),
        }
    }
}

impl core::error::Error for Mismatch {}
