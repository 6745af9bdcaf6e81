//! One run: the trace is read, lanes issue its reads at their times.
//!
//! The schedule bounds the reads in memory. Ctrl-C wakes every lane.
//!
//! ```text
//!   trace --feed--> schedule --take--> lane 0: sleeps until due, reads -.
//!                      ^     --take--> lane 1: ..                       |
//!                      '--------------- returned ----------------------'
//! ```

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::Builder;
use std::time::{Duration, Instant};

use foreread_core::units::Nanos;
use foreread_trace::{TraceOp, TraceReader, TraceRecord};

use super::figures::{RealFigures, ReturnedRead};
use super::lane_reader::{LaneReader, ReadFailure};
use super::opened_target::{HandleKey, OpenedTarget};
use super::schedule::{DueRead, IssueSchedule, LaneStep, MAX_QUEUED};
use super::targets::RealTargets;
use foreread_cli::clock::{clock, sleep_until};

/// A run that can be played.
pub(super) struct RealRun<'r> {
    pub(super) targets: &'r RealTargets,
    pub(super) opened: &'r OpenedTarget<'r>,
    pub(super) lanes: usize,
    /// Set when the user ends it.
    pub(super) interrupted: &'r AtomicBool,
}

/// State shared by the feed and the lanes.
struct Stage<'r> {
    run: &'r RealRun<'r>,
    shared: Mutex<StageState>,
    /// Lanes wait here until the trace is read as far as their next read.
    arrived: Condvar,
    /// The feed waits here for room.
    room: Condvar,
    start: Instant,
}

struct StageState {
    schedule: IssueSchedule,
    figures: RealFigures,
    /// Lanes that wait for the feed.
    waiting: usize,
    /// The feed waits for room.
    feed_waits: bool,
    /// Why the run has to end.
    failure: Option<String>,
}

/// The trace, read ahead of the lanes.
struct TraceFeed {
    reader: TraceReader<'static>,
    batch: Vec<TraceRecord>,
    writes: u64,
    has_ended: bool,
    error: Option<String>,
}

impl RealRun<'_> {
    /// Plays a trace.
    ///
    /// # Errors
    ///
    /// If the trace is wrong, a read fails, or there are no more threads.
    pub(super) fn play(
        &self,
        mut schedule: IssueSchedule,
        reader: TraceReader<'static>,
    ) -> Result<RealFigures, String> {
        let mut feed = TraceFeed::new(reader);
        // Before the clock runs: the first reads shall not wait for the trace.
        while !feed.has_ended && schedule.room() >= FIRST_ROOM {
            feed.next_batch();
            feed.batch.drain(..).for_each(|record| schedule.push(record));
        }
        if feed.has_ended {
            schedule.end();
        }
        let before = self.opened.device_bytes();
        let figures = RealFigures::new();
        let state = StageState { schedule, figures, waiting: 0, feed_waits: false, failure: None };
        let stage = Stage {
            run: self,
            shared: Mutex::new(state),
            arrived: Condvar::new(),
            room: Condvar::new(),
            start: clock() + START_IN,
        };
        std::thread::scope(|scope| {
            for lane in 0..self.lanes {
                let stage = &stage;
                let lane_thread = Builder::new().name(format!("lane {lane}"));
                let started = lane_thread.spawn_scoped(scope, move || stage.read_all(lane));
                if let Err(error) = started {
                    let hint = "give --workers, or raise the limit of threads (ulimit -u)";
                    stage.fail(format!("cannot start thread {lane}: {error}; {hint}"));
                    break;
                }
            }
            stage.feed(&mut feed);
        });
        let mut state = stage.shared.into_inner().expect("no lane panicked");
        if let Some(failure) = state.failure.take().or(feed.error.take()) {
            return Err(failure);
        }
        state.figures.writes = feed.writes;
        state.figures.is_interrupted = self.interrupted.load(Ordering::Relaxed);
        let asked = self.opened.device_bytes().zip(before);
        state.figures.device_bytes = asked.map(|(now, before)| now.saturating_sub(before));
        Ok(state.figures)
    }
}

