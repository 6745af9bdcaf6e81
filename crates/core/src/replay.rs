//! The log of a path, and its proof: the same calls, with what was seen of readers, say the same.
//!
//! In:    each call of an [`IoPath`]; what it saw of flags that readers change at any time.
//! Out:   a [`LogStep`] for each; from [`replay`], the first step that went otherwise.
//! Never: a clock, a page's bytes, more memory than was allowed: a log that is not taken ends.
//!
//! ```text
//!   recorded   Did(read) Gave(evicted) Saw(marker) Gave(read 7)   Did(poll) Gave(device I/O)
//!                 |           ^            |            ^            |           ^
//!   replayed      v           | same?      v            | same?      v           | same?
//!              path.read ----------------------------------->     path.poll_dispatch ->
//! ```
//!
//! So the driver of a path (an event loop, threads that take turns) can be checked after the fact:
//! if the log replays, all that happened follows from these calls in this order.
//!
//! A new call of `IoPath` enters the log with three lines: its variant of [`PathCall`]; as its
//! first line `self.log().did(|| PathCall::..)`; and its arm in `apply`. If it returns something,
//! that is a variant of [`PathOutput`], and its last line is `self.log().gave(|| PathOutput::..)`.
//! If it panics for ids that are unknown, `could` says so before. A new look at what readers change
//! goes through `log.saw`.

mod log;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

pub(crate) use self::log::CallLog;
use crate::cache::CacheStats;
use crate::geometry::Geometry;
use crate::path::{
    Config, DeviceId, DeviceIo, DirectDone, DirectId, ExtentMap, FileId, IoPath, ReadId, ReadReady,
    StreamId, Tag, WriteFill, WriteId, WriteMode, WriteReady,
};
use crate::prefetch::Advice;
use crate::sched::{Choice, Origin, Submitter};
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

