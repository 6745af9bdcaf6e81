//! One dirty page: whose newest bytes are in a frame and nowhere else.
//!
//! In:    a page that was written.
//! Out:   what is known of it until its device has it.
//! Never: a decision. The lists of dirty pages are in `dirty_pages.rs`.

use crate::ids::{DirtyId, FileId};
use crate::sched::Submitter;
use crate::table::Frame;
use crate::units::{Nanos, PageIndex};

/// A page of which a frame has bytes that the device has not.
#[derive(Debug)]
pub(crate) struct DirtyPage {
    pub(crate) file: FileId,
    pub(crate) page: PageIndex,
    /// Held for as long as the page is dirty.
    pub(crate) frame: Frame,
    /// The submitter that wrote it.
    pub(crate) submitter: Submitter,
    /// Since when it may be written; of one that failed, since when it has.
    pub(crate) since: Nanos,
    /// Flushes of this flush sequence and later ones wait for it.
    pub(crate) flush_seq: u64,
    /// Of one being written, that of the page's newer bytes; of that, the one being written.
    pub(crate) other: Option<DirtyId>,
    pub(crate) on: DirtyList,
    /// When it comes free, it is urgent and not merely aging.
    pub(crate) is_urgent: bool,
    /// Its request is done only when it is durable.
    pub(crate) is_fua: bool,
    /// After a request that was refused: how many pages the next one with this page may have; 0 for
    /// as many as any.
    pub(crate) most_pages: u8,
    /// How often a flush failed while it was on its way.
    pub(crate) suspicions: u8,
    /// A zero has its page.
    pub(crate) is_locked: bool,
    /// A zero waits for the end of its request.
    pub(crate) is_awaited: bool,
    /// Its bytes are not wanted any more; it goes with the end of its request.
    pub(crate) is_dropped: bool,
    pub(super) prev: u32,
    pub(super) next: u32,
}

/// On which list of its file a dirty page is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum DirtyList {
    /// None; or none any more.
    Nothing,
    /// Written when it is old enough, or when there is too much of it.
    Aging,
    /// To be written at once.
    Urgent,
    /// Not to be written at present.
    Held,
    /// In a request, queued or at the device.
    Writing,
    /// The device refused it.
    Failed,
}

impl DirtyPage {
    /// Written just now, and on no list yet.
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
    /// Whether a request has it: it is written, or was dropped meanwhile.
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
