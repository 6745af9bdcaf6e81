//! One write, write of zeroes, change of length or flush: its range and its progress.

use alloc::vec::Vec;
use core::ops::Range;

use crate::cache::{FlushInterval, Fresh};
use crate::driver_io::{Fault, LenChange, WriteFill, WriteMode};
use crate::ids::{DomainCommand, FileId, WriteId};
use crate::sched::Submitter;
use crate::units::{ByteCount, PageIndex, Pages};

/// A write, zero, change of length or flush in progress.
#[derive(Debug)]
pub(super) struct WriteCommand {
    pub(super) file: FileId,
    pub(super) kind: WriteKind,
    pub(super) state: WriteState,
    /// Pages that it locks against other writes; empty for a flush.
    pub(super) pages: Range<PageIndex>,
    /// Number of writes before it in the file's line that overlap these pages.
    pub(super) blockers: u32,
    /// Events it still waits for: old pages, pages not yet on the device, device writes.
    pub(super) outstanding: u32,
    pub(super) fault: Option<Fault>,
    pub(super) pos: ByteCount,
    /// Requested length. For a change of length that has its pages, the new length.
    pub(super) requested: ByteCount,
    /// Length in bytes, possibly shorter than requested.
    pub(super) len: ByteCount,
    pub(super) mode: WriteMode,
    pub(super) submitter: Submitter,
    /// Frames of the dirty budget that it holds, apart from its dirty pages.
    pub(super) budget: u64,
    pub(super) fresh: Vec<Fresh>,
    pub(super) fills: Vec<WriteFill>,
    /// For a flush, the sequence that it waits for.
    pub(super) flush_seq: u64,
    /// The driver's command for it, in the order of its flush domain.
    pub(super) command: Option<DomainCommand>,
    /// For a flush, the intervals whose writes it makes durable.
    pub(super) covers: FlushInterval,
    /// For a flush, the number of accepted losses of its file when it began.
    pub(super) accepts: u32,
    /// For a flush that waits for pages, the number of flushes of its domain that have failed since
    /// it began. For a write that waits for budget, the same of all domains.
    pub(super) setbacks: u8,
    /// For a zero, true if the contents are undefined afterwards.
    pub(super) is_discard: bool,
    /// For a change of length, the requested change.
    pub(super) change: Option<LenChange>,
    /// For a cut that removes the rest of an append, the length that the file must still have.
    pub(super) only_from: Option<ByteCount>,
    /// For a piece of an append, the append.
    pub(super) append: Option<WriteId>,
    /// True if it waits for a device and is counted by the observer.
    pub(super) is_watched: bool,
    /// True if it waits for its device's writes and is counted by the device.
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

/// Progress of a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WriteState {
    /// Other writes have locked its pages.
    Locked,
    /// It waits for dirty budget.
    Budget,
    /// It waits for frames.
    Frames,
    /// Old bytes of its pages are being read.
    Reading,
    /// The driver is copying.
    Filling,
    /// It waits for the device: to write its pages, to end conflicting writes, or to have all
    /// pages.
    Device,
    /// The driver is acting.
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
            setbacks: 0,
            is_discard: false,
            change: None,
            only_from: None,
            append: None,
            is_watched: false,
            is_awaiting: false,
        }
    }

    /// Changes the state.
    pub(super) fn set_state(&mut self, state: WriteState) {
        let (kind, was) = (self.kind, self.state);
        assert!(was.may_become(state), "{kind:?} goes from {was:?} to {state:?}");
        assert!(kind.may_be(state), "{kind:?} is never {state:?}");
        self.state = state;
    }

    /// Computes the covered range in a file of this length: shorter than requested if the file ends
    /// earlier, or more than `largest` pages would be needed.
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

    /// Returns the pages whose device writes are held back: those of a zero, or for a change of
    /// length that has its pages, those entirely behind the new end.
    pub(super) fn held_pages(&self) -> Range<PageIndex> {
        match self.kind {
            WriteKind::Zeroes => self.pages.clone(),
            WriteKind::SetLen => PageIndex(self.requested.pages_up().0)..self.pages.end,
            WriteKind::Write | WriteKind::Flush | WriteKind::WriteBack => {
                PageIndex(0)..PageIndex(0)
            }
        }
    }

    /// Returns the pages that are only partly overwritten.
    ///
    /// ```text
    ///   file    |------------|------------|------------|-------.      the file ends here
    ///   write          |=======================================|
    ///             partial       whole        whole       whole: to the end of the file
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
    /// Returns true if a write of this kind can be in this state.
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
    /// Returns true if a write may change from this state to `next`.
    ///
    /// ```text
    ///   Write     Locked --> (Budget) --> Frames --> (Reading) --> Filling --> (Device)
    ///   others    Locked --> (Device) --> Acting
    /// ```
    ///
    /// A write that does not get its pages at once stays `Locked`. It may end in any state.
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

/// A write has two edges, and the page at each of them may be partial.
pub(super) const EDGES: usize = 2;
