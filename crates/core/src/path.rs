//! The state machine of a storage path: files, streams, one cache, a scheduler per device.
//!
//! In:    reads that missed, markers that hits met, writes and flushes, completions, and the time.
//! Out:   device I/O to start ([`IoPath::poll_dispatch`]), reads that are ready
//!        ([`IoPath::poll_ready`]), steps of writes ([`IoPath::poll_write`]), a trace.
//! Never: a page's bytes, a clock, a wait, an error of its own. A device's error is an input.
//!
//! ```text
//!   read() ---> walk: policy decides, cache gives frames ---> requests ---> scheduler
//!                                                                              |
//!   poll_ready() <--- reads that wait for nothing more <--- complete() <--- poll_dispatch()
//!        |
//!   the driver copies from frames(), then release()
//! ```
//!
//! Hits do not come here: the caller that serves readers looks pages up in [`IoPath::table`], and
//! calls [`IoPath::read`] only when one is missing. See `examples/own_loop.rs`.

mod devices;
mod direct;
mod fetching;
mod files;
mod hints;
mod io;
mod job;
mod law;
mod layout;
mod limit;
mod log;
mod parts;
mod start;
mod streams;
mod useful;
mod waiters;
mod write;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use direct::{Direct, DirectDone, DirectId};
pub use job::{PageFill, PagePart};
pub use law::TooManyWeights;
pub use layout::{BadExtents, ExtentMap, FileExtent, OpenError};
pub use limit::DeviceState;
pub use write::{WriteCommand, WriteFill, WriteId, WriteMode, WriteReady, WriteStep};

use fetching::ReadFrames;
use hints::HintedFrames;
use job::IoPayload;
use layout::FileLocation;
use limit::WriteDepthLimiter;
use parts::PartialFills;
use useful::{KnownDisks, WindowEstimator};
use waiters::{Waiter, Waiters};
use write::{
    CommandSeq, DirtyBudget, DirtyPages, Domain, FileDirtyPages, NEVER, WritebackSettings,
};

use crate::cache::{CacheStats, FlushInterval, PageCache};
use crate::device_model::{DeviceEstimator, DeviceModel, LatencyObserver, SentRequest};
use crate::geometry::Geometry;
use crate::prefetch::memory_shares::MemoryShares;
use crate::prefetch::{Advice, Policy, Rules, StreamState, Streams};
use crate::replay::{PathCall, PathOutput};
use crate::sched::{Op, Request, Scheduler, Submitter};
use crate::slab::{Id, Slab};
use crate::stats::Stats;
use crate::table::{FileSlot, Frame, PageTable};
use crate::trace::{Trace, TraceEvent};
use crate::units::{ByteCount, Nanos, PageIndex, Pages};
use crate::windows::Windows;

/// Names a device.
pub type DeviceId = Id<DeviceQueue>;
/// Names an open file.
pub type FileId = Id<OpenFile>;
/// Names a stream: the read-ahead state of one reader of one file.
pub type StreamId = Id<PathStream>;
/// Names a read.
pub type ReadId = Id<PageRead>;
/// Names a request that a device is working on.
pub type Tag = Id<InFlight>;

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

/// Device I/O to start: `len` bytes at `offset`, into or from [`IoPath::io_frames`] of `tag`, in
/// their order; where files [in pieces](IoPath::open_layout) are open, a read is into
/// [`IoPath::io_parts`]. If that has no frames, it serves [direct requests](IoPath::direct).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DeviceIo {
    /// To be given back to [`IoPath::complete`].
    pub tag: Tag,
    /// Which device.
    pub device: DeviceId,
    /// Which way.
    pub op: Op,
    /// Of a write, whether it is done only when the device has it for good.
    pub fua: bool,
    /// Where on the device, from its start.
    pub offset: ByteCount,
    /// How much. Of a read whole pages, or sectors if its file is in pieces: at the end of a file
    /// or device fewer bytes may come. A write ends with its file, in the middle of a page, and of
    /// a sector, if need be.
    pub len: ByteCount,
}

/// A read that waits for nothing more.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReadReady {
    /// Which; to be given to [`IoPath::frames`] and [`IoPath::release`].
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
    /// [`IoPath::accept_lost`].
    Lost(i32),
}

