//! State of each written file: its dirty pages by flush sequence, its waiting flushes, and refused
//! and lost writes. The state of a page is in `dirty_page.rs`.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::dirty_page::DirtyList;
use super::refusals::Refusals;
use crate::cache::FlushInterval;
use crate::driver_io::Fault;
use crate::ids::{FileId, WriteId};
use crate::units::ByteCount;

/// A list of a file's dirty pages, oldest first.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DirtyListEnds {
    pub(super) head: u32,
    pub(super) tail: u32,
}

/// Writeback state of one file.
#[derive(Debug, Default)]
pub(crate) struct FileDirtyPages {
    pub(super) lists: [DirtyListEnds; 5],
    /// Number of dirty pages on all lists.
    pub(crate) dirty: u64,
    /// The flush sequence of pages dirtied now.
    pub(super) flush_seq: u64,
    /// Flush sequences with dirty pages, oldest first.
    pub(super) flush_seqs: VecDeque<FlushSeq>,
    /// Refused requests of its device.
    pub(crate) refusals: Refusals,
    /// Waiting flushes, oldest first.
    pub(crate) flushes: VecDeque<WriteId>,
    /// Writes that have locked pages or wait for them, in their order.
    pub(crate) locks: VecDeque<WriteId>,
    /// Appends and other growing writes in progress, in their order.
    pub(super) appends: Vec<OngoingAppend>,
    /// True while the flusher has it in its line.
    pub(crate) is_listed: bool,
    /// Writes of the intervals up to this one are durable.
    pub(crate) durable: FlushInterval,
    /// True while some unstable pages have to be written again and have no budget yet.
    pub(crate) is_rewriting: bool,
    /// The fault if acknowledged writes were lost and the owner has not accepted it.
    pub(crate) lost: Option<Fault>,
    /// The last accepted loss, and the number of accepted ones.
    pub(crate) accepted: Option<Fault>,
    pub(crate) accepts: u32,
    /// Number of failed flushes with which it lost writes.
    pub(crate) losses: u64,
}

/// An append, or another growing write, in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct OngoingAppend {
    /// Its initial change of length.
    pub(super) id: WriteId,
    /// Lowest end that the file was cut to since it began.
    pub(super) limit: ByteCount,
    /// End of the filled part; initially the previous length.
    pub(super) written: ByteCount,
    /// End of the append in the file.
    pub(super) end: ByteCount,
    pub(super) stage: AppendStage,
    /// True if its caller left while the length was being changed.
    pub(super) is_left: bool,
}

/// Stages of an append, in order. A stage may be skipped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum AppendStage {
    /// It waits for earlier ones to be filled.
    Waiting,
    /// It changes the length of the file.
    Extending,
    /// The file was extended, and its pieces are being filled.
    Filling,
    /// It is filled, or does not extend the file: others need not wait for it.
    Over,
}

/// The dirty pages of one flush sequence: the time between two flushes.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlushSeq {
    pub(super) number: u64,
    pub(super) dirty: u64,
    /// Number of those that have failed.
    pub(super) failed: u64,
    /// Fault of the last one that failed.
    pub(super) fault: Option<Fault>,
}

/// Progress of a flush.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum FlushState {
    /// Pages are still to be written.
    Waits,
    /// All pages are written, or have failed with this fault.
    Over(Option<Fault>),
}

/// State of the files that were written, by file slot; most files are not written.
#[derive(Debug, Default)]
pub(crate) struct DirtyFiles {
    pub(super) files: Vec<Option<(FileId, Box<FileDirtyPages>)>>,
}

impl DirtyFiles {
    pub(super) fn get(&self, file: FileId) -> Option<&FileDirtyPages> {
        let (id, state) = self.files.get(file.index() as usize)?.as_ref()?;
        (*id == file).then_some(&**state)
    }

    pub(super) fn get_mut(&mut self, file: FileId) -> Option<&mut FileDirtyPages> {
        let (id, state) = self.files.get_mut(file.index() as usize)?.as_mut()?;
        (*id == file).then_some(&mut **state)
    }

    /// Returns the state of an open file, creating it if needed.
    pub(super) fn get_or_insert(&mut self, file: FileId) -> &mut FileDirtyPages {
        let index = file.index() as usize;
        if index >= self.files.len() {
            self.files.resize_with(index + 1, || None);
        }
        let (id, state) =
            self.files[index].get_or_insert_with(|| (file, Box::new(FileDirtyPages::new())));
        assert!(*id == file, "{id:?} has the slot of {file:?}");
        state
    }

