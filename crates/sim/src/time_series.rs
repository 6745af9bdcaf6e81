//! Time series of a run: figures for intervals of equal length of virtual time. Memory is bounded:
//! when there are too many intervals, pairs of them are merged.
//!
//! ```text
//!   time        0      1      2      3    3.5      an operation that ends at 2 counts in the
//!   intervals   [0, 1] (1, 2] (2, 3] (3, 3.5]      second; the last one ends with the run
//! ```

use foreread_core::units::Nanos;

use crate::meter::ProcessProgress;

/// Parameters of a series.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SeriesSpec {
    /// Initial length of an interval.
    pub interval: Nanos,
    /// Number of intervals at which pairs are merged: even, and at least 2.
    pub limit: usize,
}

/// Figures of a run over time.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TimeSeries {
    /// Length of each interval except the last, in ns.
    pub interval_ns: u64,
    /// Length of the series, in ns.
    pub length_ns: u64,
    /// Figures of each interval, in order.
    pub intervals: Vec<IntervalFigures>,
}

/// Figures of one interval.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct IntervalFigures {
    /// Progress of the processes.
    pub done: ProcessProgress,
    /// Number of requests sent to devices.
    pub requests: u64,
    /// Bytes of those requests.
    pub device_bytes: u64,
    /// Levels at its end.
    pub levels: SeriesLevels,
}

/// Memory and requests at one time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct SeriesLevels {
    /// Memory of cached pages and pages in flight, in bytes.
    pub cached_bytes: u64,
    /// Bytes of the requests in flight.
    pub in_flight_bytes: u64,
}

impl TimeSeries {
    /// Returns the start and the length of each interval, in ns from the start of the series, and
    /// its figures.
    pub fn rows(&self) -> impl Iterator<Item = (u64, u64, &IntervalFigures)> {
        let starts = (0..).map(|index: u64| index * self.interval_ns);
        starts
            .zip(&self.intervals)
            .map(|(start, figures)| (start, self.interval_ns.min(self.length_ns - start), figures))
    }
}

/// Collects a series.
#[derive(Debug)]
pub(crate) struct SeriesRecorder {
    began: Nanos,
    interval_ns: u64,
    limit: usize,
    ended: Vec<IntervalFigures>,
    current: IntervalFigures,
}

impl SeriesRecorder {
    /// Creates a recorder that starts at `began`.
    pub(crate) fn new(spec: SeriesSpec, began: Nanos) -> Self {
        let SeriesSpec { interval: Nanos(interval_ns), limit } = spec;
        assert!(interval_ns > 0, "an interval has a length");
        assert!(limit >= 2 && limit.is_multiple_of(2), "each two intervals become one");
        let current = IntervalFigures::default();
        Self { began, interval_ns, limit, ended: Vec::new(), current }
    }

    /// Returns true if the current interval has ended before `now`.
    pub(crate) fn is_over(&self, now: Nanos) -> bool {
        let end_ns = (self.ended.len() as u64 + 1).saturating_mul(self.interval_ns);
        now.0 - self.began.0 > end_ns
    }

    /// Ends each interval that has ended before `now`. The levels have been constant since.
    pub(crate) fn advance(&mut self, now: Nanos, levels: SeriesLevels) {
        while self.is_over(now) {
            self.end_interval(levels);
            if self.ended.len() == self.limit {
                self.widen();
            }
        }
    }

    /// Adds the progress of a process between two snapshots.
    pub(crate) fn add_progress(&mut self, before: ProcessProgress, after: ProcessProgress) {
        self.current.done = self.current.done.plus(after.since(before));
    }

    /// Counts a request sent to a device.
    pub(crate) fn add_request(&mut self, bytes: u64) {
        self.current.requests += 1;
        self.current.device_bytes += bytes;
    }

    /// Finishes the series.
    pub(crate) fn finish(mut self, now: Nanos, levels: SeriesLevels) -> TimeSeries {
        self.advance(now, levels);
        self.end_interval(levels);
        let length_ns = now.0 - self.began.0;
        TimeSeries { interval_ns: self.interval_ns, length_ns, intervals: self.ended }
    }