/// A device: what is queued for it and how much it is doing.
#[derive(Debug)]
pub struct DeviceQueue {
    geometry: Geometry,
    queue: Box<dyn Scheduler<IoPayload>>,
    in_flight: u32,
    /// How many requests of the flusher are queued or in flight.
    writes: u32,
    is_busy: bool,
    /// It has something queued, and no room for it, or its scheduler holds it back.
    is_full: bool,
    limiter: WriteDepthLimiter,
    /// None until something was read or written: many files are opened and few of them used.
    fit: Option<Box<DeviceEstimator>>,
    useful: WindowEstimator,
    /// The number of what it lies on with others, if that is known.
    disk: Option<u64>,
    /// None until something was written.
    domain: Option<Id<Domain>>,
}

/// An open file.
#[derive(Debug)]
pub struct OpenFile {
    len: ByteCount,
    device: DeviceId,
    /// Where on the device.
    place: FileLocation,
    /// The newest of its streams, which leads to the others.
    newest_stream: Option<StreamId>,
    /// What a policy remembers that finds streams by position. Some bytes for a file without
    /// random reads and with few streams; at most [`Streams::BYTES_MAX`].
    remembered: Streams,
    /// Reads that are not released yet.
    reads: u32,
    /// Writes, zeroes and flushes that are not over.
    writes: u32,
    /// None until something was written: few files are.
    debts: Option<Box<FileDirtyPages>>,
    is_closing: bool,
}

/// One reader's read-ahead state.
#[derive(Debug)]
pub struct PathStream {
    file: FileId,
    state: StreamState,
    advice: Advice,
    no_reuse: bool,
    submitter: Submitter,
    /// How long its reads have waited since it asked a policy.
    blocked_ns: u64,
    /// Its neighbours among the streams of its file.
    newer: Option<StreamId>,
    older: Option<StreamId>,
}

/// A read on its way.
#[derive(Debug)]
pub struct PageRead {
    stream: StreamId,
    file: FileId,
    pos: ByteCount,
    /// How much was asked for.
    asked: ByteCount,
    /// How much it covers.
    len: ByteCount,
    /// The pages it asked for, not clipped at the end of the file: policies see what was asked.
    count: Pages,
    prev_pos: Option<ByteCount>,
    began: Nanos,
    wanted: ReadFrames,
    fault: Option<Fault>,
}

/// A request that a device is working on.
#[derive(Debug)]
pub struct InFlight {
    device: DeviceId,
    request: Request<IoPayload>,
    sent: SentRequest,
    /// Of a write from the cache, its place in the order of its flush domain.
    command: Option<(Id<Domain>, CommandSeq)>,
}

/// The state machine.
#[derive(Debug)]
pub struct IoPath {
    config: Config,
    cache: PageCache,
    policy: Policy,
    max_window: Pages,
    /// Whether the largest window is what is of use on its device.
    is_window_learnt: bool,
    /// When something last came back from a device, or was to be written.
    clock: Nanos,
    rules: Rules,
    devices: Slab<DeviceQueue>,
    disks: KnownDisks,
    files: Slab<OpenFile>,
    streams: Slab<PathStream>,
    shares: MemoryShares,
    reads: Slab<PageRead>,
    flying: Slab<InFlight>,
    directs: Slab<Direct>,
    waiters: Waiters,
    parts: PartialFills,
    /// What the layouts of open files take.
    layouts: ByteCount,
    hints: HintedFrames,
    writes: Slab<WriteCommand>,
    domains: Slab<Domain>,
    /// Those with pages that have no room to be written again yet: the ones that were unstable when
    /// a flush failed, at the end of this interval.
    rewriting: Vec<(Id<Domain>, FlushInterval)>,
    debts: DirtyPages,
    room: DirtyBudget,
    limits: WritebackSettings,
    /// Files of which the flusher may write something, now or later.
    owing: VecDeque<FileId>,
    /// When it next looks at what ages.
    next_due: Nanos,
    /// How a device last refused a page.
    last_fault: Fault,
    /// What the drivers of writes are to do.
    steps: VecDeque<WriteReady>,
    /// Writes that have their pages and nothing else yet.
    unlocked: VecDeque<WriteId>,
    /// Reads and writes that wait for frames, first come, first served.
    queued: VecDeque<Waiter>,
    /// Devices that have something queued and room for it.
    busy: VecDeque<DeviceId>,
    /// How many devices have something queued and no room for it.
    full: usize,
    ready: VecDeque<ReadReady>,
    done: VecDeque<DirectDone>,
    watch: LatencyObserver,
    trace: Trace,
    stats: Stats,
    windows: Windows,
}