/// A call of [`IoPath`], by the name of its method.
#[expect(missing_docs, reason = "they are the arguments of the methods")]
#[derive(Clone, Debug, PartialEq)]
pub enum PathCall {
    AddDevice {
        disk: Option<u64>,
        geometry: Geometry,
        scheduler: Choice,
    },
    SetScheduler {
        device: DeviceId,
        name: String,
        value: String,
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
    OpenLayout {
        device: DeviceId,
        len: ByteCount,
        layout: Arc<ExtentMap>,
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
    Marker {
        now: Nanos,
        stream: StreamId,
        page: PageIndex,
        count: Pages,
        prev_pos: Option<ByteCount>,
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
    Zero {
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
    GiveUp {
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

/// What the path saw of its readers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FlagSeen {
    /// A page at the tail had been used again.
    Referenced,
    /// A page at the tail was pinned.
    Pinned,
    /// A page that was evicted, or that was hinted some time ago, had not been used.
    Unused,
    /// A page that was read ahead, and that was looked at before it reached a tail, had been used.
    Used,
    /// A page that left otherwise was pinned: its frame is an orphan until it is unpinned.
    Orphaned,
    /// A read met a page that still had its marker.
    Marker,
}

/// What a path says.
#[derive(Clone, Debug, PartialEq)]
pub enum PathOutput {
    /// Of `add_device`.
    Device(DeviceId),
    /// Of `open` and `open_layout`.
    File(Option<FileId>),
    /// Of `stream`.
    Stream(StreamId),
    /// Of `read`.
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
    /// Of `write`, `zero`, `discard`, `flush` and `write_back`.
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

/// Does to a new path what the log says was done to another, and compares all that it says.
///
/// The log begins where the path did: [`IoPath::record`] comes before all else.
///
/// # Errors
///
/// The first step at which the two differ. The path is then thrown away.
pub fn replay(config: Config, log: &[LogStep]) -> Result<(), Box<Mismatch>> {
    let mut path = IoPath::new(config);
    *path.log() = CallLog::replaying(log.to_vec());
    while let Some(input) = path.log().next_input()? {
        if !could(&path, &input) {
            let at = path.log().at() - 1;
            return Err(Box::new(Mismatch { at, wanted: Some(LogStep::Did(input)), got: None }));
        }
        apply(&mut path, input);
    }
    Ok(())
}

fn apply(path: &mut IoPath, input: PathCall) {
    // What they return is compared as they say it.
    match input {
        PathCall::AddDevice { disk, geometry, scheduler } => {
            _ = path.add_device_on(disk, geometry, &scheduler);
        }
        PathCall::SetScheduler { device, name, value } => {
            _ = path.set_scheduler(device, &name, &value);
        }
        PathCall::RemoveDevice { now, device } => path.remove_device(now, device),
        PathCall::Open { device, start, len } => _ = path.open_at(device, start, len),
        PathCall::OpenLayout { device, len, layout } => _ = path.open_layout(device, len, layout),
        PathCall::Close { now, file } => path.close(now, file),
        PathCall::SetLen { now, file, len } => path.set_len(now, file, len),
        PathCall::Invalidate { now, file, pages } => path.invalidate(now, file, pages),
        PathCall::Stream { file } => _ = path.stream(file),
        PathCall::CloseStream { stream } => path.close_stream(stream),
        PathCall::Read { now, stream, pos, len, prev_pos } => {
            _ = path.read(now, stream, pos, len, prev_pos);
        }
        PathCall::Marker { now, stream, page, count, prev_pos } => {
            path.marker(now, stream, page, count, prev_pos);
        }
        PathCall::Complete { now, tag, result } => path.complete(now, tag, result),
        PathCall::Release { now, id } => path.release(now, id),
        PathCall::Unpinned { now, frame } => path.unpinned(now, frame),
        PathCall::Advise { stream, advice } => path.advise(stream, advice),
        PathCall::SetNoReuse { stream, no_reuse } => path.set_no_reuse(stream, no_reuse),
        PathCall::SetSubmitter { stream, submitter } => path.set_submitter(stream, submitter),
        PathCall::SetWeight { submitter, weight } => {
            // Refused now is what was refused then.
            _ = path.set_weight(submitter, weight);
        }
        PathCall::Seeked { stream } => path.seeked(stream),
        PathCall::WillNeed { now, file, start, pages } => {
            _ = path.will_need(now, file, start, pages);
        }
        PathCall::PollDispatch { now } => _ = path.poll_dispatch(now),
        PathCall::FillHoles { now } => path.fill_holes(now, |_, _| {}),
        PathCall::Direct { now, device, start, sectors, origin } => {
            _ = path.direct(now, device, start, sectors, origin);
        }
        PathCall::Timeout { now } => path.timeout(now),
        PathCall::Write { now, file, pos, len, mode, submitter } => {
            _ = path.write(now, file, pos, len, mode, submitter);
        }
        PathCall::Filled { now, id } => path.filled(now, id),
        PathCall::Zero { now, file, pages } => _ = path.zero(now, file, pages),
        PathCall::Discard { now, file, pages } => _ = path.discard(now, file, pages),
        PathCall::AcceptLost { file } => path.accept_lost(file),
        PathCall::NotActed { now, id, errno } => path.not_acted(now, id, errno),
        PathCall::Flush { now, file } => _ = path.flush(now, file),
        PathCall::WriteBack { now, file } => _ = path.write_back(now, file),
        PathCall::Acted { now, id, result } => path.acted(now, id, result),
        PathCall::GiveUp { now, id } => path.give_up(now, id),
        PathCall::Set { name, value } => _ = path.set(&name, &value),
        PathCall::PollWrite => _ = path.poll_write(),
        PathCall::PollReady => _ = path.poll_ready(),
        PathCall::PollDone => _ = path.poll_done(),
        PathCall::TakeLog => _ = path.take_log(),
    }
}

/// Whether the call makes sense for the path as it is: a log with a step too few, or a path of
/// other habits, must come out as a mismatch and not as a panic.
fn could(path: &IoPath, input: &PathCall) -> bool {
    match input {
        PathCall::RemoveDevice { device, .. } => !path.has_files_on(*device),
        PathCall::Open { device, .. }
        | PathCall::OpenLayout { device, .. }
        | PathCall::Direct { device, .. } => path.has_device(*device),
        PathCall::SetLen { file, .. } | PathCall::Stream { file } => path.is_open(*file),
        PathCall::Write { file, .. }
        | PathCall::Zero { file, .. }
        | PathCall::Discard { file, .. }
        | PathCall::Flush { file, .. }
        | PathCall::WriteBack { file, .. } => path.is_open(*file) && path.is_in_one_run(*file),
        PathCall::Filled { id, .. } => path.awaits_driver(*id, false),
        PathCall::Acted { id, .. } | PathCall::NotActed { id, .. } => path.awaits_driver(*id, true),
        PathCall::GiveUp { id, .. } => !path.awaits_driver(*id, false),
        PathCall::Read { stream, .. } => path.has_stream(*stream),
        PathCall::Complete { tag, .. } => path.is_flying(*tag),
        PathCall::FillHoles { .. } => path.has_holes(),
        PathCall::Release { id, .. } => path.is_ready(*id),
        PathCall::Unpinned { frame, .. } => path.is_pinned_orphan(*frame),
        PathCall::AddDevice { .. }
        | PathCall::AcceptLost { .. }
        | PathCall::SetScheduler { .. }
        | PathCall::SetSubmitter { .. }
        | PathCall::SetWeight { .. }
        | PathCall::Timeout { .. }
        | PathCall::PollDone
        | PathCall::PollWrite
        | PathCall::Set { .. }
        | PathCall::Close { .. }
        | PathCall::Invalidate { .. }
        | PathCall::CloseStream { .. }
        | PathCall::Marker { .. }
        | PathCall::Advise { .. }
        | PathCall::SetNoReuse { .. }
        | PathCall::Seeked { .. }
        | PathCall::WillNeed { .. }
        | PathCall::PollDispatch { .. }
        | PathCall::PollReady
        | PathCall::TakeLog => true,
    }
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
