//! Which lane issues which read of a trace, and when that is due.
//!
//! A state machine without clock or threads; it holds at most [`MAX_QUEUED`] reads.
//!
//! A lane is a thread of this process. It issues one read at a time.
//!
//! ```text
//!   open loop     due = the time of the read in the trace x scale
//!   closed loop   due = the end of the read before of the same thread + the time between the two
//!                       in the trace x scale
//!
//!   due                 |                      the lane's read before returns after that: the
//!   lane   ---read------|------|--read--       read is blocked, and issued when it returns
//! ```

use std::collections::{HashMap, VecDeque};

use foreread_core::units::Nanos;
use foreread_sim::replay::ReplayPace;
use foreread_trace::TraceRecord;

/// Assignment of reads to lanes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum LaneChoice {
    /// The reads of a thread of the trace go to one lane, in their order.
    ByThread(HashMap<u32, usize>),
    /// Each read goes to the first lane that is free.
    FirstFree,
}

/// A read that a lane is to issue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct DueRead {
    pub(super) record: TraceRecord,
    /// The time since the start.
    pub(super) due: Nanos,
    /// True if the lane's previous read had not returned by then.
    pub(super) is_blocked: bool,
}

/// Next step of a lane.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LaneStep {
    /// Wait until the read is due, then issue it.
    Issue(DueRead),
    /// The trace is not read as far as this lane's next read.
    Wait,
    /// No read is left for this lane.
    End,
}

/// The reads that wait for their lanes, and when each is due.
#[derive(Debug)]
pub(super) struct IssueSchedule {
    pace: ReplayPace,
    choice: LaneChoice,
    lanes: Vec<LaneQueue>,
    /// Queue shared by all lanes, if each takes the next read.
    shared: VecDeque<TraceRecord>,
    queued: usize,
    has_ended: bool,
    /// In closed loop: the last read of each thread.
    last: HashMap<u32, LastRead>,
}

#[derive(Debug, Default)]
struct LaneQueue {
    reads: VecDeque<TraceRecord>,
    /// Time at which the last read of the lane returned.
    free_since: Nanos,
}

/// The last read of a thread: its time in the trace, and when it returned here.
#[derive(Clone, Copy, Debug, Default)]
struct LastRead {
    at: Nanos,
    returned: Nanos,
}

impl LaneChoice {
    /// Assigns threads to at most `most` lanes; with more threads, several share one.
    pub(super) fn by_thread(threads: impl IntoIterator<Item = u32>, most: usize) -> Self {
        assert!(most > 0, "there is a lane");
        let mut threads: Vec<u32> = threads.into_iter().collect();
        threads.sort_unstable();
        Self::ByThread(threads.into_iter().zip((0..most).cycle()).collect())
    }
}

impl IssueSchedule {
    /// Returns a schedule without reads.
    ///
    /// # Panics
    ///
    /// If lanes take what is next in a closed loop: think times belong to threads.
    pub(super) fn new(pace: ReplayPace, choice: LaneChoice, lanes: usize) -> Self {
        let is_closed = matches!(pace, ReplayPace::Closed { .. });
        assert!(!(is_closed && choice == LaneChoice::FirstFree), "think times belong to threads");
        Self {
            pace,
            choice,
            lanes: (0..lanes).map(|_| LaneQueue::default()).collect(),
            shared: VecDeque::new(),
            queued: 0,
            has_ended: false,
            last: HashMap::new(),
        }
    }

    /// Returns the free capacity.
    pub(super) fn room(&self) -> usize {
        MAX_QUEUED - self.queued
    }

    /// Adds the next read of the trace.
    pub(super) fn push(&mut self, record: TraceRecord) {
        assert!(self.queued < MAX_QUEUED, "the caller has asked for room");
        assert!(!self.has_ended, "nothing follows the end");
        self.queued += 1;
        match &self.choice {
            LaneChoice::ByThread(lanes) => {
                // The first pass over the trace has seen all of its threads.
                let lane = lanes.get(&record.thread).copied().unwrap_or(0);
                self.lanes[lane].reads.push_back(record);
            }
            LaneChoice::FirstFree => self.shared.push_back(record),
        }
    }

    /// Marks the end of the trace.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Takes the next read of a lane.
    pub(super) fn take(&mut self, lane: usize) -> LaneStep {
        let next = match &self.choice {
            LaneChoice::ByThread(_) => self.lanes[lane].reads.pop_front(),
            LaneChoice::FirstFree => self.shared.pop_front(),
        };
        let Some(record) = next else {
            return if self.has_ended { LaneStep::End } else { LaneStep::Wait };
        };
        self.queued -= 1;
        let due = self.due(&record);
        let is_blocked = due < self.lanes[lane].free_since;
        LaneStep::Issue(DueRead { record, due, is_blocked })
    }

