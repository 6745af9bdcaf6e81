//! Pages that the windows of each stream requested, and how many of them more than once.

use foreread_core::path::StreamId;
use foreread_core::prefetch::Decided;
use foreread_core::units::{PageIndex, Pages};

/// Requested pages of all streams.
#[derive(Debug, Default)]
pub(crate) struct RequestedByStream(Vec<RequestedPages>);

/// Requested pages of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestedPages {
    /// Meter of the process that opened the file.
    meter: usize,
    pages: Pages,
    /// One past the last requested page.
    end: PageIndex,
}

impl RequestedByStream {
    /// Starts a stream; the index of an ended stream may be reused.
    pub(crate) fn begin(&mut self, stream: StreamId, meter: usize) {
        *self.of(stream) = RequestedPages { meter, ..RequestedPages::default() };
    }

    /// Records a window. Returns the meter that must count it, if anything was requested.
    pub(crate) fn note(&mut self, stream: StreamId, decided: &Decided) -> Option<usize> {
        if decided.submitted == Pages::ZERO {
            return None;
        }
        let requested = self.of(stream);
        requested.pages += decided.submitted;
        requested.end = requested.end.max(decided.decision.window.end());
        Some(requested.meter)
    }

    pub(crate) fn of(&mut self, stream: StreamId) -> &mut RequestedPages {
        let index = stream.index() as usize;
        self.0.resize(self.0.len().max(index + 1), RequestedPages::default());
        &mut self.0[index]
    }
}

impl RequestedPages {
    /// Returns the number of pages requested again, provided the stream left no gap from the start
    /// of the file.
    ///
    /// ```text
    ///   |=====|=========|===============|       requested: the sum of all windows
    ///            |~~~~~~|                       requested again
    ///   |<------------ end ------------>|       requested, if each page were requested once
    /// ```
    pub(crate) fn twice(self) -> Pages {
        self.pages.saturating_sub(self.end - PageIndex(0))
    }
}
