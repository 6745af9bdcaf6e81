//! The time series of a run.

use foreread_core::units::{Nanos, PAGE_SIZE};

use super::SimWorld;
use crate::time_series::{SeriesLevels, SeriesRecorder, SeriesSpec, TimeSeries};

impl SimWorld {
    /// Starts a time series.
    pub(crate) fn keep_series(&mut self, spec: SeriesSpec) {
        self.series = Some(Box::new(SeriesRecorder::new(spec, self.now())));
    }

    /// Finishes the time series and returns it.
    pub(crate) fn take_series(&mut self) -> Option<TimeSeries> {
        let recorder = self.series.take()?;
        Some(recorder.finish(self.now(), self.levels()))
    }

    /// Ends the intervals that are over at `now`, the clock's new time, before any event of that
    /// time.
    pub(super) fn advance_series(&mut self, now: Nanos) {
        let is_over = |series: &mut Box<SeriesRecorder>| series.is_over(now);
        let Some(mut series) = self.series.take_if(is_over) else { return };
        series.advance(now, self.levels());
        self.series = Some(series);
    }

    fn levels(&self) -> SeriesLevels {
        let frames = u64::from(self.path.frame_count()) - self.path.free_frames();
        SeriesLevels {
            cached_bytes: frames * PAGE_SIZE,
            in_flight_bytes: self.device_meters().map(|meter| meter.in_flight_bytes().0).sum(),
        }
    }
}