    /// Removes the state of a closed file.
    pub(super) fn remove(&mut self, file: FileId) {
        if let Some(state) = self.files.get_mut(file.index() as usize)
            && state.as_ref().is_some_and(|(id, _)| *id == file)
        {
            let is_clean =
                state.as_ref().is_none_or(|(_, it)| it.dirty == 0 && it.locks.is_empty());
            assert!(is_clean, "{file:?} goes while something of it is dirty or written");
            *state = None;
        }
    }

    /// Returns all written files, in the order of their slots.
    pub(super) fn ids(&self) -> impl Iterator<Item = FileId> {
        self.files.iter().flatten().map(|(id, _)| *id)
    }
}

impl FileDirtyPages {
    /// Creates the state of a file without dirty pages. Sequences start at 1, so that a flush
    /// before the first write waits for sequence 0, which has no pages.
    fn new() -> Self {
        Self { flush_seq: 1, ..Self::default() }
    }

    /// Records that acknowledged writes were lost with a failed flush.
    pub(super) fn note_loss(&mut self, fault: Fault) {
        self.lost = Some(fault);
        self.losses += 1;
    }

    /// Ends the current flush sequence, and returns the one that a flush which begins now waits
    /// for.
    ///
    /// A sequence without dirty pages continues instead, and the flush waits for the earlier ones.
    pub(crate) fn end_flush_seq(&mut self) -> u64 {
        if self.flush_seqs.back().is_some_and(|flush_seq| flush_seq.number == self.flush_seq) {
            self.flush_seq += 1;
        }
        debug_assert!(
            self.flush_seqs.back().is_none_or(|last| last.number < self.flush_seq),
            "what is dirty now is of an earlier flush"
        );
        self.flush_seq - 1
    }

    /// Returns the progress of a flush of this sequence.
    pub(crate) fn flush_state(&self, flush_seq: u64) -> FlushState {
        if self.is_rewriting {
            return FlushState::Waits;
        }
        let mut fault = None;
        for flush_seq in self.flush_seqs.iter().take_while(|each| each.number <= flush_seq) {
            if flush_seq.dirty > flush_seq.failed {
                return FlushState::Waits;
            }
            assert!(
                flush_seq.failed == 0 || flush_seq.fault.is_some(),
                "a page of it has failed, and no flush is told how"
            );
            fault = fault.or(flush_seq.fault);
        }
        FlushState::Over(fault)
    }

    /// Returns the fault of a page of this sequence, if one has failed.
    pub(crate) fn fault_of(&self, flush_seq: u64) -> Option<Fault> {
        let at = self.flush_seqs.binary_search_by_key(&flush_seq, |each| each.number);
        at.ok().and_then(|at| self.flush_seqs[at].fault)
    }

    /// Returns true if the flusher has work here, now or later.
    pub(crate) fn has_work(&self) -> bool {
        [DirtyList::Aging, DirtyList::Urgent, DirtyList::Failed]
            .iter()
            .any(|on| self.lists[on.index()].head != 0)
    }

    pub(super) fn list_mut(&mut self, on: DirtyList) -> &mut DirtyListEnds {
        &mut self.lists[on.index()]
    }

    /// Changes the counts of a flush sequence, and removes it if it has no dirty pages left.
    pub(super) fn count(&mut self, number: u64, change: impl FnOnce(&mut FlushSeq)) {
        let at = match self.flush_seqs.binary_search_by_key(&number, |flush_seq| flush_seq.number) {
            Ok(at) => at,
            Err(at) => {
                self.flush_seqs.insert(at, FlushSeq { number, dirty: 0, failed: 0, fault: None });
                at
            }
        };
        debug_assert!(number <= self.flush_seq, "{number} has not begun");
        let flush_seq = &mut self.flush_seqs[at];
        change(flush_seq);
        assert!(flush_seq.failed <= flush_seq.dirty, "{flush_seq:?}: a page that failed is dirty");
        if flush_seq.failed == 0 {
            flush_seq.fault = None;
        }
        if flush_seq.dirty == 0 {
            self.flush_seqs.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_of_a_clean_file_does_not_wait_for_pages_that_are_dirtied_later() {
        let mut file = FileDirtyPages::new();
        // Unstable pages have to be written again and have no budget yet, so the flush waits.
        file.is_rewriting = true;
        let flush = file.end_flush_seq();
        assert_eq!(file.flush_state(flush), FlushState::Waits);
        file.is_rewriting = false;
        file.count(file.flush_seq, |flush_seq| flush_seq.dirty += 1);
        assert_eq!(file.flush_state(flush), FlushState::Over(None));
        let next = file.end_flush_seq();
        assert_eq!((next > flush, file.flush_state(next)), (true, FlushState::Waits));
    }
}
