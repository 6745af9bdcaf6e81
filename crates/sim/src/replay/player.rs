//! Plays a trace: a bounded set of processes issues the reads of the trace's threads.
//!
//! ```text
//!   open loop     feed --next record--> the first free of 1024 workers: waits until due, reads
//!   closed loop   feed --next of thread--> that thread's process: reads, waits the think time
//! ```

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use foreread_core::sched::{SchedulerKind, Submitter};
use foreread_core::units::{ByteCount, Nanos, SECTOR_SIZE, Sector};
use foreread_trace::{FileSummary, TraceRecord, TraceSummary};

use super::feed::{NextRecord, RecordFeed, scaled};
use super::figures::ReplayFigures;
use super::{OpenTrace, ReplayError};
use crate::device::DeviceParams;
use crate::machine::CacheSpec;
use crate::meter::RunTotals;
use crate::process::Process;
use crate::reader::SimReader;
use crate::record::RecordMode;
use crate::run::{SimFile, SimRun};
use crate::size::Size;
use crate::time_series::SeriesSpec;

/// Settings of a replay.
#[derive(Clone, Debug)]
pub struct Replay {
    /// The cache and its policy.
    pub cache: CacheSpec,
    /// Device that holds all files of the trace. It is enlarged to fit them.
    pub device: DeviceParams,
    /// Start of the reads.
    pub pace: ReplayPace,
    /// If true, the trace is played once, unmeasured, to warm the cache.
    pub is_warmed: bool,
    /// Additional grouping of the figures.
    pub group: ReplayGroup,
    /// If true, a picture is recorded: reads that waited, by time and position.
    pub has_picture: bool,
    /// Time series to record, if any.
    pub series: Option<SeriesSpec>,
    /// Seed of the device's random variation.
    pub seed: u64,
}

/// Start of the reads of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplayPace {
    /// At the times of the trace, multiplied by `scale`, however long earlier reads take.
    Open {
        /// Factor of the times: 1 as in the trace, 0.5 twice as fast.
        scale: f64,
    },
    /// After the thread's previous read has ended and its think time has passed: the gap between
    /// the two in the trace, multiplied by `think`.
    Closed {
        /// Factor of the think times: 0 for none, 1 as in the trace.
        think: f64,
    },
}

impl ReplayPace {
    /// Returns the name of the loop: `open` or `closed`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Closed { .. } => "closed",
        }
    }

    /// Returns the factor applied to times of the trace.
    #[must_use]
    pub fn scale(self) -> f64 {
        match self {
            Self::Open { scale } => scale,
            Self::Closed { think } => think,
        }
    }
}

/// Grouping of figures, in addition to the totals.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ReplayGroup {
    /// Totals only.
    #[default]
    Whole,
    /// By file.
    File,
    /// By thread.
    Thread,
}

/// Replays a trace.
///
/// # Errors
///
/// If the trace is malformed, or its files do not fit a device.
pub fn replay(
    how: &Replay,
    summary: &TraceSummary,
    open: &OpenTrace<'_>,
) -> Result<ReplayFigures, ReplayError> {
    let scale = match how.pace {
        ReplayPace::Open { scale } => scale,
        ReplayPace::Closed { think } => think,
    };
    if scaled(summary.duration, scale) > MAX_DURATION {
        let why = "the trace lasts for more than thirty years: are its times in another unit?";
        return Err(ReplayError::Machine(why.into()));
    }
    let mut run = SimRun::new(how.cache.config([&how.device]), how.seed, RecordMode::Hash)
        .map_err(ReplayError::Machine)?;
    run.evict_by(how.cache.eviction.0);
    let files = open_files(&mut run, how, summary).map_err(ReplayError::Machine)?;
    let files: Rc<[SimFile]> = files.into();
    if how.is_warmed {
        play(&mut run, how, summary, &files, open)?;
    }
    if how.has_picture {
        let end = files.last().map_or(0, |file| file.start.0 * SECTOR_SIZE + file.len.0);
        run.keep_picture(ByteCount(end));
    }
    if let Some(series) = how.series {
        run.keep_series(series);
    }
    let before = run.totals();
    let mut figures = play(&mut run, how, summary, &files, open)?;
    add_totals(&mut figures, &before, &run.totals());
    figures.series = run.take_series();
    figures.picture = run.take_picture();
    Ok(figures)
}