impl Stage<'_> {
    fn lock(&self) -> MutexGuard<'_, StageState> {
        self.shared.lock().expect("no lane panicked")
    }

    /// Returns true if the run ends before the trace.
    fn is_over(&self, state: &StageState) -> bool {
        state.failure.is_some() || self.run.interrupted.load(Ordering::Relaxed)
    }

    fn fail(&self, failure: String) {
        self.lock().failure.get_or_insert(failure);
        self.arrived.notify_all();
        self.room.notify_all();
    }

    fn now(&self) -> Nanos {
        let now = clock().saturating_duration_since(self.start).as_nanos();
        Nanos(u64::try_from(now).unwrap_or(u64::MAX))
    }

    /// Reads the trace, as far ahead of the lanes as there is room.
    fn feed(&self, feed: &mut TraceFeed) {
        while !feed.has_ended {
            feed.next_batch();
            let mut state = self.lock();
            while state.schedule.room() < feed.batch.len() && !self.is_over(&state) {
                state.feed_waits = true;
                state = self.room.wait_timeout(state, LOOK).expect("no lane panicked").0;
                state.feed_waits = false;
            }
            if self.is_over(&state) {
                return;
            }
            feed.batch.drain(..).for_each(|record| state.schedule.push(record));
            if feed.has_ended {
                state.schedule.end();
            }
            if state.waiting > 0 {
                self.arrived.notify_all();
            }
        }
    }

    /// Issues the reads of one lane.
    fn read_all(&self, lane: usize) {
        // Else the kernel gathers wake-ups within 50 us. Where it refuses, reads are as late.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut reader = LaneReader::new(self.run.opened);
        let mut returned = None;
        while let Some(read) = self.next(lane, returned.take()) {
            match self.read(&mut reader, &read) {
                Ok(Some(read)) => returned = Some(read),
                Ok(None) => return,
                Err(failure) => return self.fail(failure),
            }
        }
    }

    /// Takes the next read of a lane, and adds the one that has returned; None at the end.
    fn next(&self, lane: usize, returned: Option<ReturnedRead>) -> Option<DueRead> {
        let mut state = self.lock();
        if let Some(returned) = returned {
            state.figures.add(&returned);
            state.schedule.returned(lane, &returned.read, returned.returned);
        }
        let mut has_waited = false;
        loop {
            if self.is_over(&state) {
                return None;
            }
            match state.schedule.take(lane) {
                LaneStep::Issue(read) => {
                    if state.feed_waits && state.schedule.room() >= BATCH {
                        self.room.notify_one();
                    }
                    return Some(read);
                }
                LaneStep::End => return None,
                LaneStep::Wait => {
                    state.figures.starved += u64::from(!std::mem::replace(&mut has_waited, true));
                    state.waiting += 1;
                    state = self.arrived.wait_timeout(state, LOOK).expect("no lane panicked").0;
                    state.waiting -= 1;
                }
            }
        }
    }

    /// Issues a read when it is due; None if the run has ended before.
    fn read(
        &self,
        reader: &mut LaneReader<'_>,
        read: &DueRead,
    ) -> Result<Option<ReturnedRead>, String> {
        let record = &read.record;
        let changed = || "the trace has changed while it was read".to_owned();
        let place = self.run.targets.place(record).ok_or_else(changed)?;
        let key: HandleKey = (record.thread, record.file.0);
        let failed = |failure: ReadFailure| failure.to_string();
        reader.prepare(key, &place, record.length).map_err(failed)?;
        let due = self.start + Duration::from_nanos(read.due.0);
        loop {
            let now = clock();
            if now >= due {
                break;
            }
            if self.run.interrupted.load(Ordering::Relaxed) || self.lock().failure.is_some() {
                return Ok(None);
            }
            sleep_until(due.min(now + LOOK));
        }
        let issued = self.now();
        let is_hit = reader.read(key, &place, record.length).map_err(failed)?;
        let (returned, is_wrapped) = (self.now(), place.is_wrapped);
        Ok(Some(ReturnedRead { read: *read, issued, returned, is_hit, is_wrapped }))
    }
}

impl TraceFeed {
    fn new(reader: TraceReader<'static>) -> Self {
        Self { reader, batch: Vec::with_capacity(BATCH), writes: 0, has_ended: false, error: None }
    }

    /// Reads the next records. An error ends the trace, and is kept.
    fn next_batch(&mut self) {
        while self.batch.len() < BATCH && !self.has_ended {
            match self.reader.next_record() {
                Ok(Some(record)) if record.op == TraceOp::Write => self.writes += 1,
                Ok(Some(record)) => self.batch.push(record),
                Ok(None) => self.has_ended = true,
                Err(error) => {
                    self.has_ended = true;
                    self.error = Some(error.to_string());
                }
            }
        }
    }
}

/// Reads that are taken from the trace at a time.
const BATCH: usize = 1024;

/// Reads queued before the first is issued: half of the capacity.
const FIRST_ROOM: usize = MAX_QUEUED / 2;

/// Delay of the start, during which all threads begin.
const START_IN: Duration = Duration::from_millis(50);

/// Interval at which a lane or the feed checks for the end of the run.
const LOOK: Duration = Duration::from_millis(100);
