//! Steps of a call log: calls of an `IoPath`, flags that it saw, and its outputs.
//!
//! [`crate::replay`] replays them.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use crate::cache::{CacheStats, FlagSeen};
use crate::driver_io::{
    DeviceIo, DirectDone, LenChange, ReadReady, WriteFill, WriteMode, WriteRange, WriteReady,
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
    /// The path found a reader's flag set, after this number of checks since the last step that
    /// found theirs clear. Those are only counted: a flag that was clear at one check may be set at
    /// the next.
    Saw(FlagSeen, Frame, u32),
    /// The path returned an output.
    Gave(PathOutput),
    /// The log was full; later steps are missing.
    Full,
}

/// A call of [`IoPath`](crate::path::IoPath), named after its method.
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
        range: WriteRange,
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

/// An output of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum PathOutput {
    /// From `add_device`.
    Device(DeviceId),
    /// From `open` and `open_extents`.
    File(Option<FileId>),
    /// From `stream`.
    Stream(StreamId),
    /// From `read` and `read_planned`.
    Read(ReadId),
    /// From `will_need`.
    Asked(Pages),
    /// From `poll_dispatch`, with the frames of its pages.
    Dispatched(Option<(DeviceIo, Vec<Frame>)>),
    /// From `fill_holes`, one for each hole.
    Hole {
        /// Frame with the hole.
        frame: Frame,
        /// Bytes of the hole.
        bytes: Range<usize>,
    },
    /// From `poll_ready`, with the frames of the read.
    Ready(Option<(ReadReady, Vec<Frame>)>),
    /// From `direct`.
    Direct(DirectId),
    /// From `poll_done`.
    Done(Option<DirectDone>),
    /// From `write`, `write_zeroes`, `discard`, `flush` and `write_back`.
    Write(WriteId),
    /// From `poll_write`, with the pages to fill.
    Step(Option<(WriteReady, Vec<WriteFill>)>),
    /// A page was evicted because another one needed its frame.
    Evicted {
        /// File of the page.
        file: FileSlot,
        /// Index of the page.
        page: PageIndex,
        /// Its frame.
        frame: Frame,
    },
    /// From `take_log`: totals that reveal even a missing step without any other output.
    State {
        /// Counters of the path.
        stats: Stats,
        /// Counters of the cache.
        cache: CacheStats,
        /// Number of idle frames.
        idle: Pages,
    },
}

/// First difference between a log and its replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// Index of the step in the log, from 0.
    pub at: usize,
    /// The log's step; None at its end.
    pub wanted: Option<LogStep>,
    /// The step taken in the replay; None if it took no more, or cannot take the log's.
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
