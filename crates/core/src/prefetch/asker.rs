//! The reader that asks the prefetcher, and its state between questions.

use core::mem;

use super::memory_shares::{ShareId, ShareQuestion};
use super::stream_state::{Advice, StreamState};
use crate::sched::Submitter;
use crate::table::FileSlot;
use crate::units::{ByteCount, Nanos, PageIndex, Pages};

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

/// A reader during one read or at one marker.
#[derive(Debug)]
pub(crate) struct Asker<'r> {
    pub(crate) now: Nanos,
    pub(crate) reader: &'r mut ReaderState,
    pub(crate) file: FileSlot,
    /// First page past the end of the file.
    pub(crate) file_end: PageIndex,
    /// Number of the file's device.
    /// Largest request of that device.
    pub(crate) device: u32,
    pub(crate) max_io: Pages,
    /// The device has reads in flight.
    pub(crate) is_device_reading: bool,
    /// Byte after the last one that the stream's previous read returned.
    pub(crate) prev_pos: Option<ByteCount>,
    /// Frames that may still be filled with prefetched pages; None for all.
    pub(crate) frames_ahead: Option<Pages>,
    /// Share whose last question has not been reported yet.
    pub(crate) pending: Option<PendingShare>,
}

impl Asker<'_> {
    /// Asks about another stream's position, with the state of the reader's own stream saved and
    /// restored.
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

/// A share with an answered question, until the outcome is known.
#[derive(Debug)]
pub(crate) struct PendingShare {
    pub(super) share: Option<ShareId>,
    pub(super) question: ShareQuestion,
    pub(super) page: PageIndex,
    /// Size of the window before a clip or the stagger shortened it.
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
