//! One write, write of zeroes or flush: what it covers, and how far it is.
//!
//! In:    a range of a file and how far its bytes must get.
//! Out:   its pages; those of which something stays as it was.
//! Never: a frame taken, a step.

use alloc::vec::Vec;
use core::ops::Range;

use crate::cache::{FlushInterval, Fresh};
use crate::driver_io::{Fault, LenChange, WriteFill, WriteMode};
use crate::ids::{DomainCommand, FileId, WriteId};
use crate::sched::Submitter;
use crate::units::{ByteCount, PageIndex, Pages};

/// A write, a zero or a flush on its way.
#[derive(Debug)]
pub(super) struct WriteCommand {
    pub(super) file: FileId,
    pub(super) kind: WriteKind,
    pub(super) state: WriteState,
    /// The pages that it works on, and no other write meanwhile; none of a flush.
    pub(super) pages: Range<PageIndex>,
    /// How many of those before it in the file's line have some of these pages.
    pub(super) blockers: u32,
    /// What it still waits for: old pages, pages that the device does not have, device writes.
    pub(super) outstanding: u32,
    pub(super) fault: Option<Fault>,
    pub(super) pos: ByteCount,
    /// How much was asked for. Of a change of length that has its pages, the new length.
    pub(super) requested: ByteCount,
    /// How much it covers.
    pub(super) len: ByteCount,
    pub(super) mode: WriteMode,
    pub(super) submitter: Submitter,
    /// How many frames of the writes' share it has, beside those of its dirty pages.
    pub(super) budget: u64,
    pub(super) fresh: Vec<Fresh>,
    pub(super) fills: Vec<WriteFill>,
    /// Of a flush, what it waits for.
    pub(super) flush_seq: u64,
    /// What the driver does for it, in the order of its flush domain.
    pub(super) command: Option<DomainCommand>,
    /// Of a flush, the intervals whose writes it makes durable.
    pub(super) covers: FlushInterval,
    /// Of a flush, how many losses of its file had been accepted when it began.
    pub(super) accepts: u32,
    /// Of a zero, whether the bytes are undefined afterwards.
    pub(super) is_discard: bool,
    /// Of a change of length, what was asked for.
    pub(super) change: Option<LenChange>,
    /// Of a cut that takes back an append, the length that the file must still have.
    pub(super) only_from: Option<ByteCount>,
    /// Of a piece of an append or another growing write, which one.
    pub(super) append: Option<WriteId>,
    /// Whether it waits for a device, and `watch` counts it.
    pub(super) is_watched: bool,
    /// Whether it waits for what its device writes, and the device counts it.
    pub(super) is_awaiting: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WriteKind {
    Write,
    Zeroes,
    SetLen,
    Flush,
    WriteBack,
}

/// How far it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WriteState {
    /// Others have its pages.
    Locked,
    /// The dirty budget is used up.
    Budget,
    /// It waits for frames.
    Frames,
    /// Old bytes of its pages are on their way.
    Reading,
    /// The driver copies.
    Filling,
    /// It waits for the device: to write its pages, to end writes in its way, to have all.
    Device,
    /// The driver acts.
    Acting,
}

impl WriteCommand {
    pub(super) fn new(file: FileId, kind: WriteKind) -> Self {
        let nothing = PageIndex(0)..PageIndex(0);
        Self {
            file,
            kind,
            state: WriteState::Locked,
            pages: nothing,
            blockers: 0,
            outstanding: 0,
            fault: None,
            pos: ByteCount::ZERO,
            requested: ByteCount::ZERO,
            len: ByteCount::ZERO,
            mode: WriteMode::WriteBack,
            submitter: Submitter::default(),
            budget: 0,
            fresh: Vec::new(),
            fills: Vec::new(),
            flush_seq: 0,
            command: None,
            covers: FlushInterval::default(),
            accepts: 0,
            is_discard: false,
            change: None,
            only_from: None,
            append: None,
            is_watched: false,
            is_awaiting: false,
        }
    }

