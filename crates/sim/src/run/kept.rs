//! Optional recordings of a run: its reads, a time series, a picture. They do not affect the run.

use foreread_core::units::ByteCount;

use super::SimRun;
use crate::picture::{PictureRecorder, RunPicture};
use crate::read_log::{LoggedRead, ReadLog};
use crate::time_series::{SeriesSpec, TimeSeries};

impl SimRun {
    /// Starts logging all reads.
    pub fn keep_reads(&mut self) {
        self.shared.world.borrow_mut().read_log = Some(ReadLog::new(LoggedRead::MAX_READS));
    }

    /// Stops logging and returns the reads: empty if there were more than
    /// [`LoggedRead::MAX_READS`].
    #[must_use]
    pub fn take_reads(&mut self) -> Vec<LoggedRead> {
        self.shared.world.borrow_mut().read_log.take().map_or_else(Vec::new, ReadLog::into_reads)
    }

    /// Starts a time series.
    pub fn keep_series(&mut self, spec: SeriesSpec) {
        self.shared.world.borrow_mut().keep_series(spec);
    }

    /// Finishes the time series and returns it.
    #[must_use]
    pub fn take_series(&mut self) -> Option<TimeSeries> {
        self.shared.world.borrow_mut().take_series()
    }

    /// Starts a picture, of a device with `bytes` in use.
    pub fn keep_picture(&mut self, bytes: ByteCount) {
        let mut world = self.shared.world.borrow_mut();
        let frames = world.path.frame_count();
        let recorder = PictureRecorder::new(world.now(), bytes.0, frames);
        world.picture = Some(Box::new(recorder));
    }

    /// Finishes the picture and returns it.
    #[must_use]
    pub fn take_picture(&mut self) -> Option<RunPicture> {
        let mut world = self.shared.world.borrow_mut();
        let recorder = world.picture.take()?;
        Some(recorder.finish(&world.table))
    }
}