impl IoPath {
    /// A path with nothing in it.
    ///
    /// # Panics
    ///
    /// If `config.memory` is below [`PageCache::MIN_BOUND`]: the caller checks a user's value.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let cache = PageCache::sharing(config.memory, BYTES_PER_FRAME);
        let largest = largest_read(&cache);
        let mut path = Self {
            config,
            max_window: config.max_window.min(largest),
            is_window_learnt: config.max_window == Config::AUTO_WINDOW,
            clock: Nanos(0),
            policy: config.policy,
            rules: config.rules,
            waiters: Waiters::new(cache.frames()),
            parts: PartialFills::default(),
            layouts: ByteCount::ZERO,
            hints: HintedFrames::default(),
            writes: Slab::new(),
            domains: Slab::new(),
            rewriting: Vec::new(),
            debts: DirtyPages::new(cache.frames()),
            room: DirtyBudget::new(cache.frames()),
            limits: WritebackSettings::default(),
            owing: VecDeque::new(),
            next_due: NEVER,
            last_fault: Fault::Short,
            steps: VecDeque::new(),
            unlocked: VecDeque::new(),
            cache,
            devices: Slab::new(),
            disks: KnownDisks::default(),
            files: Slab::new(),
            streams: Slab::new(),
            shares: MemoryShares::new(),
            reads: Slab::new(),
            flying: Slab::new(),
            directs: Slab::new(),
            queued: VecDeque::new(),
            busy: VecDeque::new(),
            full: 0,
            ready: VecDeque::new(),
            done: VecDeque::new(),
            watch: LatencyObserver::default(),
            trace: Trace::default(),
            stats: Stats::default(),
            windows: Windows::default(),
        };
        path.keep_unread();
        path
    }

    /// The last pin of an orphan has ended, as [`PageTable::unpin`] said: the frame may be used
    /// again.
    pub fn unpinned(&mut self, now: Nanos, frame: Frame) {
        self.log().did(|| PathCall::Unpinned { now, frame });
        self.cache.unpinned(frame);
        self.admit(now);
    }

    /// Where the file is found in the [`Self::table`].
    #[must_use]
    pub fn slot(file: FileId) -> FileSlot {
        FileSlot(file.index())
    }

    /// Reads what is not resident of `len` bytes at `pos`, and what the policy wants ahead of it.
    ///
    /// `prev_pos` is the byte after the last one that the stream's previous read returned. At most
    /// an eighth of all frames serve one read: [`ReadReady::len`] says how much it covers. One at
    /// the end of the file, or behind it, is ready at once, with a length of 0.
    pub fn read(
        &mut self,
        now: Nanos,
        stream: StreamId,
        pos: ByteCount,
        len: ByteCount,
        prev_pos: Option<ByteCount>,
    ) -> ReadId {
        self.log().did(|| PathCall::Read { now, stream, pos, len, prev_pos });
        let file = self.streams.get(stream).expect("the stream is open").file;
        let state = self.files.get_mut(file).expect("the file is open");
        assert!(len > ByteCount::ZERO, "a read of nothing");
        state.reads += 1;

        let first = pos.page();
        let asked_end = PageIndex((pos + len).pages_up().0);
        let count = (asked_end - first).min(largest_read(&self.cache));
        let goes_on = prev_pos == Some(pos) && pos > first.offset();
        let continues = goes_on.then_some(first);
        let mut read = PageRead {
            stream,
            file,
            pos,
            asked: len,
            len,
            count,
            prev_pos,
            began: now,
            wanted: ReadFrames { continues, ..ReadFrames::default() },
            fault: None,
        };
        read.cover(state.len);
        let is_over = read.is_over();
        self.watch.begin(now);
        self.stats.reads += 1;
        self.stats.pages_wanted += (read.wanted.pages.end - read.wanted.pages.start).0;
        let id = self.reads.insert(read);
        self.reads.get_mut(id).expect("just inserted").wanted.id = Some(id);

        if is_over {
            self.watch.end();
            self.ready.push_back(ReadReady { id, len: ByteCount::ZERO, fault: None });
        } else if !self.try_start(now, id, self.queued.is_empty()) {
            self.stats.waited_for_frames += 1;
            self.queued.push_back(Waiter::Read(id));
        }
        self.log().gave(|| PathOutput::Read(id));
        id
    }

    /// A hit met and cleared the marker of `page`, with `count` pages left of its read, that one
    /// included. Of a closed stream, or behind the end of the file: nothing.
    pub fn marker(
        &mut self,
        now: Nanos,
        stream: StreamId,
        page: PageIndex,
        count: Pages,
        prev_pos: Option<ByteCount>,
    ) {
        self.log().did(|| PathCall::Marker { now, stream, page, count, prev_pos });
        let Some(file) = self.streams.get(stream).map(|state| state.file) else { return };
        if self.files.get(file).is_none_or(|state| page.offset() >= state.len) {
            return;
        }
        self.stats.markers += 1;
        let count = count.min(largest_read(&self.cache)).max(Pages(1));
        self.walk(now, stream, file, prev_pos, None, |reader, memory, fetching, decided| {
            reader.marker(memory, fetching, page, count, decided);
        });
    }

    /// A read's frames, in the order of its pages, once it is ready and until it is released.
    #[must_use]
    pub fn frames(&self, id: ReadId) -> &[Frame] {
        let read = self.reads.get(id).expect("the read is not released");
        assert!(read.wanted.outstanding == 0, "the read is not ready");
        &read.wanted.frames
    }

    /// The driver has copied what it wanted: the frames of a read that was ready may be used again.
    pub fn release(&mut self, now: Nanos, id: ReadId) {
        self.log().did(|| PathCall::Release { now, id });
        let read = self.reads.remove(id).expect("each read is released once");
        assert!(read.wanted.outstanding == 0, "the read is not ready");
        for frame in read.wanted.frames {
            self.cache.release(frame);
        }
        self.files.get_mut(read.file).expect("a file outlives its reads").reads -= 1;
        self.end_if_over(read.file);
        self.admit(now);
    }

    /// The next read that waits for nothing more.
    pub fn poll_ready(&mut self) -> Option<ReadReady> {
        self.log().did(|| PathCall::PollReady);
        let ready = self.ready.pop_front();
        let Self { cache, reads, .. } = self;
        cache.log().gave(|| {
            let frames =
                |id| reads.get(id).map_or_else(Vec::new, |read| read.wanted.frames.clone());
            PathOutput::Ready(ready.map(|ready| (ready, frames(ready.id))))
        });
        ready
    }

    /// The page table, for callers that serve hits.
    #[must_use]
    pub fn table(&self) -> Arc<PageTable> {
        self.cache.table()
    }

    /// How many frames there are.
    #[must_use]
    pub fn frame_count(&self) -> u32 {
        self.cache.frames()
    }

    /// How many frames are idle at this moment: neither filled nor held, nor pinned orphans.
    #[must_use]
    pub fn idle_frames(&self) -> u64 {
        self.cache.idle().0
    }

    /// The largest window: what was asked for, or an eighth of the memory.
    #[must_use]
    pub fn max_window(&self) -> Pages {
        self.max_window
    }

    /// What is known of how a device reads. None if it is gone, or too little was read of it.
    #[must_use]
    pub fn device_fit(&self, device: DeviceId) -> Option<DeviceModel> {
        self.devices.get(device)?.fit.as_ref()?.fit()
    }

    /// Counters since the path was made.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// How large the windows were since the path was made.
    #[must_use]
    pub fn windows(&self) -> Windows {
        self.windows
    }

    /// The cache's counters.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        self.cache.stats()
    }

    /// Keeps the last `events` events for [`Self::poll_trace`]; 0, as at first, keeps none.
    pub fn set_trace(&mut self, events: usize) {
        self.trace.set_capacity(events);
    }

    /// The oldest event of the trace.
    pub fn poll_trace(&mut self) -> Option<TraceEvent> {
        self.trace.pop()
    }

    /// How many events were lost because they were not taken in time.
    #[must_use]
    pub fn trace_lost(&self) -> u64 {
        self.trace.lost()
    }
}

/// The most pages that one read may hold.
fn largest_read(cache: &PageCache) -> Pages {
    Pages(u64::from(cache.frames()) / SHARE_OF_ONE_READ).max(Pages(1))
}

/// What the path keeps for each frame beside the cache.
const BYTES_PER_FRAME: u64 =
    Waiters::BYTES_PER_FRAME + HintedFrames::BYTES_PER_FRAME + DirtyPages::BYTES_PER_FRAME;

/// One read may hold an eighth of the frames, and a window is no larger: so six readers at a time
/// never wait for each other's frames (a quarter is kept for pins), and no reader can take the
/// cache for itself.
const SHARE_OF_ONE_READ: u64 = 8;