    fn end_interval(&mut self, levels: SeriesLevels) {
        let figures = std::mem::take(&mut self.current);
        self.ended.push(IntervalFigures { levels, ..figures });
    }

    fn widen(&mut self) {
        self.interval_ns *= 2;
        let joined = |pair: &[IntervalFigures]| {
            let (one, next) = (pair[0], pair[1]);
            IntervalFigures {
                done: one.done.plus(next.done),
                requests: one.requests + next.requests,
                device_bytes: one.device_bytes + next.device_bytes,
                levels: next.levels,
            }
        };
        self.ended = self.ended.chunks_exact(2).map(joined).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: SeriesLevels = SeriesLevels { cached_bytes: 0, in_flight_bytes: 0 };

    fn recorder(interval: u64, limit: usize) -> SeriesRecorder {
        SeriesRecorder::new(SeriesSpec { interval: Nanos(interval), limit }, Nanos(1000))
    }

    fn ops(series: &TimeSeries) -> Vec<(u64, u64, u64)> {
        series.rows().map(|(start, length, figures)| (start, length, figures.done.ops)).collect()
    }

    /// Adds an operation of one byte that ends at this time.
    fn end(recorder: &mut SeriesRecorder, at: u64) {
        recorder.advance(Nanos(1000 + at), NONE);
        let one = ProcessProgress { ops: 1, bytes: 1, ..ProcessProgress::default() };
        recorder.add_progress(ProcessProgress::default(), one);
    }

    #[test]
    fn what_ends_with_an_interval_counts_in_it() {
        let mut recorder = recorder(10, 8);
        [0, 10, 11, 20, 35].iter().for_each(|at| end(&mut recorder, *at));
        let series = recorder.finish(Nanos(1035), NONE);
        assert_eq!(ops(&series), [(0, 10, 2), (10, 10, 2), (20, 10, 0), (30, 5, 1)]);
        // A run that ends on an interval boundary adds no empty interval; a run of length 0 has
        // one.
        let mut recorder = self::recorder(10, 8);
        end(&mut recorder, 20);
        assert_eq!(ops(&recorder.finish(Nanos(1020), NONE)), [(0, 10, 0), (10, 10, 1)]);
        assert_eq!(ops(&self::recorder(10, 8).finish(Nanos(1000), NONE)), [(0, 0, 0)]);
    }

    #[test]
    fn intervals_become_longer_and_keep_their_sums_and_their_last_levels() {
        let mut recorder = recorder(1, 4);
        for at in 1..=1000 {
            let levels = SeriesLevels { cached_bytes: at - 1, in_flight_bytes: 0 };
            recorder.advance(Nanos(1000 + at), levels);
            end(&mut recorder, at);
            recorder.add_request(512);
        }
        let series = recorder.finish(Nanos(2000), NONE);
        assert_eq!(
            ops(&series),
            [(0, 256, 256), (256, 256, 256), (512, 256, 256), (768, 232, 232)]
        );
        let sum: u64 = series.intervals.iter().map(|figures| figures.device_bytes).sum();
        assert_eq!(sum, 512_000);
        let levels: Vec<u64> =
            series.intervals.iter().map(|figures| figures.levels.cached_bytes).collect();
        assert_eq!(levels, [256, 512, 768, 0], "those at the end of each");
    }

    /// Thirty years at an interval of a nanosecond take only as many steps as doublings.
    #[test]
    fn a_long_pause_is_passed_at_once() {
        let mut recorder = recorder(1, 4096);
        end(&mut recorder, 1);
        end(&mut recorder, 946_080_000_000_000_000);
        let series = recorder.finish(Nanos(946_080_000_000_001_000), NONE);
        assert!((2048..=4096).contains(&series.intervals.len()), "{}", series.intervals.len());
        assert_eq!(series.intervals.iter().map(|figures| figures.done.ops).sum::<u64>(), 2);
    }
}