/// Returns the offset of each file on the device: consecutive, aligned to 1 MiB.
pub(super) fn file_starts(summary: &TraceSummary) -> Vec<u64> {
    let mut next = 0_u64;
    let start = |file: &FileSummary| {
        let start = next;
        next = next.saturating_add(rounded(file.len));
        start
    };
    summary.files.iter().map(start).collect()
}

fn rounded(len: u64) -> u64 {
    len.max(1).next_multiple_of(FILE_ALIGN)
}

/// Places the files on the device.
fn open_files(
    run: &mut SimRun,
    how: &Replay,
    summary: &TraceSummary,
) -> Result<Vec<SimFile>, String> {
    let total =
        summary.files.iter().try_fold(0_u64, |sum, file| sum.checked_add(rounded(file.len)));
    let total = total.filter(|total| *total <= MAX_DEVICE);
    let total = total.ok_or("the files of the trace are larger than any device")?;
    let model = with_capacity(&how.device, total);
    let device = run.device("device", &model, &SchedulerKind::default())?;
    let mut files = Vec::new();
    for (file, start) in summary.files.iter().zip(file_starts(summary)) {
        let start = Sector(start / SECTOR_SIZE);
        files.push(run.try_file(device, start, ByteCount(file.len.max(1)))?);
    }
    Ok(files)
}

/// Returns the same device with a capacity of at least `least` bytes.
#[must_use]
pub fn with_capacity(device: &DeviceParams, least: u64) -> DeviceParams {
    let mut device = device.clone();
    let capacity = match &mut device {
        DeviceParams::Hdd(disk) => &mut disk.capacity,
        DeviceParams::Flash(chips) => &mut chips.capacity,
        DeviceParams::Store(store) => &mut store.capacity,
        DeviceParams::Mapped(mapped) => {
            mapped.on.model = with_capacity(&mapped.on.model, least + mapped.at.0.0);
            &mut mapped.capacity
        }
    };
    *capacity = Size(ByteCount(capacity.0.0.max(least)));
    device
}

/// State shared by the processes of a replay.
struct Stage {
    feed: RefCell<RecordFeed>,
    files: Rc<[SimFile]>,
    /// Open handles by thread and file.
    handles: RefCell<HashMap<(u32, u32), Rc<SimReader>>>,
    figures: RefCell<ReplayFigures>,
    group: ReplayGroup,
    start: Nanos,
}

fn play(
    run: &mut SimRun,
    how: &Replay,
    summary: &TraceSummary,
    files: &Rc<[SimFile]>,
    open: &OpenTrace<'_>,
) -> Result<ReplayFigures, ReplayError> {
    let stage = Rc::new(Stage {
        feed: RefCell::new(RecordFeed::new(open()?)),
        files: Rc::clone(files),
        handles: RefCell::default(),
        figures: RefCell::new(ReplayFigures::new()),
        group: how.group,
        start: run.now(),
    });
    match how.pace {
        ReplayPace::Open { scale } => {
            let workers = summary.reads.min(MAX_IN_FLIGHT);
            for number in 0..workers {
                let stage = Rc::clone(&stage);
                run.spawn(&format!("worker-{number}"), async move |process: Process| {
                    stage.open_loop(process, scale).await;
                });
            }
        }
        ReplayPace::Closed { think } => {
            let mut threads: Vec<u32> = summary.threads.keys().copied().collect();
            threads.sort_unstable();
            for thread in threads {
                let stage = Rc::clone(&stage);
                run.spawn(&format!("thread-{thread}"), async move |process: Process| {
                    stage.closed_loop(process, thread, think).await;
                });
            }
        }
    }
    run.go(Nanos(u64::MAX / 2));
    // The processes hold the other references until they end.
    let too_long = || ReplayError::Machine("the reads would take centuries on this device".into());
    let stage = Rc::into_inner(stage).ok_or_else(too_long)?;
    let mut feed = stage.feed.into_inner();
    if let Some(error) = feed.error.take() {
        return Err(error.into());
    }
    let mut figures = stage.figures.into_inner();
    figures.writes = feed.writes;
    figures.elapsed_ns = run.now().0 - stage.start.0;
    Ok(figures)
}