    fn due(&self, record: &TraceRecord) -> Nanos {
        match self.pace {
            ReplayPace::Open { scale } => scaled(record.at, scale),
            ReplayPace::Closed { think } => {
                let last = self.last.get(&record.thread).copied().unwrap_or_default();
                let between = Nanos(record.at.0 - last.at.0);
                Nanos(last.returned.0.saturating_add(scaled(between, think).0))
            }
        }
    }

    /// Records that the read taken by a lane returned at this time.
    pub(super) fn returned(&mut self, lane: usize, read: &DueRead, now: Nanos) {
        let free_since = &mut self.lanes[lane].free_since;
        assert!(*free_since <= now, "time does not go back");
        *free_since = now;
        if matches!(self.pace, ReplayPace::Closed { .. }) {
            self.last.insert(read.record.thread, LastRead { at: read.record.at, returned: now });
        }
    }
}

/// A time of the trace, multiplied by a scale.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a scale is not negative, and a float saturates"
)]
fn scaled(time: Nanos, scale: f64) -> Nanos {
    assert!(scale >= 0.0, "a scale is checked before the run");
    if scale == 1.0 { time } else { Nanos((time.0 as f64 * scale).round() as u64) }
}

/// Reads that wait for lanes which are behind others: 16 MiB.
pub(super) const MAX_QUEUED: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use foreread_trace::{FileNo, TraceOp};

    use super::*;

    const OPEN: ReplayPace = ReplayPace::Open { scale: 1.0 };
    const CLOSED: ReplayPace = ReplayPace::Closed { think: 1.0 };

    fn read(at: u64, thread: u32) -> TraceRecord {
        let (file, op) = (FileNo(0), TraceOp::Read);
        TraceRecord { at: Nanos(at), thread, file, op, offset: 0, length: 1, is_mapped: false }
    }

    /// Runs all reads in virtual time, each for `takes`; returns thread, issue time and whether it
    /// was blocked, in the order of the issues.
    fn issued(
        pace: ReplayPace,
        choice: LaneChoice,
        lanes: usize,
        reads: &[(u64, u32)],
        takes: impl Fn(u32) -> u64,
    ) -> Vec<(u32, u64, bool)> {
        let mut schedule = IssueSchedule::new(pace, choice, lanes);
        reads.iter().for_each(|(at, thread)| schedule.push(read(*at, *thread)));
        schedule.end();
        // What each lane holds: the end of its read, or the read that it waits for.
        let mut held: Vec<Option<(DueRead, u64)>> = vec![None; lanes];
        let mut free_at = vec![0; lanes];
        let mut found = Vec::new();
        loop {
            for lane in 0..lanes {
                if held[lane].is_none()
                    && let LaneStep::Issue(next) = schedule.take(lane)
                {
                    let issue = next.due.0.max(free_at[lane]);
                    held[lane] = Some((next, issue + takes(next.record.thread)));
                    found.push((next.record.thread, issue, next.is_blocked));
                }
            }
            // The earliest end is the next event.
            let ends =
                held.iter().enumerate().filter_map(|(n, held)| held.map(|(_, end)| (end, n)));
            let Some((end, lane)) = ends.min() else { break };
            let (read, _) = held[lane].take().unwrap();
            schedule.returned(lane, &read, Nanos(end));
            free_at[lane] = end;
        }
        assert!((0..lanes).all(|lane| schedule.take(lane) == LaneStep::End));
        assert_eq!(schedule.room(), MAX_QUEUED);
        found.sort_by_key(|(thread, at, _)| (*at, *thread));
        found
    }

    fn two_threads() -> LaneChoice {
        LaneChoice::by_thread([7, 9], 256)
    }

    #[test]
    fn an_open_loop_issues_each_read_at_its_time_unless_its_thread_still_reads() {
        let reads = [(0, 7), (10, 9), (20, 7), (30, 7), (100, 9)];
        // Thread 7's reads take longer than the time between them: two are blocked, one after
        // the other. The other thread is not touched by that.
        let takes = |thread| if thread == 7 { 25 } else { 5 };
        let found = issued(OPEN, two_threads(), 2, &reads, takes);
        let expected =
            [(7, 0, false), (9, 10, false), (7, 25, true), (7, 50, true), (9, 100, false)];
        assert_eq!(found, expected);
        // A read that returns when the next is due does not block it.
        let found = issued(OPEN, two_threads(), 2, &[(0, 7), (20, 7)], |_| 20);
        assert_eq!(found, [(7, 0, false), (7, 20, false)]);
    }

    #[test]
    fn a_scale_multiplies_times_and_think_times() {
        let reads = [(0, 7), (10, 9), (20, 7)];
        let found = issued(ReplayPace::Open { scale: 0.5 }, two_threads(), 2, &reads, |_| 1);
        assert_eq!(found, [(7, 0, false), (9, 5, false), (7, 10, false)]);
        let twice = ReplayPace::Closed { think: 2.0 };
        let found = issued(twice, two_threads(), 2, &reads, |_| 3);
        assert_eq!(found, [(7, 0, false), (9, 20, false), (7, 43, false)]);
    }

    #[test]
    fn a_closed_loop_thinks_after_each_read() {
        let reads = [(0, 7), (10, 9), (20, 7), (30, 7), (100, 9)];
        let takes = |thread| if thread == 7 { 25 } else { 5 };
        let found = issued(CLOSED, two_threads(), 2, &reads, takes);
        // 7: 0, then 25 + 20, then 70 + 10; 9: 10, then 15 + 90.
        let expected =
            [(7, 0, false), (9, 10, false), (7, 45, false), (7, 80, false), (9, 105, false)];
        assert_eq!(found, expected);
        let at_once = ReplayPace::Closed { think: 0.0 };
        let found = issued(at_once, two_threads(), 2, &reads, |_| 5);
        assert_eq!(
            found,
            [(7, 0, false), (9, 0, false), (7, 5, false), (9, 5, false), (7, 10, false)]
        );
    }

    #[test]
    fn free_lanes_take_what_is_next_and_a_read_is_blocked_when_none_is_free() {
        let reads = [(0, 0), (10, 0), (20, 0), (130, 0)];
        let found = issued(OPEN, LaneChoice::FirstFree, 2, &reads, |_| 100);
        assert_eq!(found, [(0, 0, false), (0, 10, false), (0, 100, true), (0, 130, false)]);
    }

    #[test]
    fn threads_share_lanes_where_there_are_more_of_them() {
        let LaneChoice::ByThread(lanes) = LaneChoice::by_thread([40, 10, 30, 20], 3) else {
            panic!("by thread")
        };
        let of = [10, 20, 30, 40].map(|thread| lanes[&thread]);
        assert_eq!(of, [0, 1, 2, 0]);
        // One lane for two threads: the second is blocked by the first, in open and closed loop.
        let one = || LaneChoice::by_thread([7, 9], 1);
        let reads = [(0, 7), (10, 9), (40, 7)];
        let found = issued(OPEN, one(), 1, &reads, |_| 30);
        assert_eq!(found, [(7, 0, false), (9, 30, true), (7, 60, true)]);
        // 9 is due at 10; 7 thinks for 40 after its own read, which ended at 30.
        let found = issued(CLOSED, one(), 1, &reads, |_| 30);
        assert_eq!(found, [(7, 0, false), (9, 30, true), (7, 70, false)]);
    }

    #[test]
    fn a_lane_waits_for_the_trace_and_the_trace_for_room() {
        let mut schedule = IssueSchedule::new(OPEN, two_threads(), 2);
        assert_eq!(schedule.take(0), LaneStep::Wait);
        for _ in 0..MAX_QUEUED {
            schedule.push(read(5, 7));
        }
        assert_eq!(schedule.room(), 0);
        assert_eq!(schedule.take(1), LaneStep::Wait, "all of them are the other thread's");
        assert!(matches!(schedule.take(0), LaneStep::Issue(_)));
        assert_eq!(schedule.room(), 1);
        schedule.push(read(6, 9));
        schedule.end();
        let expected = DueRead { record: read(6, 9), due: Nanos(6), is_blocked: false };
        assert_eq!(schedule.take(1), LaneStep::Issue(expected));
        assert_eq!(schedule.take(1), LaneStep::End);
    }

    /// Whatever reads take: open loops never issue early, and a read is late only behind another
    /// of its thread.
    #[test]
    fn no_read_is_early_and_each_late_read_is_blocked() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..200 {
            let mut at = 0;
            let reads: Vec<(u64, u32)> = (0..50)
                .map(|_| {
                    at += random(20);
                    (at, u32::try_from(random(5)).unwrap())
                })
                .collect();
            let durations: Vec<u64> = (0..5).map(|_| random(40)).collect();
            let choice = LaneChoice::by_thread(0..5, 3);
            let found = issued(OPEN, choice, 3, &reads, |thread| durations[thread as usize]);
            let mut of_thread: HashMap<u32, Vec<(u64, bool)>> = HashMap::new();
            found.iter().for_each(|(thread, at, is_blocked)| {
                of_thread.entry(*thread).or_default().push((*at, *is_blocked));
            });
            for (thread, issues) in of_thread {
                let dues = reads.iter().filter(|(_, other)| *other == thread).map(|(at, _)| *at);
                for (due, (at, is_blocked)) in dues.zip(issues) {
                    assert!(at >= due, "early: {at} < {due}");
                    assert_eq!(at > due, is_blocked, "{due}: issued at {at}");
                }
            }
        }
    }
}
