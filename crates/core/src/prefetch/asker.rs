//! The reader that asks the prefetcher, and what is kept of it between its questions.
//!
//! In:    a read or a marker of a stream.
//! Out:   what a question needs to know.
//! Never: a decision.

use core::mem;

use super::memory_shares::{ShareId, ShareQuestion};
use super::stream_state::{Advice, StreamState};
use crate::sched::Submitter;
use crate::table::FileSlot;
use crate::units::{ByteCount, Nanos, PageIndex, Pages};

/// What the prefetcher keeps of one reader.
#[derive(Debug, Default)]
pub(crate) struct ReaderState {
    pub(crate) stream: StreamState,
    pub(crate) advice: Advice,
    pub(crate) submitter: Submitter,
    /// How long its reads have waited since it asked a policy, in nanoseconds.
    pub(crate) blocked_ns: u64,
    /// How long they have waited in all.
    pub(crate) handle_blocked_ns: u64,
}

/// The reader that asks, during one read or at one marker.
#[derive(Debug)]
pub(crate) struct Asker<'r> {
    pub(crate) now: Nanos,
    pub(crate) reader: &'r mut ReaderState,
    pub(crate) file: FileSlot,
    /// One past the file's last page.
    pub(crate) file_end: PageIndex,
    /// The number of the file's device, and its largest request.
    pub(crate) device: u32,
    pub(crate) max_io: Pages,
    /// Whether the device is reading something at present.
    pub(crate) is_device_reading: bool,
    /// The byte after the last one that the stream's previous read returned.
    pub(crate) prev_pos: Option<ByteCount>,
    /// How many frames may still be filled for pages ahead; None: as many as there are.
    pub(crate) frames_ahead: Option<Pages>,
    /// What the last question left to be reported.
    pub(crate) pending: Option<PendingShare>,
}

impl Asker<'_> {
    /// Asks about a position of another stream. The state of the reader's own stream and its
    /// previous position are set aside meanwhile, and restored.
    pub(crate) fn elsewhere<T>(&mut self, ask: impl FnOnce(&mut Self) -> T) -> T {
        let prev_pos = self.prev_pos.take();
        let stream = mem::take(&mut self.reader.stream);
        let blocked_ns = mem::take(&mut self.reader.blocked_ns);
        let answer = ask(self);
        self.prev_pos = prev_pos;
        (self.reader.stream, self.reader.blocked_ns) = (stream, blocked_ns);
        answer
    }
}

/// A share whose question was answered, until it is known what came of it.
#[derive(Debug)]
pub(crate) struct PendingShare {
    pub(super) share: Option<ShareId>,
    pub(super) question: ShareQuestion,
    pub(super) page: PageIndex,
    /// How large the window would have been, if the clip or the stagger shortened it.
    pub(super) unclipped: Option<Pages>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefetch::decision::Window;

    /// What was asked for another position had become the last window of the reader.
    #[test]
    fn what_is_asked_elsewhere_leaves_its_reader_as_it_was() {
        let window = Window { start: PageIndex(8), size: Pages(4), async_size: Pages(2) };
        let stream = StreamState { window, fetched: window, seeked: true, ..Default::default() };
        let mut reader = ReaderState { stream, blocked_ns: 5, ..ReaderState::default() };
        let mut asker = Asker {
            now: Nanos(0),
            reader: &mut reader,
            file: FileSlot(0),
            file_end: PageIndex(99),
            device: 0,
            max_io: Pages(1),
            is_device_reading: false,
            prev_pos: Some(ByteCount(7)),
            frames_ahead: None,
            pending: None,
        };
        asker.elsewhere(|asker| {
            assert_eq!((asker.prev_pos, asker.reader.blocked_ns), (None, 0));
            assert_eq!(asker.reader.stream, StreamState::default());
            (asker.reader.stream.window.size, asker.reader.blocked_ns) = (Pages(1), 1);
        });
        assert_eq!((asker.prev_pos, asker.reader.blocked_ns), (Some(ByteCount(7)), 5));
        assert_eq!(asker.reader.stream, stream);
    }
}