impl Stage {
    async fn open_loop(&self, process: Process, scale: f64) {
        begin(&process);
        loop {
            let record = self.feed.borrow_mut().next();
            let Some(record) = record else { return };
            let due = Nanos(self.start.0.saturating_add(scaled(record.at, scale).0));
            if due < process.now() {
                self.figures.borrow_mut().late += 1;
            }
            process.until(due).await;
            self.read(&process, &record, due).await;
        }
    }

    async fn closed_loop(&self, process: Process, thread: u32, think: f64) {
        begin(&process);
        let (mut last_at, mut ended) = (Nanos(0), process.now());
        loop {
            let next = self.feed.borrow_mut().next_of(thread);
            let record = match next {
                NextRecord::Record(record) => record,
                NextRecord::End => return,
                NextRecord::Full => {
                    // Back off further each time: the other threads may lag by days.
                    let waited = process.now().0 - ended.0;
                    process.pass_ns(FULL_WAIT_NS + waited / FULL_WAIT_DENOM).await;
                    continue;
                }
            };
            let pause = scaled(Nanos(record.at.0 - last_at.0), think);
            process.until(Nanos(ended.0.saturating_add(pause.0))).await;
            last_at = record.at;
            self.read(&process, &record, process.now()).await;
            ended = process.now();
        }
    }

    async fn read(&self, process: &Process, record: &TraceRecord, due: Nanos) {
        let reader = self.handle(process, record).shared_with(process);
        let began = process.now();
        let got = reader.read(ByteCount(record.offset), ByteCount(record.length)).await;
        let group = match self.group {
            ReplayGroup::Whole => None,
            ReplayGroup::File => Some(record.file.0),
            ReplayGroup::Thread => Some(record.thread),
        };
        if due < began {
            // The meter counts from the start of the read, the figures below from its due time.
            process.meter(|meter, now| meter.began_late(due, began, now));
        }
        let mut figures = self.figures.borrow_mut();
        match got {
            Ok(got) => figures.add(group, due, process.now(), got.0),
            Err(_) => figures.failed += 1,
        }
    }

    /// Returns the handle of a thread for a file. The closes in traces are unreliable: when too
    /// many handles are open, all are closed and reopened on demand.
    fn handle(&self, process: &Process, record: &TraceRecord) -> Rc<SimReader> {
        let key = (record.thread, record.file.0);
        if let Some(handle) = self.handles.borrow().get(&key) {
            return Rc::clone(handle);
        }
        let mut handles = self.handles.borrow_mut();
        if handles.len() >= MAX_HANDLES {
            handles.clear();
        }
        let handle = Rc::new(process.open(self.files[record.file.0 as usize]));
        handle.name_in_picture(record.thread, record.file.0);
        handles.insert(key, Rc::clone(&handle));
        handle
    }
}

/// Starts a process. All processes read for one submitter; latencies are recorded once, for all
/// reads.
fn begin(process: &Process) {
    process.set_submitter(Some(Submitter::default()));
    process.meter(|meter, _| meter.leave_out_latency());
}

fn add_totals(figures: &mut ReplayFigures, from: &RunTotals, to: &RunTotals) {
    figures.requests = to.requests - from.requests;
    figures.device_bytes = to.device_bytes - from.device_bytes;
    figures.device_s = to.device_s - from.device_s;
    figures.evicted_unread = to.evicted_unread - from.evicted_unread;
}

/// Open-loop limit of reads in flight, above the depth of any device's queue.
const MAX_IN_FLIGHT: u64 = 1024;

/// Longest accepted trace: thirty years.
const MAX_DURATION: Nanos = Nanos(946_080_000_000_000_000);

/// Limit of open handles.
const MAX_HANDLES: usize = 1 << 14;

/// First wait of a thread while others lag too far behind, and the share of the wait so far that is
/// added to it, as a divisor.
const FULL_WAIT_NS: u64 = 1_000_000;
const FULL_WAIT_DENOM: u64 = 16;

/// Alignment of files.
const FILE_ALIGN: u64 = 1 << 20;

/// Largest device.
const MAX_DEVICE: u64 = 1 << 50;
