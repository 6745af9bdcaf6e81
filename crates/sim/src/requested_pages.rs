//! What the streams of a run requested by their windows.
//!
//! In:    each decision.
//! Out:   how many pages a stream requested, and how many of them again.
//! Never: a request.

use foreread_core::path::StreamId;
use foreread_core::prefetch::Decided;
use foreread_core::units::{PageIndex, Pages};

/// The requested pages of all streams.
#[derive(Debug, Default)]
pub(crate) struct RequestedByStream(Vec<RequestedPages>);

/// The requested pages of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestedPages {
    /// The meter of the process that opened the file.
    meter: usize,
    pages: Pages,
    /// One past the last page that was requested.
    end: PageIndex,
}

impl RequestedByStream {
    /// Begins a stream, which may have the index of one that has ended.
    pub(crate) fn begin(&mut self, stream: StreamId, meter: usize) {
        *self.of(stream) = RequestedPages { meter, ..RequestedPages::default() };
    }

    /// Notes a window. Returns the meter that is to count it, if anything was requested.
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
    /// How many pages were requested again, where none was left out from the start of the file on.
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
