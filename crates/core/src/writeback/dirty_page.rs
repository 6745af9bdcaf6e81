//! State of one dirty page. `dirty_pages.rs` keeps the pages in lists.

use crate::ids::{DirtyId, FileId};
use crate::sched::Submitter;
use crate::table::Frame;
use crate::units::{Nanos, PageIndex};

/// A page whose frame has bytes that are not on the device.
#[derive(Debug)]
pub(crate) struct DirtyPage {
    pub(crate) file: FileId,
    pub(crate) page: PageIndex,
    /// Held while the page is dirty.
    pub(crate) frame: Frame,
    /// Submitter that wrote it.
    pub(crate) submitter: Submitter,
    /// Time since when it may be written; for a failed page, the time of the failure.
    pub(crate) since: Nanos,
    /// Flushes of this sequence and later ones wait for it.
    pub(crate) flush_seq: u64,
    /// Links a page being written to its newer dirty bytes, and these to it.
    pub(crate) other: Option<DirtyId>,
    pub(crate) on: DirtyList,
    /// True if it becomes urgent, rather than aging, once it is no longer held.
    pub(crate) is_urgent: bool,
    /// True if its write completes only when it is durable.
    pub(crate) is_fua: bool,
    /// Page limit of the next request with this page after one was refused; 0 for no special limit.
    pub(crate) most_pages: u8,
    /// Number of flushes that failed while it was in flight.
    pub(crate) suspicions: u8,
    /// True while a zero has locked its page.
    pub(crate) is_locked: bool,
    /// True if a zero waits for the end of its request.
    pub(crate) is_awaited: bool,
    /// True if its bytes were discarded while in a request; it ends with that request.
    pub(crate) is_dropped: bool,
    pub(super) prev: u32,
    pub(super) next: u32,
}

/// The list of its file that a dirty page is on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DirtyList {
    /// On no list.
    Nothing,
    /// Written when it is old enough, or when too many pages are dirty.
    Aging,
    /// Must be written at once.
    Urgent,
    /// Must not be written at present.
    Held,
    /// In a request, queued or in flight.
    Writing,
    /// Refused by the device.
    Failed,
}

impl DirtyPage {
    /// Creates a page written just now, on no list yet.
    pub(crate) fn new(
        file: FileId,
        page: PageIndex,
        frame: Frame,
        submitter: Submitter,
        since: Nanos,
    ) -> Self {
        Self {
            file,
            page,
            frame,
            submitter,
            since,
            flush_seq: 0,
            other: None,
            on: DirtyList::Nothing,
            is_urgent: false,
            is_fua: false,
            most_pages: 0,
            suspicions: 0,
            is_locked: false,
            is_awaited: false,
            is_dropped: false,
            prev: 0,
            next: 0,
        }
    }
}

impl DirtyPage {
    /// Returns true if it is in a request, perhaps discarded since.
    pub(super) fn is_in_request(&self) -> bool {
        debug_assert!(!self.is_dropped || self.on == DirtyList::Nothing, "dropped from its list");
        self.is_dropped || self.on == DirtyList::Writing
    }
}

impl DirtyList {
    pub(crate) const ALL: [Self; 5] =
        [Self::Aging, Self::Urgent, Self::Held, Self::Writing, Self::Failed];

    pub(super) const fn index(self) -> usize {
        match self {
            Self::Nothing => panic!("a page on no list has no place in one"),
            Self::Aging => 0,
            Self::Urgent => 1,
            Self::Held => 2,
            Self::Writing => 3,
            Self::Failed => 4,
        }
    }
}
