//! What a run keeps on request: its reads, a time series, a picture.
//!
//! In:    when to begin.
//! Out:   what was kept since then.
//! Never: a run that differs because something of it is kept.

use foreread_core::units::ByteCount;

use super::SimRun;
use crate::picture::{PictureRecorder, RunPicture};
use crate::read_log::{LoggedRead, ReadLog};
use crate::time_series::{SeriesSpec, TimeSeries};

impl SimRun {
    /// Keeps a log of all reads from now on.
    pub fn keep_reads(&mut self) {
        self.shared.world.borrow_mut().read_log = Some(ReadLog::new(LoggedRead::MAX_READS));
    }

    /// Ends the log of reads, and returns it: nothing if there were more than
    /// [`LoggedRead::MAX_READS`].
    #[must_use]
    pub fn take_reads(&mut self) -> Vec<LoggedRead> {
        self.shared.world.borrow_mut().read_log.take().map_or_else(Vec::new, ReadLog::into_reads)
    }

    /// Keeps a time series from now on.
    pub fn keep_series(&mut self, spec: SeriesSpec) {
        self.shared.world.borrow_mut().keep_series(spec);
    }

    /// Ends the series that was kept.
    #[must_use]
    pub fn take_series(&mut self) -> Option<TimeSeries> {
        self.shared.world.borrow_mut().take_series()
    }

    /// Keeps a picture from now on, of a device of which `bytes` are in use.
    pub fn keep_picture(&mut self, bytes: ByteCount) {
        let mut world = self.shared.world.borrow_mut();
        let frames = world.path.frame_count();
        let recorder = PictureRecorder::new(world.now(), bytes.0, frames);
        world.picture = Some(Box::new(recorder));
    }

    /// Ends the picture that was kept.
    #[must_use]
    pub fn take_picture(&mut self) -> Option<RunPicture> {
        let mut world = self.shared.world.borrow_mut();
        let recorder = world.picture.take()?;
        Some(recorder.finish(&world.table))
    }
}
