//! The log of a path, and its proof: the same calls, with what was seen of readers, say the same.
//!
//! In:    each call of an [`IoPath`]; what it saw of flags that readers change at any time.
//! Out:   a [`Step`] for each; from [`replay`], the first step that went otherwise.
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
//! A new call of `IoPath` enters the log with three lines: its variant of [`Input`]; as its first
//! line `self.log().did(|| Input::..)`; and its arm in `apply`. If it returns something, that is a
//! variant of [`Output`], and its last line is `self.log().gave(|| Output::..)`. If it panics for
//! ids that are unknown, `could` says so before. A new look at what readers change goes through
//! `log.saw`.

mod log;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

pub(crate) use self::log::Log;
use crate::cache::CacheStats;
use crate::geometry::Geometry;
use crate::path::{
    Config, DeviceId, DeviceIo, DirectId, Done, FileId, Fill, IoPath, Layout, ReadId, Ready,
    StreamId, Tag, WriteId, WriteMode, WriteReady,
};
use crate::readahead::Advice;
use crate::sched::{Choice, Origin, Submitter};
use crate::stats::Stats;
use crate::table::{FileSlot, Frame};
use crate::units::{Bytes, Instant, PageIndex, Pages, Sector, Sectors};

/// One step of a log.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The path was called.
    Did(Input),
    /// The path looked at a flag that readers change, and it was set; so many looks before it,
    /// since the last step, found theirs clear. Those are not in the log, but for their number: a
    /// flag that is clear at the first look may be set at the next.
    Saw(Seen, Frame, u32),
    /// The path said something.
    Gave(Output),
    /// The log was full; what follows is not in it.
    Full,
}