    /// It has got as far as this.
    pub(super) fn set_state(&mut self, state: WriteState) {
        let (kind, was) = (self.kind, self.state);
        assert!(was.may_become(state), "{kind:?} goes from {was:?} to {state:?}");
        assert!(kind.may_be(state), "{kind:?} is never {state:?}");
        self.state = state;
    }

    /// What it covers of a file of this length: less than was asked if the file ends before, or if
    /// it would need more than the `largest` number of pages.
    pub(super) fn cover(&mut self, file_len: ByteCount, largest: Pages) {
        assert!(largest > Pages::ZERO, "a write may have at least one page");
        let first = self.pos.page();
        let end = (self.pos + self.requested).min(file_len).min((first + largest).offset());
        self.len = end.saturating_sub(self.pos);
        let after = if self.len == ByteCount::ZERO { first } else { PageIndex(end.pages_up().0) };
        self.pages = first..after;
        assert!(self.len <= self.requested, "a write covers no more than was asked for");
        assert!(self.pages.end <= first + largest, "a write has at most {largest} pages");
    }

    /// Of a zero, or a change of length that has its pages: the pages whose device writes are kept
    /// back meanwhile. Those of a file that shrinks lie wholly behind its new end.
    pub(super) fn held_pages(&self) -> Range<PageIndex> {
        match self.kind {
            WriteKind::Zeroes => self.pages.clone(),
            WriteKind::SetLen => PageIndex(self.requested.pages_up().0)..self.pages.end,
            WriteKind::Write | WriteKind::Flush | WriteKind::WriteBack => {
                PageIndex(0)..PageIndex(0)
            }
        }
    }

    /// The pages of which something stays as it was.
    ///
    /// ```text
    ///   file    |------------|------------|------------|-------.      the file ends here
    ///   write          |=======================================|
    ///             partial       whole        whole       whole: all that the file has
    /// ```
    pub(super) fn partial_pages(&self, file_len: ByteCount) -> [Option<PageIndex>; EDGES] {
        let is_partial = |page: &PageIndex| {
            let start = page.offset();
            let end = file_len.min((*page + Pages(1)).offset());
            start < end && (self.pos > start || self.pos + self.len < end)
        };
        assert!(self.pages.start < self.pages.end, "a write that is not over has a page");
        let first = self.pages.start;
        let last = PageIndex(self.pages.end.0 - 1);
        let last = Some(last).filter(|last| *last > first);
        [Some(first).filter(is_partial), last.filter(is_partial)]
    }
}

impl WriteKind {
    /// Whether a write of this kind is ever in this state.
    ///
    /// ```text
    ///             Locked  Budget  Frames  Reading  Filling  Device  Acting
    ///   Write     x       x       x       x        x        x
    ///   Zeroes    x                                         x       x
    ///   SetLen    x                                         x       x
    ///   Flush     x                                         x       x
    ///   WriteBack x                                         x
    /// ```
    pub(super) const fn may_be(self, state: WriteState) -> bool {
        match state {
            WriteState::Locked | WriteState::Device => true,
            WriteState::Budget | WriteState::Frames | WriteState::Reading | WriteState::Filling => {
                matches!(self, Self::Write)
            }
            WriteState::Acting => matches!(self, Self::Zeroes | Self::SetLen | Self::Flush),
        }
    }
}

impl WriteState {
    /// Whether a write goes from this state to that one.
    ///
    /// ```text
    ///   Write     Locked --> (Budget) --> Frames --> (Reading) --> Filling --> (Device)
    ///   others    Locked --> (Device) --> Acting
    /// ```
    ///
    /// A write that does not get its pages at once stays `Locked`; from each state it may be over.
    pub(super) const fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Locked, Self::Reading | Self::Filling) => false,
            (Self::Locked, _)
            | (Self::Budget, Self::Frames)
            | (Self::Frames, Self::Reading | Self::Filling)
            | (Self::Reading, Self::Filling)
            | (Self::Filling, Self::Device)
            | (Self::Device, Self::Acting) => true,
            (
                Self::Budget
                | Self::Frames
                | Self::Reading
                | Self::Filling
                | Self::Device
                | Self::Acting,
                _,
            ) => false,
        }
    }
}

/// A write has a page at each end that may be partial.
pub(super) const EDGES: usize = 2;
