//! The markers that a reader meets, and the stream of the core that they are told of.
//!
//! In:    pages with a marker, met by hits.
//! Out:   markers to post, and the stream, made when there is first something to decide.
//! Never: a wait for the driver by a hit.

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

/// Markers that a read met and cleared before it knew whether it is a full hit.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    met: [Option<PageIndex>; MOST_MARKERS],
    count: usize,
}

impl StreamReader {
    /// Whether there is a stream that markers can be told of; made without waiting, else they are
    /// left for others, or for later.
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

    /// The stream, which knows of the advice.
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
        // A reader whose reads are all hits passes its advice on with markers only: with each one
        // until a miss, as any of them may be dropped.
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

    /// Takes the marker off a page, unless another reader was faster.
    pub(crate) fn take(&mut self, found: &FoundPage<'_>, page: PageIndex) {
        if found.take_marker() {
            self.met[self.count] = Some(page);
            self.count += 1;
        }
    }
}

/// How many markers one read clears; it leaves any others for the next reader. A read meets two
/// where windows are as small as it is.
const MOST_MARKERS: usize = 8;
