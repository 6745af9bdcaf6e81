//! The reader that asks the prefetcher, and what is kept of it between its questions.
//!
//! In:    a read or a marker of a stream.
//! Out:   what a question needs to know.
//! Never: a decision.

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

/// A share whose question was answered, until it is known what came of it.
#[derive(Debug)]
pub(crate) struct PendingShare {
    pub(super) share: Option<ShareId>,
    pub(super) question: ShareQuestion,
    pub(super) page: PageIndex,
    /// How large the window would have been, if the clip or the stagger shortened it.
    pub(super) unclipped: Option<Pages>,
}
