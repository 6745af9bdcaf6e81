//! One read-ahead question of a reader, and the reader's state between questions.
//!
//! A policy sees the question's [`Ask`]; the memory shares see all of it.

use core::mem;

use super::decision::{Ask, Trigger};
use super::stream_state::{Advice, StreamState};
use crate::sched::Submitter;
use crate::table::FileSlot;
use crate::units::{Nanos, PageIndex, Pages};

/// State of one reader.
#[derive(Debug, Default)]
pub(crate) struct ReaderState {
    pub(crate) stream: StreamState,
    pub(crate) advice: Advice,
    pub(crate) submitter: Submitter,
    /// Time that its reads were blocked since it last asked a policy, in nanoseconds.
    pub(crate) blocked_ns: u64,
    /// Total time that they were blocked.
    pub(crate) handle_blocked_ns: u64,
}

/// One question about a page, from the read that met it to the outcome of the plan.
#[derive(Debug)]
pub(crate) struct Question<'r> {
    /// The part that a policy sees.
    pub(crate) ask: Ask,
    pub(crate) now: Nanos,
    pub(crate) reader: &'r mut ReaderState,
    pub(crate) file: FileSlot,
    /// First page past the end of the file.
    pub(crate) file_end: PageIndex,
    /// Number of the file's device.
    pub(crate) device: u32,
    /// Largest request of that device.
    pub(crate) max_io: Pages,
    /// The device has reads in flight.
    pub(crate) is_device_reading: bool,
    /// Frames reserved for missing pages of the read itself.
    pub(crate) set_aside: Pages,
    /// Frames that the answer may fill with prefetched pages; None for all.
    pub(crate) frames_ahead: Option<Pages>,
    /// Bounds on the window, filled in by the prefetcher.
    pub(crate) bounds: WindowBounds,
}

/// Bounds on a stream's window: from the settings, the size of its read and its device's estimate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WindowBounds {
    /// Largest useful window.
    pub(crate) ceiling: Pages,
    /// Largest useful window of the streams whose reads are no larger than that window.
    pub(crate) common_ceiling: Pages,
    /// Largest window for a reader that never stalls: it need not exceed one request.
    pub(crate) max_unstalled: Pages,
    /// Request latency, from queueing to completion.
    pub(crate) latency_ns: u64,
    /// The device serves the requests of a window at once.
    pub(crate) is_far: bool,
}

impl Question<'_> {
    /// Asks about another stream's position, with the reader's own question and stream saved and
    /// restored.
    pub(crate) fn elsewhere<T>(&mut self, ask: Ask, answer: impl FnOnce(&mut Self) -> T) -> T {
        let own = mem::replace(&mut self.ask, ask);
        let stream = mem::take(&mut self.reader.stream);
        let blocked_ns = mem::take(&mut self.reader.blocked_ns);
        let answer = answer(self);
        self.ask = own;
        (self.reader.stream, self.reader.blocked_ns) = (stream, blocked_ns);
        answer
    }
}

impl StreamState {
    /// Returns the question about a page that the stream met. It includes whether the reader has
    /// stalled, and clears that flag.
    pub(crate) fn ask(&mut self, page: PageIndex, count: Pages, trigger: Trigger) -> Ask {
        debug_assert!(count > Pages::ZERO, "a question is about at least one page");
        let has_waited = mem::take(&mut self.has_waited) || trigger == Trigger::Miss;
        Ask { page, count, trigger, prev_pos: self.prev_pos, has_waited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefetch::decision::Window;
    use crate::units::ByteCount;

    /// What was asked for another position had become the last window of the reader.
    #[test]
    fn what_is_asked_elsewhere_leaves_its_reader_as_it_was() {
        let window = Window { start: PageIndex(8), size: Pages(4), async_size: Pages(2) };
        let (fetched, prev_pos) = (window, Some(ByteCount(7)));
        let stream = StreamState { window, fetched, prev_pos, seeked: true, ..Default::default() };
        let mut reader = ReaderState { stream, blocked_ns: 5, ..ReaderState::default() };
        let ask = reader.stream.ask(PageIndex(3), Pages(2), Trigger::Marker);
        assert_eq!(ask.prev_pos, prev_pos);
        let mut question = Question {
            ask,
            now: Nanos(0),
            reader: &mut reader,
            file: FileSlot(0),
            file_end: PageIndex(99),
            device: 0,
            max_io: Pages(1),
            is_device_reading: false,
            set_aside: Pages::ZERO,
            frames_ahead: None,
            bounds: WindowBounds::default(),
        };
        let next = Ask { page: PageIndex(40), trigger: Trigger::Miss, prev_pos: None, ..ask };
        question.elsewhere(next, |question| {
            assert_eq!((question.ask, question.reader.blocked_ns), (next, 0));
            assert_eq!(question.reader.stream, StreamState::default());
            let reader = &mut question.reader;
            (reader.stream.window.size, reader.blocked_ns) = (Pages(1), 1);
        });
        assert_eq!((question.ask, question.reader.blocked_ns), (ask, 5));
        assert_eq!(question.reader.stream, stream);
    }
}