/// A call of [`IoPath`], by the name of its method.
#[expect(missing_docs, reason = "they are the arguments of the methods")]
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
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
        now: Instant,
        device: DeviceId,
    },
    Open {
        device: DeviceId,
        start: Sector,
        len: Bytes,
    },
    OpenLayout {
        device: DeviceId,
        len: Bytes,
        layout: Arc<Layout>,
    },
    Close {
        now: Instant,
        file: FileId,
    },
    SetLen {
        now: Instant,
        file: FileId,
        len: Bytes,
    },
    Invalidate {
        now: Instant,
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
        now: Instant,
        stream: StreamId,
        pos: Bytes,
        len: Bytes,
        prev_pos: Option<Bytes>,
    },
    Marker {
        now: Instant,
        stream: StreamId,
        page: PageIndex,
        count: Pages,
        prev_pos: Option<Bytes>,
    },
    Complete {
        now: Instant,
        tag: Tag,
        result: Result<Bytes, i32>,
    },
    Release {
        now: Instant,
        id: ReadId,
    },
    Unpinned {
        now: Instant,
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
        now: Instant,
        file: FileId,
        start: PageIndex,
        pages: Pages,
    },
    PollDispatch {
        now: Instant,
    },
    FillHoles {
        now: Instant,
    },
    Direct {
        now: Instant,
        device: DeviceId,
        start: Sector,
        sectors: Sectors,
        origin: Origin,
    },
    Timeout {
        now: Instant,
    },
    Write {
        now: Instant,
        file: FileId,
        pos: Bytes,
        len: Bytes,
        mode: WriteMode,
        submitter: Submitter,
    },
    Filled {
        now: Instant,
        id: WriteId,
    },
    Zero {
        now: Instant,
        file: FileId,
        pages: Range<PageIndex>,
    },
    Discard {
        now: Instant,
        file: FileId,
        pages: Range<PageIndex>,
    },
    Flush {
        now: Instant,
        file: FileId,
    },
    AcceptLost {
        file: FileId,
    },
    WriteBack {
        now: Instant,
        file: FileId,
    },
    Acted {
        now: Instant,
        id: WriteId,
        result: Result<(), i32>,
    },
    NotActed {
        now: Instant,
        id: WriteId,
        errno: i32,
    },
    GiveUp {
        now: Instant,
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
pub enum Seen {
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
pub enum Output {
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
    Ready(Option<(Ready, Vec<Frame>)>),
    /// Of `direct`.
    Direct(DirectId),
    /// Of `poll_done`.
    Done(Option<Done>),
    /// Of `write`, `zero`, `discard`, `flush` and `write_back`.
    Write(WriteId),
    /// Of `poll_write`, with what is to be filled.
    Step(Option<(WriteReady, Vec<Fill>)>),
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
    pub wanted: Option<Step>,
    /// What the path did; None if it did nothing more, or if it cannot do what the log has.
    pub got: Option<Step>,
}

/// Does to a new path what the log says was done to another, and compares all that it says.
///
/// The log begins where the path did: [`IoPath::record`] comes before all else.
///
/// # Errors
///
/// The first step at which the two differ. The path is then thrown away.
pub fn replay(config: Config, log: &[Step]) -> Result<(), Box<Mismatch>> {
    let mut path = IoPath::new(config);
    *path.log() = Log::replaying(log.to_vec());
    while let Some(input) = path.log().next_input()? {
        if !could(&path, &input) {
            let at = path.log().at() - 1;
            return Err(Box::new(Mismatch { at, wanted: Some(Step::Did(input)), got: None }));
        }
        apply(&mut path, input);
    }
    Ok(())
}

fn apply(path: &mut IoPath, input: Input) {
    // What they return is compared as they say it.
    match input {
        Input::AddDevice { disk, geometry, scheduler } => {
            _ = path.add_device_on(disk, geometry, &scheduler);
        }
        Input::SetScheduler { device, name, value } => {
            _ = path.set_scheduler(device, &name, &value);
        }
        Input::RemoveDevice { now, device } => path.remove_device(now, device),
        Input::Open { device, start, len } => _ = path.open_at(device, start, len),
        Input::OpenLayout { device, len, layout } => _ = path.open_layout(device, len, layout),
        Input::Close { now, file } => path.close(now, file),
        Input::SetLen { now, file, len } => path.set_len(now, file, len),
        Input::Invalidate { now, file, pages } => path.invalidate(now, file, pages),
        Input::Stream { file } => _ = path.stream(file),
        Input::CloseStream { stream } => path.close_stream(stream),
        Input::Read { now, stream, pos, len, prev_pos } => {
            _ = path.read(now, stream, pos, len, prev_pos);
        }
        Input::Marker { now, stream, page, count, prev_pos } => {
            path.marker(now, stream, page, count, prev_pos);
        }
        Input::Complete { now, tag, result } => path.complete(now, tag, result),
        Input::Release { now, id } => path.release(now, id),
        Input::Unpinned { now, frame } => path.unpinned(now, frame),
        Input::Advise { stream, advice } => path.advise(stream, advice),
        Input::SetNoReuse { stream, no_reuse } => path.set_no_reuse(stream, no_reuse),
        Input::SetSubmitter { stream, submitter } => path.set_submitter(stream, submitter),
        Input::SetWeight { submitter, weight } => {
            // Refused now is what was refused then.
            _ = path.set_weight(submitter, weight);
        }
        Input::Seeked { stream } => path.seeked(stream),
        Input::WillNeed { now, file, start, pages } => {
            _ = path.will_need(now, file, start, pages);
        }
        Input::PollDispatch { now } => _ = path.poll_dispatch(now),
        Input::FillHoles { now } => path.fill_holes(now, |_, _| {}),
        Input::Direct { now, device, start, sectors, origin } => {
            _ = path.direct(now, device, start, sectors, origin);
        }
        Input::Timeout { now } => path.timeout(now),
        Input::Write { now, file, pos, len, mode, submitter } => {
            _ = path.write(now, file, pos, len, mode, submitter);
        }
        Input::Filled { now, id } => path.filled(now, id),
        Input::Zero { now, file, pages } => _ = path.zero(now, file, pages),
        Input::Discard { now, file, pages } => _ = path.discard(now, file, pages),
        Input::AcceptLost { file } => path.accept_lost(file),
        Input::NotActed { now, id, errno } => path.not_acted(now, id, errno),
        Input::Flush { now, file } => _ = path.flush(now, file),
        Input::WriteBack { now, file } => _ = path.write_back(now, file),
        Input::Acted { now, id, result } => path.acted(now, id, result),
        Input::GiveUp { now, id } => path.give_up(now, id),
        Input::Set { name, value } => _ = path.set(&name, &value),
        Input::PollWrite => _ = path.poll_write(),
        Input::PollReady => _ = path.poll_ready(),
        Input::PollDone => _ = path.poll_done(),
        Input::TakeLog => _ = path.take_log(),
    }
}

/// Whether the call makes sense for the path as it is: a log with a step too few, or a path of
/// other habits, must come out as a mismatch and not as a panic.
fn could(path: &IoPath, input: &Input) -> bool {
    match input {
        Input::RemoveDevice { device, .. } => !path.has_files_on(*device),
        Input::Open { device, .. }
        | Input::OpenLayout { device, .. }
        | Input::Direct { device, .. } => path.has_device(*device),
        Input::SetLen { file, .. } | Input::Stream { file } => path.is_open(*file),
        Input::Write { file, .. }
        | Input::Zero { file, .. }
        | Input::Discard { file, .. }
        | Input::Flush { file, .. }
        | Input::WriteBack { file, .. } => path.is_open(*file) && path.is_in_one_run(*file),
        Input::Filled { id, .. } => path.awaits_driver(*id, false),
        Input::Acted { id, .. } | Input::NotActed { id, .. } => path.awaits_driver(*id, true),
        Input::GiveUp { id, .. } => !path.awaits_driver(*id, false),
        Input::Read { stream, .. } => path.has_stream(*stream),
        Input::Complete { tag, .. } => path.is_flying(*tag),
        Input::FillHoles { .. } => path.has_holes(),
        Input::Release { id, .. } => path.is_ready(*id),
        Input::Unpinned { frame, .. } => path.is_pinned_orphan(*frame),
        Input::AddDevice { .. }
        | Input::AcceptLost { .. }
        | Input::SetScheduler { .. }
        | Input::SetSubmitter { .. }
        | Input::SetWeight { .. }
        | Input::Timeout { .. }
        | Input::PollDone
        | Input::PollWrite
        | Input::Set { .. }
        | Input::Close { .. }
        | Input::Invalidate { .. }
        | Input::CloseStream { .. }
        | Input::Marker { .. }
        | Input::Advise { .. }
        | Input::SetNoReuse { .. }
        | Input::Seeked { .. }
        | Input::WillNeed { .. }
        | Input::PollDispatch { .. }
        | Input::PollReady
        | Input::TakeLog => true,
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
