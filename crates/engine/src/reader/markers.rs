//! Read-ahead markers that hits meet, and the core's stream that they are reported for. A hit never
//! waits for the driver.

use foreread_core::path::StreamId;
use foreread_core::sched::Submitter;
use foreread_core::table::FoundPage;
use foreread_core::units::PageIndex;

use super::{ReadProgress, StreamReader};
use crate::advice::Advised;
use crate::driver_queue::{DriverEvent, MarkerHit};
use crate::engine_state::DriverGuard;
use crate::file_state::FileState;
use crate::handle::Handle;

/// Markers that a read met and cleared before it was known to be a full hit.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    met: [Option<PageIndex>; MOST_MARKERS],
    count: usize,
}

impl StreamReader {
    /// Returns true if there is a stream to report markers for, creating it if that is possible
    /// without waiting. Otherwise markers are left for other readers, or for later.
    pub(super) fn has_stream(&self, file: &FileState) -> bool {
        if self.id.get().is_none() {
            self.id
                .set(file.engine.try_drive().map(|mut driver| self.new_stream(file, &mut driver)));
        }
        self.id.get().is_some()
    }

    pub(super) fn new_stream(&self, file: &FileState, driver: &mut DriverGuard<'_>) -> StreamId {
        let id = driver.path.stream(file.id);
        if self.submitter.get() != Submitter::default() {
            driver.path.set_submitter(id, self.submitter.get());
        }
        id
    }

    /// Returns the stream, after passing on any new advice.
    pub(super) fn stream(
        &self,
        handle: &Handle,
        driver: &mut DriverGuard<'_>,
        advised: Advised,
    ) -> StreamId {
        let id = self.id.get().unwrap_or_else(|| self.new_stream(&handle.file, driver));
        self.id.set(Some(id));
        if self.told.get() != advised {
            driver.advise(id, advised);
            self.told.set(advised);
        }
        id
    }

    pub(super) fn markers<'m>(
        &'m self,
        markers: &'m Markers,
        read: &ReadProgress,
    ) -> impl Iterator<Item = MarkerHit> + use<'m> {
        let asked_end = PageIndex(read.end_of_room().pages_up().0);
        let (stream, prev_pos) = (self.id.get(), self.prev_pos.get());
        // A reader that only hits passes its advice on with markers alone: with each one until a
        // miss, because any marker may be dropped.
        let advised = (self.told.get() != read.advised).then_some(read.advised);
        markers.met.iter().flatten().filter_map(move |page| {
            let count = asked_end - *page;
            Some(MarkerHit { stream: stream?, page: *page, count, prev_pos, advised })
        })
    }

    pub(super) fn post(&self, handle: &Handle, read: &ReadProgress, markers: &Markers) {
        let file = &*handle.file;
        if markers.count > 0 {
            file.engine.post(self.markers(markers, read).map(DriverEvent::Marker));
        }
    }
}

impl Markers {
    pub(crate) fn has_room(&self) -> bool {
        self.count < MOST_MARKERS
    }

    /// Clears the marker of a page, unless another reader was faster.
    pub(crate) fn take(&mut self, found: &FoundPage<'_>, page: PageIndex) {
        if found.take_marker() {
            self.met[self.count] = Some(page);
            self.count += 1;
        }
    }
}

/// Maximum number of markers that one read clears; it leaves others to the next reader. A read
/// meets two when windows are as small as the read.
const MOST_MARKERS: usize = 8;
